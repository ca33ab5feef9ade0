"""Values that a column of a source may hold and that most destinations have no place for.

Each is carried or refused, by the one table below. A carried value that the column's Arrow type does not have is a
number that no other value of the column can be. `special_mask` finds them: a sink stores them or refuses them by name.
A sink that forgets to ask sends a number that is too large for the declared type, which its server refuses.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from seamline.domain.catalogue import Column, Kind

INFINITE_DAY = 2**31 - 1
INFINITE_MOMENT = 2**63 - 1
# PostgreSQL's own form of them: all fields at their end.
INFINITE_INTERVAL = (2**31 - 1, 2**31 - 1, 2**63 - 1)
BEFORE_ALL_INTERVALS = (-(2**31), -(2**31), -(2**63))
# 294247-01-10 04:00:54.775806. PostgreSQL's last moment, 294276-12-31 23:59:59.999999, has more microseconds since 1970
# than 64 bits hold. The numbers of those behind are the ones that `connect/` writes: below every moment that there is.
# PostgreSQL's own digests round such moments to tens of microseconds (extract(epoch)), those over Arrow do not.
LAST_PLAIN_MOMENT = 2**63 - 2
LAST_MOMENT = 9_224_318_015_999_999_999
_BEHIND = -5 * 10**18
_BEHIND_MAX = _BEHIND + LAST_MOMENT - LAST_PLAIN_MOMENT
_NOT_FINITE = ("NaN", "Infinity", "-Infinity")


@dataclass(frozen=True, slots=True)
class SpecialValue:
    """`carried_as` says how it stands in Arrow; "" where it is refused by name when it is read."""

    value: str
    carried_as: str = ""


_INFINITE_MOMENTS = SpecialValue("infinity, -infinity", "2^63-1 and -(2^63-1); -2^63 is no value to pandas")
_MOMENTS_BEHIND = SpecialValue(
    "from 294247-01-10 04:00:54.775807 to 294276-12-31 23:59:59.999999",
    "microseconds behind 294247-01-10 04:00:54.775806, minus 5·10^18, as in the log",
)
_FAR_MOMENTS = SpecialValue("before the year 1, after the year 9999", "microseconds since 1970, as all others")
_NO_DATES = SpecialValue("zero and invalid dates of MariaDB, as 0000-00-00 and 2026-02-31")
_NOT_FINITE_FLOATS = SpecialValue("NaN, infinity, -infinity, -0", "the numbers that IEEE 754 has for them")
_NUL = SpecialValue("the character NUL", "any character; PostgreSQL refuses it")
_NO_TEXT = SpecialValue("bytes that are no letters of their character set", "the question mark that MariaDB sends")
_MOMENTS = (_INFINITE_MOMENTS, _MOMENTS_BEHIND, _FAR_MOMENTS, _NO_DATES)

SPECIAL_VALUES: Mapping[Kind, tuple[SpecialValue, ...]] = {
    Kind.INTEGER: (),
    Kind.UNSIGNED: (),
    Kind.DECIMAL: (
        SpecialValue("NaN of a declared precision", "10^(precision - scale), one digit more than declared"),
        SpecialValue("NaN, infinity, -infinity without one", "the texts NaN, Infinity, -Infinity"),
    ),
    Kind.FLOAT: (_NOT_FINITE_FLOATS,),
    Kind.DOUBLE: (_NOT_FINITE_FLOATS,),
    Kind.BOOLEAN: (),
    Kind.BITS: (),
    Kind.CHAR: (_NUL, _NO_TEXT),
    Kind.STRING: (_NUL, _NO_TEXT),
    Kind.BINARY: (),
    Kind.BYTES: (),
    Kind.DATE: (
        SpecialValue("infinity, -infinity", "2^31-1 and -(2^31-1) days"),
        SpecialValue("before the year 1, after the year 9999", "days since 1970, as all others"),
        _NO_DATES,
    ),
    Kind.DATETIME: _MOMENTS,
    Kind.INSTANT: _MOMENTS,
    Kind.TIME: (SpecialValue("beyond a day, as -838:59:59", "microseconds, as all others"),),
    Kind.TIME_OF_DAY: (SpecialValue("24:00:00", "86,400,000,000 microseconds"),),
    Kind.INTERVAL: (SpecialValue("infinity, -infinity", "all three fields at their largest, or smallest"),),
    Kind.YEAR: (SpecialValue("0000", "0"),),
    Kind.ENUM: (SpecialValue("MariaDB's error value", "the empty text"), _NUL),
    Kind.SET: (_NUL,),
    Kind.JSON: (SpecialValue("numbers of any size, repeated keys", "any text"),),
    Kind.JSONB: (),
    Kind.NATIVE: (),
    Kind.UUID: (),
}


def special_in_words(kind: Kind) -> list[str]:
    """What becomes of each special value of a kind, a line each."""
    return [
        f"{one.value}: {f'carried as {one.carried_as}' if one.carried_as else 'refused by name where it is read'}"
        for one in SPECIAL_VALUES[kind]
    ]


def may_be_nan(column: Column) -> bool:
    """Whether a DECIMAL of declared digits may hold NaN: PostgreSQL's `numeric` may, `decimal` of others may not."""
    return column.kind is Kind.DECIMAL and not column.source_type.lower().startswith("decimal")


