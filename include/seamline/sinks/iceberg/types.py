"""What becomes of each kind of column in an Iceberg table, and the way back to the typed form.

| kind | Iceberg |
|---|---|
| integer, year | int, or long from 33 bits on |
| unsigned, bits up to 64 | decimal(20, 0) |
| decimal up to 38 digits | decimal of the declared digits; else string, its canonical text |
| float, double, boolean, date | float, double, boolean, date |
| datetime, instant | timestamp, timestamptz |
| time, time of day | long: microseconds |
| interval, bits beyond 64 | string: the canonical text |
| char, string, enum, set, json, jsonb, native | string |
| binary, bytes | binary |
| uuid | uuid |

A table without a key has one column more: `seamline_row_hash`, 128 bits of the row's identity, by which a row that goes
is found. Values that the lake's type does not have (infinite dates and moments, NaN in a decimal) are refused by name.
"""

import re

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.errors import SchemaConflict
from seamline.sinks.lake.identity import HASH_BYTES, ROW_HASH, identities
from seamline.values.arrow import arrow_type, is_exact_text, schema_of
from seamline.values.build import array_of
from seamline.values.digest import canonical_texts
from seamline.values.special import special_mask

_DECIMAL_DIGITS = 38
_WHOLE_TEXTS = DecimalType(20, 0)
_INTERVAL = re.compile(r"(-?\d+)m(-?\d+)d(-?\d+)")
_HINT = "correct the value at the source, or leave the table out of the sync: a lake has no place for it"

_TYPES: dict[Kind, IcebergType] = {
    Kind.UNSIGNED: _WHOLE_TEXTS,
    Kind.FLOAT: FloatType(),
    Kind.DOUBLE: DoubleType(),
    Kind.BOOLEAN: BooleanType(),
    Kind.BINARY: BinaryType(),
    Kind.BYTES: BinaryType(),
    Kind.DATE: DateType(),
    Kind.DATETIME: TimestampType(),
    Kind.INSTANT: TimestamptzType(),
    Kind.TIME: LongType(),
    Kind.TIME_OF_DAY: LongType(),
    Kind.YEAR: IntegerType(),
    Kind.UUID: UUIDType(),
}
# Of these the special values are refused; of floats they are numbers like any other.
_SPECIAL_REFUSED = frozenset({Kind.DATE, Kind.DATETIME, Kind.INSTANT, Kind.DECIMAL})


def iceberg_type(column: Column) -> IcebergType:
    """What a column is stored as."""
    match column.kind:
        case Kind.INTEGER:
            return LongType() if arrow_type(column) == pa.int64() else IntegerType()
        case Kind.DECIMAL:
            return StringType() if _is_text_in_a_lake(column) else DecimalType(column.precision, column.scale)
        case Kind.BITS:
            return StringType() if is_exact_text(column) else _WHOLE_TEXTS
        case _:
            return _TYPES.get(column.kind, StringType())


def iceberg_schema(table: Table) -> Schema:
    """The schema of a table, its fields numbered in the order of the columns from 1 on."""
    fields = [
        NestedField(number, column.name, iceberg_type(column), required=not column.nullable or column.name in table.key)
        for number, column in enumerate(table.columns, 1)
    ]
    if not table.is_keyed:
        fields.append(NestedField(len(fields) + 1, ROW_HASH, FixedType(HASH_BYTES), required=True))
    return Schema(*fields)


def stored(table: Table, rows: pa.RecordBatch) -> pa.Table:
    """Rows of the typed form as they lie in the table's Parquet files, the row hash of keyless ones with them."""
    schema = storage_schema(table)
    arrays = [_stored(table, column, values) for column, values in zip(table.columns, rows.columns, strict=True)]
    if not table.is_keyed:
        arrays.append(identities(table, rows))
    return pa.Table.from_arrays(
        [_as_type(values, field.type) for values, field in zip(arrays, schema, strict=True)], schema=schema
    )


def storage_schema(table: Table) -> pa.Schema:
    """The Arrow schema of the Parquet files; its fields carry Iceberg's numbers."""
    found: pa.Schema = schema_to_pyarrow(iceberg_schema(table), include_field_ids=True)
    return found


def typed(table: Table, rows: pa.Table | pa.RecordBatch) -> pa.RecordBatch:
    """The inverse of `stored`: all columns of the table, by their names."""
    return pa.RecordBatch.from_arrays(
        [typed_column(column, rows.column(column.name)) for column in table.columns], schema=schema_of(table)
    )


def typed_column(column: Column, values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Stored values of one column in the typed form."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    of = arrow_type(column)
    match column.kind:
        case Kind.TIME | Kind.TIME_OF_DAY:
            return values.cast(pa.int64()).view(of)
        case Kind.INTERVAL:
            return array_of(column, [_interval(text) for text in values.to_pylist()])
        case Kind.DECIMAL if _is_text_in_a_lake(column) and not is_exact_text(column):
            return array_of(column, values.to_pylist())
        case _:
            return values.cast(of)


def refuse_special(table: Table, column: Column, values: pa.Array) -> None:
    """SchemaConflict for a value that the lake's type does not have."""
    if column.kind not in _SPECIAL_REFUSED or isinstance(iceberg_type(column), StringType):
        return
    count = pc.sum(special_mask(column, values)).as_py() or 0
    if count:
        raise SchemaConflict(
            f"{count} values of column {column.name} {column.source_type} are infinite or no numbers",
            hint=_HINT,
            table=table.name,
        )


def _stored(table: Table, column: Column, values: pa.Array) -> pa.Array:
    refuse_special(table, column, values)
    match column.kind:
        case Kind.TIME | Kind.TIME_OF_DAY:
            return values.view(pa.int64())
        case Kind.INTERVAL:
            return canonical_texts(column, values)
        case Kind.DECIMAL if _is_text_in_a_lake(column) and not is_exact_text(column):
            return canonical_texts(column, values)
        case Kind.UNSIGNED | Kind.BITS if not is_exact_text(column):
            return values.cast(pa.decimal128(20, 0))
        case _:
            return values


def _as_type(values: pa.Array, of: pa.DataType) -> pa.Array:
    if isinstance(of, pa.ExtensionType):
        return pa.ExtensionArray.from_storage(of, values)
    return values if values.type == of else values.cast(of)


def _is_text_in_a_lake(column: Column) -> bool:
    return is_exact_text(column) or not 0 < column.precision <= _DECIMAL_DIGITS or column.scale < 0


def _interval(text: str | None) -> tuple[int, ...] | float | None:
    if text is None:
        return None
    found = _INTERVAL.fullmatch(text)
    return tuple(map(int, found.groups())) if found else float(text)
