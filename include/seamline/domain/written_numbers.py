"""Whether a number with a point is the one that somebody has written. Pure.

It is where the column's own number, written with as many digits, is the same: 0.1 is a float, and 16777217 is none.
"""

import re
from decimal import Decimal, InvalidOperation

_NO_FINITE_NUMBER = re.compile(r"[+-]?(?:nan|inf(?:inity)?)", re.IGNORECASE)


def is_no_finite_number(text: str) -> bool:
    return _NO_FINITE_NUMBER.fullmatch(text) is not None


def is_written(text: str, value: float) -> bool:
    """`value`: what the column holds of `text`."""
    if is_no_finite_number(text):
        return True
    try:
        number = Decimal(text)
    except InvalidOperation:
        return False
    return Decimal(format(value, f".{len(number.as_tuple().digits)}g")) == number
