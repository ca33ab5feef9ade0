"""Where the log moves the core system's own date on: there a business date ends whose `cut_off` is a table.

The table is one of the sync's, so a cut holds its rows as they were at its position, and the log has each change. The
day ends before the first transaction after which every row has a later date.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date

from seamline.domain.calendar import Holds, date_of
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.changes import TableChanges
from seamline.domain.cutover import Boundary, BoundaryGate
from seamline.domain.day_closed import by_system_date, date_in
from seamline.domain.digest import Segment
from seamline.domain.log import Transaction
from seamline.domain.log_patch import TablePatch
from seamline.domain.made_from import NotByLog
from seamline.domain.position import Position
from seamline.ports import ReadView
from seamline.sync.compaction import compact

_MOMENTS = frozenset({Kind.DATETIME, Kind.INSTANT})


@dataclass(slots=True)
class SystemDate:
    """The rows of the table, moved on with the log. `rows`: key, or text of a row without one, → the date's text;
    `copies`: how many rows without a key have this text."""

    table: Table
    column: Column
    business_date: date
    patch_of: Callable[[TableChanges], TablePatch]
    rows: dict[str, str | None] = field(default_factory=dict)
    copies: Counter[str] = field(default_factory=Counter)

    @property
    def name(self) -> str:
        return f"{self.table.name}.{self.column.name}"

    @property
    def is_later(self) -> bool:
        """Whether every row has a date behind the business date."""
        texts = [text for key, text in self.rows.items() if self.table.is_keyed or self.copies[key] > 0]
        return by_system_date([_date(self.column, text) for text in texts], self.business_date).is_closed

    def moves_on(self, transaction: Transaction) -> bool:
        """Take the changes of a transaction; whether the date of every row is later now. Given once, in log order."""
        name = self.table.name
        if name not in transaction.truncated and all(row.table != name for row in transaction.rows):
            return False
        gate = BoundaryGate({one: _ended(one, transaction.position) for one in _touched(transaction)})
        tables = {name: self.table}
        mine = Transaction(
            transaction.id,
            transaction.start,
            transaction.end,
            transaction.position,
            [row for row in transaction.rows if row.table == name],
            truncated=tuple(one for one in transaction.truncated if one == name),
        )
        self._take(self.patch_of(compact([mine], tables=tables, gate=gate)[name]))
        return self.is_later

    def _take(self, patch: TablePatch) -> None:
        column = self.column.name
        if patch.emptied:
            self.rows.clear()
            self.copies.clear()
        for key, row in patch.rows.items():
            if row.texts is None:
                self.rows.pop(key, None)
            elif column in row.missing:
                self.rows[key] = self.rows.get(row.taken_from)
            else:
                self.rows[key] = row.texts[column]
        for key, (texts, count) in patch.copies.items():
            self.rows[key] = texts[column]
            self.copies[key] += count


def _ended(table: str, position: Position) -> Boundary:
    return Boundary(table, position, ended=True)


def _touched(transaction: Transaction) -> set[str]:
    return {row.table for row in transaction.rows}.union(transaction.truncated)


def _date(column: Column, text: str | None) -> date | None:
    if text is None:
        return None
    if column.kind in _MOMENTS:
        return date_of(text, holds=Holds.LOCAL, timezone="UTC")
    return date_in(text)


def system_date_of(
    view: ReadView,
    table: Table,
    column: str,
    business_date: date,
    *,
    patch_of: Callable[[TableChanges], TablePatch],
    of: str,
) -> SystemDate:
    """As it stands in the cut that the log begins with, which `of` names. NotByLog: its date is later already, so the
    end of `business_date` lies before it."""
    hashes = view.row_hashes(Segment(table.name), run_key="system date")
    found = view.rows(table.name, [one.key for one in hashes])
    here = SystemDate(table, table.column(column), business_date, patch_of)
    for one in hashes:
        here.rows[one.key] = found[one.key][column]
        here.copies[one.key] += one.copies
    if here.is_later:
        raise NotByLog(f"in {of} {here.name} is behind {business_date} already, so that date ended before it")
    return here
