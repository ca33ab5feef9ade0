"""Expressions of a transform over Arrow, by the meaning that Spark gives them in ANSI mode and in UTC.

The list of operations is closed. Each is held against Spark over edge values and NULL
(`tests/spark/test_transform_against_spark.py`); what is not here is refused when the query is analysed. Where Spark
would end a query, as for a sum that does not fit, this raises: nothing becomes NULL on the way.

As in Spark, a branch is evaluated only for the rows that come to it.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from seamline.domain.row_transform import Expression, digits_of
from seamline.values.arrow import BYTES, TEXT

_TYPES = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "string": TEXT,
    "binary": BYTES,
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
INTEGERS = ("tinyint", "smallint", "int", "bigint")
MOMENTS = ("timestamp", "timestamp_ntz")
# Arrow's widest decimals.
_DIGITS_MAX = 76
_INT64_DIGITS = 19
# Decimals of so many digits are a long to Spark.
_LONG_DIGITS = 18
# Dates of years with four digits have one text everywhere.
_FIRST_DAY, _LAST_DAY = (pa.scalar(days, pa.int32()) for days in (-719_162, 2_932_896))
# Arrow writes decimals of so many digits behind the point without an exponent.
PLAIN_SCALE_MAX = 6


class NoResult(ValueError):
    """An expression has no result for a value, as a sum that does not fit."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Columns of equal length, by their names at the source, each in the Arrow type of its Spark type."""

    columns: Mapping[str, pa.Array]
    count: int

    def filter(self, mask: pa.BooleanArray) -> "Rows":
        return Rows({name: values.filter(mask) for name, values in self.columns.items()}, pc.sum(mask).as_py() or 0)


def arrow_type_of(spark: str) -> pa.DataType:
    """The Arrow type of values of a Spark type."""
    return pa.decimal128(*digits_of(spark)) if spark.startswith("decimal(") else _TYPES[spark]


def has_type(spark: str) -> bool:
    """Whether values of this Spark type can be computed here."""
    return spark in _TYPES or spark.startswith("decimal(")


def evaluated(expression: Expression, rows: Rows) -> pa.Array:
    """A value per row. NoResult where Spark would end the query."""
    try:
        found = _OPERATIONS[expression.op](expression, rows)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as exc:
        raise NoResult(str(exc).splitlines()[0]) from exc
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


# ---- values and types -----------------------------------------------------------------------------------------------


def _column(expression: Expression, rows: Rows) -> pa.Array:
    return rows.columns[expression.value or ""]


def _literal(expression: Expression, rows: Rows) -> pa.Array:
    return pa.repeat(_scalar(expression), rows.count)


def _scalar(expression: Expression) -> pa.Scalar:
    text, spark = expression.value, expression.type
    if text is None:
        return pa.scalar(None, arrow_type_of(spark))
    if spark.startswith("decimal("):
        return pa.scalar(Decimal(text), arrow_type_of(spark))
    if spark == "boolean":
        return pa.scalar(text == "true")
    if spark == "binary":
        return pa.scalar(bytes.fromhex(text), BYTES)
    if spark == "date":
        return pa.scalar(int(text), pa.int32()).cast(pa.date32())
    return pa.scalar(text if spark == "string" else int(text), arrow_type_of(spark))


def _cast(expression: Expression, rows: Rows) -> pa.Array:
    (inner,) = expression.args
    values, made = evaluated(inner, rows), expression.type
    if inner.type == made:
        return values
    if made.startswith("decimal("):
        return _as_decimal(values, inner.type, *digits_of(made))
    if made == "string":
        return _as_text(values, inner.type)
    if inner.type.startswith("decimal("):
        whole = pc.trunc(values)
        return pc.cast(whole, arrow_type_of(made))
    if made == "date":
        return pc.cast(pc.floor_temporal(values, unit="day"), pa.date32())
    return pc.cast(values, arrow_type_of(made))


def can_cast(given: str, made: str) -> bool:
    """Whether `_cast` is as exact as Spark's, or ends where that one does."""
    is_number = given in INTEGERS or given.startswith("decimal(")
    if given == made:
        return True
    if made in INTEGERS[:-1] and given.startswith("decimal("):
        # Spark goes by way of a double there, which rounds what has more digits.
        return digits_of(given)[0] <= _LONG_DIGITS
    if made in INTEGERS or made.startswith("decimal("):
        return is_number
    if made == "string":
        has_plain_text = given.startswith("decimal(") and digits_of(given)[1] <= PLAIN_SCALE_MAX
        return given in (*INTEGERS, "boolean", "date") or has_plain_text
    return (given, made) in (("string", "binary"), ("date", "timestamp_ntz"), *((one, "date") for one in MOMENTS))


def _as_text(values: pa.Array, given: str) -> pa.Array:
    if given == "boolean":
        return pc.if_else(values, pa.scalar("true", TEXT), pa.scalar("false", TEXT))
    if given == "date":
        _require_four_digits(values)
    return pc.cast(values, TEXT)


