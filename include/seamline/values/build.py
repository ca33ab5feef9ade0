"""Python values ↔ the typed form: rows as a driver gives them to a record batch, and back.

What Python's own types cannot say is a number: a date in days since 1970, a moment in microseconds since 1970, a time
in microseconds. An infinite one is `math.inf`. An interval is (months, days, microseconds). Nothing is rounded or cut:
a value that the column's declared type does not have is a SchemaConflict that names the column.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa

from seamline.domain.canonical import canonical_text
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.errors import SchemaConflict
from seamline.values.arrow import TEXT, arrow_type, is_exact_text, schema_of
from seamline.values.special import (
    BEFORE_ALL_INTERVALS,
    INFINITE_DAY,
    INFINITE_INTERVAL,
    INFINITE_MOMENT,
    LAST_MOMENT,
    may_be_nan,
    moment_of,
    nan_number,
    stored_moment,
)

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - naive on purpose: the arithmetic is zone free
_EPOCH_DAY = date(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
_DAYS = range((date.min - _EPOCH_DAY).days, (date.max - _EPOCH_DAY).days + 1)
_MICROSECONDS = range((datetime.min - _EPOCH) // _MICROSECOND, (datetime.max - _EPOCH) // _MICROSECOND + 1)  # noqa: DTZ901
# How much of a value an error shows.
_SHOWN_MAX = 60
_INTERVAL_FIELDS = ("months", "days", "microseconds")


class _NoValue(ValueError):
    """A value that the declared type does not have."""


def batch_of(table: Table, rows: Iterable[Sequence[Any]]) -> pa.RecordBatch:
    """Rows, each with its values in declared order, as a record batch of the table's schema."""
    columns = list(zip(*rows, strict=True)) or [()] * len(table.columns)
    arrays = [_named(table, column, values) for column, values in zip(table.columns, columns, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema_of(table))


def rows_of(table: Table, batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
    """The inverse of `batch_of`. Each value is one that `canonical_text` takes."""
    columns = [values_of(column, batch.column(number)) for number, column in enumerate(table.columns)]
    return list(zip(*columns, strict=True)) if columns else [()] * batch.num_rows


def array_of(column: Column, values: Iterable[Any]) -> pa.Array:
    """Values of one column, None for NULL, in its Arrow type."""
    store = _EXACT_TEXTS[column.kind] if is_exact_text(column) else _STORE[column.kind]
    value: Any = None
    stored = []
    try:
        for value in values:
            stored.append(None if value is None else store(column, value))
    except (ValueError, TypeError, ArithmeticError) as exc:
        raise _refused(column, f"holds {repr(value)[:_SHOWN_MAX]}: {exc}") from exc
    try:
        return _array(arrow_type(column), stored)
    except (pa.ArrowException, OverflowError, UnicodeError) as exc:
        raise _refused(column, f"holds a value that is no {arrow_type(column)}: {exc}") from exc


def value_of(column: Column, canonical: str | None) -> Any:
    """A value that `array_of` takes and whose canonical text this is. SchemaConflict: the column's type has none, as
    for an invalid date."""
    if canonical is None:
        return None
    try:
        return _FROM_TEXT.get(column.kind, str)(canonical)
    except (ValueError, ArithmeticError) as exc:
        raise _refused(column, f"cannot be given the value {canonical[:_SHOWN_MAX]!r} by its canonical text") from exc


def array_of_canonical(column: Column, texts: Sequence[str | None]) -> pa.Array:
    """Values of one column of their canonical texts, None for NULL. SchemaConflict: a text is no value of it."""
    made = arrow_type(column)
    if made == TEXT and not is_exact_text(column):
        return pa.array(texts, TEXT)
    if column.kind in (Kind.INTEGER, Kind.UNSIGNED, Kind.YEAR, Kind.DATE, Kind.DECIMAL):
        try:
            return pa.array(texts, TEXT).cast(made)
        except pa.ArrowInvalid:
            pass  # one that is written in another way, or none: the slow way says which
    return array_of(column, [value_of(column, text) for text in texts])


def values_of(column: Column, values: pa.Array) -> list[Any]:
    """The inverse of `array_of`, as `canonical_text` takes them."""
    load = _LOAD.get(column.kind)
    if column.kind in (Kind.DATE, Kind.DATETIME, Kind.INSTANT, Kind.TIME, Kind.TIME_OF_DAY):
        # Not as_py: Python's dates end at 9999.
        values = values.view(pa.int32() if column.kind is Kind.DATE else pa.int64())
    found = values.to_pylist()
    return found if load is None else [None if value is None else load(column, value) for value in found]


def _named(table: Table, column: Column, values: Sequence[Any]) -> pa.Array:
    try:
        array = array_of(column, values)
    except SchemaConflict as error:
        error.table = table.name
        raise
    if array.null_count and not column.nullable:
        raise SchemaConflict(f"column {column.name} is NOT NULL and holds NULL", table=table.name)
    return array


def _refused(column: Column, what: str) -> SchemaConflict:
    return SchemaConflict(
        f"column {column.name} {column.source_type} {what}",
        hint="correct the value at the source, or leave the table out of the sync",
    )


def _array(of: pa.DataType, stored: list[Any]) -> pa.Array:
    if pa.types.is_date32(of):
        return pa.array(stored, pa.int32()).view(of)
    if pa.types.is_timestamp(of) or pa.types.is_duration(of):
        return pa.array(stored, pa.int64()).view(of)
    return pa.array(stored, of)


def _whole(_: Column, value: Any) -> int:
    """MariaDB's driver gives the bits of BIT as bytes."""
    if isinstance(value, bytes):
        return int.from_bytes(value)
    number = int(value)
    if number != value:
        raise _NoValue("it is no whole number")
    return number


def _truth(column: Column, value: Any) -> bool:
    number = _whole(column, value)
    if number not in (0, 1):
        raise _NoValue("it is neither 0 nor 1")
    return bool(number)


def _decimal(column: Column, value: Any) -> Decimal:
    number = _declared(column, value)
    return nan_number(column) if number.is_nan() else number


def _declared(column: Column, value: Any) -> Decimal:
    number = Decimal(value)
    if not column.precision or (number.is_nan() and may_be_nan(column)):
        return number
    if not number.is_finite() or (number and number.adjusted() >= column.precision - column.scale):
        raise _NoValue(f"it is no number of {column.precision} digits, {column.scale} of them decimals")
    return number


def _float(column: Column, value: Any) -> float:
    number = float(value)
    if column.kind is Kind.FLOAT and math.isfinite(number) and abs(number) >= _FLOAT_END:
        raise _NoValue("it is too large for 32 bits")
    return number


# From the middle between the largest float of 32 bits and the next power of two on, a number rounds to infinity.
_FLOAT_END = (2.0 - 2.0**-24) * 2.0**127


def _text(_: Column, value: Any) -> str:
    if not isinstance(value, str):
        raise _NoValue("it is no text")
    return value


def _bytes(_: Column, value: Any) -> bytes:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise _NoValue("it is no string of bytes")
    return bytes(value)


def _day(_: Column, value: Any) -> int:
    if isinstance(value, float):
        return _infinite(value) * INFINITE_DAY
    if isinstance(value, date) and not isinstance(value, datetime):
        return (value - _EPOCH_DAY).days
    if not isinstance(value, int) or abs(value) >= INFINITE_DAY:
        raise _NoValue("it is no date")
    return value


def _moment(column: Column, value: Any) -> int:
    if isinstance(value, float):
        return _infinite(value) * INFINITE_MOMENT
    if isinstance(value, datetime):
        return (_without_zone(column, value) - _EPOCH) // _MICROSECOND
    if not isinstance(value, int) or value > LAST_MOMENT or moment_of(value) != value:
        raise _NoValue("it is no date and time")
    return stored_moment(value)


def _without_zone(column: Column, value: datetime) -> datetime:
    """MariaDB's driver gives an instant without a zone: the sessions are in UTC."""
    if value.tzinfo is None:
        return value
    if column.kind is Kind.DATETIME:
        raise _NoValue("it has a zone, and the column has none")
    return value.astimezone(UTC).replace(tzinfo=None)


def _infinite(value: float) -> int:
    if not math.isinf(value):
        raise _NoValue("of floats, only infinity is a date or moment")
    return 1 if value > 0 else -1


def _span(_: Column, value: Any) -> int:
    if isinstance(value, time):
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
    if isinstance(value, timedelta):
        return value // _MICROSECOND
    if not isinstance(value, int):
        raise _NoValue("it is no time")
    return value


def _interval(_: Column, value: Any) -> dict[str, int]:
    if isinstance(value, float):
        ends = INFINITE_INTERVAL if _infinite(value) > 0 else BEFORE_ALL_INTERVALS
        return dict(zip(_INTERVAL_FIELDS, ends, strict=True))
    if not isinstance(value, tuple) or value in (INFINITE_INTERVAL, BEFORE_ALL_INTERVALS):
        raise _NoValue("it is not (months, days, microseconds)")
    return dict(zip(_INTERVAL_FIELDS, value, strict=True))


def _uuid(_: Column, value: Any) -> bytes:
    return (value if isinstance(value, UUID) else UUID(value)).bytes


_STORE: Mapping[Kind, Callable[[Column, Any], Any]] = {
    Kind.INTEGER: _whole,
    Kind.UNSIGNED: _whole,
    Kind.BITS: _whole,
    Kind.YEAR: _whole,
    Kind.BOOLEAN: _truth,
    Kind.DECIMAL: _decimal,
    Kind.FLOAT: _float,
    Kind.DOUBLE: _float,
    Kind.CHAR: _text,
    Kind.STRING: _text,
    Kind.ENUM: _text,
    Kind.SET: _text,
    Kind.JSON: _text,
    Kind.JSONB: _text,
    Kind.NATIVE: _text,
    Kind.BINARY: _bytes,
    Kind.BYTES: _bytes,
    Kind.DATE: _day,
    Kind.DATETIME: _moment,
    Kind.INSTANT: _moment,
    Kind.TIME: _span,
    Kind.TIME_OF_DAY: _span,
    Kind.INTERVAL: _interval,
    Kind.UUID: _uuid,
}
_EXACT_TEXTS: Mapping[Kind, Callable[[Column, Any], str | None]] = {
    Kind.DECIMAL: lambda column, value: canonical_text(column, _declared(column, value)),
    Kind.BITS: lambda column, value: canonical_text(column, _whole(column, value)),
}


def _loaded_decimal(column: Column, value: Any) -> Decimal:
    if isinstance(value, str):
        return Decimal(value)
    return Decimal("NaN") if may_be_nan(column) and value == nan_number(column) else value


def _loaded_day(_: Column, value: int) -> date | int | float:
    if abs(value) == INFINITE_DAY:
        return math.copysign(math.inf, value)
    return _EPOCH_DAY + timedelta(days=value) if value in _DAYS else value


def _loaded_moment(column: Column, value: int) -> datetime | int | float:
    if abs(value) == INFINITE_MOMENT:
        return math.copysign(math.inf, value)
    microseconds = moment_of(value)
    if microseconds not in _MICROSECONDS:
        return microseconds
    moment = _EPOCH + microseconds * _MICROSECOND
    return moment.replace(tzinfo=UTC) if column.kind is Kind.INSTANT else moment


def _loaded_interval(_: Column, value: Mapping[str, int]) -> tuple[int, ...] | float:
    fields = tuple(value[name] for name in _INTERVAL_FIELDS)
    if fields in (INFINITE_INTERVAL, BEFORE_ALL_INTERVALS):
        return math.copysign(math.inf, fields[0])
    return fields


def _day_of(text: str) -> date | int | float:
    if text in _INFINITE_TEXTS:
        return float(text)
    return int(text[:-1]) if text.endswith("d") else date.fromisoformat(text)


def _moment_of(text: str) -> int | float:
    return float(text) if text.lower() in _INFINITE_TEXTS else int(text)


def _interval_of(text: str) -> tuple[int, ...] | float:
    if text in _INFINITE_TEXTS:
        return float(text)
    months, _, rest = text.partition("m")
    days, _, microseconds = rest.partition("d")
    return int(months), int(days), int(microseconds)


_INFINITE_TEXTS = ("infinity", "-infinity")
# Of the others the canonical text is the value.
_FROM_TEXT: Mapping[Kind, Callable[[str], Any]] = {
    Kind.INTEGER: int,
    Kind.UNSIGNED: int,
    Kind.BITS: int,
    Kind.YEAR: int,
    Kind.BOOLEAN: int,
    Kind.DECIMAL: Decimal,
    Kind.FLOAT: float,
    Kind.DOUBLE: float,
    Kind.BINARY: bytes.fromhex,
    Kind.BYTES: bytes.fromhex,
    Kind.DATE: _day_of,
    Kind.DATETIME: _moment_of,
    Kind.INSTANT: _moment_of,
    Kind.TIME: int,
    Kind.TIME_OF_DAY: int,
    Kind.INTERVAL: _interval_of,
}

_LOAD: Mapping[Kind, Callable[[Column, Any], Any]] = {
    Kind.BITS: lambda _, value: int(value),
    Kind.DECIMAL: _loaded_decimal,
    Kind.DATE: _loaded_day,
    Kind.DATETIME: _loaded_moment,
    Kind.INSTANT: _loaded_moment,
    Kind.TIME: lambda _, value: timedelta(microseconds=value),
    Kind.TIME_OF_DAY: lambda _, value: timedelta(microseconds=value),
    Kind.INTERVAL: _loaded_interval,
    Kind.UUID: lambda _, value: UUID(bytes=value),
}
