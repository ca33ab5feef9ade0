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

from uuid import UUID

import pyarrow as pa
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
from seamline.sinks.lake.columns import WHOLE_DIGITS, is_text, stored_column, typed_column
from seamline.sinks.lake.identity import HASH_BYTES, ROW_HASH, identities
from seamline.values.arrow import arrow_type, schema_of
from seamline.values.digest import canonical_texts

_WHOLE_TEXTS = DecimalType(WHOLE_DIGITS, 0)

__all__ = ["iceberg_schema", "iceberg_type", "storage_schema", "stored", "typed", "typed_column"]
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


def iceberg_type(column: Column) -> IcebergType:
    """What a column is stored as."""
    match column.kind:
        case Kind.INTEGER:
            return LongType() if arrow_type(column) == pa.int64() else IntegerType()
        case Kind.DECIMAL:
            return StringType() if is_text(column) else DecimalType(column.precision, column.scale)
        case Kind.BITS:
            return StringType() if is_text(column) else _WHOLE_TEXTS
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
    arrays = [stored_column(table, column, values) for column, values in zip(table.columns, rows.columns, strict=True)]
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


def framed(table: Table, rows: pa.RecordBatch) -> list[pa.Array]:
    """The columns of `stored` as Spark takes them: it has no type for a uuid, and none for bytes of one length."""
    found = stored(table, rows)
    arrays = [values.combine_chunks() for values in found.columns]
    for place, column in enumerate(table.columns):
        if column.kind is Kind.UUID:
            arrays[place] = canonical_texts(column, rows.column(place))
    return [values.cast(pa.binary()) if pa.types.is_fixed_size_binary(values.type) else values for values in arrays]


def from_frame(column: Column, values: pa.ChunkedArray) -> pa.Array:
    """What Spark answers, in the typed form."""
    if column.kind is Kind.UUID:
        return pa.array([None if text is None else UUID(text).bytes for text in values.to_pylist()], pa.binary(16))
    return typed_column(column, values)


def _as_type(values: pa.Array, of: pa.DataType) -> pa.Array:
    if isinstance(of, pa.ExtensionType):
        return pa.ExtensionArray.from_storage(of, values)
    return values if values.type == of else values.cast(of)
