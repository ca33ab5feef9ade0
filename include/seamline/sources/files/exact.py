"""Whether a value of a column is the very one that the file holds. Pure.

A number with a point is taken where the column's own number, written with as many digits, is the same: 0.1 is a float,
and 16777217 is none.
"""

import re
from decimal import Decimal, InvalidOperation

import pyarrow as pa
import pyarrow.compute as pc

from seamline.domain.catalogue import Column, Kind

_REALS = (Kind.FLOAT, Kind.DOUBLE)
_MOMENTS = (Kind.DATETIME, Kind.INSTANT, Kind.TIME, Kind.TIME_OF_DAY)
_NO_FINITE_NUMBER = re.compile(r"[+-]?(?:nan|inf(?:inity)?)", re.IGNORECASE)
# So many digits come back from any number of these sizes, the smallest of which has all its digits.
_DIGITS = {Kind.FLOAT: 6, Kind.DOUBLE: 15}
_SMALLEST = {Kind.FLOAT: 2.0**-126, Kind.DOUBLE: 2.0**-1022}
_FRACTION = 6


class Inexact(ValueError):
    """What the column would make of a value, as the end of a sentence about it."""


def require_exact(column: Column, given: pa.Array, values: pa.Array) -> None:
    """`given`: as the file has them; `values`: of the column. Inexact: one of them would be rounded."""
    if column.kind in _REALS:
        is_text = pa.types.is_string(given.type) or pa.types.is_large_string(given.type)
        _require_written(column, given, values) if is_text else _require_same(column, given, values)
    elif column.kind in _MOMENTS:
        _require_fraction(column, values)


def _require_written(column: Column, texts: pa.Array, values: pa.Array) -> None:
    size = pc.abs(values)
    is_plain = pc.and_(
        pc.and_(pc.greater_equal(size, _SMALLEST[column.kind]), pc.is_finite(values)),
        pc.less_equal(pc.utf8_length(texts), _DIGITS[column.kind]),
    )
    open_ones = pc.and_(pc.invert(is_plain), pc.not_equal(texts, values.cast(texts.type)))
    chosen = pc.fill_null(open_ones, fill_value=False)
    for text, value in zip(texts.filter(chosen).to_pylist(), values.filter(chosen).to_pylist(), strict=True):
        if not _is_written(text, value):
            raise Inexact(f"which a {column.source_type} would hold as {value}")


def _is_written(text: str, value: float) -> bool:
    if _NO_FINITE_NUMBER.fullmatch(text):
        return True
    try:
        number = Decimal(text)
    except InvalidOperation:
        return False
    return Decimal(format(value, f".{len(number.as_tuple().digits)}g")) == number


def _require_same(column: Column, given: pa.Array, values: pa.Array) -> None:
    back = values.cast(given.type, safe=False)
    differs = pc.fill_null(pc.not_equal(back, given), fill_value=False)
    if pa.types.is_floating(given.type):
        differs = pc.and_not(differs, pc.fill_null(pc.is_nan(given), fill_value=False))
    if pc.any(differs).as_py():
        raise Inexact(f"which a {column.source_type} would round")


def _require_fraction(column: Column, values: pa.Array) -> None:
    if column.precision >= _FRACTION:
        return
    unit = 10 ** (_FRACTION - column.precision)
    numbers = values.view(pa.int64())
    # Division goes towards zero, and what it leaves is nothing only where it is exact.
    rest = pc.subtract(numbers, pc.multiply(pc.divide(numbers, unit), unit))
    if pc.any(pc.not_equal(rest, 0)).as_py():
        raise Inexact(f"which has more than {column.precision} digits of a second")
