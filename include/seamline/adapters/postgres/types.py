"""The one table of types: how each kind of column is stored in PostgreSQL, and how a row image of the log becomes it.

A row image (Debezium's JSON) is staged in its wire form, which Arrow and CSV carry without loss; the cast to the
stored type is an SQL expression inside the statement that applies the span. Wire forms seen on Debezium's MariaDB
connector 3.5.0.Final with the settings of a Seamline capture (decimal and bytes as text, times in microseconds).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from seamline.adapters.postgres.canonical import quoted
from seamline.domain.catalogue import Column, Kind, Table

# A varchar longer than this is refused by PostgreSQL; the source's own limit then stands in its catalogue only.
_VARCHAR_MAX = 10_485_760
_DAY_US = 86_400_000_000


@dataclass(frozen=True, slots=True)
class WireForm:
    """How a value arrives: the Arrow type of the JSON field and the column type of the staging table."""

    arrow: pa.DataType
    staging: str


_WHOLE = WireForm(pa.int64(), "bigint")
_REAL = WireForm(pa.float64(), "double precision")
_TRUTH = WireForm(pa.bool_(), "boolean")
_TEXT = WireForm(pa.string(), "text")


def destination_type(column: Column) -> str:
    """The PostgreSQL type of a live, staged or cut column. Every value of the source fits it exactly."""
    match column.kind:
        case Kind.INTEGER:
            return _integer_type(column.length)
        case Kind.UNSIGNED:
            return "numeric(20)"
        case Kind.DECIMAL:
            return f"numeric({column.precision},{column.scale})"
        case Kind.BITS:
            return "numeric(20)" if column.length > 63 else "bigint"
        case Kind.CHAR | Kind.STRING:
            # Not character(n): it would pad, and PostgreSQL compares it in its own way.
            return f"varchar({column.length})" if 0 < column.length <= _VARCHAR_MAX else "text"
        case Kind.DATETIME:
            return f"timestamp({column.precision}) without time zone"
        case Kind.INSTANT:
            return f"timestamp({column.precision}) with time zone"
        case _:
            return _FIXED[column.kind]


# TIME is an interval because MariaDB's goes to ±838:59:59.
_FIXED = {
    Kind.FLOAT: "real",
    Kind.DOUBLE: "double precision",
    Kind.BOOLEAN: "boolean",
    Kind.BINARY: "bytea",
    Kind.BYTES: "bytea",
    Kind.DATE: "date",
    Kind.TIME: "interval",
    Kind.YEAR: "smallint",
    Kind.ENUM: "text",
    Kind.SET: "text",
    Kind.JSON: "text",
    Kind.UUID: "uuid",
}


def _integer_type(bits: int) -> str:
    if bits <= 16:
        return "smallint" if bits else "bigint"
    return "integer" if bits <= 32 else "bigint"


def column_definitions(table: Table) -> str:
    """The column list of CREATE TABLE: names and types of the destination, NOT NULL as in the source, no keys."""
    return ", ".join(
        f"{quoted(column.name)} {destination_type(column)}{'' if column.nullable else ' NOT NULL'}"
        for column in table.columns
    )


def wire_form(column: Column) -> WireForm:
    match column.kind:
        case Kind.INTEGER | Kind.YEAR | Kind.DATE | Kind.DATETIME | Kind.TIME:
            return _WHOLE
        case Kind.FLOAT | Kind.DOUBLE:
            return _REAL
        case Kind.BOOLEAN:
            return _TRUTH
        case Kind.BITS:
            return _TRUTH if column.length == 1 else _TEXT
        case _:
            return _TEXT


def arrow_schema(columns: Sequence[Column]) -> pa.Schema:
    return pa.schema([(column.name, wire_form(column).arrow) for column in columns])


def staging_definitions(columns: Sequence[Column]) -> str:
    """The column list of a staging table that holds wire forms."""
    return ", ".join(f"{quoted(column.name)} {wire_form(column).staging}" for column in columns)


def cast_expression(column: Column, *, of: str) -> str:
    """SQL that turns the wire form `of` into the stored value; NULL stays NULL."""
    match column.kind:
        case Kind.UNSIGNED:
            return _unsigned(of)
        case Kind.BITS:
            return f"{of}::int::bigint" if column.length == 1 else _little_endian(of, column)
        case Kind.BINARY | Kind.BYTES:
            return f"decode({of},'base64')"
        case Kind.DATE:
            return f"(date '1970-01-01'+{of}::int)"
        case Kind.DATETIME:
            # Up to three digits arrive as milliseconds, more as microseconds (time.precision.mode).
            return _datetime(of, "millisecond" if column.precision <= 3 else "microsecond")
        case Kind.TIME:
            return f"({of}*interval '1 microsecond')"
        case Kind.ENUM:
            # The connector puts a backslash before a comma inside a label (seen on 3.5.0.Final).
            return f"replace({of},'\\,',',')"
        case _:
            return f"{of}::{destination_type(column)}"


def _datetime(of: str, unit: str) -> str:
    # In two steps, because interval arithmetic goes through double precision, which is exact to 2^53 only: year 9999
    # in microseconds lies beyond. Both division and remainder round towards zero, so years before 1970 come out right.
    per_day = _DAY_US if unit == "microsecond" else _DAY_US // 1000
    return f"((date '1970-01-01'+({of}/{per_day})::int)::timestamp+mod({of},{per_day})*interval '1 {unit}')"


def _unsigned(of: str) -> str:
    # `bigint.unsigned.handling.mode=precise`: base64 of the two's complement, big end first, as short as it can be.
    digits = f"right('000000000000000'||encode(decode({of},'base64'),'hex'),16)"
    high, low = (f"('x'||substr({digits},{start},8))::bit(32)::bigint" for start in (1, 9))
    # bit(32)::bigint keeps the sign bit out: 32 bits never reach bit 63.
    return f"(({high})::numeric*4294967296+({low}))"


def _little_endian(of: str, column: Column) -> str:
    value = f"decode({of},'base64')"
    parts = [
        f"(CASE WHEN octet_length({value})>{index} THEN get_byte({value},{index}) ELSE 0 END)::numeric*{256**index}"
        for index in range((column.length + 7) // 8)
    ]
    return f"(CASE WHEN {of} IS NULL THEN NULL ELSE ({'+'.join(parts)})::{destination_type(column)} END)"
