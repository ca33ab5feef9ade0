"""Values of the typed form as texts that people and programs read, and the way back.

| kind | text |
|---|---|
| whole numbers, decimals | digits, decimals with all declared places |
| float, double | the shortest text that is the same number again |
| boolean | `true`, `false` |
| date | `2026-11-27` |
| datetime, instant | `2026-11-27 12:00:00.000000`; that of an instant is in UTC and ends with `Z` |
| time, time of day | `-838:59:59.000000` |
| binary, bytes | hex digits |
| uuid, interval | the canonical text |

A date beyond the years 1 to 9999 is refused by name.
"""

import re
from collections.abc import Callable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.errors import SchemaConflict
from seamline.values.arrow import TEXT, arrow_type, is_exact_text
from seamline.values.build import array_of, value_of
from seamline.values.digest import canonical_texts

_FIRST_MOMENT, _END_OF_MOMENTS = -62_135_596_800_000_000, 253_402_300_800_000_000
_DAY = 86_400_000_000
_FIRST_DAY, _END_OF_DAYS = _FIRST_MOMENT // _DAY, _END_OF_MOMENTS // _DAY
_SECOND = 1_000_000
_TIME = re.compile(r"(-?)([0-9]+):([0-5][0-9]):([0-5][0-9])(?:\.([0-9]{1,6}))?")
_WITHOUT_ZONE = pa.timestamp("us")


def texts_of(table: Table, column: Column, values: pa.Array) -> pa.Array:
    """SchemaConflict for a value that no such text stands for."""
    match column.kind:
        case Kind.DATE:
            return (
                _within(table, column, values.view(pa.int32()), _FIRST_DAY, _END_OF_DAYS).view(pa.date32()).cast(TEXT)
            )
        case Kind.DATETIME | Kind.INSTANT:
            moments = _within(table, column, values.view(pa.int64()), _FIRST_MOMENT, _END_OF_MOMENTS)
            texts = moments.view(_WITHOUT_ZONE).cast(TEXT)
            return texts if column.kind is Kind.DATETIME else _joined(texts, "Z")
        case Kind.TIME | Kind.TIME_OF_DAY:
            return _times(values.view(pa.int64()))
        case Kind.BOOLEAN:
            return values.cast(TEXT)
        case Kind.FLOAT | Kind.DOUBLE:
            return values.cast(TEXT)
        case _:
            return canonical_texts(column, values)


def values_of(column: Column, texts: pa.Array) -> pa.Array:
    """The inverse of `texts_of`. ValueError: a text stands for no value of the column."""
    if is_exact_text(column):
        return texts.cast(TEXT)
    read = _READ.get(column.kind)
    return read(column, texts) if read else array_of(column, [value_of(column, one) for one in texts.to_pylist()])


def _within(table: Table, column: Column, numbers: pa.Array, first: int, end: int) -> pa.Array:
    is_odd = pc.or_(pc.less(numbers, first), pc.greater_equal(numbers, end))
    if pc.any(is_odd).as_py():
        raise SchemaConflict(
            f"column {column.name} {column.source_type} holds a date beyond the years 1 to 9999",
            hint="correct the value at the source, or leave the table out of the sync",
            table=table.name,
        )
    return numbers


def _times(microseconds: pa.Array) -> pa.Array:
    size = pc.abs(microseconds)
    seconds = pc.divide(size, _SECOND)
    minutes = pc.divide(seconds, 60)
    sign = pc.if_else(pc.less(microseconds, 0), pa.scalar("-", TEXT), pa.scalar("", TEXT))
    return _joined(
        sign,
        _digits(pc.divide(minutes, 60), 2),
        ":",
        _digits(_rest(minutes, 60), 2),
        ":",
        _digits(_rest(seconds, 60), 2),
        ".",
        _digits(_rest(size, _SECOND), 6),
    )


def _rest(numbers: pa.Array, of: int) -> pa.Array:
    return pc.subtract(numbers, pc.multiply(pc.divide(numbers, of), of))


def _digits(numbers: pa.Array, width: int) -> pa.Array:
    return pc.utf8_lpad(numbers.cast(TEXT), width, "0")


def _joined(*parts: "pa.Array | str") -> pa.Array:
    scalars = [pa.scalar(part, TEXT) if isinstance(part, str) else part for part in parts]
    return pc.binary_join_element_wise(*scalars, pa.scalar("", TEXT))


def _cast(column: Column, texts: pa.Array) -> pa.Array:
    return texts.cast(arrow_type(column))


def _moments(column: Column, texts: pa.Array) -> pa.Array:
    texts = pc.utf8_rtrim(texts, "Z") if column.kind is Kind.INSTANT else texts
    return texts.cast(_WITHOUT_ZONE).view(arrow_type(column))


def _spans(column: Column, texts: pa.Array) -> pa.Array:
    found = [_span(one) for one in texts.to_pylist()]
    if column.kind is Kind.TIME_OF_DAY and not all(one is None or 0 <= one <= _DAY for one in found):
        raise ValueError("a time is beyond its day")
    return pa.array(found, pa.int64()).view(arrow_type(column))


def _span(text: str | None) -> int | None:
    if text is None:
        return None
    found = _TIME.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no time")
    sign, hours, minutes, seconds, fraction = found.groups()
    whole = (int(hours) * 60 + int(minutes)) * 60 + int(seconds)
    size = whole * _SECOND + int((fraction or "").ljust(6, "0"))
    return -size if sign else size


def _bytes(column: Column, texts: pa.Array) -> pa.Array:
    found = [None if one is None else bytes.fromhex(one) for one in texts.to_pylist()]
    return pa.array(found, arrow_type(column))


# Of the others, value by value by the canonical text.
_READ: Mapping[Kind, Callable[[Column, pa.Array], pa.Array]] = {
    Kind.INTEGER: _cast,
    Kind.UNSIGNED: _cast,
    Kind.BITS: _cast,
    Kind.YEAR: _cast,
    Kind.DECIMAL: _cast,
    Kind.FLOAT: _cast,
    Kind.DOUBLE: _cast,
    Kind.BOOLEAN: _cast,
    Kind.DATE: _cast,
    Kind.DATETIME: _moments,
    Kind.INSTANT: _moments,
    Kind.TIME: _spans,
    Kind.TIME_OF_DAY: _spans,
    Kind.BINARY: _bytes,
    Kind.BYTES: _bytes,
    **dict.fromkeys((Kind.CHAR, Kind.STRING, Kind.ENUM, Kind.SET, Kind.JSON, Kind.JSONB, Kind.NATIVE), _cast),
}
