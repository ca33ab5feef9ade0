"""Values as Debezium's PostgreSQL connector 3.7.0.Final writes them with the settings of a Seamline capture, each
beside the value that it stands for, as `values.build` takes it."""

import base64
import math
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from seamline.domain.catalogue import Column, Kind

_INFINITY = math.inf
# Microseconds since 1970 of the server's last moment, and how the log writes it.
_LAST, _LAST_WIRE = 9_224_318_015_999_999_999, -5 * 10**18 + 9_224_318_015_999_999_999 - (2**63 - 2)


def _column(name: str, kind: Kind, source_type: str, *, length: int = 0, precision: int = 0, scale: int = 0) -> Column:
    return Column(name, kind, source_type, length=length, precision=precision, scale=scale)


def _native(name: str, native: str, *, kind: Kind = Kind.NATIVE, length: int = 0) -> Column:
    return Column(name, kind, native, length=length, native=native)


def _same(*values: Any) -> list[tuple[Any, Any]]:
    return [(value, value) for value in values]


def _numbers(*texts: str) -> list[tuple[str, Decimal]]:
    return [(text, Decimal(text)) for text in texts]


def _bytes(*values: bytes) -> list[tuple[str, bytes]]:
    return [(base64.b64encode(value).decode(), value) for value in values]


