"""Rows of a COPY in CSV are cut where a row ends, wherever its blocks end, and NULL stays apart from the empty text."""

import math
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamline.databases.postgres import typed_rows
from seamline.databases.postgres.typed_rows import typed_batches
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.errors import SchemaConflict
from seamline.values.build import rows_of

TEXT = Column("memo", Kind.STRING, "text")
TABLE = Table("t", (Column("id", Kind.INTEGER, "bigint", length=64), TEXT))
TEXTS = st.none() | st.text(alphabet='",\n\r\\a\u20ac', max_size=8)


def _csv(*values: object) -> bytes:
    return ",".join("" if one is None else '"' + str(one).replace('"', '""') + '"' for one in values).encode() + b"\n"


def _in_blocks(document: bytes, size: int) -> Iterator[bytes]:
    return (document[start : start + size] for start in range(0, len(document), size))


@given(st.lists(st.tuples(st.none() | st.integers(-(2**63), 2**63 - 1), TEXTS), max_size=8), st.integers(1, 40))
def test_rows_come_whole_out_of_blocks_of_any_size(rows: list[tuple[int | None, str | None]], size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typed_rows, "_PART_BYTES", 10)
        batches = list(typed_batches(TABLE, _in_blocks(b"".join(_csv(*row) for row in rows), size)))
    assert [row for batch in batches for row in rows_of(TABLE, batch)] == rows


def test_null_in_a_table_of_one_column_is_a_row() -> None:
    table = Table("t", (TEXT,))
    (batch,) = typed_batches(table, iter([_csv(None) + _csv("") + _csv(None)]))
    assert batch.column(0).to_pylist() == [None, "", None]


def test_many_rows_come_in_several_batches() -> None:
    document = b"".join(_csv(number, "x" * 1000) for number in range(10_000))
    batches = list(typed_batches(TABLE, _in_blocks(document, 256 << 10)))
    assert len(batches) > 1
    assert sum(batch.num_rows for batch in batches) == 10_000


DAYS_TO_2000 = 10_957
MICROSECONDS_TO_2000 = DAYS_TO_2000 * 86_400_000_000


@pytest.mark.parametrize(
    ("column", "width", "shift", "values"),
    [
        (Column("v", Kind.DATE, "date"), 4, DAYS_TO_2000, [-2_440_588, 2_145_042_905]),
        (
            Column("v", Kind.DATETIME, "timestamp", precision=6),
            8,
            MICROSECONDS_TO_2000,
            [-210_866_803_200_000_000, 2**63 - 2, 2**63 - 1, 2**63, 9_224_318_015_999_999_999],
        ),
    ],
    ids=["days", "moments"],
)
def test_infinite_and_far_values_are_read_from_the_servers_own_form(
    column: Column, width: int, shift: int, values: list[int]
) -> None:
    table = Table("t", (column,))
    ends = [2 ** (8 * width - 1) - 1, -(2 ** (8 * width - 1))]
    sent = [one.to_bytes(width, "big", signed=True).hex() for one in (*ends, *(value - shift for value in values))]
    (batch,) = typed_batches(table, iter([b"".join(map(_csv, sent)) + _csv(None)]))
    assert [value for (value,) in rows_of(table, batch)] == [math.inf, -math.inf, *values, None]


@pytest.mark.parametrize(
    ("kind", "exact"),
    [(Kind.DOUBLE, [0.1, 5e-324, 1.7976931348623157e308]), (Kind.FLOAT, [0.10000000149011612, 3.4028234663852886e38])],
)
def test_floats_are_read_from_their_shortest_exact_digits(kind: Kind, exact: list[float]) -> None:
    column = Column("v", kind, kind)
    shortest = {Kind.DOUBLE: ["0.1", "5e-324", "1.7976931348623157e+308"], Kind.FLOAT: ["0.1", "3.4028235e+38"]}[kind]
    rows = [*shortest, "Infinity", "-Infinity", "-0", "NaN", None]
    (batch,) = typed_batches(Table("t", (column,)), iter([b"".join(map(_csv, rows))]))
    *found, nan, null = batch.column(0).to_pylist()
    assert found == [*exact, math.inf, -math.inf, 0.0]
    assert (math.copysign(1, found[-1]), math.isnan(nan), null) == (-1, True, None)


def test_a_value_that_does_not_fit_is_refused_by_name() -> None:
    table = Table("t", (Column("price", Kind.DECIMAL, "numeric(4,2)", precision=4, scale=2),))
    with pytest.raises(SchemaConflict, match=r"a value of t\.price does not fit numeric\(4,2\)"):
        list(typed_batches(table, iter([_csv("123.45")])))
