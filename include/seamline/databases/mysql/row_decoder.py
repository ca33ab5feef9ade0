"""Row images of Debezium's connectors to MariaDB (3.5.0.Final) and MySQL (3.6.1.Final), with the settings of a Seamline
capture (decimals as text, bytes as base64, times in microseconds), in the typed form."""

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from seamline.adapters.debezium.row_decoder import (
    RowDecoder,
    Typed,
    as_read,
    bytes_of,
    decimals,
    each,
    from_base64,
    uuids,
)
from seamline.domain.catalogue import PARK_IT, Column, Kind
from seamline.domain.errors import SchemaConflict
from seamline.values.arrow import TEXT, arrow_type
from seamline.values.special import special_mask

# What connect/ writes for an invalid date, as 0000-00-00 or 2026-02-31: a day in 10,000 BC (RowsAsStored.java).
_NO_DATE_DAYS = -4_371_587
_MS_PER_DAY = 86_400_000
_NO_INSTANT = "-9999-"
# The connector writes the year 0000 so, which a YEAR cannot hold (3.5.0.Final).
_YEAR_ZERO = 1900


def _json_type(column: Column) -> pa.DataType:
    match column.kind:
        case Kind.INTEGER | Kind.YEAR | Kind.FLOAT | Kind.DOUBLE | Kind.BOOLEAN:
            return arrow_type(column)
        case Kind.DATE | Kind.DATETIME | Kind.TIME:
            return pa.int64()
        case Kind.BITS if column.length == 1:
            return pa.bool_()
        case _:
            return TEXT


def _typed(column: Column, values: pa.Array) -> pa.Array:
    return _TYPED.get(column.kind, as_read)(column, values)


def _unsigned(_: Column, values: pa.Array) -> pa.Array:
    """`bigint.unsigned.handling.mode=precise`: base64 of the two's complement, big end first, as short as can be."""
    numbers = [None if text is None else int.from_bytes(from_base64(text)) for text in values.to_pylist()]
    return pa.array(numbers, pa.uint64())


def _bits(column: Column, values: pa.Array) -> pa.Array:
    if column.length == 1:
        return values.cast(pa.uint64())
    return each(column, values, lambda text: text and int.from_bytes(from_base64(text), "little"))


def _day(column: Column, values: pa.Array) -> pa.Array:
    _require_dates(column, values, pc.equal(values, _NO_DATE_DAYS))
    return _plain(column, values.cast(pa.int32()).view(pa.date32()))


def _moment(column: Column, values: pa.Array) -> pa.Array:
    """Up to three digits of a second arrive as milliseconds, more as microseconds (`time.precision.mode`)."""
    unit = 1000 if column.precision <= 3 else 1
    _require_dates(column, values, pc.equal(values, _NO_DATE_DAYS * _MS_PER_DAY * (1000 // unit)))
    return _plain(column, pc.multiply_checked(values, unit).view(pa.timestamp("us")))


def _instant(column: Column, values: pa.Array) -> pa.Array:
    _require_dates(column, values, pc.starts_with(values, _NO_INSTANT))
    return pc.cast(values, arrow_type(column))


def _plain(column: Column, values: pa.Array) -> pa.Array:
    """No server has a value beyond the year 9999: such a number is not to be taken for a special one."""
    if pc.any(special_mask(column, values)).as_py():
        raise ValueError("it lies beyond every date")
    return values


def _require_dates(column: Column, values: pa.Array, is_none: pa.Array) -> None:
    """The snapshot's reader refuses an invalid date too."""
    found = values.filter(is_none)
    if len(found):
        raise SchemaConflict(
            f"column {column.name} holds an invalid date, as 0000-00-00, written as {found[0]}",
            hint=f"correct the value at the source, or leave the table out of the sync. {PARK_IT}",
        )


def _span(_: Column, values: pa.Array) -> pa.Array:
    return values.view(pa.duration("us"))


def _year(_: Column, values: pa.Array) -> pa.Array:
    return pc.if_else(pc.equal(values, pa.scalar(_YEAR_ZERO, values.type)), pa.scalar(0, values.type), values)


def _label(column: Column, values: pa.Array) -> pa.Array:
    """A log of before ADR 31 has a backslash before a comma inside a label; no label had its own then."""
    return values if "\\" in column.source_type else pc.replace_substring(values, "\\,", ",")


_TYPED: Mapping[Kind, Typed] = {
    Kind.UNSIGNED: _unsigned,
    Kind.DECIMAL: decimals,
    Kind.BITS: _bits,
    Kind.BINARY: bytes_of,
    Kind.BYTES: bytes_of,
    Kind.DATE: _day,
    Kind.DATETIME: _moment,
    Kind.INSTANT: _instant,
    Kind.TIME: _span,
    Kind.YEAR: _year,
    Kind.ENUM: _label,
    Kind.UUID: uuids,
}
DECODER = RowDecoder(_json_type, _typed)
