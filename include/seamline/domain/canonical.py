"""Canonical texts `cdg1`: one value, one text, on every engine. This is the reference; the adapters say it in SQL.

Row text = the fields of the exact columns in declared order, joined by commas. A field is `~` for NULL, the canonical
text itself where its alphabet holds no comma (numbers, dates, UUIDs), else `<length in bytes>:<canonical text>`. So
different rows never have one text: no separator inside a value can be taken for one between values.

| kind | canonical text |
|---|---|
| integer, unsigned, bits, year | decimal digits, `-` in front of negative ones |
| boolean | 0 or 1 |
| decimal | exactly `scale` digits after the point, no exponent, no negative zero |
| float, double | the float8 that it equals, as PostgreSQL prints it: `-0`, `0.1`, `1e+15`, `NaN` |
| date | YYYY-MM-DD; `<days since 1970>d` before the year 1 and after 9999 |
| datetime, instant | microseconds since 1970-01-01 00:00:00, for an instant in UTC |
| time, time of day | signed microseconds |
| interval | `<months>m<days>d<microseconds>`, each signed |
| char | the text without trailing spaces |
| string, enum, set, json, jsonb | the text as it is; of jsonb the one that PostgreSQL prints |
| binary, bytes | lower hex |
| uuid | lower hex with dashes |
| native | the text that its server prints, with ISO dates and in UTC |

FLOAT and DOUBLE of MariaDB are no exact columns: it prints them in another way than PostgreSQL, and settings change its
digits. They are compared by tolerance (`floats_agree`). Between two PostgreSQL they are as exact as everything else. An
invalid date (`0000-00-00`) keeps a text of its own and equals nothing else; so do infinite dates and those before
the year 1 or after 9999.
"""

import hashlib
import json
import math
import re
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.digest import SegmentDigest
from seamline.domain.errors import InvariantViolated, SchemaConflict

