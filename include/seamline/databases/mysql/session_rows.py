"""The rows of a statement in the typed form, through one session of MariaDB or MySQL, by PyMySQL."""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pymysql

from seamline.databases.mysql.bulk_types import expression_of
from seamline.databases.mysql.canonical import Dialect, quoted
from seamline.databases.mysql.watched import WatchedSession
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.errors import SchemaConflict
from seamline.values.arrow import arrow_type, schema_of

BATCH_ROWS = 8_192


def session_rows(
    session: WatchedSession, table: Table, *, relation: str, condition: str, dialect: Dialect
) -> Iterator[pa.RecordBatch]:
    """Its rows that fulfil the condition, in batches of its schema. Raises what the client raises, and SchemaConflict.

    They are read to their end, or the session serves for nothing more.
    """
    columns = ", ".join(_expression(column, dialect) for column in table.columns)
    cursor = session.cursor(pymysql.cursors.SSCursor)
    try:
        cursor.execute(f"SELECT {columns} FROM {relation} WHERE {condition}")
        while rows := _next(session, cursor):
            values = zip(*rows, strict=True)
            arrays = [_array(column, its) for column, its in zip(table.columns, values, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema_of(table))
    except _MisfitError as exc:
        raise SchemaConflict(
            f"a value of {table.name}.{exc.column.name} does not fit {exc.column.source_type}: {exc.__cause__}",
            hint="an invalid date (as 0000-00-00) has to be corrected at the source; was the column changed?",
            table=table.name,
        ) from exc
    finally:
        # To close it would read all rows that are left, of a read that may have failed at its first.
        cursor.connection = None  # type: ignore[assignment]


def _next(session: WatchedSession, cursor: pymysql.cursors.SSCursor) -> Sequence[tuple[Any, ...]]:
    with session.waiting():
        return cursor.fetchmany(BATCH_ROWS)


def _expression(column: Column, dialect: Dialect) -> str:
    if column.kind is Kind.FLOAT:
        # As text a FLOAT has six digits; as a DOUBLE it is exact.
        return f"CAST({quoted(column.name)} AS DOUBLE)"
    return expression_of(column, dialect=dialect)


class _MisfitError(Exception):
    def __init__(self, column: Column) -> None:
        super().__init__(column.name)
        self.column = column


def _array(column: Column, values: Sequence[Any]) -> pa.Array:
    """A safe cast: a value that does not fit raises, nothing is rounded or cut."""
    arrow = arrow_type(column)
    try:
        if pa.types.is_decimal(arrow):
            return pa.array([None if value is None else str(value) for value in values], pa.string()).cast(arrow)
        if pa.types.is_boolean(arrow) or pa.types.is_duration(arrow):
            return pa.array(values, pa.int64()).cast(arrow)
        return pa.array(values, arrow)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as exc:
        raise _MisfitError(column) from exc
