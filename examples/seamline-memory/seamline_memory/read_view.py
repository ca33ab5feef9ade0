"""Rows at one position, as the typed form: what both sides in memory are compared by."""

from collections.abc import Mapping, Sequence
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from seamline.domain.canonical import FloatSummary, digest_of, row_text
from seamline.domain.catalogue import Table
from seamline.domain.digest import Segment, SegmentDigest
from seamline.domain.measure import Measure
from seamline.domain.position import Position
from seamline.ports import RowHash
from seamline.values import digest
from seamline.values.segments import bucket_digests, in_segment, narrowed, texts_of
from seamline.values.totals import GroupTotals

Texts = tuple[str | None, ...]


class MemoryView:
    """`ports.StagedView` over batches that nobody changes any more."""

    def __init__(self, position: Position, tables: Mapping[Table, pa.RecordBatch]) -> None:
        self._position = position
        self._tables = {table.name: (table, rows) for table, rows in tables.items()}

    @property
    def position(self) -> Position:
        return self._position

    def digests(self, segment: Segment, *, run_key: str) -> Mapping[int, SegmentDigest]:
        table, rows = self._selected(segment, run_key)
        return bucket_digests(segment, table, rows, run_key=run_key)

    def whole_digest(self, table: str, *, run_key: str) -> SegmentDigest:
        found, rows = self._tables[table]
        return digest_of([row_text(found.columns, texts) for texts in texts_of(found.columns, rows)], run_key=run_key)

    def key_span(self, table: str) -> tuple[int, int] | None:
        found, rows = self._tables[table]
        ends = pc.min_max(rows.column(found.key[0])).as_py()
        return (ends["min"], ends["max"]) if rows.num_rows else None

    def row_hashes(self, segment: Segment, *, run_key: str) -> Sequence[RowHash]:
        table, rows = self._selected(segment, run_key)
        keys = digest.key_texts(table, rows) if table.is_keyed else digest.row_texts(table, rows)
        hashes = digest.row_hashes(*narrowed(segment, table, rows), run_key=run_key)
        return [RowHash(*both) for both in zip(keys.to_pylist(), hashes.to_pylist(), strict=True)]

    def rows(self, table: str, keys: Sequence[str]) -> Mapping[str, Mapping[str, str | None]]:
        found, rows = self._tables[table]
        names = [column.name for column in found.columns]
        of_row = digest.key_texts(found, rows) if found.is_keyed else digest.row_texts(found, rows)
        wanted = pc.is_in(of_row, pa.array(keys, of_row.type))
        texts = texts_of(found.columns, rows.filter(wanted))
        return {
            key: dict(zip(names, one, strict=True))
            for key, one in zip(of_row.filter(wanted).to_pylist(), texts, strict=True)
        }

    def totals(
        self, segment: Segment, *, columns: Sequence[str], by: Sequence[str], measure: Measure = Measure.SUM
    ) -> Mapping[tuple[str, ...], tuple[int, Decimal | None]]:
        table, rows = self._selected(segment, "")
        totals = GroupTotals(table, columns=columns, by=by, measure=measure)
        totals.add(rows)
        return totals.found()

    def float_summaries(self, segment: Segment) -> Mapping[str, FloatSummary]:
        table, rows = self._selected(segment, "")
        return digest.float_summaries(table, [rows])

    def columns(self, table: str) -> tuple[str, ...]:
        return tuple(column.name for column in self._tables[table][0].columns) if table in self._tables else ()

    def close(self) -> None:
        return

    def _selected(self, segment: Segment, run_key: str) -> tuple[Table, pa.RecordBatch]:
        table, rows = self._tables[segment.table]
        return table, in_segment(segment, table, rows, run_key=run_key)
