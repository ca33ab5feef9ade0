"""The edge values of each kind of column of MariaDB and MySQL, as literals of these servers. Pure."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from seamline.databases.mysql.canonical import text_literal
from seamline.domain.catalogue import Column, Kind

# Values of the full declared length are cut to this: the large transaction holds hundreds of each.
LENGTH_MAX = 2_000
_TINY = 255
_BITS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
_NO_DATES = (("invalid dates, as 0000-00-00", "snapshot and stream stop there, and name the column"),)
_NOT_IN_TEXTS = (
    ("the character NUL inside a text", "PostgreSQL has no place for it: snapshot and stream stop there"),
    (
        "a byte that is no letter in its character set, as 98 (hex) in cp1251",
        "the server itself returns a question mark",
    ),
)
# What is known not to go through, by kind: value, and what becomes of it.
LIMITS: Mapping[Kind, Sequence[tuple[str, str]]] = {
    **dict.fromkeys((Kind.DATE, Kind.DATETIME, Kind.INSTANT), _NO_DATES),
    **dict.fromkeys((Kind.CHAR, Kind.STRING), _NOT_IN_TEXTS),
}
# What an ENUM holds after a session that was not strict has written an unknown label: its text is empty.
_ERROR_VALUE = "0"
_DIGITS = re.compile(r"\((\d+),(\d+)\)")
_LABEL = re.compile(r"'(?:[^']|'')*'")
TEXTS = (
    "", "a", "A", " lead", "tail  ", "ü€", "😀", "e\u0301", "comma, 5:colon ~", "tab\tnew\r\nline", "back\\slash",
    "\\N", "\\", "'quote'", '"double"', "%s %% ?", "NULL", "{}[]<>&;`$",
    # Letters of scripts that older character sets hold, and signs that servers and Java map in different ways.
    "ß", "Ж", "Ω", "ş", "漢字", "汉字", "한글", "～", "〜", "−", "－", "―", "‖", "¢", "¬", "¥", "‾", "·",
)  # fmt: skip
DOCUMENTS = (
    "{}", "null", '"s"', '{"b":1, "a":1.10,"a":2}', "[1,18446744073709551615,1e400]", '{"n":"ü,\\u0041\\\\"}',
    " [ 1 , 2 ] ",
)  # fmt: skip
BYTES = (b"", b"\0", b"\xff", b"ab", b"end\0", b"\0\xff" * 8, b"\\'\"", bytes(range(256)))


def edge_values(column: Column, *, letters: str = "") -> tuple[str, ...]:
    """The literals of a column, each once; NULL is among them where the column takes it. `letters`: all that a small
    character set of a text column has."""
    values = [*_VALUES[column.kind](column), *_all_of(letters, min(_length(column), 16))]
    return tuple(dict.fromkeys((*values, *(["NULL"] if column.nullable else []))))


def _integers(column: Column) -> Sequence[str]:
    bits = next(bits for name, bits in _BITS.items() if column.source_type.startswith(name))
    if "unsigned" in column.source_type:
        return _plain(0, 1, 2 ** (bits - 1) - 1, 2 ** (bits - 1), 2**bits - 1)
    return _plain(0, 1, -1, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _decimals(column: Column) -> Sequence[str]:
    digits = "9" * column.precision
    whole, fraction = digits[column.scale :] or "0", digits[: column.scale]
    largest = f"{whole}.{fraction}" if fraction else whole
    smallest = f"0.{'1'.rjust(column.scale, '0')}" if fraction else "1"
    mixed = "1234567890" * 7
    varied = f"{mixed[: column.precision - column.scale] or '0'}.{mixed[: column.scale] or '0'}"
    values = ("0", smallest, largest, varied)
    return values if "unsigned" in column.source_type else (*values, "-0.0", f"-{smallest}", f"-{largest}")


def _floats(column: Column) -> Sequence[str]:
    if digits := _DIGITS.search(column.source_type):
        return _floats_of(column, int(digits[1]), int(digits[2]))
    largest = "3.4028234e38" if column.kind is Kind.FLOAT else "1.7976931348623157e308"
    smallest = "1.4e-45" if column.kind is Kind.FLOAT else "5e-324"
    values = ("0e0", "0.1", "1.5", "16777217", "9007199254740993", "1.732224012649634", "1e-7", "1e22", smallest)
    signed = ("-0e0", "-0.1", f"-{largest}")
    return (*values, largest) if "unsigned" in column.source_type else (*values, largest, *signed)


def _floats_of(column: Column, precision: int, scale: int) -> Sequence[str]:
    """Of FLOAT(precision,scale), which the server rounds in decimal."""
    values = ("1.5", *_decimals(replace(column, precision=precision, scale=scale)))
    return values if "unsigned" in column.source_type else (*values, "-0e0")


def _bits(column: Column) -> Sequence[str]:
    length = column.length or 1
    return _plain(*(f"b'{bits}'" for bits in ("0", "1", "1" * length, f"1{'0' * (length - 1)}")))


def _texts(column: Column) -> Sequence[str]:
    length = _length(column)
    # A text of the declared length in letters of four bytes, and one that no compression makes short.
    full = ("😀" * length, "".join(chr(33 + n * n % 93) for n in range(length)))
    return [readable_literal(text[:length]) for text in (*TEXTS, *full)]


def _binaries(column: Column) -> Sequence[str]:
    length = _length(column)
    full = bytes(n * n % 251 for n in range(length))
    return [f"x'{data[:length].hex()}'" if data else "''" for data in (*BYTES, full)]


def _all_of(letters: str, length: int) -> Sequence[str]:
    if not length:
        return []
    return [readable_literal(letters[start : start + length]) for start in range(0, len(letters), length)]


def readable_literal(text: str) -> str:
    """As people read it where every sql_mode does so too, else its bytes."""
    is_plain = text.isprintable() and "\\" not in text
    return "'" + text.replace("'", "''") + "'" if is_plain else text_literal(text)


def _length(column: Column) -> int:
    return min(column.length or (_TINY if column.source_type.startswith("tiny") else LENGTH_MAX), LENGTH_MAX)


def _days(_: Column) -> Sequence[str]:
    days = ("0001-01-01", "1000-01-01", "1582-10-10", "1969-12-31", "1970-01-01", "2024-02-29", "9999-12-31")
    return [f"'{day}'" for day in days]


def _moments(column: Column) -> Sequence[str]:
    moments = (
        "1970-01-01 00:00:00.000000", "2026-11-20 10:20:30.123456", "1969-12-31 23:59:59.999999",
        "1812-06-24 10:20:30.000001", "1000-01-01 00:00:00.000001", "0001-01-01 00:00:00.000000",
        "9999-12-31 23:59:59.999999",
    )  # fmt: skip
    return [f"'{_cut(moment, column)}'" for moment in moments]


def _instants(column: Column) -> Sequence[str]:
    """In UTC, as the session is. The hours around a change of clocks, and the last second before 2038 and its next."""
    instants = (
        "1970-01-01 00:00:01.000000", "2026-03-29 01:00:00.000000", "2026-10-25 00:30:00.000001",
        "2026-10-25 01:30:00.123456", "2038-01-19 03:14:07.999999", "2106-02-07 06:28:15.999999",
    )  # fmt: skip
    return [f"'{_cut(instant, column)}'" for instant in instants]


def _times(column: Column) -> Sequence[str]:
    times = (
        "00:00:00.000000", "10:20:30.123456", "23:59:59.999999", "24:00:00.000000", "838:59:59.000000",
        "-838:59:59.000000", "-00:00:00.500000", "-00:00:01.000000", "-100:10:10.000001",
    )  # fmt: skip
    return [f"'{_cut(time, column)}'" for time in times]


def _cut(moment: str, column: Column) -> str:
    """The source would round what its precision does not hold: into another second, or beyond the end."""
    whole, _, fraction = moment.partition(".")
    return f"{whole}.{fraction[: column.precision]}" if column.precision else whole


def _labels(column: Column) -> Sequence[str]:
    """As information_schema prints them, which is how the server reads them."""
    return _LABEL.findall(column.source_type)


def _sets(column: Column) -> Sequence[str]:
    labels = _labels(column)
    return ["''", *labels, "'" + ",".join(label[1:-1] for label in labels) + "'"]


def _plain(*values: object) -> list[str]:
    return [str(value) for value in values]


_UUIDS = (
    "00000000-0000-0000-0000-000000000000", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
    "ffffffff-ffff-ffff-ffff-ffffffffffff",
)  # fmt: skip
_VALUES: Mapping[Kind, Callable[[Column], Sequence[str]]] = {
    Kind.INTEGER: _integers,
    Kind.UNSIGNED: _integers,
    Kind.DECIMAL: _decimals,
    Kind.FLOAT: _floats,
    Kind.DOUBLE: _floats,
    Kind.BITS: _bits,
    Kind.CHAR: _texts,
    Kind.STRING: _texts,
    Kind.BINARY: _binaries,
    Kind.BYTES: _binaries,
    Kind.DATE: _days,
    Kind.DATETIME: _moments,
    Kind.INSTANT: _instants,
    Kind.TIME: _times,
    Kind.YEAR: lambda _: _plain(1901, 1970, 2000, 2155, "'0000'"),
    Kind.ENUM: lambda column: [*_labels(column), _ERROR_VALUE],
    Kind.SET: _sets,
    Kind.JSON: lambda _: [readable_literal(document) for document in DOCUMENTS],
    Kind.UUID: lambda _: [f"'{one}'" for one in _UUIDS],
}
