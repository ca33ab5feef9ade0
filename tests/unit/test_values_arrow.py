"""Every kind has one Arrow type; a value goes into it and comes out as it was, or is refused by name."""

import math
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamline.domain.canonical import canonical_text
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.errors import InvariantViolated, SchemaConflict
from seamline.values.arrow import arrow_type, is_exact_text, require_schema, schema_of, table_of
from seamline.values.build import array_of, batch_of, rows_of, values_of
from seamline.values.special import SPECIAL_VALUES, special_in_words, special_mask
from tests.typed_values import COLUMNS, EDGES, VALUES, tables_and_rows

TABLE = Table("t", COLUMNS, ("i64", "name"))


def test_what_becomes_of_a_special_value_is_said_in_words() -> None:
    said = special_in_words(Kind.DATE)
    assert "infinity, -infinity: carried as 2^31-1 and -(2^31-1) days" in said
    assert said[-1].endswith("as 0000-00-00 and 2026-02-31: refused by name where it is read")


def _of_kind(kind: Kind) -> list[Column]:
    return [column for column in COLUMNS if column.kind is kind]


@pytest.mark.parametrize("kind", sorted(Kind))
def test_every_kind_has_an_arrow_type_and_says_what_is_special_in_it(kind: Kind) -> None:
    assert isinstance(arrow_type(Column("v", kind, "")), pa.DataType)
    assert kind in SPECIAL_VALUES
    assert _of_kind(kind), "and the tests of this form have a column of it"


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (Column("d", Kind.DECIMAL, "decimal(38,2)", precision=38, scale=2), pa.decimal128(38, 2)),
        (Column("d", Kind.DECIMAL, "decimal(76,2)", precision=76, scale=2), pa.decimal256(76, 2)),
        (Column("d", Kind.DECIMAL, "decimal(77,2)", precision=77, scale=2), pa.large_utf8()),
        (Column("d", Kind.DECIMAL, "numeric(37,2)", precision=37, scale=2), pa.decimal128(38, 2)),
        (Column("d", Kind.DECIMAL, "numeric"), pa.large_utf8()),
        (Column("b", Kind.BITS, "bit(64)", length=64), pa.uint64()),
        (Column("b", Kind.BITS, "bit(65)", length=65), pa.large_utf8()),
    ],
)
def test_numbers_that_arrow_has_no_room_for_are_texts_and_marked(column: Column, expected: pa.DataType) -> None:
    field = schema_of(Table("t", (column,))).field(0)
    assert field.type == expected
    assert (b"seamline.exact_text" in field.metadata) == is_exact_text(column) == (expected == pa.large_utf8())


def test_a_schema_is_read_as_the_table_it_was_made_of() -> None:
    assert table_of(schema_of(TABLE)) == TABLE
    require_schema(TABLE, schema_of(TABLE))
    with pytest.raises(InvariantViolated, match="does not say of which table"):
        table_of(pa.schema([]))


def test_another_schema_is_refused_and_what_differs_is_named() -> None:
    other = replace(TABLE, columns=(replace(COLUMNS[0], source_type="smallint"), *COLUMNS[1:]))
    with pytest.raises(SchemaConflict, match=r"t\.i16 is now smallint, was tinyint"):
        require_schema(TABLE, schema_of(other))
    schema = schema_of(TABLE)
    other_type = schema.set(0, schema.field(0).with_type(pa.int64()))
    with pytest.raises(SchemaConflict, match=r"t\.i16 is int64 in Arrow, should be int16"):
        require_schema(TABLE, other_type)


@given(tables_and_rows())
def test_rows_come_out_as_they_went_in(drawn: tuple[Table, list[tuple[Any, ...]]]) -> None:
    table, rows = drawn
    batch = batch_of(table, rows)
    batch.validate(full=True)
    assert batch.schema.equals(schema_of(table), check_metadata=True)
    back = rows_of(table, batch)
    assert [_texts(table, row) for row in back] == [_texts(table, row) for row in rows]


def _texts(table: Table, row: tuple[Any, ...]) -> list[str | None]:
    return [canonical_text(column, value) for column, value in zip(table.columns, row, strict=True)]