NULL_FIELD = "~"
# Kinds whose canonical text may hold any character: their field carries its length.
COUNTED_KINDS = frozenset(
    {Kind.CHAR, Kind.STRING, Kind.BINARY, Kind.BYTES, Kind.ENUM, Kind.SET, Kind.JSON, Kind.JSONB, Kind.NATIVE}
)
FLOAT_KINDS = frozenset({Kind.FLOAT, Kind.DOUBLE})
# As MariaDB prints these types, and nobody else: `float(7,3)`, `double unsigned`. PostgreSQL has `real`, `double
# precision` and domains, which it names with their schema.
_PRINTED_DIFFERENTLY = re.compile(r"(float|double)\b(?! precision)")
NUMERIC_KEY_KINDS = frozenset({Kind.INTEGER, Kind.UNSIGNED, Kind.YEAR})
# One unit in the last place of the kind's own width, doubled for the two roundings on the way.
_RELATIVE_TOLERANCE = {Kind.FLOAT: 2.0**-22, Kind.DOUBLE: 2.0**-51}
# MariaDB's widest DECIMAL is (65,30): up to here a sum of 10^15 values still fits; larger ones are in least, greatest.
SUMMED_BELOW = "1e20"
_SMALLEST_SUMMED = 1e-30
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - naive on purpose: the arithmetic is zone free
_MICROSECOND = timedelta(microseconds=1)
# Microseconds since 1970: what Python's datetime can hold, and 400 years.
_FIRST, _LAST = ((moment - _EPOCH) // _MICROSECOND for moment in (datetime.min, datetime.max))  # noqa: DTZ901
_DAY = 86_400_000_000
_CYCLE = 146_097 * _DAY


@dataclass(frozen=True, slots=True)
class FloatSummary:
    """One FLOAT or DOUBLE column over a segment: how many are not NULL, and their least, greatest and sum.

    `total` adds the shortest decimal text of each value below `SUMMED_BELOW` in size, exactly: a sum of doubles would
    depend on the order of the rows (20,000 times 0.1 is off by 7e-10), and no two engines scan in one order.
    """

    count: int
    least: float | None
    greatest: float | None
    total: Decimal | None

    def agrees_with(self, other: "FloatSummary", *, kind: Kind) -> bool:
        """Whether both sides hold the same numbers as far as a summary can show."""
        if self.count != other.count:
            return False
        pairs = ((self.least, other.least), (self.greatest, other.greatest))
        if not all(floats_agree(kind, _text_of(mine), _text_of(theirs)) for mine, theirs in pairs):
            return False
        if self.total is None or other.total is None:
            return self.total is other.total
        largest = min(max(abs(self.least or 0.0), abs(self.greatest or 0.0)), float(SUMMED_BELOW))
        slack = self.count * (_RELATIVE_TOLERANCE[kind] * largest + _SMALLEST_SUMMED)
        return abs(self.total - other.total) <= Decimal(slack)


def is_exact(column: Column) -> bool:
    """Whether source and destination print equal values alike.

    By the source's type alone: so a stored plan and a fresh catalogue give one answer.
    """
    return column.kind not in FLOAT_KINDS or not _PRINTED_DIFFERENTLY.match(column.source_type)


def exact_columns(table: Table) -> tuple[Column, ...]:
    """The columns that the row text holds, in declared order."""
    return tuple(column for column in table.columns if is_exact(column))


def inexact_columns(table: Table) -> tuple[Column, ...]:
    """FLOAT and DOUBLE columns of a source that prints them in another way than the destination."""
    return tuple(column for column in table.columns if not is_exact(column))


def canonical_text(column: Column, value: Any) -> str | None:
    """The canonical text of one value in Python's own types; None stays None (NULL).

    What those cannot say: a date is also a number of days since 1970, a moment one of microseconds since then; an
    infinite date, moment or interval is `math.inf`. An interval is (months, days, microseconds). Raises SchemaConflict
    for a value that the column's declared type cannot hold exactly: nothing is rounded.
    """
    return None if value is None else _TEXT_OF[column.kind](column, value)


def field_text(column: Column, text: str | None) -> str:
    """A canonical text as it stands inside a row text."""
    if text is None:
        return NULL_FIELD
    if column.kind in COUNTED_KINDS:
        return f"{len(text.encode())}:{text}"
    return text


def row_text(columns: Sequence[Column], texts: Sequence[str | None]) -> str:
    """Join canonical texts, one per column, to a row text (or, for the key columns, to a key text)."""
    return ",".join(field_text(column, text) for column, text in zip(columns, texts, strict=True))


def canonical_row(table: Table, row: Mapping[str, Any]) -> str:
    """The row text of a row given as column name → Python value."""
    columns = exact_columns(table)
    return row_text(columns, [canonical_text(column, row[column.name]) for column in columns])


def parse_row_text(columns: Sequence[Column], text: str) -> tuple[str | None, ...]:
    """The canonical texts that `row_text` joined. Raises InvariantViolated for a text it cannot have made."""
    rest = text.encode()
    texts: list[str | None] = []
    for number, column in enumerate(columns):
        if number:
            if not rest.startswith(b","):
                raise _torn(text)
            rest = rest[1:]
        field, rest = _split_field(column, rest, text)
        texts.append(field)
    if rest:
        raise _torn(text)
    return tuple(texts)


def row_hash(text: str, *, run_key: str) -> str:
    """Lower hex SHA-256 of `<run key><row text>`."""
    return hashlib.sha256((run_key + text).encode()).hexdigest()


def digest_of(texts: Iterable[str], *, run_key: str) -> SegmentDigest:
    """The digest of rows given by their row texts."""
    rows = low = high = 0
    for text in texts:
        hashed = row_hash(text, run_key=run_key)
        rows += 1
        low += int(hashed[:15], 16)
        high += int(hashed[15:30], 16)
    return SegmentDigest(rows, rows, low, high)


def bucket_of(table: Table, row: Mapping[str, Any], *, buckets: int, run_key: str) -> int:
    """The bucket of a row: by its key, or by its row hash where the table has none.

    Whole-number keys are folded without hashing, so that a digest costs one hash per row. The bucket in `n` buckets is
    the bucket in any multiple of `n`, modulo `n`: a finer search splits buckets and never mixes them.
    """
    if not table.is_keyed:
        return int(row_hash(canonical_row(table, row), run_key=run_key)[:15], 16) % buckets
    columns = table.key_columns
    if is_folded_key(table):
        folded = 0
        for column in columns:
            folded = (folded * 31 + int(row[column.name])) % buckets
        return folded
    text = row_text(columns, [canonical_text(column, row[column.name]) for column in columns])
    return int(hashlib.sha256(text.encode()).hexdigest()[:15], 16) % buckets


def bucket_of_texts(table: Table, texts: Mapping[str, str | None], *, buckets: int, run_key: str) -> int:
    """The same of a row given as column name → canonical text."""
    if is_folded_key(table):
        folded = 0
        for column in table.key_columns:
            folded = (folded * 31 + int(texts[column.name] or 0)) % buckets
        return folded
    if not table.is_keyed:
        return int(row_hash(row_of_texts(exact_columns(table), texts), run_key=run_key)[:15], 16) % buckets
    key = row_of_texts(table.key_columns, texts)
    return int(hashlib.sha256(key.encode()).hexdigest()[:15], 16) % buckets


def row_of_texts(columns: Sequence[Column], texts: Mapping[str, str | None]) -> str:
    """The row text of a row given as column name → canonical text."""
    return row_text(columns, [texts[column.name] for column in columns])


def is_folded_key(table: Table) -> bool:
    """Whether every key column is a whole number."""
    return table.is_keyed and all(column.kind in NUMERIC_KEY_KINDS for column in table.key_columns)


def literal_text(column: Column, canonical: str) -> str:
    """A canonical text as a literal that both databases read as the column's own type (bytes stay hex)."""
    if column.kind is Kind.DATE and _is_number(days := canonical.removesuffix("d")):
        return _moment(int(days) * _DAY).replace(" 00:00:00", "")
    if column.kind in (Kind.DATETIME, Kind.INSTANT):
        return _moment(int(canonical)) if _is_number(canonical) else canonical.removeprefix("!")
    if column.kind in (Kind.TIME, Kind.TIME_OF_DAY) and _is_number(canonical):
        sign = "-" if canonical.startswith("-") else ""
        seconds, fraction = divmod(abs(int(canonical)), 1_000_000)
        return f"{sign}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{fraction:06d}"
    return canonical


def readable_text(column: Column, canonical: str) -> str:
    """The same for a person: an instant says that it is written in UTC."""
    is_written_in_utc = column.kind is Kind.INSTANT and _is_number(canonical)
    return literal_text(column, canonical) + (" UTC" if is_written_in_utc else "")


def named_text(columns: Sequence[Column], texts: Sequence[str | None]) -> str:
    """Canonical texts, one per column, as JSON of column and readable value: so a break names its row."""
    pairs = zip(columns, texts, strict=True)
    values = {column.name: None if text is None else readable_text(column, text) for column, text in pairs}
    return json.dumps(values, ensure_ascii=False)


def group_key(texts: Sequence[str | None]) -> tuple[str, ...]:
    """Canonical texts of a group as plain strings that no value can counterfeit: NULL is `~`, a leading `~` doubles."""
    return tuple(NULL_FIELD if text is None else f"~{text}" if text.startswith("~") else text for text in texts)


def ungrouped(name: str) -> str | None:
    """The canonical text of which `group_key` made this."""
    return None if name == NULL_FIELD else name.removeprefix("~")


def floats_agree(kind: Kind, source: str | None, destination: str | None) -> bool:
    """Whether two texts of a FLOAT or DOUBLE are the same number within the kind's own precision. NaN is NaN."""
    if source is None or destination is None:
        return source is destination
    if math.isnan(float(source)):
        return math.isnan(float(destination))
    return math.isclose(float(source), float(destination), rel_tol=_RELATIVE_TOLERANCE[kind], abs_tol=0.0)


def _decimal_text(column: Column, value: Decimal) -> str:
    if not value.is_finite():
        return str(value)
    if not column.precision and not column.scale:
        # PostgreSQL's numeric without a precision keeps the decimals of each value.
        return f"{value if value else abs(value):f}"
    # Formatting with "f" and slicing is exact for any number of digits; Decimal arithmetic rounds to its context.
    whole, _, fraction = f"{value:f}".partition(".")
    if fraction[column.scale :].strip("0"):
        raise SchemaConflict(
            f"column {column.name} holds {value}, more than the {column.scale} decimals of {column.source_type}",
            hint="read the catalogue again: the column was changed",
        )
    kept = fraction[: column.scale].ljust(column.scale, "0")
    text = f"{whole}.{kept}" if kept else whole
    return text.removeprefix("-") if not value else text


def _split_field(column: Column, rest: bytes, text: str) -> tuple[str | None, bytes]:
    if rest.startswith(b"~"):
        return None, rest[1:]
    if column.kind not in COUNTED_KINDS:
        field, comma, tail = rest.partition(b",")
        return field.decode(), comma + tail
    digits, colon, tail = rest.partition(b":")
    if not colon or not digits.isdigit() or int(digits) > len(tail):
        raise _torn(text)
    length = int(digits)
    return tail[:length].decode(), tail[length:]


def _text_of(number: float | None) -> str | None:
    return None if number is None else repr(number)


def _moment(micros: int) -> str:
    """Also before the year 1 and after 9999, as PostgreSQL writes it: the calendar repeats itself every 400 years."""
    cycles = (micros - _FIRST) // _CYCLE if not _FIRST <= micros <= _LAST else 0
    within = _EPOCH + (micros - cycles * _CYCLE) * _MICROSECOND
    if not cycles:
        return str(within)
    year = within.year + 400 * cycles
    text = f"{year if year > 0 else 1 - year:04d}{str(within)[4:]}"
    return text if year > 0 else f"{text} BC"


def _is_number(text: str) -> bool:
    return text.removeprefix("-").isdecimal()


def _torn(text: str) -> InvariantViolated:
    return InvariantViolated(f"not a canonical row text: {text[:80]!r}")


def _whole_text(_: Column, value: Any) -> str:
    return str(int(value))


def _float_text(column: Column, value: Any) -> str:
    number = float(value)
    if column.kind is Kind.FLOAT:
        (number,) = struct.unpack("f", struct.pack("f", number))
    sign = "-" if math.copysign(1, number) < 0 and not math.isnan(number) else ""
    if not math.isfinite(number):
        return "NaN" if math.isnan(number) else f"{sign}Infinity"
    digits, exponent = _shortest_digits(abs(number)) if number else ("0", 0)
    if -4 <= exponent < 15:
        return f"{sign}{Decimal(digits).scaleb(exponent - len(digits) + 1):f}"
    fraction = f".{digits[1:]}" if digits[1:] else ""
    return f"{sign}{digits[0]}{fraction}e{exponent:+03d}"


def _shortest_digits(number: float) -> tuple[str, int]:
    """The fewest digits that read back as `number`, and the power of ten of the first.

    What lies in the middle between two numbers does not count, although it reads back as the even one of them: so does
    PostgreSQL print 1e23 as 9.999999999999999e+22, and Python does not (src/common/ryu_common.h, STRICTLY_SHORTEST).
    """
    exact = Fraction(number)
    above = exact + Fraction(math.ulp(number)) / 2
    below = exact - Fraction(number - math.nextafter(number, 0)) / 2
    exponent = int(f"{number:.16e}".partition("e")[2])
    for length in range(1, 18):
        unit = Fraction(10) ** (exponent - length + 1)
        least = exact // unit
        inside = [count for count in (least, least + 1) if below < count * unit < above]
        if inside:
            # Of two that are equally near the even one.
            nearest = min(inside, key=lambda count: (abs(count * unit - exact), count % 2))
            digits = str(nearest)
            return digits.rstrip("0"), exponent + len(digits) - length
    raise InvariantViolated(f"17 digits do not identify {number!r}")


def _plain_text(_: Column, value: Any) -> str:
    return str(value)


def _trimmed_text(_: Column, value: Any) -> str:
    return str(value).rstrip(" ")


def _hex_text(_: Column, value: Any) -> str:
    return bytes(value).hex()


def _date_text(_: Column, value: Any) -> str:
    if isinstance(value, float):
        return _infinite_text(value)
    if isinstance(value, int):
        is_common = _FIRST <= value * _DAY <= _LAST
        return str((_EPOCH + timedelta(days=value)).date()) if is_common else f"{value}d"
    return value.isoformat() if isinstance(value, date) else str(value)


def _infinite_text(value: float) -> str:
    if not math.isinf(value):
        raise InvariantViolated(f"{value!r} is no date, moment or interval: of floats only infinity is")
    return "infinity" if value > 0 else "-infinity"


def _moment_text(_: Column, value: Any) -> str:
    if isinstance(value, float):
        return _infinite_text(value).replace("i", "I", 1)
    if isinstance(value, int):
        return str(value)
    if not isinstance(value, datetime):
        return f"!{value}"
    naive = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
    return str((naive - _EPOCH) // _MICROSECOND)


def _span_text(_: Column, value: timedelta) -> str:
    return str(value // _MICROSECOND)


def _interval_text(_: Column, value: tuple[int, int, int] | float) -> str:
    if isinstance(value, float):
        return _infinite_text(value)
    months, days, microseconds = value
    return f"{months}m{days}d{microseconds}"


def _uuid_text(_: Column, value: Any) -> str:
    return str(value).lower()


_TEXT_OF: Mapping[Kind, Callable[[Column, Any], str]] = {
    Kind.INTEGER: _whole_text,
    Kind.UNSIGNED: _whole_text,
    Kind.BITS: _whole_text,
    Kind.YEAR: _whole_text,
    Kind.BOOLEAN: _whole_text,
    Kind.DECIMAL: _decimal_text,
    Kind.FLOAT: _float_text,
    Kind.DOUBLE: _float_text,
    Kind.CHAR: _trimmed_text,
    Kind.STRING: _plain_text,
    Kind.ENUM: _plain_text,
    Kind.SET: _plain_text,
    Kind.JSON: _plain_text,
    Kind.BINARY: _hex_text,
    Kind.BYTES: _hex_text,
    Kind.DATE: _date_text,
    Kind.DATETIME: _moment_text,
    Kind.INSTANT: _moment_text,
    Kind.TIME: _span_text,
    Kind.TIME_OF_DAY: _span_text,
    Kind.INTERVAL: _interval_text,
    Kind.JSONB: _plain_text,
    Kind.UUID: _uuid_text,
    Kind.NATIVE: _plain_text,
}
