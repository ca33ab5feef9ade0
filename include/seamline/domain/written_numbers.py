"""Whether a number with a point is the one that somebody has written. Pure.

It is where the column's own number, written with as many digits, is the same: 0.1 is a float, and 16777217 is none.
"""

import re
from decimal import Decimal, InvalidOperation

_NO_FINITE_NUMBER = re.compile(r"[+-]?(?:nan|inf(?:inity)?)", re.IGNORECASE)
# With so many digits.
_FORMS = tuple(f".{digits}g" for digits in range(18))


def is_no_finite_number(text: str) -> bool:
    return _NO_FINITE_NUMBER.fullmatch(text) is not None


def is_written(text: str, value: float) -> bool:
    """`value`: what the column holds of `text`."""
    # Most writers write no zeros behind it: then nothing has to be counted exactly.
    digits = len(text.lstrip("-0.").replace(".", ""))
    if (digits < len(_FORMS) and format(value, _FORMS[digits]) == text) or is_no_finite_number(text):
        return True
    try:
        number = Decimal(text)
    except InvalidOperation:
        return False
    return Decimal(format(value, f".{len(number.as_tuple().digits)}g")) == number
