"""Whether a value of a column is the very one that the file holds. Pure."""

import pyarrow as pa
import pyarrow.compute as pc

from seamline.domain.catalogue import Column, Kind
from seamline.domain.written_numbers import is_written
from seamline.values.arrow import is_exact_text

_REALS = (Kind.FLOAT, Kind.DOUBLE)
_MOMENTS = (Kind.DATETIME, Kind.INSTANT, Kind.TIME, Kind.TIME_OF_DAY)
# What Arrow makes of other types with less than they hold: of a moment its date, of 2 the word `true`.
_CUT = (*_REALS, Kind.DECIMAL, Kind.BOOLEAN, Kind.DATE)
# So many digits come back from any number of these sizes, the smallest of which has all its digits.
_DIGITS = {Kind.FLOAT: 6, Kind.DOUBLE: 15}
_SMALLEST = {Kind.FLOAT: 2.0**-126, Kind.DOUBLE: 2.0**-1022}
_FRACTION = 6
# As databases print a number without declared digits.
_EXACT_NUMBER = r"^(-?(0|[1-9][0-9]*)(\.[0-9]+)?|NaN|-?Infinity)$"
_WITHOUT_SECONDS = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}(:?[0-9]{2})?)?Z?$"
# As a spreadsheet writes a number with many digits. Java writes 0E-18 and 1E-7, and has rounded nothing.
_LARGE = r"^[+-]?[0-9.]*[1-9][0-9.]*[eE]\+?[0-9]+$"
_DIGITS_ALONE, _HEX = r"^-?[0-9]+$", r"^[0-9a-fA-F]*$"
# Of what others take in more writings than one can answer for.
_WRITTEN = {
    **dict.fromkeys((Kind.INTEGER, Kind.UNSIGNED, Kind.BITS, Kind.YEAR), _DIGITS_ALONE),
    **dict.fromkeys((Kind.BINARY, Kind.BYTES), _HEX),
    Kind.INSTANT: "^[^Z]*Z?$",
    Kind.UUID: r"^(urn:uuid:)?\{?[0-9a-fA-F-]+\}?$",
}


class Inexact(ValueError):
    """What the column would make of a value, as the end of a sentence about it."""


def require_exact(column: Column, given: pa.Array, values: pa.Array) -> None:
    """`given`: as the file has them; `values`: of the column. Inexact: one of them would be rounded."""
    if column.kind in _MOMENTS:
        _require_fraction(column, values)
    elif not is_text(given.type):
        _require_same(column, given, values)
    elif column.kind in _REALS:
        _require_written(column, given, values)


def is_text(of: pa.DataType) -> bool:
    return bool(pa.types.is_string(of) or pa.types.is_large_string(of))


def require_written(column: Column, texts: pa.Array) -> None:
    """Inexact or ValueError: a text leaves open which value it stands for, or is written otherwise than such a value.
    What Arrow and Python make of those is a guess: of 0xFF the number -1, of a date alone its midnight, of 32 signs
    with an underscore in them a shorter uuid. Numbers that no Arrow number holds stay their texts."""
    if column.kind in (Kind.DATETIME, Kind.INSTANT) and _any(texts, _WITHOUT_SECONDS):
        raise Inexact(
            "which leaves hours, minutes or seconds open: in CSV a declared `form`, as `%Y-%m-%d %H:%M`, says which; a"
            " text in Parquet has all of them"
        )
    if column.kind is Kind.DECIMAL and not is_exact_text(column) and _any(texts, _LARGE):
        raise Inexact("which has an exponent, as a spreadsheet writes a large number that it has rounded")
    wanted = _EXACT_NUMBER if is_exact_text(column) else _WRITTEN.get(column.kind)
    if wanted and pc.any(pc.invert(pc.match_substring_regex(texts, wanted))).as_py():
        raise ValueError("a text is written otherwise")


def _any(texts: pa.Array, pattern: str) -> bool:
    return bool(pc.any(pc.match_substring_regex(texts, pattern), min_count=0).as_py())


def require_unit(column: Column, of: pa.DataType) -> None:
    """Inexact: the type of the file's values leaves open which dates or moments they are."""
    if column.kind in (Kind.DATE, Kind.DATETIME) and pa.types.is_timestamp(of) and of.tz is not None:
        raise Inexact("which has a zone: declare it as instant")
    if column.kind in (Kind.DATE, Kind.DATETIME, Kind.INSTANT) and pa.types.is_integer(of):
        raise Inexact("which is a number without a unit")


def _require_written(column: Column, texts: pa.Array, values: pa.Array) -> None:
    size = pc.abs(values)
    is_plain = pc.and_(
        pc.and_(pc.greater_equal(size, _SMALLEST[column.kind]), pc.is_finite(values)),
        pc.less_equal(pc.utf8_length(texts), _DIGITS[column.kind]),
    )
    open_ones = pc.and_(pc.invert(is_plain), pc.not_equal(texts, values.cast(texts.type)))
    chosen = pc.fill_null(open_ones, fill_value=False)
    for text, value in zip(texts.filter(chosen).to_pylist(), values.filter(chosen).to_pylist(), strict=True):
        if not is_written(text, value):
            raise Inexact(f"which a {column.source_type} would hold as {value}")


def _require_same(column: Column, given: pa.Array, values: pa.Array) -> None:
    if column.kind not in _CUT or pa.types.is_null(given.type):
        return
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
