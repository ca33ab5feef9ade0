"""Some rows of a table, given by their canonical texts, as a ReadView: digested here by the reference.

For the self-test of a comparison, where a side cannot answer for a shadow copy itself.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal, localcontext

from seamline.domain.canonical import (
    SUMMED_BELOW,
    FloatSummary,
    bucket_of_texts,
    digest_of,
    exact_columns,
    group_key,
    inexact_columns,
    row_hash,
    row_of_texts,
)
from seamline.domain.catalogue import Table
from seamline.domain.digest import Segment, SegmentDigest
from seamline.domain.measure import SUM_DIGITS, Measure, of_texts
from seamline.domain.position import Position
from seamline.ports import RowHash
from seamline.ports.shadow import ShadowCopy

Texts = Mapping[str, str | None]


class TextView:
    """`ports.ReadView` of one table. A segment may name buckets and columns here, and neither dates nor keys."""

    def __init__(self, table: Table, rows: Sequence[Texts], position: Position) -> None:
        self._table = table
        self._rows = rows
        self._position = position

    @staticmethod
    def of(wanted: ShadowCopy, rows: Mapping[str, Texts], position: Position) -> "TextView":
        """The shadow copy, made of these rows by key."""
        copied = [{**rows[key], **wanted.changed.get(key, {})} for key in wanted.keys]
        return TextView(wanted.table, [*copied, *(rows[key] for key in wanted.doubled)], position)

    @property
    def position(self) -> Position:
        return self._position

    def digests(self, segment: Segment, *, run_key: str) -> Mapping[int, SegmentDigest]:
        hashed = _hashed(self._table, segment)
        texts: dict[int, list[str]] = {}
        for row in self._selected(segment, run_key):
            bucket = bucket_of_texts(self._table, row, buckets=segment.buckets, run_key=run_key)
            texts.setdefault(bucket, []).append(row_of_texts(exact_columns(hashed), row))
        return {bucket: digest_of(of_bucket, run_key=run_key) for bucket, of_bucket in texts.items()}

    def key_span(self, table: str) -> tuple[int, int] | None:  # noqa: ARG002
        keys = [int(row[self._table.key[0]] or 0) for row in self._rows]
        return (min(keys), max(keys)) if keys else None

    def row_hashes(self, segment: Segment, *, run_key: str) -> Sequence[RowHash]:
        columns = exact_columns(_hashed(self._table, segment))
        return [
            RowHash(self._key(row), row_hash(row_of_texts(columns, row), run_key=run_key))
            for row in self._selected(segment, run_key)
        ]

    def rows(self, table: str, keys: Sequence[str]) -> Mapping[str, Texts]:  # noqa: ARG002
        wanted = set(keys)
        return {key: row for row in self._rows if (key := self._key(row)) in wanted}

    def totals(
        self, segment: Segment, *, columns: Sequence[str], by: Sequence[str], measure: Measure = Measure.SUM
    ) -> Mapping[tuple[str, ...], tuple[int, Decimal | None]]:
        groups: dict[tuple[str, ...], list[tuple[str | None, ...]]] = {}
        for row in self._selected(segment, ""):
            group = group_key([row[name] for name in by])
            groups.setdefault(group, []).append(tuple(row[name] for name in columns))
        measured = [self._table.column(name) for name in columns]
        return {group: (len(rows), of_texts(measure, measured, rows)) for group, rows in groups.items()}

    def float_summaries(self, segment: Segment) -> Mapping[str, FloatSummary]:
        rows = list(self._selected(segment, ""))
        return {
            one.name: _summary([float(text) for row in rows if (text := row[one.name]) is not None])
            for one in inexact_columns(self._table)
        }

    def columns(self, table: str) -> tuple[str, ...]:  # noqa: ARG002
        return tuple(column.name for column in self._table.columns)

    def close(self) -> None:
        return

    def _key(self, row: Texts) -> str:
        return row_of_texts(self._table.key_columns or exact_columns(self._table), row)

    def _selected(self, segment: Segment, run_key: str) -> Iterator[Texts]:
        of, among = segment.selection or (1, (0,))
        for row in self._rows:
            if bucket_of_texts(self._table, row, buckets=of, run_key=run_key) in among:
                yield row


def _hashed(table: Table, segment: Segment) -> Table:
    if not segment.columns:
        return table
    return replace(table, columns=tuple(column for column in table.columns if column.name in segment.columns))


def _summary(numbers: Sequence[float]) -> FloatSummary:
    if not numbers:
        return FloatSummary(0, None, None, None)
    summed = [Decimal(repr(number)) for number in numbers if abs(number) < float(SUMMED_BELOW)]
    with localcontext(prec=SUM_DIGITS):
        return FloatSummary(len(numbers), min(numbers), max(numbers), sum(summed, Decimal(0)) if summed else None)
