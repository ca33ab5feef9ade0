"""The forms in which row images of the log arrive, per kind of source, and the SQL that turns them into stored values.

A row image (Debezium's JSON) is staged in its wire form, which Arrow and CSV carry without loss; the cast to the stored
type is an SQL expression inside the statement that applies the span.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from seamline.databases.postgres.canonical import quoted
from seamline.databases.postgres.native_types import comes_as_bytes
from seamline.domain.catalogue import Column, Kind
from seamline.domain.unavailable_values import UNAVAILABLE, UNAVAILABLE_BYTES, UNAVAILABLE_PAIR

_DAY_US = 86_400_000_000


@dataclass(frozen=True, slots=True)
class WireForm:
    """How a value arrives: the Arrow type of the JSON field and the column type of the staging table, which also reads
    the words `NaN` and `Infinity`."""

    arrow: pa.DataType
    staging: str


WHOLE = WireForm(pa.int64(), "bigint")
REAL = WireForm(pa.float64(), "double precision")
TRUTH = WireForm(pa.bool_(), "boolean")
TEXT = WireForm(pa.string(), "text")
# A cast to varchar(n) cuts what is longer without a word; only the assignment to a column of that type refuses it.
UNLIMITED = "varchar"


class Cast(Protocol):
    def __call__(self, column: Column, *, of: str) -> str:
        """SQL that turns the wire form `of` into the stored value; NULL stays NULL."""


@dataclass(frozen=True, slots=True)
class WireForms:
    """The wire forms of one kind of source."""

    form: Callable[[Column], WireForm]
    cast: Cast

    @staticmethod
    def unavailable(column: Column) -> str:
        """The text that stands where the log left a value out."""
        if column.native == "hstore":
            return UNAVAILABLE_PAIR
        return UNAVAILABLE_BYTES if column.kind in (Kind.BINARY, Kind.BYTES) or comes_as_bytes(column) else UNAVAILABLE

    def arrow_schema(self, columns: Sequence[Column]) -> pa.Schema:
        return pa.schema([(column.name, self.form(column).arrow) for column in columns])

    def staging_definitions(self, columns: Sequence[Column]) -> str:
        """The column list of a staging table that holds wire forms."""
        return ", ".join(f"{quoted(column.name)} {self.form(column).staging}" for column in columns)


def unit_of(column: Column) -> str:
    """Up to three digits of a second arrive as milliseconds, more as microseconds (`time.precision.mode`)."""
    return "millisecond" if column.precision <= 3 else "microsecond"


def moment(of: str, unit: str) -> str:
    """Units since 1970 as a timestamp without zone.

    In two steps, because interval arithmetic goes through double precision, which is exact to 2^53 only: year 9999 in
    microseconds lies beyond. Both division and remainder round towards zero, so years before 1970 come out right.
    """
    per_day = _DAY_US if unit == "microsecond" else _DAY_US // 1000
    return f"((date '1970-01-01'+({of}/{per_day})::int)::timestamp+mod({of},{per_day})*interval '1 {unit}')"
