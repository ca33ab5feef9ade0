"""Row images of Debezium's PostgreSQL connector 3.7.0.Final, with the settings of a Seamline capture (decimals as text,
bytes as base64, `time.precision.mode=adaptive`) and its own converter of times (`seamline.connect.ExactTimes`), in the
typed form."""

import json
import math
import re
from collections.abc import Mapping
from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from seamline.adapters.debezium.row_decoder import (
    RowDecoder,
    Typed,
    as_read,
    bytes_of,
    each,
    from_base64,
    uuids,
    with_odd,
)
from seamline.databases.postgres.decimals import decimal_of
from seamline.databases.postgres.native_types import comes_as_bytes
from seamline.domain.catalogue import Column, Kind
from seamline.values.arrow import TEXT, arrow_type
from seamline.values.special import moment_of

# Fixed numbers stand for infinity: those of the driver's own sentinels (read from the log of 3.7.0.Final).
_INFINITE_DATES = {2146033979: math.inf, -2147472691: -math.inf}
_INFINITE_MOMENTS = {
    1000: {9223372036825200000: math.inf, -9223372036832400000: -math.inf},
    1: {9223372036854775807: math.inf, -9223372036854775808: -math.inf},
}
_INFINITE_TEXTS = {"infinity": math.inf, "-infinity": -math.inf}
# 4713-11-24 BC and 5874897-12-31; 4713-11-24 BC and the last microsecond of 64 bits but one.
_DAYS = (-2_440_588, 2_145_042_905)
_MOMENTS = (-210_866_803_200_000_000, 2**63 - 2)
_LAST_MOMENT = 9_224_318_015_999_999_999
_DAY_US = 86_400_000_000
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - naive on purpose: the arithmetic is zone free
_MICROSECOND = timedelta(microseconds=1)
# The calendar repeats itself every 400 years.
_CYCLE_US = 146_097 * _DAY_US
_ISO = re.compile(r"([+-]?\d{4,6})(-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?)Z")
_PLAIN_INSTANT = r"^[0-9]{4}-[0-9][0-9]-[0-9][0-9]T"
# As the server writes it with the connector's IntervalStyle, each part with a sign of its own.
_INTERVAL = re.compile(
    r"P(?:(-?\d+)Y)?(?:(-?\d+)M)?(?:(-?\d+)D)?(?:T(?:(-?\d+)H)?(?:(-?\d+)M)?(?:(-?)(\d+)(?:\.(\d{1,6}))?S)?)?"
)


def _json_type(column: Column) -> pa.DataType:
    match column.kind:
        case Kind.INTEGER | Kind.FLOAT | Kind.DOUBLE | Kind.BOOLEAN:
            # The log has the shortest digits of 32 bits. By way of 64 bits 7.038531e-26 would become its neighbour.
            return arrow_type(column)
        case Kind.DATE | Kind.DATETIME | Kind.TIME_OF_DAY:
            return pa.int64()
        case Kind.NATIVE if column.native == "bit(1)":
            return pa.bool_()
        case _:
            return TEXT


def _typed(column: Column, values: pa.Array) -> pa.Array:
    return (_native if column.native else _TYPED.get(column.kind, as_read))(column, values)


def _native(column: Column, values: pa.Array) -> pa.Array:
    """As the server prints it; pairs as it prints the document of them."""
    if column.native == "bit(1)":
        return pc.if_else(values, pa.scalar("1", TEXT), pa.scalar("0", TEXT))
    if column.native.startswith("bit("):
        return each(column, values, lambda text: None if text is None else _bits(text, column.length))
    if column.native == "hstore":
        return each(column, values, lambda text: text and _document(text))
    if comes_as_bytes(column):
        return each(column, values, lambda text: text and from_base64(text).decode())
    return values


def _bits(text: str, length: int) -> str:
    """The last bit is the lowest of the first byte; bytes of 0 at the end are left out."""
    bits = f"{int.from_bytes(from_base64(text), 'little'):0{length}b}"
    if len(bits) > length:
        raise ValueError(f"{text!r} has more than {length} bits")
    return bits


def _document(text: str) -> str:
    """As `jsonb` prints it: shorter keys first, of equal length by their bytes."""
    pairs = sorted(json.loads(text).items(), key=lambda pair: (len(pair[0].encode()), pair[0].encode()))
    return json.dumps(dict(pairs), ensure_ascii=False)