@pytest.mark.parametrize("column", [column for column in COLUMNS if column.kind in EDGES], ids=lambda c: c.name)
def test_edge_values_come_out_as_they_went_in(column: Column) -> None:
    edges = EDGES[column.kind]
    back = values_of(column, array_of(column, edges))
    assert [canonical_text(column, v) for v in back] == [canonical_text(column, v) for v in edges]


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: column.name)
def test_a_special_value_shares_its_place_with_no_other(column: Column) -> None:
    special = {
        Kind.DATE: [math.inf, -math.inf],
        Kind.DATETIME: [math.inf, -math.inf, 2**63 - 1, 9_224_318_015_999_999_999],
        Kind.INSTANT: [math.inf, -math.inf, 2**63 - 1, 9_224_318_015_999_999_999],
        Kind.INTERVAL: [math.inf, -math.inf],
        Kind.FLOAT: [math.nan, math.inf],
        Kind.DOUBLE: [math.nan, math.inf],
    }.get(column.kind, [])
    ordinary: list[Any] = {
        Kind.DATE: [date.min, date.max, -2_440_588, 2_145_031_948],
        Kind.DATETIME: [datetime.min, datetime.max, 2**63 - 2, -210_866_803_200_000_000],  # noqa: DTZ901
        Kind.INSTANT: [datetime.max.replace(tzinfo=UTC), 2**63 - 2, -210_866_803_200_000_000],
        Kind.INTERVAL: [(2**31 - 1, 2**31 - 1, 0), (0, -(2**31), -(2**63))],
    }.get(column.kind, [])
    if column.name in ("n12", "n38", "n76", "n3", "free"):
        special, ordinary = [Decimal("NaN")], [Decimal(9) / 10**column.scale, Decimal(0)]
    array = array_of(column, [*special, *ordinary, None])
    assert special_mask(column, array).to_pylist() == [True] * len(special) + [False] * (len(ordinary) + 1)
    assert pc.count_distinct(_numbers(array)).as_py() == len(special) + len(ordinary)


def _numbers(array: pa.Array) -> pa.Array:
    if pa.types.is_struct(array.type):
        return pc.binary_join_element_wise(*(field.cast(pa.string()) for field in array.flatten()), " ")
    return (
        array.view({pa.date32(): pa.int32()}.get(array.type, pa.int64())) if pa.types.is_temporal(array.type) else array
    )


REFUSED: dict[str, list[Any]] = {
    "i16": [2**15, 1.5, "x"],
    "u64": [-1, 2**64],
    "d4": [Decimal(10_000), Decimal("0.5"), Decimal("NaN"), "~"],
    "n12": [Decimal("10000000000.00"), Decimal("0.001"), Decimal("Infinity")],
    "n76": [Decimal("0.0001")],
    "n3": [Decimal("0.01"), Decimal("0.000001"), Decimal("Infinity")],
    "free": ["x"],
    "b99": [1.5],
    "real4": [1e39],
    "truth": [2],
    "name": [b"x", "\ud800"],
    "raw": ["x"],
    "day": ["0000-00-00", "2026-02-31", datetime(2026, 1, 1, tzinfo=UTC), math.nan, 2**31 - 1],
    "at": ["0000-00-00 00:00:00", datetime(2026, 1, 1, tzinfo=UTC), math.nan, 9_224_318_016_000_000_000, -(2**63)],
    "moment": ["0000-00-00 00:00:00", date(2026, 1, 1)],
    "span": ["25:00"],
    "between": ["1 day", (2**31, 0, 0), (2**31 - 1, 2**31 - 1, 2**63 - 1)],
    "y": [2**15],
    "doc": [{"a": 1}],
    "ident": ["x"],
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_value_that_the_declared_type_does_not_have_is_refused_by_name(name: str) -> None:
    for value in REFUSED[name]:
        with pytest.raises(SchemaConflict, match=f"column {name} "):
            array_of(TABLE.column(name), [value])


def test_an_error_shows_the_beginning_of_a_long_value() -> None:
    with pytest.raises(SchemaConflict) as caught:
        array_of(TABLE.column("name"), [b"x" * 10_000])
    assert len(str(caught.value)) < 300


def test_null_in_a_column_that_takes_none_is_refused() -> None:
    table = Table("t", (replace(COLUMNS[0], nullable=False),))
    with pytest.raises(SchemaConflict, match="is NOT NULL and holds NULL"):
        batch_of(table, [(None,)])


@given(st.data())
def test_a_part_of_a_column_is_read_as_the_whole(data: st.DataObject) -> None:
    column = data.draw(st.sampled_from(COLUMNS))
    values = data.draw(st.lists(st.none() | VALUES[column], min_size=2, max_size=5))
    part = values_of(column, array_of(column, values).slice(1))
    assert [canonical_text(column, v) for v in part] == [canonical_text(column, v) for v in values[1:]]
