"""Derived tables: what they are, the form in which Spark's tasks get the rows to add up, and what a comparison says.

Values that are only grouped by travel as the destination's own text; whole numbers and decimals are typed.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.errors import SchemaConflict
from seamline.domain.row_transform import spark_type
from seamline.domain.verdict import Break, BreakType, ControlTotal, TableVerdict, Verdict
from seamline.plan.model import DerivedTablePlan

if TYPE_CHECKING:
    import pyarrow as pa

# Sums of the widest exact numbers that both Spark and the destinations hold.
SUM_DIGITS = 38
# So many groups that differ are listed.
BREAKS_LISTED = 1_000
_UNSIGNED_BITS = 64
_ADDED_EXACTLY = frozenset({Kind.DECIMAL, Kind.INTEGER, Kind.UNSIGNED, Kind.BITS})

# A row as texts, by names of columns.
Row = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class StagedPart:
    """A part of a staged table's rows, `[start, end)` in numbers of the sink's own; `end` None is open."""

    start: int
    end: int | None


@dataclass(frozen=True, slots=True)
class Groups:
    """One side of a comparison: how many groups there are, the sum of all of them, and those that the other side has
    not, each as its values and, last, its sum."""

    count: int
    amount: Decimal | None
    alone: Sequence[Sequence[object]]


def derived_table(derived: DerivedTablePlan, base: Table) -> Table:
    """The definition of a derived table: the groups with their own types, then the exact sum."""
    summed = base.column(derived.column)
    if summed.kind not in _ADDED_EXACTLY:
        raise SchemaConflict(
            f"derived table {derived.name} adds up {derived.column}, which holds {summed.kind.value}",
            hint="only whole numbers and decimals add up exactly",
            table=base.name,
        )
    groups = tuple(base.column(name) for name in derived.by)
    total = Column(
        derived.column,
        Kind.DECIMAL,
        f"sum of {summed.source_type}",
        precision=SUM_DIGITS,
        scale=summed.scale if summed.kind is Kind.DECIMAL else 0,
    )
    key = derived.by if groups and not any(column.nullable for column in groups) else ()
    return Table(derived.name, (*groups, total), key, base.rows_estimate)


def frame_schema(columns: Sequence[Column]) -> "pa.Schema":
    """The columns as Spark's tasks get them."""
    import pyarrow as pa

    return pa.schema([(column.name, _frame_type(column)) for column in columns])


def _frame_type(column: Column) -> "pa.DataType":
    import pyarrow as pa

    match column.kind:
        case Kind.INTEGER | Kind.YEAR:
            return pa.int64()
        case Kind.UNSIGNED | Kind.BITS:
            return pa.decimal128(20, 0)
        case Kind.DECIMAL:
            if column.precision > SUM_DIGITS:
                raise SchemaConflict(
                    f"column {column.name} is {column.source_type}: over {SUM_DIGITS} digits are not added up",
                    hint="leave it out of derived tables",
                )
            return pa.decimal128(column.precision, column.scale)
        case _:
            return pa.string()


def input_type(column: Column) -> str:
    """Spark's type of a column that a job may read; "" of one whose values Spark does not hold exactly, or which frames
    hold as a text of the destination's own."""
    match column.kind:
        case Kind.UNSIGNED | Kind.BITS if column.length <= _UNSIGNED_BITS:
            return "decimal(20,0)"
        case Kind.BYTES:
            return ""
        case _:
            return spark_type(column)


def verdict_of_groups(derived: DerivedTablePlan, wanted: Groups, found: Groups, *, position: str) -> TableVerdict:
    """`wanted` are the sums of the staged cut, `found` the rows of the derived table."""
    breaks = _breaks(derived, wanted.alone, found.alone)
    total = ControlTotal(derived.name, derived.column, (), wanted.count, found.count, wanted.amount, found.amount)
    is_equal = not breaks and total.is_equal
    return TableVerdict(
        table=derived.name,
        verdict=Verdict.MATCH if is_equal else Verdict.BREAK,
        reason="" if is_equal else f"{len(breaks)} groups differ from the sums of the staged cut",
        position=position,
        source_rows=wanted.count,
        destination_rows=found.count,
        totals=(total,),
        breaks=tuple(breaks),
        breaks_total=max(len(breaks), 0 if is_equal else 1),
    )


def _breaks(
    derived: DerivedTablePlan, missing: Sequence[Sequence[object]], unexpected: Sequence[Sequence[object]]
) -> list[Break]:
    mine, theirs = ({_key(derived, row): str(row[-1]) for row in side} for side in (missing, unexpected))
    breaks = []
    for key in sorted(mine.keys() | theirs.keys()):
        both = key in mine and key in theirs
        kind = BreakType.VALUE if both else BreakType.MISSING if key in mine else BreakType.UNEXPECTED
        source, destination = (_texts(derived, side.get(key)) for side in (mine, theirs))
        breaks.append(Break(derived.name, kind, key, source, destination))
    return breaks


def _texts(derived: DerivedTablePlan, total: str | None) -> dict[str, str | None] | None:
    return None if total is None else {derived.column: total}


def _key(derived: DerivedTablePlan, row: Sequence[object]) -> str:
    texts = [None if value is None else str(value) for value in row[:-1]]
    return json.dumps(dict(zip(derived.by, texts, strict=True)), ensure_ascii=False)


def verdict_of_rows(
    table: Table,
    *,
    counts: tuple[int, int],
    differing: int,
    missing: Sequence[Row],
    unexpected: Sequence[Row],
    position: str,
) -> TableVerdict:
    """Of a job's table. `counts`: rows that were computed again, and rows that are staged. `differing`: how many
    different rows one side has more often; `missing` and `unexpected` are some of them."""
    breaks = _row_breaks(table, missing, unexpected)
    total = ControlTotal(table.name, "", (), *counts)
    is_equal = not differing and total.is_equal
    return TableVerdict(
        table=table.name,
        verdict=Verdict.MATCH if is_equal else Verdict.BREAK,
        reason="" if is_equal else f"{differing} rows differ from what the staged cut gives when computed again",
        position=position,
        source_rows=counts[0],
        destination_rows=counts[1],
        totals=(total,),
        breaks=tuple(breaks),
        breaks_total=max(len(breaks), 0 if is_equal else 1),
    )


def _row_breaks(table: Table, missing: Sequence[Row], unexpected: Sequence[Row]) -> list[Break]:
    named = table.key or tuple(column.name for column in table.columns)
    mine, theirs = (
        {json.dumps({name: row[name] for name in named}, ensure_ascii=False): row for row in side}
        for side in (missing, unexpected)
    )
    breaks = []
    for key in sorted(mine.keys() | theirs.keys()):
        both = key in mine and key in theirs
        kind = BreakType.VALUE if both else BreakType.MISSING if key in mine else BreakType.UNEXPECTED
        sides = (_without(named, side.get(key)) for side in (mine, theirs))
        breaks.append(Break(table.name, kind, key, *sides))
    return breaks


def _without(named: Sequence[str], row: Row | None) -> dict[str, str | None] | None:
    return None if row is None else {name: value for name, value in row.items() if name not in named}
