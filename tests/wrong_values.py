"""Values of the typed form made wrong, for bugs that tests plant."""

from decimal import ROUND_DOWN, Context, Decimal

import pyarrow as pa
import pyarrow.compute as pc

from seamline.domain.catalogue import Column
from seamline.values.build import array_of, values_of

_EXACT = Context(prec=1_000, rounding=ROUND_DOWN)


def later(moments: pa.Array, *, microseconds: int) -> pa.Array:
    return pc.add(moments.view(pa.int64()), microseconds).view(moments.type)


def cut_off(column: Column, numbers: pa.Array, *, places: int) -> pa.Array:
    """Decimals without what they have behind so many places."""
    return array_of(column, [_cut_off(number, places) for number in values_of(column, numbers)])


def _cut_off(number: Decimal | None, places: int) -> Decimal | None:
    if number is None or not number.is_finite() or -int(number.as_tuple().exponent) <= places:
        return number
    return number.quantize(Decimal(1).scaleb(-places), context=_EXACT)
