"""A column of every kind in the forms that matter, and values for each: special ones, and any that it may hold."""

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from hypothesis import strategies as st

from seamline.domain.catalogue import Column, Kind, Table

_LAST = 9_224_318_015_999_999_999
_YEARS_BC_4713 = -210_866_803_200_000_000
# Texts made of what a row text itself uses: separators, digits, colons, the NULL mark.
_TEXTS = st.one_of(st.text(alphabet="~,:0123 ab€", max_size=6), st.text(max_size=12))
_FAR_DAYS = st.integers(-2_440_588, 2_145_031_948)
_INFINITE = st.sampled_from([math.inf, -math.inf])
_FAR = st.integers(_YEARS_BC_4713, _LAST)
_LAST_PLAIN = st.integers(2**63 - 5, 2**63 + 5)


def _decimals(digits: int, scale: int) -> st.SearchStrategy[Decimal]:
    whole = st.integers(-(10**digits) + 1, 10**digits - 1)
    return whole.map(lambda number: Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale)))


def _column(name: str, kind: Kind, source_type: str, *, length: int = 0, precision: int = 0, scale: int = 0) -> Column:
    return Column(name, kind, source_type, length=length, precision=precision, scale=scale)


_NAN = st.just(Decimal("NaN"))
_FREE = st.decimals(allow_nan=False, allow_infinity=False).filter(lambda number: abs(number.adjusted()) < 400)
_NOT_FINITE = st.sampled_from([Decimal("NaN"), Decimal("Infinity"), Decimal("-Infinity")])
VALUES: dict[Column, st.SearchStrategy[Any]] = {
    _column("i16", Kind.INTEGER, "tinyint(4)", length=8): st.integers(-128, 127),
    _column("i32", Kind.INTEGER, "integer", length=32): st.integers(-(2**31), 2**31 - 1),
    _column("i64", Kind.INTEGER, "bigint", length=64): st.integers(-(2**63), 2**63 - 1),
    _column("u64", Kind.UNSIGNED, "bigint(20) unsigned", length=64): st.integers(0, 2**64 - 1),
    _column("d4", Kind.DECIMAL, "decimal(4,0)", precision=4): _decimals(4, 0),
    _column("d18", Kind.DECIMAL, "decimal(18,10)", precision=18, scale=10): _decimals(18, 10),
    _column("d65", Kind.DECIMAL, "decimal(65,30)", precision=65, scale=30): _decimals(65, 30),
    _column("n12", Kind.DECIMAL, "numeric(12,2)", precision=12, scale=2): _decimals(12, 2) | _NAN,
    _column("n38", Kind.DECIMAL, "numeric(38,38)", precision=38, scale=38): _decimals(38, 38) | _NAN,
    _column("n76", Kind.DECIMAL, "numeric(76,3)", precision=76, scale=3): _decimals(76, 3) | _NAN,
    _column("n3", Kind.DECIMAL, "numeric(3,5)", precision=3, scale=5): _decimals(3, 5) | _NAN,
    _column("free", Kind.DECIMAL, "numeric"): _FREE | _NOT_FINITE,
    _column("real4", Kind.FLOAT, "real"): st.floats(width=32),
    _column("real8", Kind.DOUBLE, "double precision"): st.floats() | st.floats(1e-5, 1e16),
    _column("f32", Kind.FLOAT, "float"): st.floats(width=32),
    _column("f64", Kind.DOUBLE, "double(10,2)"): st.floats(),
    _column("truth", Kind.BOOLEAN, "boolean"): st.booleans(),
    _column("b9", Kind.BITS, "bit(9)", length=9): st.integers(0, 2**9 - 1),
    _column("b64", Kind.BITS, "bit(64)", length=64): st.integers(0, 2**64 - 1),
    _column("b99", Kind.BITS, "bit(99)", length=99): st.integers(0, 2**99 - 1),
    _column("char5", Kind.CHAR, "char(5)", length=5): _TEXTS,
    _column("name", Kind.STRING, "varchar(40)", length=40): _TEXTS,
    _column("fixed", Kind.BINARY, "binary(4)", length=4): st.binary(min_size=4, max_size=4),
    _column("raw", Kind.BYTES, "bytea"): st.binary(max_size=8),
    _column("day", Kind.DATE, "date"): st.dates() | _FAR_DAYS | _INFINITE,
    _column("at", Kind.DATETIME, "timestamp(6)", precision=6): st.datetimes() | _FAR | _LAST_PLAIN | _INFINITE,
    _column("moment", Kind.INSTANT, "timestamptz", precision=6): st.one_of(
        st.datetimes(timezones=st.just(UTC)), _FAR, _LAST_PLAIN, _INFINITE
    ),
    _column("span", Kind.TIME, "time(6)", precision=6): st.timedeltas(timedelta(hours=-839), timedelta(hours=839)),
    _column("clock", Kind.TIME_OF_DAY, "time", precision=6): st.timedeltas(timedelta(0), timedelta(hours=24)),
    _column("between", Kind.INTERVAL, "interval"): st.one_of(
        st.tuples(
            st.integers(-(2**31) + 1, 2**31 - 2),
            st.integers(-(2**31), 2**31 - 1),
            st.integers(-(2**63), 2**63 - 1),
        ),
        _INFINITE,
    ),
    _column("y", Kind.YEAR, "year(4)"): st.integers(1901, 2155) | st.just(0),
    _column("mood", Kind.ENUM, "enum('ok','b,c')"): _TEXTS,
    _column("tags", Kind.SET, "set('x','y')"): _TEXTS,
    _column("doc", Kind.JSON, "json"): _TEXTS,
    _column("docb", Kind.JSONB, "jsonb"): _TEXTS,
    Column("net", Kind.NATIVE, "inet", native="inet"): _TEXTS,
    _column("ident", Kind.UUID, "uuid"): st.uuids(),
}
# Examples that no chance finds.
EDGES: dict[Kind, list[Any]] = {
    Kind.DATE: [date(1, 1, 1), date(9999, 12, 31), -719_163, 2_932_897, math.inf, -math.inf],
    Kind.DATETIME: [datetime.min, datetime.max, 2**63 - 2, 2**63 - 1, 2**63, _LAST, _YEARS_BC_4713, math.inf],  # noqa: DTZ901
    Kind.INSTANT: [datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), 2**63 - 1, _LAST, -math.inf],
    Kind.TIME_OF_DAY: [timedelta(hours=24)],
    Kind.FLOAT: [2.0**-149, 7.038531e-26, 16_777_216.0, 2.0**33, 3.4028234663852886e38],
    Kind.DOUBLE: [5e-324, 1e22, 1e23, 1e15, 999_999_999_999_999.9, 1e10, 1e-4, 9.999e-5, 2.0**49 + 0.75, 2.0**-44],
    Kind.INTERVAL: [(2**31 - 1, 0, 2**63 - 1), math.inf, -math.inf],
    Kind.UUID: [UUID(int=0), UUID(int=2**128 - 1)],
}
COLUMNS = tuple(VALUES)


@st.composite
def tables_and_rows(draw: st.DrawFn, *, keys: int = 0) -> tuple[Table, list[tuple[Any, ...]]]:
    """A table of a few of the columns, the first of them its key, and rows for it."""
    columns = draw(st.lists(st.sampled_from(COLUMNS), min_size=max(keys, 1), max_size=5, unique=True))
    key = tuple(column.name for column in columns[:keys])
    values = [VALUES[column] if column.name in key else st.none() | VALUES[column] for column in columns]
    return Table("t", tuple(columns), key), draw(st.lists(st.tuples(*values), max_size=6))
