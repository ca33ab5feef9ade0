"""Canonical texts `cdg1` as PostgreSQL expressions. The meaning of each is in `seamline.domain.canonical`.

Every expression is immutable (but see `may_be_indexed`), so that a live table can carry an index on its row text: dates
are put together from their parts (a cast follows DateStyle), instants are turned into UTC first (a cast follows
TimeZone).
"""

import re
from collections.abc import Mapping, Sequence
from datetime import date

from seamline.domain.canonical import COUNTED_KINDS, NULL_FIELD, exact_columns, is_folded_key, literal_text
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.digest import Segment

_TEXT = "{value}::text"
_FLOAT = "{value}::float8::text"
_HEX = "encode({value},'hex')"
_DATE_DIGITS = (
    "lpad((extract(year from {value})::int*10000+extract(month from {value})::int*100"
    "+extract(day from {value})::int)::text,8,'0')"
)
# Days since 1970 for dates whose year has not four digits: no two dates have one text.
_DATE = (
    "case when {value} is null then null when {value} between '0001-01-01' and '9999-12-31'"
    f" then overlay(overlay({_DATE_DIGITS} placing '-' from 5 for 0) placing '-' from 8 for 0)"
    " when isfinite({value}) then ({value}-date '1970-01-01')::text||'d'"
    " when {value} > '9999-12-31' then 'infinity' else '-infinity' end"
)
# trunc and not a cast: an infinite value keeps a text of its own instead of failing the scan.
_MICROSECONDS = "trunc(extract(epoch from {value})*1000000)::text"
_INTERVAL = (
    "case when {value} is null then null when isfinite({value}) then"
    " (extract(year from {value})*12+extract(month from {value}))::bigint::text||'m'"
    "||extract(day from {value})::bigint::text||'d'"
    "||trunc((extract(hour from {value})*3600+extract(minute from {value})*60+extract(second from {value}))*1000000)"
    "::text when {value} > interval '0' then 'infinity' else '-infinity' end"
)
_EXPRESSIONS = {
    Kind.INTEGER: _TEXT,
    Kind.UNSIGNED: _TEXT,
    Kind.BITS: _TEXT,
    Kind.YEAR: _TEXT,
    Kind.BOOLEAN: "{value}::int::text",
    Kind.DECIMAL: _TEXT,
    Kind.FLOAT: _FLOAT,
    Kind.DOUBLE: _FLOAT,
    Kind.CHAR: "rtrim({value})",
    Kind.STRING: _TEXT,
    Kind.ENUM: _TEXT,
    Kind.SET: _TEXT,
    Kind.JSON: _TEXT,
    Kind.BINARY: _HEX,
    Kind.BYTES: _HEX,
    Kind.DATE: _DATE,
    Kind.DATETIME: _MICROSECONDS,
    Kind.INSTANT: "trunc(extract(epoch from {value} at time zone 'UTC')*1000000)::text",
    Kind.TIME: _MICROSECONDS,
    Kind.TIME_OF_DAY: _MICROSECONDS,
    Kind.INTERVAL: _INTERVAL,
    Kind.JSONB: _TEXT,
    Kind.UUID: _TEXT,
    Kind.NATIVE: _TEXT,
}
# By `Column.native`, where a cast to text is not what the server prints, or not what is stored.
_NATIVE = {
    "hstore": "{value}::jsonb::text",
    # `text` shows the mask of a single host too.
    "inet": "case when masklen({value})=case family({value}) when 4 then 32 else 128 end then host({value})"
    " else {value}::text end",
}
# Ranges print their bounds as the session's settings say, so no index may be made over their text.
_BY_SETTINGS = ("range",)

# The same texts in half the time, where a server casts bytes to numbers (PostgreSQL 18): the binary form of a moment is
# its whole microseconds since 2000. Far and infinite ones, whose sum would not fit, go the long way.
_SINCE_2000 = (
    "case when {{value}} between '0001-01-01' and '9999-12-31' then ({send}({{value}})::bigint+946684800000000)::text"
    f" else {_MICROSECONDS.replace('{value}', '{{value}}')} end"
)
_FROM_BYTES = {
    **_EXPRESSIONS,
    Kind.DATETIME: _SINCE_2000.format(send="timestamp_send"),
    Kind.INSTANT: _SINCE_2000.format(send="timestamptz_send"),
}
_DAY_TEXT = re.compile(r"\d{4}-\d\d-\d\d")
# 294276-12-31 23:59:59.999999 in microseconds since 1970.
_LAST_MOMENT = 9_224_318_015_999_999_999
_SIXTY_BITS = 2**60 - 1


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def text_literal(text: str) -> str:
    """A literal that standard_conforming_strings does not change."""
    if "\\" in text:
        return "E'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
    return "'" + text.replace("'", "''") + "'"


def date_conditions(name: str, segment: Segment) -> list[str]:
    """What bounds the column of this quoted name to the dates of a segment that has any."""
    later = [f"{name} < {text_literal(segment.date_to)}"] if segment.date_to else []
    return [f"{name} >= {text_literal(segment.date_from)}", *later]


def literal(column: Column, canonical: str) -> str:
    """A canonical text as a literal; PostgreSQL takes its type from the column it is compared with. NULL for a text
    that only a value of the other side can have."""
    if column.kind in (Kind.BINARY, Kind.BYTES):
        return f"'\\x{bytes.fromhex(canonical).hex()}'"
    return text_literal(literal_text(column, canonical)) if _is_readable(column, canonical) else "NULL"


