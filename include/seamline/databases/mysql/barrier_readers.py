"""What a task reads whole tables of MariaDB or MySQL with: a session of its own, at the position of all others."""

from collections.abc import Callable, Sequence

import pymysql

from seamline.adapters.connections import Connection
from seamline.databases.mysql.client import Server, query
from seamline.databases.mysql.one_session import SessionReaders
from seamline.databases.mysql.snapshot_barrier import BarrierLocks, Participant
from seamline.databases.mysql.snapshot_sessions import Snapshots, close_all
from seamline.databases.mysql.watched import WatchedSession
from seamline.domain.errors import InvariantViolated
from seamline.domain.table_places import TablePlaces
from seamline.kinds.bulk import ArrowRows, BulkRead


class BarrierReaders:
    """`kinds.bulk.TableReaders`: the tables of one participant of a snapshot barrier, read one after another through
    one session."""

    def __init__(
        self,
        connection: Connection,
        reads: Sequence[BulkRead],
        *,
        server: Server,
        snapshots: Snapshots,
        locks: BarrierLocks,
        participant: int,
        places: TablePlaces | None = None,
    ) -> None:
        self._connection = connection
        self._reads = reads
        self._server = server
        self._snapshots = snapshots
        self._locks = locks
        self._participant = participant
        self._places = places or TablePlaces(connection.database)
        self._session: WatchedSession | None = None
        self._readers: SessionReaders | None = None
        # Of the barrier's locks some outlive an attempt, and with it a session.
        self._control = server.open_reading_session(connection)

    def open_at_barrier(self) -> None:
        """Open the session at the coordinator's position."""
        try:
            participant = Participant(self._control, locks=self._locks, number=self._participant)
            participant.open_at_barrier(open_all=self._open, close_all=self._close_session)
            if self._session is None:
                raise InvariantViolated("the readers have met without a session")
            ((proof,),) = query(self._session, f"SELECT {self._snapshots.proof}")
            self._begin_to_read(self._session, str(proof))
        except pymysql.err.MySQLError as exc:
            raise self._server.translated(exc, self._connection) from exc

    def rows(self, number: int, *, proven: Callable[[str], None]) -> ArrowRows:
        """The rows of one table; before the first the session's place is `proven`, by its own word."""
        if self._readers is None:
            raise InvariantViolated("the readers have not met yet")
        return self._readers.rows(number, proven=proven)

    def close(self) -> None:
        self._close_session()
        close_all([self._control])

    def _begin_to_read(self, session: WatchedSession, proof: str) -> None:
        self._readers = SessionReaders(
            session, self._connection, self._reads, server=self._server, proof=proof, places=self._places
        )

    def _open(self, attempt: int) -> None:
        self._session = self._server.open_reading_session(self._connection)
        for statement in self._locks.opening(self._snapshots, attempt=attempt, participant=self._participant):
            query(self._session, statement)

    def _close_session(self) -> None:
        if self._session is not None:
            close_all([self._session])
            self._session = None
