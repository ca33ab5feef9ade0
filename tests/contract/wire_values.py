"""Values as the log carries them: Debezium's MariaDB connector 3.5.0.Final with the settings of a Seamline capture."""

import base64
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from seamline.domain.catalogue import Column, Kind

_EPOCH_DAY = date(1970, 1, 1).toordinal()


def wire_value(column: Column, value: Any) -> Any:
    """The JSON value of a stored value; None stays None."""
    if value is None:
        return None
    return _FORMS.get(column.kind, lambda _, plain: plain)(column, value)


def _unsigned(column: Column, value: int) -> str:
    # Two's complement, big end first, as short as it can be while the sign bit stays clear.
    return _base64(value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True))


def _bits(column: Column, value: int) -> Any:
    if column.length == 1:
        return bool(value)
    return _base64(value.to_bytes((column.length + 7) // 8, "little"))


def _decimal(column: Column, value: Decimal) -> str:
    return f"{value:.{column.scale}f}"


def _float(column: Column, value: float) -> float:
    """A 32-bit number arrives as the double that it is."""
    return float(struct.unpack("f", struct.pack("f", value))[0])


def _datetime(column: Column, value: datetime) -> int:
    microseconds = (value - datetime(1970, 1, 1)) // timedelta(microseconds=1)  # noqa: DTZ001
    return microseconds // 1000 if column.precision <= 3 else microseconds


def _instant(column: Column, value: datetime) -> str:
    fraction = f".{value.microsecond:06d}"[: column.precision + 1] if column.precision else ""
    return f"{value.astimezone(UTC):%Y-%m-%dT%H:%M:%S}{fraction}Z"


def _time(column: Column, value: timedelta) -> int:
    return value // timedelta(microseconds=1)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


_FORMS: dict[Kind, Callable[[Column, Any], Any]] = {
    Kind.UNSIGNED: _unsigned,
    Kind.BITS: _bits,
    Kind.BOOLEAN: lambda _, value: bool(value),
    Kind.DECIMAL: _decimal,
    Kind.FLOAT: _float,
    Kind.BINARY: lambda _, value: _base64(value),
    Kind.BYTES: lambda _, value: _base64(value),
    Kind.DATE: lambda _, value: value.toordinal() - _EPOCH_DAY,
    Kind.DATETIME: _datetime,
    Kind.INSTANT: _instant,
    Kind.TIME: _time,
    Kind.YEAR: lambda _, value: value or 1900,
    Kind.ENUM: lambda _, value: value.replace(",", "\\,"),
}
