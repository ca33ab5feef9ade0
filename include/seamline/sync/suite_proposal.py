"""What a suite of expectations could say of a table: by the source's catalogue, and by some of its rows.

What the catalogue promises, and values of which there are few, become checks. What a look at some rows shows, as least
and greatest values, becomes a remark: a rule made of it would fail on the first day that is unlike the others.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from seamline.domain.canonical import NULL_FIELD, readable_text
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.digest import Segment
from seamline.ports import ReadView
from seamline.ports.shadow import Shadows
from seamline.sync.bucket_search import is_ranged

ROWS_LOOKED_AT = 1_000
# So many values at most are taken for all that there may be, of at least so many rows for each.
VALUES_MAX, ROWS_PER_VALUE = 12, 4
_LETTERS_MAX = 40
_NAMED = frozenset({Kind.CHAR, Kind.STRING, Kind.ENUM})
_NUMBERS = frozenset({Kind.INTEGER, Kind.UNSIGNED, Kind.DECIMAL})
_MOMENTS = frozenset({Kind.DATE, Kind.DATETIME, Kind.INSTANT})
Row = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Observed:
    """What the rows of a table show. `sets`: by column all values that it has, where these are few."""

    rows_looked_at: int = 0
    sets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    least_and_greatest: Mapping[str, tuple[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ProposedCheck:
    """One check of a suite. `is_off`: a person has to decide for it; it is written as a comment."""

    type: str
    kwargs: Mapping[str, Any]
    why: str
    is_off: bool = False


@dataclass(frozen=True, slots=True)
class ProposedTable:
    """`remarks`: what was seen and is no rule. `left_out`: why nothing is proposed of it; "" where something is."""

    table: str
    checks: tuple[ProposedCheck, ...] = ()
    remarks: tuple[str, ...] = ()
    left_out: str = ""


def observe(view: ReadView, table: Table, *, hidden: Collection[str] = (), seed: int = 0) -> Observed:
    """Look at some rows of the table; columns with few values among them are asked for all of theirs. Raises what the
    source does. `hidden`: columns of which no value may be written down."""
    rows = _some_rows(view, table, Random(seed))  # noqa: S311 - which rows are looked at is no secret
    if not rows:
        return Observed()
    shown = [column for column in table.columns if column.name not in hidden]
    sets = {column.name: found for column in shown if (found := _all_values(view, table, column, rows))}
    ends = {column.name: _ends(column, rows) for column in shown if column.kind in _NUMBERS | _MOMENTS}
    return Observed(len(rows), sets, {name: pair for name, pair in ends.items() if pair is not None})


def proposed(table: Table, observed: Observed, *, business_date: str = "") -> ProposedTable:
    """The checks of one table. `business_date`: the column by which the cut of a date is taken."""
    return ProposedTable(table.name, tuple(_checks(table, observed, business_date)), tuple(_remarks(table, observed)))


def _checks(table: Table, observed: Observed, business_date: str) -> Iterator[ProposedCheck]:
    yield from _of_catalogue(table)
    yield from _of_values(observed)
    if business_date:
        what = f"freshness: a business date ({business_date}) without a row. Not where days may be empty"
        yield ProposedCheck("expect_table_row_count_to_be_between", {"min_value": 1}, what, is_off=True)
    yield from _of_ends(table, observed)


def _of_catalogue(table: Table) -> Iterator[ProposedCheck]:
    columns = {"column_set": [column.name for column in table.columns], "exact_match": False}
    yield ProposedCheck("expect_table_columns_to_match_set", columns, "a column that is gone is an unplanned change")
    if len(table.key) == 1:
        unique = {"column": table.key[0]}
        yield ProposedCheck("expect_column_values_to_be_unique", unique, "the primary key: no row is there twice")
    elif table.key:
        compound = {"column_list": list(table.key)}
        yield ProposedCheck("expect_compound_columns_to_be_unique", compound, "the primary key: no row is there twice")
    for column in table.columns:
        if not column.nullable:
            known = {"column": column.name}
            yield ProposedCheck("expect_column_values_to_not_be_null", known, "NOT NULL in the source")


def _of_values(observed: Observed) -> Iterator[ProposedCheck]:
    for name, values in observed.sets.items():
        what = "all values that the source has today; add those that may come"
        kwargs = {"column": name, "value_set": list(values)}
        yield ProposedCheck("expect_column_values_to_be_in_set", kwargs, what)


def _of_ends(table: Table, observed: Observed) -> Iterator[ProposedCheck]:
    for name, (least, greatest) in observed.least_and_greatest.items():
        if table.column(name).kind in _NUMBERS and name not in table.key:
            kwargs: dict[str, Any] = {"column": name, "min_value": _number(least), "max_value": _number(greatest)}
            what = f"least and greatest of {observed.rows_looked_at:,} rows; widen it to what may come"
            yield ProposedCheck("expect_column_values_to_be_between", kwargs, what, is_off=True)


def _remarks(table: Table, observed: Observed) -> Iterator[str]:
    types = ", ".join(f"{column.name} {column.source_type}" for column in table.columns)
    yield f"types in the source: {types}"
    for name, (least, greatest) in observed.least_and_greatest.items():
        if table.column(name).kind in _MOMENTS:
            yield f"{name} from {least} to {greatest}, in {observed.rows_looked_at:,} rows"


def _some_rows(view: ReadView, table: Table, random: Random) -> Sequence[Row]:
    """The first that are found, and of an integer key as many from some place on."""
    if not isinstance(view, Shadows):
        return ()
    half = ROWS_LOOKED_AT // 2
    keys = list(view.sample(table.name, rows=half))
    if is_ranged(table) and (span := view.key_span(table.name)):
        keys += view.sample(table.name, rows=half, key_from=random.randint(*span))
    return list(view.rows(table.name, list(dict.fromkeys(keys))).values())


def _all_values(view: ReadView, table: Table, column: Column, rows: Sequence[Row]) -> tuple[str, ...]:
    """() where they are many, or may be."""
    if column.kind not in _NAMED or column.name in table.key:
        return ()
    seen = {row.get(column.name) for row in rows}
    if len(seen) > VALUES_MAX or any(len(value or "") > _LETTERS_MAX for value in seen):
        return ()
    counted = view.totals(Segment(table.name), columns=(), by=(column.name,))
    values = sorted(_ungrouped(group) for (group,) in counted if group != NULL_FIELD)
    total = sum(count for (group,), (count, _) in counted.items() if group != NULL_FIELD)
    is_few = 0 < len(values) <= VALUES_MAX and total >= ROWS_PER_VALUE * len(values)
    return tuple(values) if is_few else ()


def _ungrouped(group: str) -> str:
    """The inverse of `canonical.group_key`, of one that is not NULL."""
    return group[1:] if group.startswith(NULL_FIELD) else group


def _ends(column: Column, rows: Sequence[Row]) -> tuple[str, str] | None:
    """Least and greatest value as a person reads them. What is no number, as an infinite date, is passed over."""
    known = [text for row in rows if (text := row.get(column.name)) is not None]
    ordered = sorted(known) if column.kind is Kind.DATE else sorted(filter(_is_number, known), key=_number)
    return (readable_text(column, ordered[0]), readable_text(column, ordered[-1])) if ordered else None


def _is_number(text: str) -> bool:
    return text.removeprefix("-").replace(".", "", 1).isdecimal()


def _number(text: str) -> int | float:
    return float(text) if "." in text else int(text)
