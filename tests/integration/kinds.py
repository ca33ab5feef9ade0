"""One column per kind with its edge values, said three times: for MariaDB, for PostgreSQL and in Python."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from seamline.domain.catalogue import Column, Kind, Table

# What writes any of these values: no strict session takes an ENUM's error value.
LENIENT = "SET STATEMENT sql_mode='' FOR"


@dataclass(frozen=True, slots=True)
class Edge:
    """One value; `postgres` is left out where the MariaDB literal reads the same there."""

    mariadb: str
    value: Any
    postgres: str = ""


@dataclass(frozen=True, slots=True)
class KindCase:
    column: Column
    mariadb_type: str
    edges: Sequence[Edge]

    @property
    def table(self) -> Table:
        """A table of this case alone: a row number as key, and the column `v`."""
        key = Column("id", Kind.INTEGER, "int(11)", nullable=False, length=32)
        return Table(f"kind_{self.column.name}", (key, self.column), ("id",))


def _hex(data: bytes) -> Edge:
    return Edge(f"x'{data.hex()}'" if data else "''", data, f"'\\x{data.hex()}'")


def _text(text: str) -> Edge:
    encoded = text.encode().hex()
    return Edge(f"_utf8mb4 x'{encoded}'" if text else "''", text, f"convert_from('\\x{encoded}','UTF8')")


def _plain(literal: str, value: Any) -> Edge:
    return Edge(f"'{literal}'", value)


_TEXTS = ("", "a", "A", " lead", "tail ", "ü€😀", "comma, 5:colon ~", "tab\tnew\nline\\back'quote\"", "%s %% ?", "NULL")
_MOMENTS = (
    _plain("1970-01-01 00:00:00.000000", datetime(1970, 1, 1)),  # noqa: DTZ001
    _plain("2026-11-20 10:20:30.123456", datetime(2026, 11, 20, 10, 20, 30, 123456)),  # noqa: DTZ001
    _plain("1969-12-31 23:59:59.999999", datetime(1969, 12, 31, 23, 59, 59, 999999)),  # noqa: DTZ001
    _plain("1000-01-01 00:00:00.000001", datetime(1000, 1, 1, 0, 0, 0, 1)),  # noqa: DTZ001
    _plain("9999-12-31 23:59:59.999999", datetime(9999, 12, 31, 23, 59, 59, 999999)),  # noqa: DTZ001
)
_INSTANTS = (
    _plain("1970-01-01 00:00:01.000000", datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
    _plain("2026-10-25 00:30:00.000001", datetime(2026, 10, 25, 0, 30, 0, 1, tzinfo=UTC)),
    _plain("2038-01-19 03:14:07.999999", datetime(2038, 1, 19, 3, 14, 7, 999999, tzinfo=UTC)),
)


def _case(
    name: str,
    kind: Kind,
    mariadb_type: str,
    edges: Sequence[Edge],
    *,
    length: int = 0,
    precision: int = 0,
    scale: int = 0,
) -> KindCase:
    column = Column(name, kind, mariadb_type, length=length, precision=precision, scale=scale)
    return KindCase(column, mariadb_type, edges)


def _numbers(*texts: str) -> list[Edge]:
    return [Edge(text, int(text)) for text in texts]


_UUID = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
_DAYS = ("0001-01-01", "1000-01-01", "1582-10-10", "1969-12-31", "2024-02-29", "9999-12-31")
_DOCUMENTS = ('{"b":1, "a":1.10,"a":2}', "null", '"s"', "[1,18446744073709551615,1e400]", '{"n":"ü,"}')
_DECIMALS = ("0", "-0.0", "-0.5", "0.1000000000", "12345678.9000000001", "-99999999.9999999999")
_WIDE = ("0", "12345678901234567890123456789012345.123456789012345678901234567890", "-0.000000000000000000000000000001")

CASES: tuple[KindCase, ...] = (
    _case("i8", Kind.INTEGER, "tinyint", _numbers("-128", "0", "127"), length=8),
    _case("u8", Kind.INTEGER, "tinyint unsigned", _numbers("0", "255"), length=16),
    _case("truth", Kind.INTEGER, "tinyint(1)", _numbers("-128", "0", "1", "127"), length=8),
    _case("i32", Kind.INTEGER, "int", _numbers("-2147483648", "-1", "0", "2147483647"), length=32),
    _case("z32", Kind.INTEGER, "int(8) unsigned zerofill", _numbers("0", "42", "4294967295"), length=64),
    _case("i64", Kind.INTEGER, "bigint", _numbers("-9223372036854775808", "0", "9223372036854775807"), length=64),
    _case("u64", Kind.UNSIGNED, "bigint unsigned", _numbers("0", "9223372036854775808", "18446744073709551615")),
    _case("flag", Kind.BOOLEAN, "bit(1)", [Edge("b'0'", 0, "false"), Edge("b'1'", 1, "true")]),
    _case("bits9", Kind.BITS, "bit(9)", [Edge("b'0'", 0, "0"), Edge("b'100000001'", 257, "257")], length=9),
    _case("bits64", Kind.BITS, "bit(64)", [Edge("~0", 2**64 - 1, str(2**64 - 1)), Edge("1", 1)], length=64),
    _case("dec", Kind.DECIMAL, "decimal(18,10)", [Edge(t, Decimal(t)) for t in _DECIMALS], precision=18, scale=10),
    _case(
        "money",
        Kind.DECIMAL,
        "decimal(20,4)",
        [Edge(t, Decimal(t)) for t in ("0", "-0.0001", "9999999999999999.9999")],
        precision=20,
        scale=4,
    ),
    _case("wide", Kind.DECIMAL, "decimal(65,30)", [Edge(t, Decimal(t)) for t in _WIDE], precision=65, scale=30),
    _case(
        "whole",
        Kind.DECIMAL,
        "decimal(20,0) zerofill",
        [Edge(t, Decimal(t)) for t in ("0", "7", "99999999999999999999")],
        precision=20,
    ),
    _case(
        "char5",
        Kind.CHAR,
        "char(5)",
        [Edge("'ab  '", "ab", "'ab'"), Edge("''", ""), Edge("' b'", " b"), _text("ü€😀")],
        length=5,
    ),
    _case("name", Kind.STRING, "varchar(60)", [_text(text) for text in _TEXTS], length=60),
    _case("latin", Kind.STRING, "varchar(20) character set latin1", [_text("é€ß"), _text("")], length=20),
    _case("memo", Kind.STRING, "longtext", [*map(_text, _TEXTS), _text("x" * 70_000)]),
    _case("fixed", Kind.BINARY, "binary(4)", [_hex(b"ab\0\0"), _hex(b"\0\xff\0\0"), _hex(b"abcd")], length=4),
    _case(
        "bytes",
        Kind.BYTES,
        "varbinary(300)",
        [_hex(b""), _hex(b"\0"), _hex(bytes(range(256))), _hex(b"end\0")],
        length=300,
    ),
    _case("blob", Kind.BYTES, "longblob", [_hex(b""), _hex(b"\0\xff" * 40_000)]),
    _case("day", Kind.DATE, "date", [_plain(d, date.fromisoformat(d)) for d in _DAYS]),
    _case("dt0", Kind.DATETIME, "datetime", [_plain("2026-11-20 10:20:30", datetime(2026, 11, 20, 10, 20, 30))]),  # noqa: DTZ001
    _case(
        "dt3",
        Kind.DATETIME,
        "datetime(3)",
        [_plain("1812-06-24 10:20:30.123", datetime.fromisoformat("1812-06-24 10:20:30.123"))],
        precision=3,
    ),
    _case(
        "dt4",
        Kind.DATETIME,
        "datetime(4)",
        [_plain(t, datetime.fromisoformat(t)) for t in ("1969-12-31 23:59:59.9999", "2026-01-02 03:04:05.6789")],
        precision=4,
    ),
    _case("dt6", Kind.DATETIME, "datetime(6)", _MOMENTS, precision=6),
    _case("ts6", Kind.INSTANT, "timestamp(6) null", _INSTANTS, precision=6),
    _case(
        "ts3",
        Kind.INSTANT,
        "timestamp(3) null",
        [
            _plain("2026-03-29 01:00:00.000", datetime(2026, 3, 29, 1, tzinfo=UTC)),
            _plain("2038-01-19 03:14:07.999", datetime(2038, 1, 19, 3, 14, 7, 999_000, tzinfo=UTC)),
        ],
        precision=3,
    ),
    _case("ts0", Kind.INSTANT, "timestamp null", [_plain("2026-03-29 01:00:00", datetime(2026, 3, 29, 1, tzinfo=UTC))]),
    _case(
        "time6",
        Kind.TIME,
        "time(6)",
        [
            _plain("838:59:59", timedelta(hours=838, minutes=59, seconds=59)),
            _plain("-838:59:59", -timedelta(hours=838, minutes=59, seconds=59)),
            _plain("-00:00:00.5", -timedelta(microseconds=500_000)),
            _plain("-100:10:10.000001", -timedelta(hours=100, minutes=10, seconds=10, microseconds=1)),
            _plain("24:00:00", timedelta(hours=24)),
            _plain("00:00:00", timedelta(0)),
            _plain("10:20:30.123456", timedelta(hours=10, minutes=20, seconds=30, microseconds=123456)),
        ],
        precision=6,
    ),
    _case(
        "time0",
        Kind.TIME,
        "time",
        [_plain("-00:00:01", -timedelta(seconds=1)), _plain("27:00:00", timedelta(hours=27))],
    ),
    _case("y", Kind.YEAR, "year", _numbers("0", "1901", "2155")),
    _case("mood", Kind.ENUM, "enum('ok','b,c','')", [_plain(t, t) for t in ("ok", "b,c", "")]),
    _case("state", Kind.ENUM, "enum('ok','b,c')", [_plain("b,c", "b,c"), Edge("0", "", "''")]),
    _case("tags", Kind.SET, "set('x','y','z')", [_plain(t, t) for t in ("", "x", "x,z", "x,y,z")]),
    _case("doc", Kind.JSON, "json", [_text(t) for t in _DOCUMENTS]),
    _case("ident", Kind.UUID, "uuid", [_plain(_UUID, _UUID.upper())]),
)


def _doubles(*texts: str) -> list[Edge]:
    return [Edge(text, float(text)) for text in texts]


def _singles(*texts: str) -> list[Edge]:
    """In as many bits as the column has."""
    return [Edge(text, struct.unpack("f", struct.pack("f", float(text)))[0]) for text in texts]


# A column of declared digits keeps no sign of zero.
_ZERO = Edge("-0e0", 0.0)
# They stand outside of every digest, and two servers write their exponents in two ways: apart from the others.
INEXACT_CASES: tuple[KindCase, ...] = (
    _case("f32", Kind.FLOAT, "float", _singles("0.1", "-0e0", "16777217", "-1e-30", "3.4028234e38")),
    _case("f73", Kind.FLOAT, "float(7,3)", [*_singles("1.1", "-0.001", "9999.999"), _ZERO]),
    _case(
        "f64",
        Kind.DOUBLE,
        "double",
        _doubles("0.1", "-0e0", "1.732224012649634e-300", "1.7976931348623157e308", "1e20"),
    ),
    _case("f102", Kind.DOUBLE, "double(10,2)", [*_doubles("2.55", "-99999999.99"), _ZERO]),
)
