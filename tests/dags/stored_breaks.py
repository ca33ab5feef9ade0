"""Breaks of the reconciliations that a test puts in, selected in memory as the platform database does it."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from seamline.domain.break_id import break_id
from seamline.domain.errors import Refused
from seamline.domain.repair import Repair, RepairRow, RowAction
from seamline.domain.runs import Reconciliation, Scope
from seamline.domain.verdict import Break
from seamline.platform.breaks import (
    CHANGES_NAMED,
    Amount,
    Changes,
    Compared,
    Count,
    InCuts,
    Money,
    Order,
    Place,
    Sighting,
    StoredBreak,
    Wanted,
)

_ORDERS: dict[Order, Callable[[StoredBreak], Any]] = {
    Order.FOUND: lambda one: (),
    Order.KEY: lambda one: one.found.key,
    Order.TYPE: lambda one: one.found.type.value,
}


class Breaks:
    def __init__(self, found: Sequence[Reconciliation]) -> None:
        self._found = found

    def some(self, compared: Compared, wanted: Wanted) -> tuple[StoredBreak, ...]:
        chosen = [
            one
            for one in self._of(compared)
            if wanted.table in ("", one.found.table)
            and wanted.type in (None, one.found.type)
            and wanted.text.lower() in one.found.key.lower()
        ]
        chosen.sort(key=_ORDERS[wanted.order])
        places = [one.place for one in chosen]
        begin = places.index(wanted.after) + 1 if wanted.after else 0
        return tuple(chosen[begin : begin + wanted.limit])

    def number(self, compared: Compared, wanted: Wanted) -> int:
        return len(self.some(compared, replace(wanted, after=None, limit=len(self._of(compared)))))

    def counts(self, compared: Compared) -> tuple[Count, ...]:
        found = Counter((one.found.table, one.found.type) for one in self._of(compared))
        return tuple(Count(table, kind, number) for (table, kind), number in found.items())

    def amounts(self, compared: Compared, money: Sequence[Money]) -> tuple[Amount, ...]:
        """One for each break, of its table's first summed column."""
        columns = {one.table: one for one in reversed(money)}
        made = [
            (columns[one.found.table], one.found)
            for one in self._of(compared)
            if one.found.table in columns and columns[one.found.table].column in (one.found.source or {})
        ]
        return tuple(_amount(about, found) for about, found in made)

    def changes(self, newer: Compared, older: Compared) -> Changes:
        now, before = ({one.break_id: one for one in self._of(side)} for side in (newer, older))
        new = [one for name, one in now.items() if name not in before]
        gone = [one for name, one in before.items() if name not in now]
        return Changes(len(new), len(gone), tuple(new[:CHANGES_NAMED]), tuple(gone[:CHANGES_NAMED]))

    def in_cuts(self, sync: str, name: str) -> InCuts | None:
        """Each cut looks for every row."""
        cuts = [one for one in self._found if one.sync == sync and one.scope is Scope.CUT]
        mine = [one for one in cuts if any(stored.break_id == name for stored in _stored(one))]
        days = {one.business_date for one in mine if one.business_date}
        newest = max(cuts, key=lambda one: one.ended_at, default=None)
        return InCuts(min(days), max(days), len(days), newest in mine) if days else None

    def history(self, sync: str, name: str) -> tuple[Sighting, ...]:
        seen = [
            Sighting(one.run_id, one.destination, one.scope, one.business_date, one.ended_at, stored.found)
            for one in self._found
            if one.sync == sync
            for stored in _stored(one)
            if stored.break_id == name
        ]
        return tuple(sorted(seen, key=lambda one: one.at, reverse=True))

    def _of(self, compared: Compared) -> list[StoredBreak]:
        found = [one for one in self._found if Compared(one.run_id, one.destination, one.scope) == compared]
        return [stored for one in found for stored in _stored(one)]


class NoWork:
    """Nobody has done anything about any break."""

    def of(self, breaks: Sequence[str]) -> dict[str, Any]:
        return {}

    def states(self, compared: Compared) -> dict[Any, int]:
        return {}

    def owners(self, compared: Compared) -> tuple[str, ...]:
        return ()

    def deeds(self, break_id: str) -> tuple[Any, ...]:
        return ()

    def waiting(self, syncs: Sequence[str], *, owner: str = "", most: int = 0) -> tuple[Any, ...]:
        return ()

    def ageing(self, compared: Compared, money: Sequence[Money], bounds: Sequence[int]) -> tuple[Any, ...]:
        return ()

    def of_comparison(self, sync: str, compared: Compared) -> tuple[Any, ...]:
        return ()

    def in_force(self, sync: str) -> tuple[Any, ...]:
        return ()

    def of_sync(self, sync: str) -> tuple[Any, ...]:
        return ()

    def mine(self, who: str, syncs: Sequence[str]) -> tuple[Any, ...]:
        return ()


class NoFiles:
    """Nobody has attached any file to any break."""

    def files(self, of: Any) -> tuple[Any, ...]:
        return ()

    def taken(self, of: Any, number: int) -> None:
        return None


class NoNotices:
    """Nothing was to be sent by mail."""

    def unsent(self, syncs: Sequence[str]) -> tuple[Any, ...]:
        return ()


class OneRepair:
    """PlatformRepairs with one repair, whatever is asked for; it lets nobody approve it."""

    def of_sync(self, sync: str) -> tuple[Repair, ...]:
        return (self.repair("r1"),)

    def repair(self, run_id: str) -> Repair:
        texts = {"id": "1", "iban": "<script>alert(1)</script>"}
        row = RepairRow("account", "1", '{"id": "1"}', RowAction.UPSERT, texts, None, why='"><img src=x>')
        return Repair("r1", "settlement", "warehouse", "r0", "0-7-100", (row,), planned_by="somebody")

    def approve(self, run_id: str, **given: Any) -> None:
        raise Refused("it is approved already")


def _stored(found: Reconciliation) -> list[StoredBreak]:
    return [
        StoredBreak(
            break_id(found.sync, found.destination, one),
            one,
            Place(number, ordinal),
            found.business_date,
            found.ended_at,
        )
        for number, table in enumerate(found.tables)
        for ordinal, one in enumerate(table.breaks)
    ]


def _amount(about: Money, found: Break) -> Amount:
    mine, theirs = ((side or {}).get(about.column) or "0" for side in (found.source, found.destination))
    apart = Decimal(theirs) - Decimal(mine)
    values = [{**(found.destination or {}), **(found.source or {})}.get(name) for name in about.by]
    group = None if None in values else tuple(map(str, values))
    return Amount(found.table, found.type, about.column, group, 1, apart, abs(apart))
