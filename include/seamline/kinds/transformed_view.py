"""A source's view of transformed tables: it holds against a destination what the transform makes of the source's rows.

A server cannot digest rows that it does not hold. So they are read at the view's position, transformed by the function
that loads and streams have too, and digested here.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING

from seamline.domain.canonical import FloatSummary
from seamline.domain.catalogue import Table
from seamline.domain.digest import Segment, SegmentDigest
from seamline.domain.errors import Refused
from seamline.domain.measure import Measure
from seamline.domain.position import Position
from seamline.domain.row_transform import RowTransform
from seamline.kinds.arrow_view import ArrowView
from seamline.kinds.bulk import ReadsTypedRows
from seamline.plan.model import SyncPlan
from seamline.ports import ReadView, RowHash
from seamline.transform.rows import target_rows

if TYPE_CHECKING:
    import pyarrow as pa


def as_held(views: Sequence[ReadView], plan: SyncPlan) -> Sequence[ReadView]:
    """Views of the source in which each table of the plan is as destinations hold it."""
    transforms = {one.name: (one.definition, one.transform) for one in plan.tables if one.transform is not None}
    return [TransformedView(view, transforms) for view in views] if transforms else views


class TransformedView:
    """`ports.ReadView`. `transforms`: by name of table its source and its transform; other tables are the source's.

    Every question reads the rows again that it is about: a key range or a date where the question has one, else all.
    """

    def __init__(self, view: ReadView, transforms: Mapping[str, tuple[Table, RowTransform]]) -> None:
        self._view = view
        self._transforms = transforms

    @property
    def position(self) -> Position:
        return self._view.position

    def digests(self, segment: Segment, *, run_key: str) -> Mapping[int, SegmentDigest]:
        return self._of(segment).digests(segment, run_key=run_key)

    def key_span(self, table: str) -> tuple[int, int] | None:
        """The source's own: no key of the target lies outside of it."""
        return self._view.key_span(table)

    def row_hashes(self, segment: Segment, *, run_key: str) -> Sequence[RowHash]:
        return self._of(segment).row_hashes(segment, run_key=run_key)

    def rows(self, table: str, keys: Sequence[str]) -> Mapping[str, Mapping[str, str | None]]:
        return self._of(Segment(table)).rows(table, keys)

    def totals(
        self, segment: Segment, *, columns: Sequence[str], by: Sequence[str], measure: Measure = Measure.SUM
    ) -> Mapping[tuple[str, ...], tuple[int, Decimal | None]]:
        return self._of(segment).totals(segment, columns=columns, by=by, measure=measure)

    def float_summaries(self, segment: Segment) -> Mapping[str, FloatSummary]:
        return self._of(segment).float_summaries(segment)

    def columns(self, table: str) -> tuple[str, ...]:
        """The target's, where the source has the columns from which it was planned; else those that it has."""
        found = self._view.columns(table)
        if table not in self._transforms:
            return found
        source, transform = self._transforms[table]
        is_planned = found == tuple(column.name for column in source.columns)
        return tuple(column.name for column in transform.planned.columns) if is_planned else found

    def close(self) -> None:
        self._view.close()

    def _of(self, segment: Segment) -> ReadView:
        """A view for one question about this segment."""
        if segment.table not in self._transforms:
            return self._view
        source, transform = self._transforms[segment.table]
        rows = self._view
        if not isinstance(rows, ReadsTypedRows):
            raise Refused("the source's kind gives no typed rows of its views", table=segment.table)
        read = replace(segment, columns=())
        if not source.is_keyed:
            # Its buckets are of the rows that the transform makes.
            read = replace(read, buckets=1, bucket=None, among=(), among_of=1)

        def batches() -> "Iterator[pa.RecordBatch]":
            return target_rows(transform, source, rows.typed_rows(source, read))

        return ArrowView(self.position, {transform.planned: batches})