def nan_number(column: Column) -> Decimal:
    """What stands for NaN in a DECIMAL of declared digits: the least number that is too large for it."""
    return Decimal(1).scaleb(column.precision - column.scale)


def stored_moment(microseconds: int) -> int:
    """The number that stands for a finite moment, given its microseconds since 1970."""
    if microseconds <= LAST_PLAIN_MOMENT:
        return microseconds
    return _BEHIND + microseconds - LAST_PLAIN_MOMENT


def moment_of(stored: int) -> int:
    """The inverse of `stored_moment`."""
    return stored - _BEHIND + LAST_PLAIN_MOMENT if stored <= _BEHIND_MAX else stored


def has_special(column: Column, values: pa.Array) -> bool:
    """Whether `special_mask` is True anywhere."""
    return bool(pc.any(_mask(column, values)).as_py())


def special_mask(column: Column, values: pa.Array) -> pa.BooleanArray:
    """True where a value is none of the ordinary ones of the column's Arrow type, or is no finite number."""
    found = pc.fill_null(_mask(column, values), False)  # noqa: FBT003 (an Arrow value)
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def _mask(column: Column, values: pa.Array) -> pa.Array:
    match column.kind:
        case Kind.DATE:
            days = values.view(pa.int32())
            return pc.or_(*(pc.equal(days, pa.scalar(end, pa.int32())) for end in (INFINITE_DAY, -INFINITE_DAY)))
        case Kind.DATETIME | Kind.INSTANT:
            numbers = values.view(pa.int64())
            is_before = pc.less_equal(numbers, pa.scalar(_BEHIND_MAX, pa.int64()))
            return pc.or_(is_before, pc.equal(numbers, pa.scalar(INFINITE_MOMENT, pa.int64())))
        case Kind.INTERVAL:
            fields = values.flatten()
            found = [_all_equal(fields, ends) for ends in (INFINITE_INTERVAL, BEFORE_ALL_INTERVALS)]
            return pc.or_(*found)
        case Kind.FLOAT | Kind.DOUBLE:
            return pc.invert(pc.is_finite(values))
        case Kind.DECIMAL if pa.types.is_decimal(values.type):
            if not may_be_nan(column):
                return pa.nulls(len(values), pa.bool_())
            return pc.equal(values, pa.scalar(nan_number(column), values.type))
        case Kind.DECIMAL:
            return pc.is_in(values, pa.array(_NOT_FINITE, values.type))
        case _:
            return pa.nulls(len(values), pa.bool_())


def _all_equal(fields: Sequence[pa.Array], ends: tuple[int, int, int]) -> pa.Array:
    months, days, microseconds = (
        pc.equal(field, pa.scalar(end, field.type)) for field, end in zip(fields, ends, strict=True)
    )
    return pc.and_(pc.and_(months, days), microseconds)