def _is_readable(column: Column, canonical: str) -> bool:
    match column.kind:
        case Kind.INTEGER:
            # The server refuses a number that its type cannot hold: no row has it.
            bits = next((bits for bits in (16, 32) if 0 < column.length <= bits), 64)
            return not _is_whole(canonical) or -(2 ** (bits - 1)) <= int(canonical) < 2 ** (bits - 1)
        case Kind.DATE:
            # What is no day, as 0000-00-00, only MariaDB has.
            return not _DAY_TEXT.fullmatch(canonical) or _is_day(canonical)
        case Kind.DATETIME | Kind.INSTANT:
            # The server itself rounds in its last years, beyond its end too.
            return not canonical.startswith("!") and not (_is_whole(canonical) and int(canonical) > _LAST_MOMENT)
        case Kind.TIME:
            # An interval of years may be longer than one of hours can be.
            return not _is_whole(canonical) or abs(int(canonical)) < 2**63
        case _:
            return "\0" not in canonical


def _is_whole(text: str) -> bool:
    return text.removeprefix("-").isdecimal()


def _is_day(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def comparable(column: Column) -> str:
    """The column as `literal` is compared with it. A text that is no label of its type would end the statement."""
    return f"{quoted(column.name)}::text" if column.kind is Kind.ENUM else quoted(column.name)


def canonical_expression(column: Column) -> str:
    """The canonical text of a column; NULL for NULL."""
    return _expression(column, _EXPRESSIONS)


def _expression(column: Column, expressions: Mapping[Kind, str]) -> str:
    return _NATIVE.get(column.native, expressions[column.kind]).format(value=quoted(column.name))


def may_be_indexed(column: Column) -> bool:
    """Whether the canonical text of a column is an immutable expression."""
    return not column.native.endswith(_BY_SETTINGS)


def row_text_expression(columns: Sequence[Column]) -> str:
    return _row_text(columns, _EXPRESSIONS)


def hash_expression(table: Table, *, run_key: str) -> str:
    """Lower hex SHA-256 of run key and row text."""
    return columns_hash_expression(exact_columns(table), run_key=run_key)


def columns_hash_expression(columns: Sequence[Column], *, run_key: str) -> str:
    """The same over any columns; FLOAT and DOUBLE as the server prints them."""
    return text_hash_expression(row_text_expression(columns), run_key=run_key)


def columns_hash_bytes_expression(columns: Sequence[Column], *, run_key: str) -> str:
    """The same hash as bytea, for servers that cast bytes to numbers."""
    return text_hash_bytes_expression(quick_row_text_expression(columns), run_key=run_key)


def quick_row_text_expression(columns: Sequence[Column]) -> str:
    """As `row_text_expression`, for servers that cast bytes to numbers."""
    return _row_text(columns, _FROM_BYTES)


def text_hash_bytes_expression(row_text: str, *, run_key: str) -> str:
    """The hash of run key and an expression that is a row text, as bytea."""
    return _sha256(run_key, row_text)


def text_hash_expression(row_text: str, *, run_key: str) -> str:
    """The same in lower hex."""
    return f"encode({_sha256(run_key, row_text)},'hex')"


def _sha256(run_key: str, row_text: str) -> str:
    return f"sha256(convert_to({text_literal(run_key)}||{row_text},'UTF8'))"


def _row_text(columns: Sequence[Column], expressions: Mapping[Kind, str]) -> str:
    return "||','||".join(_field(column, expressions) for column in columns) or "''"


def _field(column: Column, expressions: Mapping[Kind, str]) -> str:
    """The field of a column inside a row text, never NULL."""
    text = _expression(column, expressions)
    field = f"octet_length({text})::text||':'||{text}" if column.kind in COUNTED_KINDS else text
    return f"coalesce({field},'{NULL_FIELD}')"


def bucket_expression(table: Table, *, buckets: int, row_hash: str) -> str:
    """The bucket number of a row; `row_hash` is the expression of its row hash, used where there is no key."""
    if buckets == 1:
        return "0"
    if is_folded_key(table):
        folded = ""
        for column in table.key_columns:
            rest = _remainder(column, buckets)
            folded = f"mod({folded}*31+{rest},{buckets})" if folded else rest
        return folded
    if not table.is_keyed:
        return f"mod({hash_number(row_hash, start=1)},{buckets})"
    key_hash = f"encode(sha256(convert_to({row_text_expression(table.key_columns)},'UTF8')),'hex')"
    return f"mod({hash_number(key_hash, start=1)},{buckets})"


def _remainder(column: Column, buckets: int) -> str:
    """A whole number modulo `buckets`, never negative."""
    name = f"{quoted(column.name)}::bigint" if column.kind is Kind.INTEGER else quoted(column.name)
    if column.kind is Kind.INTEGER and buckets.bit_count() == 1:
        return f"({name}&{buckets - 1})"
    return f"mod(mod({name},{buckets})+{buckets},{buckets})"


def hash_number(hex_hash: str, *, start: int) -> str:
    """15 hex digits from `start` as a number."""
    return f"('x'||substr({hex_hash},{start},15))::bit(60)::bigint"


def bytes_number(hash_bytes: str, *, start: int) -> str:
    """The same number as `hash_number` of the hex form, for `start` 1 and 16, without a text on the way.

    The cast of bytea to bigint came with PostgreSQL 18. Measured on 18.4: a digest takes 0.7 of its time.
    """
    if start == 1:
        return f"(substr({hash_bytes},1,8)::bigint>>4&{_SIXTY_BITS})"
    if start == 16:
        return f"(substr({hash_bytes},8,8)::bigint&{_SIXTY_BITS})"
    raise ValueError(f"only the digits from 1 and from 16 are used, not from {start}")
