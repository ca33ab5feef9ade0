"""Read views over rows in memory, built on the reference of the canonical texts. Misbehave on demand."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from seamline.domain.canonical import (
    FloatSummary,
    bucket_of,
    canonical_row,
    canonical_text,
    digest_of,
    group_key,
    inexact_columns,
    row_hash,
    row_text,
)
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.digest import Segment, SegmentDigest
from seamline.domain.errors import SeamlineError
from seamline.domain.measure import Measure, of_texts
from seamline.domain.position import Position
from seamline.ports import RowHash
from seamline.sources.mariadb.position import BinlogPosition

Row = dict[str, Any]
P = BinlogPosition("0-1-100")

ENTRY = Table(
    "entry",
    (
        Column("id", Kind.INTEGER, "bigint", nullable=False, length=64),
        Column("currency", Kind.CHAR, "char(3)", nullable=False, length=3),
        Column("amount", Kind.DECIMAL, "decimal(20,4)", precision=20, scale=4),
        Column("memo", Kind.STRING, "varchar(40)", length=40),
    ),
    key=("id",),
)
AUDIT = Table(
    "audit",
    (
        Column("actor", Kind.STRING, "varchar(10)", nullable=False, length=10),
        Column("object", Kind.STRING, "varchar(10)", length=10),
    ),
)
RATE = Table(
    "rate",
    (Column("id", Kind.INTEGER, "int", nullable=False, length=32), Column("rate", Kind.DOUBLE, "double")),
    key=("id",),
)


def entries(count: int) -> list[Row]:
    return [
        {
            "id": n,
            "currency": ("EUR", "USD", "CNY")[n % 3],
            "amount": Decimal(n) / 4,
            "memo": None if n % 5 else f"m{n}",
        }
        for n in range(1, count + 1)
    ]


def _group(table: Table, row: Row, by: Sequence[str]) -> tuple[str, ...]:
    return group_key([canonical_text(table.column(name), row[name]) for name in by])


@dataclass
class MemoryView:
    """One side. `faults` maps the name of a method to the error it raises; `asked` counts calls."""

    table: Table
    content: list[Row]
    position: Position = P
    shown: tuple[str, ...] | None = None
    faults: dict[str, SeamlineError] = field(default_factory=dict)
    lost_hashes: int = 0
    asked: list[str] = field(default_factory=list)
    is_closed: bool = False

    def digests(self, segment: Segment, *, run_key: str) -> Mapping[int, SegmentDigest]:
        self._reach("digests")
        found: dict[int, SegmentDigest] = {}
        narrowed = self._narrowed(segment)
        for row in self._selected(segment, run_key):
            bucket = bucket_of(self.table, row, buckets=segment.buckets, run_key=run_key)
            digest = digest_of([canonical_row(narrowed, row)], run_key=run_key)
            found[bucket] = found.get(bucket, SegmentDigest()) + digest
        for bucket in list(found)[:1]:
            found[bucket] = replace(found[bucket], hashed=found[bucket].hashed - self.lost_hashes)
        return found

    def whole_digest(self, table: str, *, run_key: str) -> SegmentDigest:
        self._reach("whole_digest")
        columns = self.table.columns
        texts = [row_text(columns, [canonical_text(c, row[c.name]) for c in columns]) for row in self.content]
        return digest_of(texts, run_key=run_key)

    def key_span(self, table: str) -> tuple[int, int] | None:
        self._reach("key_span")
        keys = [row[self.table.key[0]] for row in self.content]
        return (min(keys), max(keys)) if keys else None

    def row_hashes(self, segment: Segment, *, run_key: str) -> Sequence[RowHash]:
        self._reach("row_hashes")
        return [
            RowHash(self._key(row), row_hash(canonical_row(self.table, row), run_key=run_key))
            for row in self._selected(segment, run_key)
        ]

    def rows(self, table: str, keys: Sequence[str]) -> Mapping[str, Mapping[str, str | None]]:
        self._reach("rows")
        wanted = set(keys)
        return {
            self._key(row): {column.name: canonical_text(column, row[column.name]) for column in self.table.columns}
            for row in self.content
            if self._key(row) in wanted
        }

    def totals(
        self, segment: Segment, *, columns: Sequence[str], by: Sequence[str], measure: Measure = Measure.SUM
    ) -> Mapping[tuple[str, ...], tuple[int, Decimal | None]]:
        self._reach("totals")
        found: dict[tuple[str, ...], tuple[int, Decimal | None]] = {}
        for row in self._selected(segment, ""):
            group = _group(self.table, row, by)
            count, _ = found.get(group, (0, None))
            found[group] = count + 1, None
        return {
            group: (count, self._measured(measure, columns, group, by) if columns else None)
            for group, (count, _) in found.items()
        }

    def _measured(
        self, measure: Measure, columns: Sequence[str], group: tuple[str, ...], by: Sequence[str]
    ) -> Decimal | None:
        rows = [row for row in self.content if _group(self.table, row, by) == group]
        measured = [self.table.column(name) for name in columns]
        return of_texts(measure, measured, [[canonical_text(c, row[c.name]) for c in measured] for row in rows])

    def float_summaries(self, segment: Segment) -> Mapping[str, FloatSummary]:
        self._reach("float_summaries")
        found = {}
        for column in inexact_columns(self.table):
            known = [row[column.name] for row in self._selected(segment, "") if row[column.name] is not None]
            parts = (min(known), max(known), sum(Decimal(repr(one)) for one in known)) if known else (None, None, None)
            found[column.name] = FloatSummary(len(known), *parts)
        return found

    def columns(self, table: str) -> tuple[str, ...]:
        return self.shown if self.shown is not None else tuple(column.name for column in self.table.columns)

    def close(self) -> None:
        self.is_closed = True

    def _reach(self, name: str) -> None:
        self.asked.append(name)
        if name in self.faults:
            raise self.faults[name]

    def _narrowed(self, segment: Segment) -> Table:
        if not segment.columns:
            return self.table
        return replace(self.table, columns=tuple(c for c in self.table.columns if c.name in segment.columns))

    def _key(self, row: Row) -> str:
        if not self.table.is_keyed:
            return canonical_row(self.table, row)
        return row_text(self.table.key_columns, [canonical_text(c, row[c.name]) for c in self.table.key_columns])

    def _selected(self, segment: Segment, run_key: str) -> list[Row]:
        assert segment.table == self.table.name
        rows = [row for row in self.content if self._is_within(segment, row)]
        if segment.selection is None:
            return rows
        of, among = segment.selection
        return [row for row in rows if bucket_of(self.table, row, buckets=of, run_key=run_key) in among]

    def _is_within(self, segment: Segment, row: Row) -> bool:
        key = row[self.table.key[0]] if self.table.key else 0
        is_from = segment.key_from is None or key >= segment.key_from
        return is_from and (segment.key_below is None or key < segment.key_below)
