"""How each kind of column is read out of MariaDB or MySQL in bulk."""

from seamline.databases.mysql.canonical import MARIADB, Dialect, quoted
from seamline.domain.catalogue import Column, Kind
from seamline.domain.errors import SchemaConflict


def expression_of(column: Column, *, dialect: Dialect = MARIADB) -> str:
    """How a column is read: as it is where clients give its Arrow type, or one that casts to it without loss."""
    name = quoted(column.name)
    match column.kind:
        case Kind.DECIMAL:
            # As text. CONCAT makes it faster than CAST: reading 14 columns, two of them decimals, takes 8 % less.
            return f"CONCAT({name})"
        case Kind.BITS:
            return f"CAST({name}+0 AS UNSIGNED)"
        case Kind.BOOLEAN | Kind.YEAR:
            return f"CAST({name}+0 AS SIGNED)"
        case Kind.TIME:
            return f"CAST({dialect.micros.format(name=name)} AS SIGNED)"
        case Kind.JSON:
            return dialect.document.format(name=name)
        case Kind.UUID:
            return f"UNHEX(REPLACE(CAST({name} AS CHAR),'-',''))"
        case Kind.TIME_OF_DAY | Kind.INTERVAL | Kind.JSONB | Kind.NATIVE:
            raise SchemaConflict(f"no column of the source is of kind {column.kind.value}: {column.name}")
        case _:
            return name