def _require_four_digits(dates: pa.Array) -> None:
    """Other years have other texts, and calendars that end."""
    days = dates.view(pa.int32())
    if pc.any(pc.or_(pc.less(days, _FIRST_DAY), pc.greater(days, _LAST_DAY))).as_py():
        raise NoResult("a date lies outside of the years 1 to 9999")


def _as_decimal(values: pa.Array, given: str, precision: int, scale: int) -> pa.Array:
    """Rounded half away from zero to `scale` digits, as Spark does; what has too many digits is refused."""
    if not given.startswith("decimal("):
        values = pc.cast(values, pa.int64()).cast(pa.decimal128(_INT64_DIGITS, 0))
    return _fitted(pc.cast(values, pa.decimal256(values.type.precision, values.type.scale)), precision, scale)


def _fitted(values: pa.Array, precision: int, scale: int) -> pa.Array:
    """A decimal256 in the decimal128 of these digits."""
    # What is rounded up may have a digit more.
    wide = pc.cast(values, pa.decimal256(_DIGITS_MAX, values.type.scale))
    if values.type.scale > scale:
        wide = pc.round(wide, ndigits=scale, round_mode="half_towards_infinity")
    return pc.cast(pc.cast(wide, pa.decimal256(_DIGITS_MAX, scale)), pa.decimal128(precision, scale))


# ---- numbers --------------------------------------------------------------------------------------------------------


def digits_needed(op: str, left: str, right: str) -> int:
    """Digits of the exact result of an operation on two decimals."""
    (p1, s1), (p2, s2) = digits_of(left), digits_of(right)
    if op == "multiply":
        return p1 + p2 + 1
    return max(p1 - s1, p2 - s2) + max(s1, s2) + 1


def can_compute(op: str, left: str, right: str) -> bool:
    """Whether Arrow has room for the exact result."""
    if left in INTEGERS:
        return left == right
    return (
        left.startswith("decimal(") and right.startswith("decimal(") and digits_needed(op, left, right) <= _DIGITS_MAX
    )


_CHECKED = {"add": pc.add_checked, "subtract": pc.subtract_checked, "multiply": pc.multiply_checked}


def _arithmetic(expression: Expression, rows: Rows) -> pa.Array:
    left, right = (evaluated(one, rows) for one in expression.args)
    compute = _CHECKED[expression.op]
    if expression.type in INTEGERS:
        return compute(left, right)
    left, right = (pc.cast(one, pa.decimal256(one.type.precision, one.type.scale)) for one in (left, right))
    return _fitted(compute(left, right), *digits_of(expression.type))


def _negated(expression: Expression, rows: Rows) -> pa.Array:
    values = evaluated(expression.args[0], rows)
    return pc.negate_checked(values) if expression.type in INTEGERS else pc.negate(values)


# ---- texts ----------------------------------------------------------------------------------------------------------


def _concat(expression: Expression, rows: Rows) -> pa.Array:
    parts = [evaluated(one, rows) for one in expression.args]
    return pc.binary_join_element_wise(*parts, pa.scalar("", TEXT), null_handling="emit_null")


def _substring(expression: Expression, rows: Rows) -> pa.Array:
    """By characters; the first is 1, and 0 means it too. A negative place counts from the end."""
    values = evaluated(expression.args[0], rows)
    place, length = (int(one.value or 0) for one in expression.args[1:])
    if length <= 0:
        return pc.if_else(values.is_valid(), pa.scalar("", TEXT), pa.scalar(None, TEXT))
    if place >= 0:
        start = max(place - 1, 0)
        return pc.utf8_slice_codeunits(values, start, start + length)
    end = place + length
    return pc.utf8_slice_codeunits(values, place, end if end < 0 else None)


def _length(expression: Expression, rows: Rows) -> pa.Array:
    """In characters."""
    return pc.cast(pc.utf8_length(evaluated(expression.args[0], rows)), pa.int32())


_TRIMMED = {"trim": pc.utf8_trim, "ltrim": pc.utf8_ltrim, "rtrim": pc.utf8_rtrim}


def _trim(expression: Expression, rows: Rows) -> pa.Array:
    """Of spaces alone."""
    return _TRIMMED[expression.op](evaluated(expression.args[0], rows), " ")


_PARTS = {"year": pc.year, "month": pc.month, "day": pc.day}


def _part_of_date(expression: Expression, rows: Rows) -> pa.Array:
    dates = evaluated(expression.args[0], rows)
    _require_four_digits(dates)
    return pc.cast(_PARTS[expression.op](dates), pa.int32())


def _sha2(expression: Expression, rows: Rows) -> pa.Array:
    """In lower hex."""
    values, bits = evaluated(expression.args[0], rows), int(expression.value or 0)
    digest = SHA2[bits]
    found = [None if one is None else digest(one).hexdigest() for one in values.to_pylist()]
    return pa.array(found, TEXT)


