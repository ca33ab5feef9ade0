"""What becomes of each kind of column in a Hive table of Parquet files, and the way back to the typed form.

| kind | Hive | Parquet |
|---|---|---|
| integer, year | int, or bigint from 33 bits on | INT32, INT64 |
| unsigned, bits up to 64 | decimal(20,0) | DECIMAL(20, 0) |
| decimal up to 38 digits | decimal of the declared digits; else string, its canonical text | DECIMAL, UTF8 |
| float, double, boolean, date | float, double, boolean, date | the same |
| datetime | timestamp, as it is | TIMESTAMP(us), not adjusted to UTC |
| instant | timestamp, in UTC | TIMESTAMP(us), not adjusted to UTC |
| time, time of day | bigint: microseconds | INT64 |
| interval, bits beyond 64 | string: the canonical text | UTF8 |
| char, string, enum, set, json, jsonb, native | string | UTF8 |
| binary, bytes | binary | BYTE_ARRAY |
| uuid | string: the canonical text | UTF8 |

Hive has one type of moments and no zone in it. Values that these types do not have (infinite dates and moments, NaN in
a decimal) are refused by name.
"""

import re

import pyarrow as pa
import pyarrow.compute as pc

from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.errors import SchemaConflict
from seamline.values.arrow import arrow_type, is_exact_text, schema_of
from seamline.values.build import array_of
from seamline.values.digest import canonical_texts
from seamline.values.special import special_mask

_DECIMAL_DIGITS = 38
_WHOLE = "decimal(20,0)"
_TYPES: dict[Kind, str] = {
    Kind.UNSIGNED: _WHOLE,
    Kind.FLOAT: "float",
    Kind.DOUBLE: "double",
    Kind.BOOLEAN: "boolean",
    Kind.BINARY: "binary",
    Kind.BYTES: "binary",
    Kind.DATE: "date",
    Kind.DATETIME: "timestamp",
    Kind.INSTANT: "timestamp",
    Kind.TIME: "bigint",
    Kind.TIME_OF_DAY: "bigint",
    Kind.YEAR: "int",
}
_ARROW: dict[str, pa.DataType] = {
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "string": pa.string(),
}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_INTERVAL = re.compile(r"(-?\d+)m(-?\d+)d(-?\d+)")
# Of these the special values are refused; of floats they are numbers like any other.
_SPECIAL_REFUSED = frozenset({Kind.DATE, Kind.DATETIME, Kind.INSTANT, Kind.DECIMAL})
_HINT = "correct the value at the source, or leave the table out of the sync: Hive has no place for it"


def hive_type(column: Column) -> str:
    """As a metastore writes it."""
    match column.kind:
        case Kind.INTEGER:
            return "bigint" if arrow_type(column) == pa.int64() else "int"
        case Kind.DECIMAL:
            return "string" if _is_text(column) else f"decimal({column.precision},{column.scale})"
        case Kind.BITS:
            return "string" if is_exact_text(column) else _WHOLE
        case _:
            return _TYPES.get(column.kind, "string")


def hive_columns(table: Table) -> tuple[tuple[str, str], ...]:
    """(name, type) in the order of the table. A metastore keeps names in lower case; engines find those of the files
    whatever their case."""
    return tuple((column.name.lower(), hive_type(column)) for column in table.columns)


def storage_schema(table: Table) -> pa.Schema:
    """The Arrow schema of the Parquet files, from which `values.arrow.table_of` reads the table again."""
    whole = schema_of(table)
    fields = [
        pa.field(column.name, _arrow_of(hive_type(column)), metadata=field.metadata)
        for field, column in zip(whole, table.columns, strict=True)
    ]
    return pa.schema(fields, whole.metadata)


def stored(table: Table, rows: pa.RecordBatch) -> pa.Table:
    """Rows of the typed form as they lie in the table's Parquet files."""
    schema = storage_schema(table)
    arrays = [_stored(table, column, values) for column, values in zip(table.columns, rows.columns, strict=True)]
    return pa.Table.from_arrays(
        [values.cast(field.type) for values, field in zip(arrays, schema, strict=True)], schema=schema
    )


def typed(table: Table, rows: pa.Table | pa.RecordBatch) -> pa.RecordBatch:
    """The inverse of `stored`."""
    return pa.RecordBatch.from_arrays(
        [typed_column(column, rows.column(column.name)) for column in table.columns], schema=schema_of(table)
    )


def typed_column(column: Column, values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Stored values of one column in the typed form."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    of = arrow_type(column)
    match column.kind:
        case Kind.TIME | Kind.TIME_OF_DAY:
            return values.view(of)
        case Kind.INSTANT:
            return values.cast(pa.timestamp("us")).view(of)
        case Kind.INTERVAL:
            return array_of(column, [_interval(text) for text in values.to_pylist()])
        case Kind.UUID:
            return array_of(column, values.to_pylist())
        case Kind.DECIMAL if _is_text(column) and not is_exact_text(column):
            return array_of(column, values.to_pylist())
        case _:
            return values.cast(of)


def _stored(table: Table, column: Column, values: pa.Array) -> pa.Array:
    _refuse_special(table, column, values)
    match column.kind:
        case Kind.TIME | Kind.TIME_OF_DAY:
            return values.view(pa.int64())
        case Kind.INSTANT:
            return values.view(pa.timestamp("us"))
        case Kind.INTERVAL | Kind.UUID:
            return canonical_texts(column, values)
        case Kind.DECIMAL if _is_text(column) and not is_exact_text(column):
            return canonical_texts(column, values)
        case Kind.UNSIGNED | Kind.BITS if not is_exact_text(column):
            return values.cast(pa.decimal128(20, 0))
        case _:
            return values


def _refuse_special(table: Table, column: Column, values: pa.Array) -> None:
    if column.kind not in _SPECIAL_REFUSED or hive_type(column) == "string":
        return
    if count := pc.sum(special_mask(column, values)).as_py() or 0:
        raise SchemaConflict(
            f"{count} values of column {column.name} {column.source_type} are infinite or no numbers",
            hint=_HINT,
            table=table.name,
        )


def _arrow_of(of: str) -> pa.DataType:
    found = _DECIMAL.fullmatch(of)
    return pa.decimal128(int(found[1]), int(found[2])) if found else _ARROW[of]


def _is_text(column: Column) -> bool:
    """Hive's decimals have 38 digits at most, and none of these before the first or behind the last of the number."""
    return (
        is_exact_text(column)
        or not 0 < column.precision <= _DECIMAL_DIGITS
        or not 0 <= column.scale <= column.precision
    )


def _interval(text: str | None) -> tuple[int, ...] | float | None:
    if text is None:
        return None
    found = _INTERVAL.fullmatch(text)
    return tuple(map(int, found.groups())) if found else float(text)
