"""Whole tables out of MariaDB or MySQL through one session that stands where it stands: nobody is waited for.

Its rows come through PyMySQL one by one, table after table.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pymysql

from seamline.adapters.connections import Connection
from seamline.databases.mysql.bulk_types import expression_of
from seamline.databases.mysql.canonical import quoted
from seamline.databases.mysql.client import Server
from seamline.databases.mysql.read import condition_of, relation_of
from seamline.databases.mysql.watched import WatchedSession
from seamline.domain.catalogue import Column, Kind
from seamline.domain.errors import SchemaConflict
from seamline.domain.table_places import TablePlaces
from seamline.kinds.bulk import ArrowRows, BulkRead
from seamline.values.arrow import arrow_type, schema_of

BATCH_ROWS = 8_192


class SessionReaders:
    """`kinds.bulk.TableReaders` through a session whose snapshot is open. It is not closed here.

    `proof`: where it stands.
    """

    def __init__(
        self,
        session: WatchedSession,
        connection: Connection,
        reads: Sequence[BulkRead],
        *,
        server: Server,
        proof: str,
        places: TablePlaces | None = None,
    ) -> None:
        self._session = session
        self._connection = connection
        self.reads = reads
        self._server = server
        self._proof = proof
        self._places = places or TablePlaces(connection.database)

    def open_at_barrier(self) -> None:
        """There is nobody else."""

    def rows(self, number: int, *, proven: Callable[[str], None]) -> ArrowRows:
        proven(self._proof)
        return ArrowRows(schema_of(self.reads[number].table), self._batches(self.reads[number]))

    def close(self) -> None: ...

    def _batches(self, read: BulkRead) -> Iterator[pa.RecordBatch]:
        table = read.table
        place, condition = relation_of(self._places.of(table.name), table), condition_of(table, read.segment)
        columns = ", ".join(self._expression(column) for column in table.columns)
        cursor = self._session.cursor(pymysql.cursors.SSCursor)
        try:
            cursor.execute(f"SELECT {columns} FROM {place} WHERE {condition}")
            while rows := self._next(cursor):
                values = zip(*rows, strict=True)
                arrays = [_array(column, its) for column, its in zip(table.columns, values, strict=True)]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema_of(table))
        except pymysql.err.MySQLError as exc:
            raise self._server.translated(exc, self._connection) from exc
        except _MisfitError as exc:
            raise SchemaConflict(
                f"a value of {table.name}.{exc.column.name} does not fit {exc.column.source_type}: {exc.__cause__}",
                hint="an invalid date (as 0000-00-00) has to be corrected at the source; was the column changed?",
                table=table.name,
            ) from exc
        finally:
            # To close it would read all rows that are left, of a read that may have failed at its first.
            cursor.connection = None  # type: ignore[assignment]

    def _next(self, cursor: pymysql.cursors.SSCursor) -> Sequence[tuple[Any, ...]]:
        with self._session.waiting():
            return cursor.fetchmany(BATCH_ROWS)

    def _expression(self, column: Column) -> str:
        if column.kind is Kind.FLOAT:
            # As text a FLOAT has six digits; as a DOUBLE it is exact.
            return f"CAST({quoted(column.name)} AS DOUBLE)"
        return expression_of(column, dialect=self._server.dialect)


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