SHA2: Mapping[int, Callable[[bytes], "hashlib._Hash"]] = {
    0: hashlib.sha256,
    224: hashlib.sha224,
    256: hashlib.sha256,
    384: hashlib.sha384,
    512: hashlib.sha512,
}


# ---- conditions -----------------------------------------------------------------------------------------------------

_COMPARED = {
    "equal": pc.equal,
    "less": pc.less,
    "less_equal": pc.less_equal,
    "greater": pc.greater,
    "greater_equal": pc.greater_equal,
}


def can_compare(op: str, left: str, right: str) -> bool:
    """Texts and bytes are compared byte by byte, as Spark does."""
    return left == right and (left != "boolean" or op in ("equal", "equal_null_safe"))


def _comparison(expression: Expression, rows: Rows) -> pa.Array:
    left, right = (evaluated(one, rows) for one in expression.args)
    return _COMPARED[expression.op](left, right)


def _equal_null_safe(expression: Expression, rows: Rows) -> pa.Array:
    left, right = (evaluated(one, rows) for one in expression.args)
    return pc.fill_null(pc.equal(left, right), pc.and_(left.is_null(), right.is_null()))


def _in(expression: Expression, rows: Rows) -> pa.Array:
    """NULL where no value is equal and one is not known."""
    sought, *others = (evaluated(one, rows) for one in expression.args)
    found = pc.equal(sought, others[0])
    for other in others[1:]:
        found = pc.or_kleene(found, pc.equal(sought, other))
    return found


def _and(expression: Expression, rows: Rows) -> pa.Array:
    left = evaluated(expression.args[0], rows)
    return pc.and_kleene(left, _where(expression.args[1], rows, pc.fill_null(left, pa.scalar(value=True))))


def _or(expression: Expression, rows: Rows) -> pa.Array:
    left = evaluated(expression.args[0], rows)
    is_open = pc.invert(pc.fill_null(left, pa.scalar(value=False)))
    return pc.or_kleene(left, _where(expression.args[1], rows, is_open))


def _not(expression: Expression, rows: Rows) -> pa.Array:
    return pc.invert(evaluated(expression.args[0], rows))


def _is_null(expression: Expression, rows: Rows) -> pa.Array:
    return evaluated(expression.args[0], rows).is_null()


def _is_not_null(expression: Expression, rows: Rows) -> pa.Array:
    return evaluated(expression.args[0], rows).is_valid()


def _coalesce(expression: Expression, rows: Rows) -> pa.Array:
    found = evaluated(expression.args[0], rows)
    for one in expression.args[1:]:
        is_open = found.is_null()
        found = _replaced(found, is_open, one, rows)
    return found


def _case(expression: Expression, rows: Rows) -> pa.Array:
    """`args`: condition and value in turns, and what is left at the end, which may be nothing."""
    is_open = pa.repeat(pa.scalar(value=True), rows.count)
    found = pa.nulls(rows.count, arrow_type_of(expression.type))
    for number in range(0, len(expression.args) - 1, 2):
        holds = _where(expression.args[number], rows, is_open)
        is_chosen = pc.and_(is_open, pc.fill_null(holds, pa.scalar(value=False)))
        found = _replaced(found, is_chosen, expression.args[number + 1], rows)
        is_open = pc.and_not(is_open, is_chosen)
    if len(expression.args) % 2:
        found = _replaced(found, is_open, expression.args[-1], rows)
    return found


def _where(expression: Expression, rows: Rows, mask: pa.BooleanArray) -> pa.Array:
    """Values of the rows where `mask` is True, NULL in the others."""
    return _replaced(pa.nulls(rows.count, arrow_type_of(expression.type)), mask, expression, rows)


def _replaced(found: pa.Array, mask: pa.BooleanArray, expression: Expression, rows: Rows) -> pa.Array:
    """`found` with the expression's values in the rows where `mask` is True."""
    if not pc.any(mask).as_py():
        return found
    return pc.replace_with_mask(found, mask, evaluated(expression, rows.filter(mask)))


_OPERATIONS: Mapping[str, Callable[[Expression, Rows], pa.Array]] = {
    "column": _column,
    "literal": _literal,
    "cast": _cast,
    **dict.fromkeys(_CHECKED, _arithmetic),
    "negate": _negated,
    "concat": _concat,
    "substring": _substring,
    "length": _length,
    **dict.fromkeys(_TRIMMED, _trim),
    **dict.fromkeys(_PARTS, _part_of_date),
    "sha2": _sha2,
    **dict.fromkeys(_COMPARED, _comparison),
    "equal_null_safe": _equal_null_safe,
    "in": _in,
    "and": _and,
    "or": _or,
    "not": _not,
    "is_null": _is_null,
    "is_not_null": _is_not_null,
    "coalesce": _coalesce,
    "case": _case,
}
