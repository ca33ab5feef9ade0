"""What a MariaDB destination held at each of its commits: its own binlog, carried on transaction by transaction.

MariaDB has no trigger that waits for COMMIT, and one that fires at a statement sees no state that anybody else sees.
The binlog holds each committed transaction whole, in the order of the commits, and nothing of it is installed in the
tables. Here its rows are applied to a model of the tables of money, of the ledger and of what lies beside it; after
each transaction the model is asked what the deferred trigger of a PostgreSQL is asked (`commit_audit.py`).

A publish is one transaction too, which merges into the tables that are there; renames and drops behind it change no
table that readers have. A statement that does is no commit of rows with their ledger, and is counted as torn.
"""

import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from seamline.domain.position import position_from_json
from tests.fault.real.anomalies import Commit
from tests.fault.real.bank_plus import opening_totals
from tests.fault.real.binlog import Change, Committed, Place, Row, committed
from tests.fault.real.commit_audit import place

# Of the live tables those whose rows are carried on, with the columns of their keys; of others it counts that they
# change.
KEYS: Mapping[str, Sequence[str]] = {"account": ("id",), "entry": ("id",), "seq": ("writer", "n")}
OF_PROGRESS: Mapping[str, Sequence[str]] = {
    "ledger": ("stream",),
    "boundary": ("stream", "table_name", "generation"),
    "publication": ("run_id", "stream"),
}
# The only statement that moves a stream, as the session has sent it: the epoch that it takes for its own.
_MOVES = re.compile(r"\bSET next_offset = .*\bepoch = (\d+)", re.DOTALL)
_ALTERS = re.compile(r"\s*(ALTER|DROP|RENAME|TRUNCATE|CREATE OR REPLACE)\b", re.IGNORECASE)
_Key = tuple[Any, ...]


@dataclass
class Rows:
    """One table: its columns, and its rows by their keys."""

    columns: Sequence[str]
    key: Sequence[str]
    held: dict[_Key, Row] = field(default_factory=dict)

    def key_of(self, row: Row) -> _Key:
        return tuple(row[self.columns.index(name)] for name in self.key)

    def column(self, row: Row, name: str) -> Any:
        return row[self.columns.index(name)]


class Model:
    """The tables as the transactions so far have left them. `unseen`: rows that were not what the binlog says they
    were before a change, so something has gone by it."""

    def __init__(self, live: str, ledger: str, stream: str) -> None:
        self.live, self.ledger, self.stream = live, ledger, stream
        self.tables: dict[tuple[str, str], Rows] = {}
        self.unseen: list[str] = []
        self._sums: dict[str, Decimal] = defaultdict(Decimal)
        self._transfers: dict[int, dict[int, Row]] = defaultdict(dict)
        self._numbers: dict[int, set[int]] = defaultdict(set)

    def begin(self, table: tuple[str, str], columns: Sequence[str], key: Sequence[str], rows: Sequence[Row]) -> None:
        self.tables[table] = Rows(columns, key)
        for row in rows:
            self._put(table, row)

    def apply(self, changes: Sequence[Change]) -> None:
        for change in changes:
            if change.table in self.tables:
                if change.before is not None:
                    self._take(change.table, change.before)
                if change.after is not None:
                    self._put(change.table, change.after)

    def _put(self, table: tuple[str, str], row: Row) -> None:
        rows = self.tables[table]
        key = rows.key_of(row)
        if key in rows.held:
            self.unseen.append(f"{table[1]} {key} comes and was there")
        rows.held[key] = row
        self._count(table[1], rows, row, 1)

    def _take(self, table: tuple[str, str], row: Row) -> None:
        rows = self.tables[table]
        key = rows.key_of(row)
        held = rows.held.pop(key, None)
        if held is None or _without_moments(held) != _without_moments(row):
            self.unseen.append(f"{table[1]} {key} was {held}, the binlog has {row}")
        if held is not None:
            self._count(table[1], rows, held, -1)

    def _count(self, table: str, rows: Rows, row: Row, by: int) -> None:
        match table:
            case "account":
                self._sums[rows.column(row, "ccy")] += by * rows.column(row, "balance")
            case "entry":
                of_transfer = self._transfers[rows.column(row, "tx_id")]
                if by > 0:
                    of_transfer[rows.column(row, "id")] = row
                else:
                    del of_transfer[rows.column(row, "id")]
            case "seq":
                numbers = self._numbers[rows.column(row, "writer")]
                (numbers.add if by > 0 else numbers.discard)(rows.column(row, "n"))

    def differences(self, table: tuple[str, str], found: Sequence[Row]) -> list[str]:
        """Rows of the table itself that the binlog does not know, and the other way round."""
        rows = self.tables[table]
        there = {rows.key_of(row): _without_moments(row) for row in found}
        known = {key: _without_moments(row) for key, row in rows.held.items()}
        return [
            f"{table[1]} {key} is {there.get(key)}, by the binlog {known.get(key)}"
            for key in there.keys() | known.keys()
            if there.get(key) != known.get(key)
        ]

    # ---- what is asked of a state ---------------------------------------------------------------------------------

    def progress(self) -> dict[str, Any]:
        rows = self.tables[self.ledger, "ledger"]
        return dict(zip(rows.columns, rows.held[(self.stream,)], strict=True))

    def publications(self) -> int:
        return sum(1 for _, stream in self.tables[self.ledger, "publication"].held if stream == self.stream)

    def is_catching_up(self) -> bool:
        rows = self.tables[self.ledger, "boundary"]
        mine = (row for row in rows.held.values() if rows.column(row, "stream") == self.stream)
        return any(rows.column(row, "ended_at") is None for row in mine)

    def wrong_sums(self) -> tuple[str, ...]:
        opened = opening_totals()
        return tuple(sorted(ccy for ccy in {*opened, *self._sums} if self._sums[ccy] != opened.get(ccy, 0)))

    def gaps(self) -> tuple[int, ...]:
        return tuple(sorted(one for one, numbers in self._numbers.items() if len(numbers) != max(numbers, default=0)))

    def transfers_of(self, changes: Sequence[Change]) -> set[int]:
        rows = self.tables[self.live, "entry"]
        images = (image for one in changes if one.table == (self.live, "entry") for image in (one.before, one.after))
        return {rows.column(image, "tx_id") for image in images if image is not None}

    def is_torn(self, transfer: int) -> bool:
        rows = self.tables[self.live, "entry"]
        held = [dict(zip(rows.columns, row, strict=True)) for row in self._transfers.get(transfer, {}).values()]
        different = {row["leg"] for row in held}
        wanted = max((row["legs"] for row in held), default=0)
        total = sum((row["amount"] for row in held), Decimal(0))
        return total != 0 or len(held) != wanted or len(different) != len(held)


