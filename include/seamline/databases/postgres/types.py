"""How each kind of column is stored in PostgreSQL."""

from seamline.databases.postgres.canonical import quoted
from seamline.domain.catalogue import Column, Kind, Table

# A varchar longer than this is refused by PostgreSQL; the source's own limit then stands in its catalogue only.
_VARCHAR_MAX = 10_485_760


def destination_type(column: Column) -> str:
    """The PostgreSQL type of a live, staged or cut column. Every value of the source fits it exactly."""
    match column.kind:
        case Kind.INTEGER:
            return _integer_type(column.length)
        case Kind.UNSIGNED:
            return "numeric(20)"
        case Kind.DECIMAL:
            return f"numeric({column.precision},{column.scale})" if column.precision else "numeric"
        case Kind.BITS:
            return "numeric(20)" if column.length > 63 else "bigint"
        case Kind.CHAR | Kind.STRING:
            # Not character(n): it would pad, and PostgreSQL compares it in its own way.
            return f"varchar({column.length})" if 0 < column.length <= _VARCHAR_MAX else "text"
        case Kind.NATIVE:
            return column.native
        case Kind.DATETIME | Kind.INSTANT | Kind.TIME_OF_DAY:
            return _MOMENTS[column.kind].format(precision=column.precision)
        case _:
            return _FIXED[column.kind]


_MOMENTS = {
    Kind.DATETIME: "timestamp({precision}) without time zone",
    Kind.INSTANT: "timestamp({precision}) with time zone",
    Kind.TIME_OF_DAY: "time({precision}) without time zone",
}
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
    Kind.INTERVAL: "interval",
    Kind.JSON: "text",
    Kind.JSONB: "jsonb",
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