def _char(_: Column, values: pa.Array) -> pa.Array:
    """The padding is the source's way to store it."""
    return pc.utf8_rtrim(values, " ")


def _day(column: Column, values: pa.Array) -> pa.Array:
    return with_odd(
        column,
        values,
        _is_outside(values, *_DAYS),
        plain=lambda found: found.cast(pa.int32()).view(pa.date32()),
        odd=lambda number: _found(_INFINITE_DATES, number),
    )


def _moment(column: Column, values: pa.Array) -> pa.Array:
    unit = _unit_of(column)
    first, last = _MOMENTS
    return with_odd(
        column,
        values,
        _is_outside(values, -(-first // unit), last // unit),
        plain=lambda found: pc.multiply_checked(found, unit).view(pa.timestamp("us")),
        odd=lambda number: _odd_moment(number, unit),
    )


def _odd_moment(number: int, unit: int) -> int | float:
    """Infinite, or behind the microseconds since 1970 that 64 bits hold: those have numbers of the connector's own."""
    if number in _INFINITE_MOMENTS[unit]:
        return _INFINITE_MOMENTS[unit][number]
    moment = number * unit if unit > 1 else moment_of(number)
    if not _MOMENTS[1] < moment <= _LAST_MOMENT:
        raise ValueError(f"{number} is no moment")
    return moment


def _instant(column: Column, values: pa.Array) -> pa.Array:
    return with_odd(
        column,
        values,
        pc.invert(pc.match_substring_regex(values, _PLAIN_INSTANT)),
        plain=lambda found: pc.cast(found, arrow_type(column)),
        odd=_odd_instant,
    )


def _odd_instant(text: str) -> int | float:
    """ISO 8601, which has a year 0, and a sign before years that have not four digits."""
    if text in _INFINITE_TEXTS:
        return _INFINITE_TEXTS[text]
    match = _ISO.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no moment")
    cycles, year = divmod(int(match[1]), 400)
    within = datetime.fromisoformat(f"{2000 + year}{match[2]}")
    return (within - _EPOCH) // _MICROSECOND + (cycles - 5) * _CYCLE_US


def _clock(column: Column, values: pa.Array) -> pa.Array:
    unit = _unit_of(column)
    if pc.any(_is_outside(values, 0, _DAY_US // unit)).as_py():
        raise ValueError("it is no time of a day")
    return pc.multiply(values, unit).view(pa.duration("us"))


def _interval(column: Column, values: pa.Array) -> pa.Array:
    return each(column, values, _parts)


def _parts(text: str | None) -> tuple[int, int, int] | float | None:
    if text is None or text in _INFINITE_TEXTS:
        return None if text is None else _INFINITE_TEXTS[text]
    match = _INTERVAL.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no interval")
    years, months, days, hours, minutes = (int(part or 0) for part in match.groups()[:5])
    sign, seconds, fraction = match.groups(default="")[5:]
    within = int(seconds or 0) * 1_000_000 + int(fraction.ljust(6, "0"))
    microseconds = (hours * 60 + minutes) * 60_000_000 + (-within if sign else within)
    return years * 12 + months, days, microseconds


def _unit_of(column: Column) -> int:
    """In microseconds: up to three digits of a second arrive as milliseconds, more as microseconds."""
    return 1000 if column.precision <= 3 else 1


def _is_outside(values: pa.Array, first: int, last: int) -> pa.Array:
    return pc.or_(pc.less(values, pa.scalar(first, pa.int64())), pc.greater(values, pa.scalar(last, pa.int64())))


def _found(sentinels: Mapping[int, float], number: int) -> float:
    if number not in sentinels:
        raise ValueError(f"{number} is no date")
    return sentinels[number]


_TYPED: Mapping[Kind, Typed] = {
    Kind.DECIMAL: decimal_of,
    Kind.CHAR: _char,
    Kind.BYTES: bytes_of,
    Kind.DATE: _day,
    Kind.DATETIME: _moment,
    Kind.INSTANT: _instant,
    Kind.TIME_OF_DAY: _clock,
    Kind.INTERVAL: _interval,
    Kind.UUID: uuids,
}
DECODER = RowDecoder(_json_type, _typed)
