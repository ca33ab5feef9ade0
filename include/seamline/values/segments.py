"""Which rows of a batch a segment of a comparison means, and their digests, for kinds that compare over Arrow."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.digest import Segment, SegmentDigest
from seamline.values import digest

_MOMENTS = frozenset({Kind.DATETIME, Kind.INSTANT})
_NUMBERS = frozenset({Kind.INTEGER, Kind.UNSIGNED})


def in_segment(segment: Segment, table: Table, rows: pa.RecordBatch, *, run_key: str) -> pa.RecordBatch:
    """The rows of a batch that belong to the segment, in their order."""
    if segment.date_column:
        column = table.column(segment.date_column)
        dates = digest.canonical_texts(column, rows.column(column.name))
        first, end = pa.array([segment.date_from, segment.date_to or segment.date_from], dates.type)
        # Texts of dates are ordered as dates are; the canonical text of a moment is a number, and its bounds a literal
        # of SQL.
        if column.kind in _MOMENTS:
            dates = dates.cast(pa.int64())
            first, end = (bound.cast(pa.timestamp("us")).cast(pa.int64()) for bound in (first, end))
        elif column.kind in _NUMBERS:
            dates, first, end = (one.cast(pa.int64()) for one in (dates, first, end))
        wanted = pc.greater_equal(dates, first)
        rows = rows.filter(pc.and_(wanted, pc.less(dates, end)) if segment.date_to else wanted)
    if segment.key_from is not None:
        rows = rows.filter(pc.greater_equal(rows.column(table.key[0]), segment.key_from))
    if segment.key_below is not None:
        rows = rows.filter(pc.less(rows.column(table.key[0]), segment.key_below))
    if segment.selection is not None:
        buckets, among = segment.selection
        of_row = digest.bucket_numbers(table, rows, buckets=buckets, run_key=run_key)
        rows = rows.filter(pc.is_in(pa.array(of_row), pa.array(among, pa.uint64())))
    return rows


def bucket_digests(
    segment: Segment, table: Table, rows: pa.RecordBatch, *, run_key: str
) -> Mapping[int, SegmentDigest]:
    """Bucket → digest of a segment's rows."""
    if not segment.columns:
        return digest.bucket_digests(table, rows, buckets=segment.buckets, run_key=run_key)
    # The bucket comes from the key, also where the digest leaves it out.
    of_row = digest.bucket_numbers(table, rows, buckets=segment.buckets, run_key=run_key)
    narrow, rows = narrowed(segment, table, rows)
    return {
        int(bucket): digest.segment_digest(narrow, rows.filter(pa.array(of_row == bucket)), run_key=run_key)
        for bucket in set(of_row.tolist())
    }


def narrowed(segment: Segment, table: Table, rows: pa.RecordBatch) -> tuple[Table, pa.RecordBatch]:
    """With the columns alone that the segment compares; all where it names none."""
    if not segment.columns:
        return table, rows
    columns = tuple(column for column in table.columns if column.name in segment.columns)
    return replace(table, columns=columns, key=()), rows.select([column.name for column in columns])


def texts_of(columns: Sequence[Column], rows: pa.RecordBatch) -> list[tuple[str | None, ...]]:
    """The canonical texts of each row."""
    found = (digest.canonical_texts(column, rows.column(column.name)).to_pylist() for column in columns)
    return list(zip(*found, strict=True)) if columns else [()] * rows.num_rows
