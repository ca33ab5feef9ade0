"""Every type that a PostgreSQL source may have, with its edge values as literals of that server."""

import re
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TypeCase:
    """`name` is the column's; `toastable` values may be left out of the log."""

    name: str
    type: str
    edges: tuple[str, ...]


_TEXTS = (
    "''",
    "'a'",
    "'A'",
    "' lead'",
    "'tail '",
    "'ü€😀'",
    "E'tab\\tnew\\nline\\\\back''quote\"'",
    "'%s %% ?'",
    "'NULL'",
)
_MOMENTS = (
    "'1970-01-01 00:00:00'", "'2026-11-20 10:20:30.123456'", "'1969-12-31 23:59:59.999999'", "'0001-01-01 00:00:00'",
    "'9999-12-31 23:59:59.999999'", "'infinity'", "'-infinity'", "'0044-03-15 10:00:00 BC'", "'12026-01-01 00:00:00'",
    "'4713-01-01 00:00:00 BC'", "'0001-12-31 23:59:59 BC'",
)  # fmt: skip

_INFINITE = ("'infinity'", "'-infinity'")
# 64 bits hold no more microseconds since 1970 than up to the second of them; the server goes on to the last.
_FAR = (
    "'294247-01-10 04:00:54.775806'", "'294247-01-10 04:00:54.775807'", "'294247-01-10 04:00:54.775808'",
    "'294247-01-10 04:00:55'", "'294276-12-31 23:59:59.999999'",
)  # fmt: skip

