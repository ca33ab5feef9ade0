"""The one typed form of a row: each kind of column as an Arrow type, each table as an Arrow schema.

| kind | Arrow |
|---|---|
| integer | int16, int32 or int64, the least that holds `length` bits |
| unsigned | uint64 |
| decimal | decimal128 or decimal256 of the declared digits (one more where NaN may come); else its canonical text |
| float, double | float32, float64 |
| boolean | bool |
| bits | uint64; more than 64 bits are their canonical text |
| char, string, enum, set, json, jsonb | large_utf8 |
| binary, bytes | large_binary |
| date | date32 |
| datetime, instant | timestamp[us], that of an instant with the zone UTC |
| time, time of day | duration[us] |
| interval | struct of months (int32), days (int32) and microseconds (int64) |
| year | int16 |
| uuid | fixed_size_binary(16) |

Texts and bytes have offsets of 64 bits: a batch is counted in rows, and 65,536 values of 33 kB are more than 2 GiB.
An interval is not Arrow's month_day_nano: that counts nanoseconds in 64 bits, which end at 2,562,047 hours, where
PostgreSQL has a thousand times as many; and neither Parquet nor our encoder of binary COPY takes it. What is special
in a kind, as infinite dates, is in `special.py`.
"""

import json
from dataclasses import asdict
from functools import lru_cache

import pyarrow as pa

from seamline.domain.catalogue import Column, Kind, Table, alterations
from seamline.domain.errors import InvariantViolated, SchemaConflict
from seamline.values.special import may_be_nan

TEXT = pa.large_utf8()
BYTES = pa.large_binary()
INTERVAL = pa.struct([("months", pa.int32()), ("days", pa.int32()), ("microseconds", pa.int64())])
_DECIMAL128_DIGITS = 38
_DECIMAL256_DIGITS = 76
_UINT64_BITS = 64
# Metadata of a field: the column's facts as JSON, and a mark where numbers are texts.
_COLUMN = b"seamline.column"
_EXACT_TEXT = b"seamline.exact_text"
# Metadata of a schema.
_TABLE = b"seamline.table"
_KEY = b"seamline.key"


def arrow_type(column: Column) -> pa.DataType:
    """The Arrow type of a column; every value of the source fits it exactly, or is refused by name."""
    match column.kind:
        case Kind.INTEGER:
            return _integer_type(column.length)
        case Kind.DECIMAL:
            return _decimal_type(column)
        case Kind.BITS:
            return pa.uint64() if column.length <= _UINT64_BITS else TEXT
        case _:
            return _TYPES[column.kind]


_TYPES = {
    Kind.UNSIGNED: pa.uint64(),
    Kind.FLOAT: pa.float32(),
    Kind.DOUBLE: pa.float64(),
    Kind.BOOLEAN: pa.bool_(),
    Kind.CHAR: TEXT,
    Kind.STRING: TEXT,
    Kind.BINARY: BYTES,
    Kind.BYTES: BYTES,
    Kind.DATE: pa.date32(),
    Kind.DATETIME: pa.timestamp("us"),
    Kind.INSTANT: pa.timestamp("us", tz="UTC"),
    Kind.TIME: pa.duration("us"),
    Kind.TIME_OF_DAY: pa.duration("us"),
    Kind.INTERVAL: INTERVAL,
    Kind.YEAR: pa.int16(),
    Kind.ENUM: TEXT,
    Kind.SET: TEXT,
    Kind.JSON: TEXT,
    Kind.JSONB: TEXT,
    Kind.NATIVE: TEXT,
    Kind.UUID: pa.binary(16),
}


def _integer_type(bits: int) -> pa.DataType:
    if not 0 < bits <= 32:
        return pa.int64()
    return pa.int16() if bits <= 16 else pa.int32()


def _decimal_type(column: Column) -> pa.DataType:
    digits = column.precision + may_be_nan(column)
    # PostgreSQL has scales beyond the precision too; Parquet has not.
    if not column.precision or digits > _DECIMAL256_DIGITS or column.scale > column.precision:
        return TEXT
    return (pa.decimal128 if digits <= _DECIMAL128_DIGITS else pa.decimal256)(digits, column.scale)


def is_exact_text(column: Column) -> bool:
    """Whether the column holds numbers that no Arrow number holds: their canonical texts stand for them."""
    return column.kind in (Kind.DECIMAL, Kind.BITS) and arrow_type(column) == TEXT


# Every small batch of changes asks for its schema again.
@lru_cache(maxsize=10_000)
def field_of(column: Column) -> pa.Field:
    """The Arrow field of a column, with the column's facts as metadata."""
    metadata = {_COLUMN: json.dumps(asdict(column)).encode()}
    if is_exact_text(column):
        metadata[_EXACT_TEXT] = b"true"
    return pa.field(column.name, arrow_type(column), column.nullable, metadata)


@lru_cache(maxsize=1_000)
def schema_of(table: Table) -> pa.Schema:
    """The Arrow schema of a table's rows, from which `table_of` reads the table again."""
    metadata = {_TABLE: table.name.encode(), _KEY: json.dumps(table.key).encode()}
    return pa.schema([field_of(column) for column in table.columns], metadata)


def table_of(schema: pa.Schema) -> Table:
    """The inverse of `schema_of`, without what a table's schema is not made of: estimate of rows, origin."""
    metadata = schema.metadata or {}
    if _TABLE not in metadata or _KEY not in metadata:
        raise InvariantViolated("an Arrow schema does not say of which table it is: make it by schema_of")
    columns = tuple(column_of(field) for field in schema)
    return Table(metadata[_TABLE].decode(), columns, tuple(json.loads(metadata[_KEY])))


def column_of(field: pa.Field) -> Column:
    """The inverse of `field_of`."""
    facts = (field.metadata or {}).get(_COLUMN)
    if facts is None:
        raise InvariantViolated(f"the Arrow field {field.name} does not say what its column is: make it by field_of")
    document = json.loads(facts)
    return Column(**{**document, "kind": Kind(document["kind"])})


def require_schema(table: Table, schema: pa.Schema) -> None:
    """SchemaConflict unless the schema is that of the table, facts and all."""
    faults = alterations(table, table_of(schema))
    for field in schema:
        expected = arrow_type(column_of(field))
        if field.type != expected:
            faults.append(f"{table.name}.{field.name} is {field.type} in Arrow, should be {expected}")
    if faults:
        raise SchemaConflict("; ".join(faults), hint="read the catalogue again", table=table.name)
