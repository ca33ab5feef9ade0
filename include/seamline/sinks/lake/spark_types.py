"""What becomes of each kind of column in tables whose types are Spark's, and the way back to the typed form.

| kind | type |
|---|---|
| integer, year | integer, or long from 33 bits on |
| unsigned, bits up to 64 | decimal(20, 0) |
| decimal up to 38 digits | decimal of the declared digits; else string, its canonical text |
| float, double, boolean, date | float, double, boolean, date |
| datetime, instant | timestamp_ntz, timestamp |
| time, time of day | long: microseconds |
| interval, bits beyond 64 | string: the canonical text |
| char, string, enum, set, json, jsonb, native | string |
| binary, bytes | binary |
| uuid | string: the canonical text |

A table without a key has one column more: `seamline_row_hash`, 128 bits of the row's identity, by which a row that goes
is found. Values that the lake's type does not have (infinite dates and moments, NaN in a decimal) are refused by name.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.errors import Refused
from seamline.sinks.lake import columns
from seamline.sinks.lake.columns import WHOLE_DIGITS, is_text, stored_column
from seamline.sinks.lake.identity import ROW_HASH, identities
from seamline.values.arrow import arrow_type, schema_of
from seamline.values.build import array_of
from seamline.values.digest import canonical_texts

NTZ = "timestamp_ntz"
_WHOLE = f"decimal({WHOLE_DIGITS},0)"
_NAMES: dict[Kind, str] = {
    Kind.UNSIGNED: _WHOLE,
    Kind.FLOAT: "float",
    Kind.DOUBLE: "double",
    Kind.BOOLEAN: "boolean",
    Kind.BINARY: "binary",
    Kind.BYTES: "binary",
    Kind.DATE: "date",
    Kind.DATETIME: NTZ,
    Kind.INSTANT: "timestamp",
    Kind.TIME: "long",
    Kind.TIME_OF_DAY: "long",
    Kind.YEAR: "integer",
}
_ARROW: Mapping[str, pa.DataType] = {
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "binary": pa.large_binary(),
    "date": pa.date32(),
    NTZ: pa.timestamp("us"),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "string": pa.large_string(),
}


@dataclass(frozen=True, slots=True)
class Field:
    """A column as it is stored. `of`: Spark's name of its type."""

    name: str
    of: str
    nullable: bool


def fields_of(table: Table) -> list[Field]:
    """Of the table's files, the row hash of one without a key with them."""
    fields = [
        Field(column.name, type_name(column), column.nullable and column.name not in table.key)
        for column in table.columns
    ]
    return fields if table.is_keyed else [*fields, Field(ROW_HASH, "binary", nullable=False)]


def type_name(column: Column) -> str:
    match column.kind:
        case Kind.INTEGER:
            return "long" if arrow_type(column) == pa.int64() else "integer"
        case Kind.DECIMAL:
            return "string" if is_text(column) else f"decimal({column.precision},{column.scale})"
        case Kind.BITS:
            return "string" if is_text(column) else _WHOLE
        case _:
            return _NAMES.get(column.kind, "string")


def arrow_fields(fields: Iterable[Field]) -> pa.Schema:
    """Refused: a type that no sync writes."""
    return pa.schema([pa.field(one.name, _arrow_of(one.of), one.nullable) for one in fields])


def decimal_digits(name: str) -> tuple[int, int]:
    """Precision and scale of a decimal type."""
    precision, scale = name.removeprefix("decimal(").removesuffix(")").split(",")
    return int(precision), int(scale)


def stored_as(schema: pa.Schema, table: Table, rows: pa.RecordBatch) -> pa.Table:
    """Rows of the typed form as they lie in files of this schema, the row hash of keyless ones with them."""
    arrays = [
        stored_column_of(table, column, values) for column, values in zip(table.columns, rows.columns, strict=True)
    ]
    if not table.is_keyed:
        arrays.append(identities(table, rows))
    return pa.Table.from_arrays(
        [values.cast(field.type) for values, field in zip(arrays, schema, strict=True)], schema=schema
    )


def typed(table: Table, rows: pa.Table | pa.RecordBatch) -> pa.RecordBatch:
    """The inverse of `stored_as`: all columns of the table, by their names."""
    return pa.RecordBatch.from_arrays(
        [typed_column(column, rows.column(column.name)) for column in table.columns], schema=schema_of(table)
    )


def typed_column(column: Column, values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Stored values of one column in the typed form."""
    if column.kind is Kind.UUID:
        return array_of(column, values.to_pylist())
    return columns.typed_column(column, values)


def stored_column_of(table: Table, column: Column, values: pa.Array) -> pa.Array:
    """Values of the typed form, to be cast to what is stored. SchemaConflict for one that has no place there."""
    if column.kind is Kind.UUID:
        return canonical_texts(column, values)
    return stored_column(table, column, values)


def _arrow_of(name: object) -> pa.DataType:
    if isinstance(name, str) and name in _ARROW:
        return _ARROW[name]
    if isinstance(name, str) and name.startswith("decimal("):
        return pa.decimal128(*decimal_digits(name))
    raise Refused(f"a column of the type {name} was made by somebody else", hint="onboard the sync again")
