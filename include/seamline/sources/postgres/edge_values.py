"""The edge values of each kind of PostgreSQL column, as literals of that server. Pure."""

from collections.abc import Callable, Mapping, Sequence

from seamline.databases.postgres.canonical import text_literal
from seamline.databases.postgres.native_types import COMPOSITE
from seamline.domain.catalogue import Column, Kind

LENGTH_MAX = 2_000
_TEXTS = (
    "", "a", "A", " lead", "tail  ", "ü€", "😀", "e\u0301", "comma, 5:colon ~", "tab\tnew\r\nline", "back\\slash",
    "\\N", "\\.", "'quote'", '"double"', "%s %% ?", "NULL", "{}[]<>&;`$",
)  # fmt: skip
_INFINITE = ("infinity", "-infinity")


def edge_values(column: Column, *, labels: Sequence[str] = ()) -> tuple[str, ...]:
    """The literals of a column, each once; NULL is among them where the column takes it. `labels`: of its enum."""
    if column.kind is Kind.ENUM:
        values: Sequence[str] = [text_literal(label) for label in labels]
    else:
        values = _natives(column) if column.native else _VALUES[column.kind](column)
    return tuple(dict.fromkeys((*values, *(["NULL"] if column.nullable else []))))


def _integers(column: Column) -> Sequence[str]:
    most = 2 ** (column.length - 1)
    return [str(number) for number in (0, 1, -1, -most, most - 1)]


def _decimals(column: Column) -> Sequence[str]:
    if not column.precision:
        values = ("0", "0.00", "1.10", "-123456789.987654321", "1e-20", "1e40", "-1e-300")
        return (*values, *_texts_of("NaN", "Infinity", "-Infinity"))
    digits = "9" * column.precision
    whole, fraction = digits[column.scale :] or "0", digits[: column.scale].rjust(column.scale, "0")
    largest = f"{whole}.{fraction}" if fraction else whole
    smallest = f"0.{'1'.rjust(column.scale, '0')}" if fraction else "1"
    return ("0", smallest, f"-{smallest}", largest, f"-{largest}", "'NaN'")


def _floats(column: Column) -> Sequence[str]:
    is_short = column.kind is Kind.FLOAT
    largest, smallest = ("3.4028235e38", "1e-45") if is_short else ("1.7976931348623157e308", "5e-324")
    values = ("0", "-0", "0.1", "16777217", "9007199254740993", "1.732224012649634", "1e-7", "1e22", "1e23")
    # The first of these, of 32 bits, is the one number that is another by way of 64.
    more = ("7.038531e-26", smallest, largest, f"-{largest}", "NaN", "Infinity", "-Infinity")
    return _texts_of(*values, *more)


def _texts(column: Column) -> Sequence[str]:
    length = min(column.length or LENGTH_MAX, LENGTH_MAX)
    full = ("😀" * length, "".join(chr(33 + n * n % 93) for n in range(length)))
    return [text_literal(text[:length]) for text in (*_TEXTS, *full)]


def _bytes(_: Column) -> Sequence[str]:
    values = (b"", b"\0", b"\xff", b"end\0", b"\\'\"", bytes(range(256)), bytes(n * n % 251 for n in range(LENGTH_MAX)))
    return [f"'\\x{value.hex()}'" for value in values]


def _days(_: Column) -> Sequence[str]:
    return _texts_of(
        "1970-01-01", "2024-02-29", "1969-12-31", "0001-01-01", "0001-12-31 BC", "9999-12-31", "10000-01-01",
        "5874897-12-31", "4713-01-01 BC", *_INFINITE,
    )  # fmt: skip


def _moments(column: Column) -> Sequence[str]:
    moments = (
        "1970-01-01 00:00:00.000000", "2026-11-20 10:20:30.123456", "1969-12-31 23:59:59.999999",
        "2026-10-25 00:30:00.000001", "0001-01-01 00:00:00.000000", "9999-12-31 23:59:59.999999",
        "12026-01-01 00:00:00.000000", "294246-12-31 23:59:59.999999",
        # The last microseconds since 1970 that 64 bits hold, and the server's last.
        "294247-01-10 04:00:54.775806", "294247-01-10 04:00:54.775807", "294247-01-10 04:00:54.775808",
        "294247-01-10 04:00:55.000000", "294276-12-31 23:59:59.999999",
    )  # fmt: skip
    before = ("0001-12-31 23:59:59", "0044-03-15 10:00:00", "4713-01-01 00:00:00")
    zone = "+00" if column.kind is Kind.INSTANT else ""
    return _texts_of(
        *(f"{_cut(one, column)}{zone}" for one in moments), *(f"{one}{zone} BC" for one in before), *_INFINITE
    )


def _times(column: Column) -> Sequence[str]:
    times = ("00:00:00.000000", "10:20:30.123456", "23:59:59.999999", "00:00:00.000001", "24:00:00.000000")
    return _texts_of(*(_cut(one, column) for one in times))


def _cut(moment: str, column: Column) -> str:
    """The source would round what its precision does not hold: into another second, or beyond the end."""
    whole, _, fraction = moment.partition(".")
    return f"{whole}.{fraction[: column.precision]}" if column.precision else whole


def _texts_of(*texts: str) -> list[str]:
    return [text_literal(text) for text in texts]


