"""Numbers of PostgreSQL as texts, those of the server or of its connector, in the typed form."""

from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from seamline.adapters.debezium.row_decoder import decimals, each, with_odd
from seamline.domain.catalogue import Column
from seamline.values.arrow import is_exact_text

_NUMBERS = {"NAN": "NaN", "POSITIVE_INFINITY": "Infinity", "NEGATIVE_INFINITY": "-Infinity"}
# A `numeric` without digits whose text is its canonical one; that of a zero has no sign.
_PLAIN_NUMBER = r"^(0|-?[1-9][0-9]*)(\.[0-9]+)?$|^-0\.[0-9]*[1-9][0-9]*$"


def decimal_of(column: Column, values: pa.Array) -> pa.Array:
    """Texts, those of the server or of the connector, in the type of a DECIMAL."""
    if is_exact_text(column) and column.precision:
        return each(column, values, lambda text: text and _number(text))
    if is_exact_text(column):
        is_odd = pc.invert(pc.match_substring_regex(values, _PLAIN_NUMBER))
        return with_odd(column, values, is_odd, plain=lambda found: found, odd=_number)
    is_odd = pc.is_in(values, pa.array([*_NUMBERS, *_NUMBERS.values()], values.type))
    return with_odd(column, values, is_odd, plain=lambda found: decimals(column, found), odd=_number)


def _number(text: str) -> Decimal:
    return Decimal(_NUMBERS.get(text, text))