_NAN = ("NAN", Decimal("NaN"))
_NOT_FINITE = (_NAN, ("POSITIVE_INFINITY", Decimal("Infinity")), ("NEGATIVE_INFINITY", Decimal("-Infinity")))
_WORDS = [("NaN", math.nan), ("Infinity", _INFINITY), ("-Infinity", -_INFINITY)]
_TEXTS = ("", "a", " lead", "tail  ", "ü€😀", "tab\tnew\nline\\back'quote\"", "NULL", '":null', '"NaN"', "nul\0")
_UUID = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
WIRE: dict[Column, Sequence[tuple[Any, Any]]] = {
    _column("small", Kind.INTEGER, "smallint", length=16): _same(0, -(2**15), 2**15 - 1),
    _column("whole", Kind.INTEGER, "integer", length=32): _same(0, -(2**31), 2**31 - 1),
    _column("big", Kind.INTEGER, "bigint", length=64): _same(0, -(2**63), 2**63 - 1),
    _column("money2", Kind.DECIMAL, "numeric(12,2)", precision=12, scale=2): [
        *_numbers("0.00", "-0.01", "9999999999.99", "1.50", "1E+1"),
        _NAN,
    ],
    _column("wide", Kind.DECIMAL, "numeric(60,30)", precision=60, scale=30): [
        *_numbers("0E-30", "123456789012345678901234567890.123456789012345678901234567890", "-1E-30"),
        _NAN,
    ],
    _column("below", Kind.DECIMAL, "numeric(3,5)", precision=3, scale=5): [*_numbers("0.00999", "-0.00001"), _NAN],
    _column("huge", Kind.DECIMAL, "numeric(80,2)", precision=80, scale=2): [*_numbers("9" * 78 + ".99", "0.00"), _NAN],
    _column("free", Kind.DECIMAL, "numeric"): [
        *_numbers("0", "0.00", "1.10", "1E-20", "1E+40", "-123456789.987654321", "0E-7", "-0.000", "100", "-7"),
        *_NOT_FINITE,
    ],
    _column("real4", Kind.FLOAT, "real"): [
        *_same(0.0, -0.0, 16_777_216.0, 1e22, 3.4028235e38, 1e-45),
        # The next of 32 bits; by way of 64 bits it would be its neighbour.
        (7.038531e-26, 7.038530691851209e-26),
        *_WORDS,
    ],
    _column("real8", Kind.DOUBLE, "double precision"): [
        *_same(0.1, 5e-324, 1.7976931348623157e308, -0.0, 0, 1e22, 1e23, -1e-5, 2.225073858507201e-308, 2**53),
        *_WORDS,
    ],
    _column("truth", Kind.BOOLEAN, "boolean"): _same(True, False),  # noqa: FBT003 (values)
    _column("memo", Kind.STRING, "text"): _same(*_TEXTS),
    _column("code", Kind.CHAR, "char(5)", length=5): [
        ("ab   ", "ab"),
        ("     ", ""),
        (" x   ", " x"),
        ("abcde", "abcde"),
    ],
    _column("raw", Kind.BYTES, "bytea"): _bytes(b"", b"\0", b"\0\xff\x10", bytes(range(256))),
    _column("day", Kind.DATE, "date"): [
        (0, date(1970, 1, 1)),
        (-719_162, date(1, 1, 1)),
        (2_932_896, date(9999, 12, 31)),
        (2146033979, _INFINITY),
        (-2147472691, -_INFINITY),
        *_same(-2_440_550, 2_145_042_905),
    ],
    _column("at3", Kind.DATETIME, "timestamp(3)", precision=3): [
        (1_795_000_000_123, datetime(2026, 11, 18, 11, 6, 40, 123_000)),  # noqa: DTZ001
        (-1, datetime(1969, 12, 31, 23, 59, 59, 999_000)),  # noqa: DTZ001
        (9_224_318_015_999_999, _LAST - 999),
        (9_223_372_036_854_775, (2**63 - 1) // 1000 * 1000),
        (9_223_372_036_854_776, (2**63 - 1) // 1000 * 1000 + 1000),
        (9223372036825200000, _INFINITY),
        (-9223372036832400000, -_INFINITY),
    ],
    _column("at6", Kind.DATETIME, "timestamp", precision=6): [
        (1_795_000_000_123_456, datetime(2026, 11, 18, 11, 6, 40, 123_456)),  # noqa: DTZ001
        *_same(-210_866_803_200_000_000, -1, 2**63 - 2),
        (-5 * 10**18 + 1, 2**63 - 1),
        (_LAST_WIRE, _LAST),
        (2**63 - 1, _INFINITY),
        (-(2**63), -_INFINITY),
    ],
    _column("moment", Kind.INSTANT, "timestamptz", precision=6): [
        ("2026-11-18T11:06:40.123456Z", 1_795_000_000_123_456),
        ("1969-12-31T23:59:59.999999Z", -1),
        ("0001-01-01T00:00:00Z", -62_135_596_800_000_000),
        ("9999-12-31T23:59:59.999999Z", 253_402_300_799_999_999),
        ("0000-12-31T23:59:59Z", -62_135_596_801_000_000),
        ("-0043-03-15T10:00:00Z", -63_517_788_000_000_000),
        ("-4712-01-01T00:00:00Z", -210_863_520_000_000_000),
        ("+12026-01-01T00:00:00Z", 317_336_745_600_000_000),
        ("+294276-12-31T23:59:59.999999Z", _LAST),
        ("infinity", _INFINITY),
        ("-infinity", -_INFINITY),
    ],
    _column("clock", Kind.TIME_OF_DAY, "time", precision=6): [
        (0, timedelta(0)),
        (86_399_999_999, timedelta(hours=24) - timedelta(microseconds=1)),
        (86_400_000_000, timedelta(hours=24)),
    ],
    _column("clock0", Kind.TIME_OF_DAY, "time(0)"): [
        (86_399_000, timedelta(hours=24) - timedelta(seconds=1)),
        (86_400_000, timedelta(hours=24)),
    ],
    _column("span", Kind.INTERVAL, "interval"): [
        ("PT0S", (0, 0, 0)),
        ("P1Y2M3DT4H5M6.789S", (14, 3, 14_706_789_000)),
        ("P-1Y-2M3DT-4H-5M-6.000001S", (-14, 3, -14_706_000_001)),
        ("PT-0.5S", (0, 0, -500_000)),
        ("PT2562047788H54.775807S", (0, 0, 2**63 - 1)),
        ("P178000000Y11M", (178_000_000 * 12 + 11, 0, 0)),
        ("P-30D", (0, -30, 0)),
        ("infinity", _INFINITY),
        ("-infinity", -_INFINITY),
    ],
    _column("id128", Kind.UUID, "uuid"): [(_UUID, UUID(_UUID)), ("0" * 8 + "-0000" * 3 + "-" + "0" * 12, UUID(int=0))],
    _column("doc", Kind.JSON, "json"): _same('{"b": 1.10, "a": [1,  2]}', "null"),
    _column("docb", Kind.JSONB, "jsonb"): _same('{"b": 1.10, "n": 1234567890123456789.123}', "null"),
    _column("mood", Kind.ENUM, "mood"): _same("sad, or so", "back\\slash"),
}
# Of types that only PostgreSQL has, or its extensions.
NATIVE_WIRE: dict[Column, Sequence[tuple[Any, Any]]] = {
    _native("host", "inet"): _same("10.0.0.1", "10.0.0.1/8", "::1/64"),
    _native("bit1", "bit(1)", length=1): [(False, "0"), (True, "1")],
    _native("bits8", "bit(8)", length=8): [("", "0" * 8), ("gQ==", "10000001"), ("Ag==", "00000010")],
    _native("bits21", "bit(21)", length=21): [("AAAQ", "1" + "0" * 20), ("AQ==", "0" * 20 + "1")],
    _native("days", "daterange"): _same("empty", "[2024-02-29,2024-03-01)"),
    _native("spans", "int4multirange"): [("e1sxLDUpLFs3LDkpfQ==", "{[1,5),[7,9)}")],
    _native("home", "composite", kind=Kind.STRING): [("KCJhICIiYiIiIiwsw7wp", '("a ""b""",,ü)')],
    _native("name", "citext", kind=Kind.STRING): _same("Ada", ""),
    _native("pairs", "hstore", kind=Kind.JSONB): [
        ('{"aaa":"1.10","b":null,"ü":"\\"\\n"}', '{"b": null, "ü": "\\"\\n", "aaa": "1.10"}'),
        ("{}", "{}"),
    ],
}
# What stands for no value of its column.
NO_VALUES: list[tuple[Column, Any]] = [
    (column, wire)
    for column in WIRE
    for wire in {
        "whole": [2**31],
        "money2": ["12345678901.00", "POSITIVE_INFINITY", "x", ""],
        # The first is what Debezium's own converter shows for 294276-12-31: a number that has run over.
        "at6": [
            *(-9223372036853775810, -(10**18), -9223372036853775810 + 2**64, -(2**63) + 1),
            *(-5 * 10**18 - 1, _LAST_WIRE + 1, -210_866_803_200_000_001),
        ],
        "at3": [9_224_318_016_000_000, 9223372036825200001],
        "day": [2_145_042_906, -2_440_589],
        "moment": ["2026-02-30T00:00:00Z", "soon", ""],
        "clock": [86_400_000_001, -1],
        "span": ["P1X", "", "1 day ago or so"],
        "id128": ["a0eebc99", ""],
        "raw": ["a"],
        "real4": [3.5e38],
    }.get(column.name, [])
]