_INTERVALS = (
    "0", "1 year 2 mons 3 days 04:05:06.789", "-1 year -2 mons +3 days -04:05:06.000001", "1000000 hours",
    "-0.5 seconds", "0.000001 seconds", "30 days", "1 mon", "24:00:00", "100000 years", "-100000 years",
    "2000000000 days", "2147483648 hours", "2562047788:00:54.775807", "-2562047788:00:54.775807",
    "178000000 years 11 mons", *_INFINITE,
)  # fmt: skip
_UUIDS = (
    "00000000-0000-0000-0000-000000000000", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
    "ffffffff-ffff-ffff-ffff-ffffffffffff",
)  # fmt: skip
_DOCUMENTS = (
    "{}", "null", '"s"', '{"b": 1.10, "a": [1,  2], "b": null}', "[1, 18446744073709551615.5, 1e40, 0.10]",
    '{"n": "ü,\\u0041\\\\😀"}', " [ 1 , 2 ] ", '""', "-0",
)  # fmt: skip
_DAY_BOUNDS = ("empty", "(,)", "[-infinity,infinity]", "[2024-02-29,2024-03-01)", "(,4713-01-01 BC]")
_MOMENT_BOUNDS = (
    "empty", "(,)", "[-infinity,infinity]", "[2026-11-20 10:20:30.123456{0},)",
    '("0044-03-15 10:00:00{0} BC","294276-12-31 23:59:59.999999{0}"]', "[1969-12-31 23:59:59.999999{0},infinity)",
)  # fmt: skip
_BOUNDS: Mapping[str, Sequence[str]] = {
    "int4": ("empty", "(,)", "[1,5)", "[-2147483648,2147483647)", "(,7]", "(-1,1)"),
    "int8": ("empty", "(,)", "[1,5)", "[-9223372036854775808,9223372036854775807)", "[7,7]"),
    "num": ("empty", "(,)", "[1.10,2.00)", "(-1e-20,1e40]", "[-Infinity,Infinity]", "[0,NaN]", "[1.1,2.0)"),
    "date": _DAY_BOUNDS,
    "ts": [one.format("") for one in _MOMENT_BOUNDS],
    "tstz": [one.format("+05:30") for one in _MOMENT_BOUNDS],
}
_NATIVE_TEXTS: Mapping[str, Sequence[str]] = {
    "inet": (
        "10.0.0.1", "10.0.0.1/8", "0.0.0.0/0", "255.255.255.255", "::", "::1/64", "2001:db8::ff00:42:8329",
        "::ffff:1.2.3.4", "::10.2.3.4/96",
    ),
    "cidr": ("10.0.0.0/8", "192.168.1.1/32", "0.0.0.0/0", "::/0", "2001:db8::/32", "::1/128"),
    "macaddr": ("08:00:2b:01:02:03", "00:00:00:00:00:00", "FF-FF-FF-FF-FF-FF"),
    "macaddr8": ("08:00:2b:01:02:03:04:05", "00:00:00:00:00:00:00:00", "08002b:010203"),
    "tsvector": ("", "'a':1A 'fat':2B,4C 'cat':5", "'it''s' 'back\\\\slash' ' blank ':1,16383", "'ü€😀':3"),
    "ltree": ("", "Top.Science.Astronomy", "a.a", "A.a"),
    "hstore": (
        "", "a=>1", 'a=>NULL, b=>"NULL"', '"say \\"it\\""=>"back\\\\slash, =>"', '"ü€"=>"😀", ""=>""',
        '"longer key"=>"x", "b"=>"y", "aa"=>"1.10"',
    ),
    **{f"{of}range": bounds for of, bounds in _BOUNDS.items()},
    **{
        f"{of}multirange": ("{}", *(f"{{{one}}}" for one in bounds), f"{{{bounds[2]},{bounds[3]}}}")
        for of, bounds in _BOUNDS.items()
    },
}  # fmt: skip


def _natives(column: Column) -> Sequence[str]:
    if column.native.startswith("bit("):
        last = column.length - 1
        bits = ("0" * column.length, "1" * column.length, "0" * last + "1", "1" + "0" * last, ("10" * 64)[: last + 1])
        return [f"B'{one}'" for one in bits]
    if column.native == "citext":
        return _texts(column)
    if column.native == COMPOSITE:
        # Only the types of its fields would say what they hold.
        return [f"'({',' * (column.precision - 1)})'"]
    return _texts_of(*_NATIVE_TEXTS[column.native])


_VALUES: Mapping[Kind, Callable[[Column], Sequence[str]]] = {
    Kind.INTEGER: _integers,
    Kind.DECIMAL: _decimals,
    Kind.FLOAT: _floats,
    Kind.DOUBLE: _floats,
    Kind.BOOLEAN: lambda _: ["true", "false"],
    Kind.CHAR: _texts,
    Kind.STRING: _texts,
    Kind.BYTES: _bytes,
    Kind.DATE: _days,
    Kind.DATETIME: _moments,
    Kind.INSTANT: _moments,
    Kind.TIME_OF_DAY: _times,
    Kind.INTERVAL: lambda _: _texts_of(*_INTERVALS),
    Kind.JSON: lambda _: _texts_of(*_DOCUMENTS),
    Kind.JSONB: lambda _: _texts_of(*_DOCUMENTS),
    Kind.UUID: lambda _: _texts_of(*_UUIDS),
}
