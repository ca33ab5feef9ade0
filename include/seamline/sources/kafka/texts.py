"""Values of messages as plain texts (`values.plain_texts`), exact or refused. Pure.

JSON is read with its decimals as `Decimal` (`domain.exact_json`): no number goes by way of a float unless its column is
one.
"""

import json
import math
import re
import struct
from base64 import b64decode
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from typing import Any
from uuid import UUID

from seamline.domain.catalogue import Column, Kind
from seamline.domain.written_numbers import is_no_finite_number, is_written

# The forms that a column of a kind may be declared in.
FORMS: Mapping[Kind, tuple[str, ...]] = {
    Kind.DATE: ("days", "ms"),
    Kind.DATETIME: ("s", "ms", "us", "ns"),
    Kind.INSTANT: ("s", "ms", "us", "ns", "utc"),
    Kind.TIME_OF_DAY: ("ms", "us", "ns"),
    Kind.DECIMAL: ("base64", "text"),
    Kind.BYTES: ("base64", "hex", "latin-1"),
}
_NANOSECONDS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_MS = 86_400_000
_WHOLE = re.compile(r"-?[0-9]+")
# `Decimal` and `float` take more than numbers: `1_000`, and the digits of other scripts.
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_FRACTION = re.compile(r"[.,]([0-9]+)")
_TIME = re.compile(r"([0-9]{2}):([0-5][0-9]):([0-5][0-9])(?:\.([0-9]{1,9}))?")
_DIGITS = 6
_HOURS = 24
_UNSIGNED_END = 2**64
# No number of so few letters is changed by its column, where that has all of its bits: so it is from this number on.
_FLOAT_LETTERS, _DOUBLE_LETTERS = 6, 15
_ALL_BITS_FROM = 2.0**-126
_WRITTEN = (int, Decimal, str)
_SINGLE = struct.Struct("f")
# More digits than any decimal has here: nothing is rounded while it is looked at.
_EXACT = Context(prec=400)


def text_of(column: Column, value: Any, form: str = "") -> str | None:
    """ValueError, in words that go behind the column's name: it is no value of the column, or not exactly."""
    if value is None:
        if not column.nullable:
            raise ValueError("is NOT NULL and holds NULL")
        return None
    read = _READ.get(column.kind)
    if read is None:
        raise ValueError(f"is {column.source_type}, which no message holds")
    return read(column, value, form)


def _not(column: Column, value: Any, more: str = "") -> ValueError:
    shown = json.dumps(value, default=str)[:80]
    return ValueError(f"is {column.source_type} and holds {shown}{more}")


def _number(column: Column, value: Any, _: str) -> str:
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        value = int(value)
    if type(value) is not int:
        raise _not(column, value)
    if column.kind is Kind.UNSIGNED:
        is_held = 0 <= value < _UNSIGNED_END
    else:
        is_held = -(2 ** (column.length - 1)) <= value < 2 ** (column.length - 1)
    if not is_held:
        raise _not(column, value, ": too large")
    return str(value)


def _decimal(column: Column, value: Any, form: str) -> str:
    found = _decimal_in(column, value, form)
    scaled = found.scaleb(column.scale, _EXACT)
    if scaled != scaled.to_integral_value(context=_EXACT):
        raise _not(column, value, f": more than {column.scale} decimals")
    if scaled.copy_abs() >= 10**column.precision:
        raise _not(column, value, ": too large")
    # One text for each number, since rows are known by the text of their key.
    found = found.quantize(Decimal((0, (1,), -column.scale)), context=_EXACT)
    return f"{found if found else found.copy_abs():f}"


def _decimal_in(column: Column, value: Any, form: str) -> Decimal:
    """`base64` or `base64:<scale>`: the unscaled number, as Debezium writes what is precise."""
    if isinstance(value, dict) and value.keys() == {"scale", "value"}:
        return _unscaled(value["value"], int(value["scale"]))
    kind, _, scale = form.partition(":")
    if kind == "base64":
        if not isinstance(value, str):
            raise _not(column, value, ": declared as base64")
        return _unscaled(value, int(scale or column.scale))
    if isinstance(value, bool) or not isinstance(value, int | Decimal | str):
        raise _not(column, value)
    if isinstance(value, str) and not _NUMBER.fullmatch(value):
        raise _not(column, value, ": declare its `form`")
    return Decimal(value)


def _unscaled(text: str, scale: int) -> Decimal:
    content = b64decode(text, validate=True)
    if not content:
        raise ValueError("holds no byte of a number")
    number = int.from_bytes(content, "big", signed=True)
    digits = tuple(map(int, str(abs(number))))
    return Decimal((number < 0, digits, -scale))


def _real(column: Column, value: Any, _: str) -> str:
    if isinstance(value, bool) or not isinstance(value, _WRITTEN):
        raise _not(column, value)
    # A `Decimal` becomes a float by its text in any case.
    text = str(value)
    is_word = isinstance(value, str) and is_no_finite_number(value)
    if isinstance(value, str) and not is_word and not _NUMBER.fullmatch(value):
        raise _not(column, value)
    found, letters = float(text), _DOUBLE_LETTERS
    if column.kind is Kind.FLOAT and math.isfinite(found):
        found, letters = _of_32_bits(found), _FLOAT_LETTERS
    if not math.isfinite(found) and not is_word:
        raise _not(column, value, ": too large")
    shown = repr(found)
    # Most numbers need no look at their digits, which costs more than all the rest.
    is_kept = shown == text or (len(text) <= letters and abs(found) >= _ALL_BITS_FROM)
    if not is_kept and not is_written(text, found):
        raise _not(column, value, f": it would be {shown}")
    return shown