CASES = (
    TypeCase("small", "smallint", ("0", "-32768", "32767")),
    TypeCase("whole", "integer", ("0", "-2147483648", "2147483647")),
    TypeCase("big", "bigint", ("0", "-9223372036854775808", "9223372036854775807")),
    TypeCase("money2", "numeric(12,2)", ("0", "-0.01", "9999999999.99", "'NaN'", "1.50")),
    TypeCase("exact", "numeric(38,18)", ("0", "12345678901234567890.123456789012345678", "-0.000000000000000001")),
    TypeCase("wide", "numeric(60,30)", ("0", "123456789012345678901234567890.123456789012345678901234567890")),
    TypeCase(
        "free", "numeric",
        ("0", "0.00", "1.10", "1e-20", "1e40", "'NaN'", "'Infinity'", "'-Infinity'", "-123456789.987654321"),
    ),
    TypeCase(
        "real4", "real",
        ("0", "0.1", "16777217", "-1e-30", "'NaN'", "'Infinity'", "'-Infinity'", "'-0'", "1e22", "1e23", "1e-45",
         "1.1754942e-38", "-3.4028235e38", "0.3333333", "7.038531e-26"),
    ),
    TypeCase(
        "real8", "double precision",
        ("0.1", "5e-324", "1.7976931348623157e308", "'NaN'", "'Infinity'", "'-0'", "0", "'-Infinity'", "1e22", "1e23",
         "1e15", "-0.00001", "2.225073858507201e-308", "0.30000000000000004", "9007199254740993"),
    ),
    TypeCase("truth", "boolean", ("true", "false")),
    TypeCase("memo", "text", (*_TEXTS, "repeat('long ü', 5000)")),
    TypeCase("short", "varchar(40)", _TEXTS),
    TypeCase("free_short", "varchar", _TEXTS),
    TypeCase("code", "char(5)", ("''", "'ab'", "'abcde'", "' x'")),
    TypeCase("raw", "bytea", ("''", r"'\x00'", r"'\x00ff10'", r"decode(repeat('00ff', 4000), 'hex')")),
    TypeCase(
        "day", "date",
        ("'1970-01-01'", "'2026-11-20'", "'0001-01-01'", "'9999-12-31'", "'infinity'", "'-infinity'", "'0044-03-15 BC'",
         "'5874897-12-31'", "'4713-01-01 BC'"),
    ),
    TypeCase("at0", "timestamp(0)", ("'2026-11-20 10:20:30'", "'infinity'", "'-infinity'", "'0044-03-15 10:00:00 BC'")),
    TypeCase(
        "at3", "timestamp(3)",
        ("'2026-11-20 10:20:30.123'", "'1969-12-31 23:59:59.9'", "'294276-12-31 23:59:59.999'", *_INFINITE),
    ),
    TypeCase("at6", "timestamp", (*_MOMENTS, *_FAR)),
    TypeCase("at4", "timestamp(4)", ("'2026-11-20 10:20:30.1234'", "'294276-12-31 23:59:59.9999'", *_INFINITE)),
    TypeCase("booked", "booked", ("'2026-11-20 10:20:30.123456'", "'294276-12-31 23:59:59.999999'", *_INFINITE)),
    TypeCase("moment0", "timestamptz(0)", ("'2026-11-20 10:20:30+05:30'", "'infinity'")),
    TypeCase("moment3", "timestamptz(3)", ("'2026-11-20 10:20:30.123Z'", "'-infinity'", "'1969-12-31 23:59:59.999Z'")),
    TypeCase("moment6", "timestamptz", (*_MOMENTS, "'294276-12-31 23:59:59.999999Z'")),
    TypeCase("clock", "time", ("'00:00'", "'23:59:59.999999'", "'24:00'", "'10:20:30.000001'")),
    TypeCase("clock3", "time(3)", ("'00:00'", "'23:59:59.999'", "'24:00'")),
    TypeCase("clock0", "time(0)", ("'00:00'", "'23:59:59'", "'24:00'")),
    TypeCase(
        "span", "interval",
        ("'0'", "'1 year 2 mons 3 days 04:05:06.789'", "'-1 year -2 mons +3 days -04:05:06.000001'", "'1000000 hours'",
         "'-0.5 seconds'", "'30 days'", "'1 mon'", "'24:00:00'", "'2147483648 hours'", "'2562047788:00:54.775807'",
         "'-2562047788:00:54.775807'", "'178000000 years 11 mons'", *_INFINITE),
    ),
    TypeCase("grace", "grace", ("'1 day'", "'0'", "'-2147483649 hours'", *_INFINITE)),
    TypeCase("id128", "uuid", ("'00000000-0000-0000-0000-000000000000'", "'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'")),
    TypeCase("doc", "json", ("""'{"b": 1.10, "a": [1,  2], "b": null}'""", "'1'", "'\"ü\"'", "'null'")),
    TypeCase(
        "docb", "jsonb", ("""'{"b": 1.10, "a": [1, 2], "n": 1234567890123456789.123}'""", "'1'", "'\"ü\"'", "'null'")
    ),
    TypeCase("mood", "mood", ("'glad'", "'sad, or so'", r"'back\slash'")),
    TypeCase("amount", "amount", ("0", "1.50", "-99.99")),
    TypeCase(
        "host", "inet",
        ("'10.0.0.1'", "'10.0.0.1/8'", "'0.0.0.0/0'", "'::1/64'", "'2001:db8::ff00:42:8329'", "'::ffff:1.2.3.4'"),
    ),
    TypeCase("network", "cidr", ("'10.0.0.0/8'", "'192.168.1.1/32'", "'::/0'", "'2001:db8::/32'")),
    TypeCase("card", "macaddr", ("'08:00:2b:01:02:03'", "'FF-FF-FF-FF-FF-FF'")),
    TypeCase("card8", "macaddr8", ("'08:00:2b:01:02:03:04:05'", "'00:00:00:00:00:00:00:00'")),
    TypeCase("gateway", "gateway", ("'10.0.0.1'", "'fe80::1/10'")),
    TypeCase("words", "tsvector", ("''", "$$'a':1A 'fat':2B,4C 'it''s' 'back\\\\slash':5$$", "$$' blank ' 'ü€😀':3$$")),
    TypeCase("bit1", "bit", ("B'0'", "B'1'")),
    TypeCase("bits8", "bit(8)", ("B'00000000'", "B'10000001'", "B'00000010'", "B'11111111'", "B'01000000'")),
    TypeCase("bits21", "bit(21)", ("B'100000000000000000000'", "B'000000000000000000001'", "B'000000001111111100000'")),
    TypeCase("bits128", "bit(128)", ("'1'::bit(128)", "repeat('1', 128)::bit(128)", "0::bit(128)")),
    TypeCase("mask", "mask", ("B'000000000'", "B'100000010'")),
    TypeCase("r_int4", "int4range", ("'empty'", "'(,)'", "'[1,5)'", "'[-2147483648,2147483647)'", "'[7,7]'")),
    TypeCase("r_int8", "int8range", ("'empty'", "'[-9223372036854775808,9223372036854775807)'", "'(,5)'")),
    TypeCase("r_num", "numrange", ("'empty'", "'[1.10,2.00)'", "'(-1e-20,1e40]'", "'[-Infinity,NaN]'")),
    TypeCase("r_day", "daterange", ("'empty'", "'[-infinity,infinity]'", "'(,0044-03-15 BC]'")),
    TypeCase(
        "r_at", "tsrange",
        ("'empty'", "'[2026-11-20 10:20:30.123456,)'", """'("0044-03-15 10:00:00 BC",294276-12-31 23:59:59.999999]'""",
         "'[-infinity,infinity]'"),
    ),
    TypeCase(
        "r_moment", "tstzrange",
        ("'empty'", "'[2026-11-20 10:20:30.123456+05:30,)'", "'[-infinity,1800-01-01 00:00:00Z]'",
         """'("0044-03-15 10:00:00Z BC",294276-12-31 23:59:59.999999Z]'"""),
    ),
    TypeCase("m_int4", "int4multirange", ("'{}'", "'{[1,5),[7,9)}'", "'{(,)}'")),
    TypeCase("m_int8", "int8multirange", ("'{}'", "'{(,5),[9223372036854775806,)}'")),
    TypeCase("m_num", "nummultirange", ("'{}'", "'{[1.10,2.00),[NaN,NaN]}'")),
    TypeCase("m_day", "datemultirange", ("'{}'", "'{(,4713-01-01 BC],[2024-02-29,infinity)}'")),
    TypeCase("m_at", "tsmultirange", ("'{}'", """'{["0044-03-15 10:00:00 BC","2026-11-20 10:20:30.123456")}'""")),
    TypeCase("m_moment", "tstzmultirange", ("'{}'", """'{["2026-11-20 10:20:30+05:30",infinity]}'""")),
    TypeCase(
        "home", "address",
        ("'(,,,,,,)'", """'("say ""x"", ü",-7,2024-02-29,"2026-11-20 10:20:30.1",0.1,glad,"{a,NULL,""b c""}")'""",
         """'("",2147483647,infinity,"0044-03-15 10:00:00 BC",1e23,"sad, or so",{})'"""),
    ),
    TypeCase("old_home", "old_home", ("'(x,,,,-0,,)'",)),
    TypeCase("vacation", "vacation", ("'empty'", "'[2024-02-29,2024-03-01)'")),
)  # fmt: skip
TYPES = (
    r"CREATE TYPE mood AS ENUM ('glad', 'sad, or so', 'back\slash')",
    "CREATE DOMAIN money_of_ours AS numeric(12,2)",
    "CREATE DOMAIN booked AS timestamp",
    "CREATE DOMAIN grace AS interval",
    "CREATE DOMAIN amount AS money_of_ours CHECK (value > -1000)",
    "CREATE TYPE address AS (street text, no int, since date, at timestamp, rate float8, felt mood, tags text[])",
    "CREATE DOMAIN old_home AS address",
    "CREATE DOMAIN gateway AS inet",
    "CREATE DOMAIN mask AS bit(9)",
    "CREATE DOMAIN vacation AS daterange",
)


# A lake has no place for these; it refuses them by name, which has tests of its own.
_NO_DATES_OF_A_LAKE = re.compile("infinity|29424[67]|294276")
_OF_A_MOMENT = ("date", "timestamp", "timestamptz", "booked")


def fits_a_lake(case: TypeCase, edge: str) -> bool:
    if case.type.partition("(")[0] in _OF_A_MOMENT:
        return not _NO_DATES_OF_A_LAKE.search(edge)
    return edge != "'NaN'" or not case.type.startswith("numeric(")


def create_table(name: str, *, key: str = "") -> str:
    columns = ", ".join(f"{case.name} {case.type}" for case in CASES)
    return f"CREATE TABLE {name} ({key}{columns})"


def rows(fits: Callable[[TypeCase, str], bool] = lambda *_: True) -> list[str]:
    """Lists of literals, one per row; every edge of every type that fits is in one of them, and the last is NULL
    throughout."""
    edges = [[edge for edge in case.edges if fits(case, edge)] for case in CASES]
    count = max(map(len, edges))
    found = [", ".join(some[number % len(some)] for some in edges) for number in range(count)]
    return [*found, ", ".join("NULL" for _ in CASES)]
