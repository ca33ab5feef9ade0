"""One Delta table, each commit on top of the one before; and a table with every kind of column."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.changes import Finding
from seamline.domain.errors import SchemaConflict
from seamline.domain.ledger import StreamId
from seamline.sinks.delta import placing
from seamline.sinks.delta.actions import transaction
from seamline.sinks.delta.edit import TableEdit
from seamline.sinks.delta.log import DeltaLog
from seamline.sinks.delta.pointer import Pointer
from seamline.sinks.delta.read_back import live
from seamline.sinks.delta.rows import RowIndex
from seamline.sinks.delta.state import TableState
from seamline.sinks.delta.types import stored
from seamline.sinks.lake.chunks import StagedBatch, in_order
from seamline.sinks.lake.files import NewFiles, url_of
from seamline.values.build import batch_of, rows_of
from seamline.values.changes import ChangeBatch
from seamline.values.digest import row_texts
from tests.contract.every_kind import VALUES

STREAM = StreamId("settlement", "delta")
Row = tuple[Any, ...]
ID = Column("id", Kind.INTEGER, "bigint", nullable=False, length=64)


def takes(column: Column, value: Any) -> bool:
    table = Table("t", (column,))
    try:
        stored(table, batch_of(table, [(value,)]))
    except SchemaConflict:
        return False
    return True


_NAMED = {replace(column, name=f"c{number}", nullable=True): column for number, column in enumerate(VALUES)}
EVERY_KIND = Table("every_kind", (ID, *_NAMED), ("id",))
_KEPT = [[one for one in VALUES[column] if takes(column, one)] or [None] for column in _NAMED.values()]
# Each value of each kind that a lake takes, in some row.
KEPT_ROWS: list[Row] = [
    (number, *(values[number % len(values)] for values in _KEPT)) for number in range(max(map(len, _KEPT)))
]


class DeltaLake:
    def __init__(self, table: Table, warehouse: Path) -> None:
        self.table = table
        self.folder = warehouse / "ns" / table.name.replace(" ", "-")
        self.log = DeltaLog(self.folder)
        self.log.make()
        beginning = placing.beginning(TableState(), table, STREAM)
        actions = [*transaction(STREAM, 1, "CREATE TABLE"), *beginning]
        self.log.put(0, actions)
        self.state = TableState().after(actions)
        self.index = RowIndex(table, self.folder)

    def commit(self, *batches: ChangeBatch) -> list[Finding]:
        files = NewFiles(url_of(self.folder), "s-e1")
        edit = TableEdit(self.table, self.state, self.index, self.folder, files)
        findings = edit.apply(in_order(map(StagedBatch.of, batches)))
        staged = edit.staged()
        if staged is not None:
            actions, rows = staged
            self.log.put(self.state.version + 1, actions)
            self.state = self.state.after(actions)
            self.index.keep(self.state, rows)
        return findings

    def put(self, *rows: Row, chunk: int = 0, met: Sequence[bool] | None = None) -> ChangeBatch:
        return self.batch(rows, deleted=[False] * len(rows), met=met, chunk=chunk)

    def batch(self, rows: Sequence[Row], *, deleted: Sequence[bool], **more: Any) -> ChangeBatch:
        count = len(rows)
        met = more.pop("met", None) or [False] * count
        values = [pa.array(deleted, pa.bool_()), pa.array(range(count), pa.int64()), pa.array(met, pa.bool_())]
        return ChangeBatch(self.table, batch_of(self.table, rows), *values[:2], None, values[2], **more)

    def copies(self, counts: Counter[Row], **more: Any) -> ChangeBatch:
        rows = batch_of(self.table, list(counts))
        return ChangeBatch(self.table, rows, copies=pa.array(list(counts.values()), pa.int64()), **more)

    def batches(self, version: int | None = None) -> list[pa.RecordBatch]:
        at = Pointer(self.folder, self.state.version if version is None else version)
        return list(live(self.table, at.text)())

    def read(self, version: int | None = None) -> Counter[Row]:
        """As a view reads it from the log, with nothing that the index knows."""
        return Counter(row for batch in self.batches(version) for row in rows_of(self.table, batch))

    def texts(self) -> list[str]:
        return sorted(text for batch in self.batches() for text in row_texts(self.table, batch).to_pylist())
