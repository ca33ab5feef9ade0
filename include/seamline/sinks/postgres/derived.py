"""A derived table of a cut against the staged rows it came from: PostgreSQL adds them up itself and compares."""

import json
from collections.abc import Sequence

from seamline.databases.postgres.canonical import quoted
from seamline.databases.postgres.client import Row, Session, translated
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.errors import SchemaConflict
from seamline.domain.verdict import Break, BreakType, ControlTotal, TableVerdict, Verdict
from seamline.plan.model import DerivedTablePlan

# Sums of the widest exact numbers that both Spark and PostgreSQL hold.
SUM_DIGITS = 38
_BREAKS_LISTED = 1_000
_ADDED_EXACTLY = frozenset({Kind.DECIMAL, Kind.INTEGER, Kind.UNSIGNED, Kind.BITS})


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


def compare_derived(
    session: Session, derived: DerivedTablePlan, *, staged_cut: str, staged_derived: str, position: str
) -> TableVerdict:
    """The verdict of the derived table. The two relations are given quoted, as they stand staged."""
    by = ", ".join(quoted(name) for name in derived.by)
    column = quoted(derived.column)
    wanted = f"SELECT {by}, sum({column})::numeric AS total FROM {staged_cut} GROUP BY {by}"
    found = f"SELECT {by}, {column}::numeric AS total FROM {staged_derived}"
    with translated("compare the derived table with its cut", table=derived.name):
        groups, amount = _one(session, f"SELECT count(*), sum(total) FROM ({wanted}) AS w")
        rows, amount_there = _one(session, f"SELECT count(*), sum(total) FROM ({found}) AS f")
        missing = _rows(session, f"({wanted}) EXCEPT ALL ({found})")
        unexpected = _rows(session, f"({found}) EXCEPT ALL ({wanted})")
    breaks = _breaks(derived, missing, unexpected)
    total = ControlTotal(derived.name, derived.column, (), groups, rows, amount, amount_there)
    is_equal = not breaks and total.is_equal
    return TableVerdict(
        table=derived.name,
        verdict=Verdict.MATCH if is_equal else Verdict.BREAK,
        reason="" if is_equal else f"{len(breaks)} groups differ from the sums of the staged cut",
        position=position,
        source_rows=groups,
        destination_rows=rows,
        totals=(total,),
        breaks=tuple(breaks),
        breaks_total=max(len(breaks), 0 if is_equal else 1),
    )


def _one(session: Session, query: str) -> Row:
    row: Row | None = session.execute(query.encode()).fetchone()
    return row if row is not None else (0, None)


def _rows(session: Session, query: str) -> Sequence[Row]:
    return session.execute(f"SELECT * FROM ({query}) AS d ORDER BY d LIMIT {_BREAKS_LISTED}".encode()).fetchall()


def _breaks(derived: DerivedTablePlan, missing: Sequence[Row], unexpected: Sequence[Row]) -> list[Break]:
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


def _key(derived: DerivedTablePlan, row: Row) -> str:
    texts = [None if value is None else str(value) for value in row[:-1]]
    return json.dumps(dict(zip(derived.by, texts, strict=True)), ensure_ascii=False)
