"""What a task reads the tables of a MariaDB source with: connectorx, or PyMySQL where the session is encrypted.

connectorx 0.4.6 can be given neither a CA nor a certificate, and does not even encrypt: its driver takes such things
from a program, never from a URL. A task that reads through PyMySQL has one session for all its tables, which it reads
one after another in any case. It is 12 times slower: 500,000 rows of five columns took 2.5 s instead of 0.2 s, to
chunks of a COPY (MariaDB 11.4.5, 2 cores).
"""

from collections.abc import Callable, Sequence
from contextlib import closing

import pymysql

from seamline.adapters.connections import Connection
from seamline.adapters.tls import tls_of
from seamline.databases.mysql import client
from seamline.databases.mysql.canonical import text_literal
from seamline.databases.mysql.snapshot_sessions import BEGIN_SNAPSHOT, close_all
from seamline.databases.mysql.watched import WatchedSession, what_hangs
from seamline.domain.errors import InvariantViolated, SeamlineError, TransientError
from seamline.domain.table_places import TablePlaces
from seamline.kinds.bulk import ArrowRows, BulkRead, TableReaders
from seamline.plan.model import SourcePlan
from seamline.sources.mariadb.bulk import BulkReaders
from seamline.sources.mariadb.one_session import OneSessionReaders
from seamline.sources.mariadb.sessions import open_session
from seamline.sources.mariadb.snapshot_barrier import BarrierLocks, Participant


def open_readers(source: SourcePlan, reads: Sequence[BulkRead], *, barrier: str, participant: int) -> TableReaders:
    """`SourceKind.open_readers`."""
    connection = client.role(source, source.reader)
    readers_of = EncryptedReaders if tls_of(connection).is_encrypted else BulkReaders
    return readers_of(connection, reads, locks=BarrierLocks(barrier), participant=participant, places=source.places)


def why_it_hangs(source: SourcePlan, waits_for: str) -> str:
    """`hanging.Look` at the session of connectorx that holds the user lock `waits_for`."""
    connection = client.role(source, source.reader)
    try:
        with closing(client.open_session(connection)) as session:
            ((number,),) = client.query(session, f"SELECT IS_USED_LOCK({text_literal(waits_for)})")
            return what_hangs(session, number or 0)
    except TransientError as exc:
        return f"the server does not answer another session either ({exc})"
    except (SeamlineError, pymysql.err.MySQLError):
        return ""  # it refuses the session, so it lives


class EncryptedReaders:
    """The tables of one participant of a snapshot barrier, through one session that stands at its position."""

    def __init__(
        self,
        connection: Connection,
        reads: Sequence[BulkRead],
        *,
        locks: BarrierLocks,
        participant: int,
        places: TablePlaces | None = None,
    ) -> None:
        self._connection = connection
        self._places = places
        self._reads = reads
        self._locks = locks
        self._participant = participant
        self._session: WatchedSession | None = None
        self._control = open_session(connection)

    def meet(self) -> None:
        try:
            participant = Participant(self._control, locks=self._locks, number=self._participant)
            participant.meet(open_all=self._open, close_all=self._close_session)
        except pymysql.err.MySQLError as exc:
            raise client.translated(exc, self._connection) from exc

    def rows(self, number: int, *, proven: Callable[[str], None]) -> ArrowRows:
        if self._session is None:
            raise InvariantViolated("the readers have not met yet")
        readers = OneSessionReaders(self._session, self._connection, self._reads, places=self._places)
        return readers.rows(number, proven=proven)

    def close(self) -> None:
        self._close_session()
        close_all([self._control])

    def _open(self, attempt: int) -> None:
        """It reports its address once for each table: the coordinator counts tables."""
        self._session = open_session(self._connection)
        for statement in (*self._locks.arrive(attempt=attempt, participant=self._participant), BEGIN_SNAPSHOT):
            client.query(self._session, statement)
        for read in self._reads:
            for statement in self._locks.publish_address(attempt=attempt, session=read.session):
                client.query(self._session, statement)

    def _close_session(self) -> None:
        if self._session is not None:
            close_all([self._session])
            self._session = None
