"""One Hudi table, each commit on top of the one before."""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from seamline.domain.catalogue import Table
from seamline.domain.changes import Finding
from seamline.domain.ledger import StreamId
from seamline.sinks.hudi.edit import TableEdit
from seamline.sinks.hudi.pointer import Pointer
from seamline.sinks.hudi.read_back import live
from seamline.sinks.hudi.rows import RowIndex
from seamline.sinks.hudi.state import TableState
from seamline.sinks.hudi.timeline import Timeline
from seamline.sinks.hudi.types import avro_schema
from seamline.sinks.lake.chunks import StagedBatch, in_order
from seamline.sinks.lake.files import NewFiles, url_of
from seamline.sinks.lake.sink import Mark
from seamline.values.build import batch_of, rows_of
from seamline.values.changes import ChangeBatch
from seamline.values.digest import row_texts

MARK = Mark(StreamId("settlement", "hudi"), 1)
Row = tuple[Any, ...]


class HudiLake:
    def __init__(self, table: Table, warehouse: Path) -> None:
        self.table = table
        self.folder = warehouse / "ns" / table.name
        self.timeline = Timeline(self.folder)
        self.timeline.make()
        instant = self.timeline.reserve(0)
        self.timeline.describe(table.name, table.key, instant)
        self.state = TableState(instant, instant, str(MARK.stream), MARK.epoch, avro_schema(table))
        self.timeline.put(0, self.state, TableState())
        self.index = RowIndex(table, self.folder)

    def commit(self, *batches: ChangeBatch) -> list[Finding]:
        files = NewFiles(url_of(self.folder), "s-e1")
        reserve = partial(self.timeline.reserve, self.state.instant)
        edit = TableEdit(self.table, self.state, self.index, self.folder, files, mark=MARK, reserve=reserve)
        findings = edit.apply(in_order(map(StagedBatch.of, batches)))
        staged = edit.staged()
        if staged is not None:
            state, rows = staged
            self.timeline.put(self.timeline.newest_number() + 1, state, self.state)
            self.state = state
            self.index.keep(rows)
        return findings

    def reopened(self) -> None:
        """As a worker that knows nothing yet."""
        _, self.state = self.timeline.head()
        self.index = RowIndex(self.table, self.folder)

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

    def batches(self, instant: int | None = None) -> list[pa.RecordBatch]:
        return list(live(self.table, Pointer(self.folder, instant or self.state.instant).text)())

    def read(self, instant: int | None = None) -> Counter[Row]:
        """As a view reads it from the timeline, with nothing that the index knows."""
        return Counter(row for batch in self.batches(instant) for row in rows_of(self.table, batch))

    def texts(self) -> list[str]:
        return sorted(text for batch in self.batches() for text in row_texts(self.table, batch).to_pylist())