def _of_32_bits(number: float) -> float:
    """As a column of 32 bits holds it; infinite where it is too large."""
    try:
        found: float = _SINGLE.unpack(_SINGLE.pack(number))[0]
    except OverflowError:
        return math.inf
    return found


def _truth(column: Column, value: Any, _: str) -> str:
    if value is True or value in (1, "1", "true"):
        return "true"
    if value is False or value in (0, "0", "false"):
        return "false"
    raise _not(column, value)


def _letters(column: Column, value: Any, _: str) -> str:
    if not isinstance(value, str):
        raise _not(column, value)
    # Blanks behind a CHAR carry no meaning, and rows are known by the text of their key.
    text = value.rstrip(" ") if column.kind is Kind.CHAR else value
    if column.length and len(text) > column.length:
        raise _not(column, value, f": {len(text)} letters")
    return text


def _bytes(column: Column, value: Any, form: str) -> str:
    if not isinstance(value, str):
        raise _not(column, value)
    if form == "hex":
        return bytes.fromhex(value).hex()
    if form == "latin-1":
        return value.encode("latin-1").hex()
    return b64decode(value, validate=True).hex()


def _uuid(column: Column, value: Any, _: str) -> str:
    if not isinstance(value, str):
        raise _not(column, value)
    return str(UUID(value))


# ---- dates and times ------------------------------------------------------------------------------------------------


def _date(column: Column, value: Any, form: str) -> str:
    if type(value) is int:
        if form == "ms" and value % _DAY_MS == 0:
            value = value // _DAY_MS
        elif form != "days":
            raise _not(column, value, ": declare its `form`, days or ms")
        return (_EPOCH + timedelta(days=value)).date().isoformat()
    if not isinstance(value, str) or form:
        raise _not(column, value)
    return date.fromisoformat(value).isoformat()


def _moment(column: Column, value: Any, form: str) -> str:
    if type(value) is int:
        found = _EPOCH + timedelta(microseconds=_microseconds(column, value, form))
    elif isinstance(value, str) and form in ("", "utc"):
        found = _written(column, value, form)
    else:
        raise _not(column, value)
    if found.microsecond % 10 ** (_DIGITS - column.precision):
        raise _not(column, value, f": more than {column.precision} digits of a second")
    text = found.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f").rjust(26, "0")
    return f"{text}Z" if column.kind is Kind.INSTANT else text


def _written(column: Column, value: str, form: str) -> datetime:
    fraction = _FRACTION.search(value)
    if fraction and fraction[1][_DIGITS:].strip("0"):
        raise _not(column, value, f": more than {_DIGITS} digits of a second")
    found = datetime.fromisoformat(value)
    has_zone = found.tzinfo is not None
    if column.kind is Kind.DATETIME and has_zone:
        raise _not(column, value, ", which has a zone: declare it as instant")
    if column.kind is Kind.INSTANT and not has_zone and form != "utc":
        raise _not(column, value, ", which has no zone: declare it as datetime, or `form: utc`")
    return found if has_zone else found.replace(tzinfo=UTC)


def _microseconds(column: Column, value: int, form: str) -> int:
    if form not in _NANOSECONDS:
        raise _not(column, value, ": declare its `form`, s, ms, us or ns")
    found, rest = divmod(value * _NANOSECONDS[form], 1_000)
    if rest:
        raise _not(column, value, f": more than {_DIGITS} digits of a second")
    return found


def _time_of_day(column: Column, value: Any, form: str) -> str:
    if type(value) is int:
        found = _microseconds(column, value, form)
    else:
        match = _TIME.fullmatch(value.removesuffix("Z")) if isinstance(value, str) and not form else None
        if match is None or (match[4] or "")[_DIGITS:].strip("0"):
            raise _not(column, value)
        hours, minutes, seconds = (int(match[number]) for number in (1, 2, 3))
        found = ((hours * 60 + minutes) * 60 + seconds) * 10**_DIGITS + int(
            (match[4] or "")[:_DIGITS].ljust(_DIGITS, "0")
        )
    if not 0 <= found <= _HOURS * 3600 * 10**_DIGITS or found % 10 ** (_DIGITS - column.precision):
        raise _not(column, value)
    seconds, microseconds = divmod(found, 10**_DIGITS)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{microseconds:06}"


_READ: Mapping[Kind, Callable[[Column, Any, str], str]] = {
    Kind.INTEGER: _number,
    Kind.UNSIGNED: _number,
    Kind.DECIMAL: _decimal,
    Kind.FLOAT: _real,
    Kind.DOUBLE: _real,
    Kind.BOOLEAN: _truth,
    Kind.CHAR: _letters,
    Kind.STRING: _letters,
    Kind.BYTES: _bytes,
    Kind.UUID: _uuid,
    Kind.DATE: _date,
    Kind.DATETIME: _moment,
    Kind.INSTANT: _moment,
    Kind.TIME_OF_DAY: _time_of_day,
}
