"""Whole tables out of MariaDB or MySQL through one session that stands where it stands: nobody is waited for.

Its rows come through PyMySQL one by one, table after table.
"""

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
import pymysql

from seamline.adapters.connections import Connection
from seamline.databases.mysql.client import Server
from seamline.databases.mysql.read import condition_of, relation_of
from seamline.databases.mysql.session_rows import session_rows
from seamline.databases.mysql.watched import WatchedSession
from seamline.domain.table_places import TablePlaces
from seamline.kinds.bulk import ArrowRows, BulkRead
from seamline.values.arrow import schema_of


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
        try:
            yield from session_rows(
                self._session,
                table,
                relation=relation_of(self._places.of(table.name), table),
                condition=condition_of(table, read.segment),
                dialect=self._server.dialect,
            )
        except pymysql.err.MySQLError as exc:
            raise self._server.translated(exc, self._connection) from exc