class BinlogAudit:
    """`folder`: where the files of the binlog lie."""

    def __init__(self, model: Model, *, folder: Path, at: Place) -> None:
        self.model = model
        self.seen: list[Commit] = []
        self._folder = folder
        self._at = at

    def read_on(self) -> None:
        """Look at each commit since the last time."""
        for one in committed(self._folder, after=self._at, decoded=self.model.tables.keys()):
            self._at = one.end
            if not one.is_rolled_back:
                self.seen += self._look(one)

    def forget(self, seen: int) -> None:
        """Of what was seen only the first `seen` count: what follows was planted, and put back."""
        del self.seen[seen:]

    def _look(self, one: Committed) -> Iterator[Commit]:
        """PostgreSQL's trigger is woken by the stream's ledger, and by each change of a live table."""
        model = self.model
        ledger = (model.ledger, "ledger")
        has_ledger = any(
            image is not None and model.tables[ledger].column(image, "stream") == model.stream
            for change in one.changes
            if change.table == ledger
            for image in (change.before, change.after)
        )
        has_rows = any(change.table[0] == model.live for change in one.changes)
        alters = bool(_ALTERS.match(one.alone)) and (f"`{model.live}`." in one.alone or f" {model.live}." in one.alone)
        model.apply(one.changes)
        if has_ledger or has_rows or alters:
            yield self._commit(one, has_ledger=has_ledger, has_rows=has_rows or alters)

    def _commit(self, one: Committed, *, has_ledger: bool, has_rows: bool) -> Commit:
        model, progress = self.model, self.model.progress()
        transfers = model.transfers_of(one.changes)
        return Commit(
            number=self.seen[-1].number + 1 if self.seen else 1,
            epoch=progress["epoch"],
            next_offset=progress["next_offset"],
            place=place(position_from_json(json.loads(progress["position"]))),
            publications=model.publications(),
            transactions=progress["applied_transactions"],
            wrong_sums=model.wrong_sums(),
            torn=tuple(sorted(filter(model.is_torn, transfers))),
            gaps=model.gaps(),
            transfers_checked=len(transfers),
            owner_epoch=_owner_epoch(one.statements),
            has_ledger=has_ledger,
            has_rows=has_rows,
            is_catching_up=model.is_catching_up(),
        )


def _owner_epoch(statements: Collection[str]) -> int | None:
    """By which epoch a commit was made, as its session has said when it moved the ledger; None: by no stream's."""
    named = [found for text in statements if (found := _MOVES.search(text))]
    return int(named[-1][1]) if named else None


def _without_moments(row: Row) -> Row:
    """A moment is bytes in the binlog and a datetime in a client's answer."""
    return tuple(value for value in row if isinstance(value, int | str | Decimal))
