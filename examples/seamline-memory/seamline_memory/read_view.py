"""Rows at one position, as the typed form: what both sides in memory are compared by."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from seamline.domain.canonical import FloatSummary, digest_of, group_key, row_text
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.digest import Segment, SegmentDigest
from seamline.domain.position import Position
from seamline.ports import RowHash
from seamline.values import digest
from seamline.values.build import values_of

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
        if not segment.columns:
            return digest.bucket_digests(table, rows, buckets=segment.buckets, run_key=run_key)
        # The bucket comes from the key, also where the digest leaves it out.
        of_row = digest.bucket_numbers(table, rows, buckets=segment.buckets, run_key=run_key)
        narrow, rows = _narrowed(segment, table, rows)
        return {
            int(bucket): digest.segment_digest(narrow, rows.filter(pa.array(of_row == bucket)), run_key=run_key)
            for bucket in set(of_row.tolist())
        }

    def whole_digest(self, table: str, *, run_key: str) -> SegmentDigest:
        found, rows = self._tables[table]
        return digest_of([row_text(found.columns, texts) for texts in _texts(found.columns, rows)], run_key=run_key)

    def key_span(self, table: str) -> tuple[int, int] | None:
        found, rows = self._tables[table]
        ends = pc.min_max(rows.column(found.key[0])).as_py()
        return (ends["min"], ends["max"]) if rows.num_rows else None

    def row_hashes(self, segment: Segment, *, run_key: str) -> Sequence[RowHash]:
        table, rows = self._selected(segment, run_key)
        keys = digest.key_texts(table, rows) if table.is_keyed else digest.row_texts(table, rows)
        hashes = digest.row_hashes(*_narrowed(segment, table, rows), run_key=run_key)
        return [RowHash(*both) for both in zip(keys.to_pylist(), hashes.to_pylist(), strict=True)]

    def rows(self, table: str, keys: Sequence[str]) -> Mapping[str, Mapping[str, str | None]]:
        found, rows = self._tables[table]
        names = [column.name for column in found.columns]
        of_row = digest.key_texts(found, rows) if found.is_keyed else digest.row_texts(found, rows)
        wanted = pc.is_in(of_row, pa.array(keys, of_row.type))
        texts = _texts(found.columns, rows.filter(wanted))
        return {
            key: dict(zip(names, one, strict=True))
            for key, one in zip(of_row.filter(wanted).to_pylist(), texts, strict=True)
        }

    def totals(
        self, segment: Segment, *, column: str, by: Sequence[str]
    ) -> Mapping[tuple[str, ...], tuple[int, Decimal | None]]:
        table, rows = self._selected(segment, "")
        values = values_of(table.column(column), rows.column(column)) if column else [None] * rows.num_rows
        groups = _texts([table.column(name) for name in by], rows)
        found: dict[tuple[str, ...], tuple[int, Decimal | None]] = {}
        for group, value in zip(map(group_key, groups), values, strict=True):
            count, total = found.get(group, (0, None))
            found[group] = count + 1, total if value is None else (total or Decimal(0)) + value
        return found

    def float_summaries(self, segment: Segment) -> Mapping[str, FloatSummary]:
        table, rows = self._selected(segment, "")
        return digest.float_summaries(table, [rows])

    def columns(self, table: str) -> tuple[str, ...]:
        return tuple(column.name for column in self._tables[table][0].columns) if table in self._tables else ()

    def close(self) -> None:
        return

    def _selected(self, segment: Segment, run_key: str) -> tuple[Table, pa.RecordBatch]:
        table, rows = self._tables[segment.table]
        if segment.date_column:
            column = table.column(segment.date_column)
            dates = _comparable(column, digest.canonical_texts(column, rows.column(column.name)))
            first, end = _comparable(column, pa.array([segment.date_from, segment.date_to], dates.type))
            rows = rows.filter(pc.and_(pc.greater_equal(dates, first), pc.less(dates, end)))
        if segment.key_from is not None:
            rows = rows.filter(pc.greater_equal(rows.column(table.key[0]), segment.key_from))
        if segment.key_below is not None:
            rows = rows.filter(pc.less(rows.column(table.key[0]), segment.key_below))
        if segment.selection is not None:
            buckets, among = segment.selection
            of_row = digest.bucket_numbers(table, rows, buckets=buckets, run_key=run_key)
            rows = rows.filter(pc.is_in(pa.array(of_row), pa.array(among, pa.uint64())))
        return table, rows


def _narrowed(segment: Segment, table: Table, rows: pa.RecordBatch) -> tuple[Table, pa.RecordBatch]:
    if not segment.columns:
        return table, rows
    columns = tuple(column for column in table.columns if column.name in segment.columns)
    return replace(table, columns=columns, key=()), rows.select([column.name for column in columns])


def _texts(columns: Sequence[Column], rows: pa.RecordBatch) -> list[Texts]:
    """The canonical texts of each row."""
    found = (digest.canonical_texts(column, rows.column(column.name)).to_pylist() for column in columns)
    return list(zip(*found, strict=True)) if columns else [()] * rows.num_rows


def _comparable(column: Column, texts: pa.Array) -> pa.Array:
    """Dates are ordered as their texts are, moments as numbers."""
    return texts if column.kind is Kind.DATE else texts.cast(pa.int64())
