"""Whole tables out of MariaDB in the typed form, all at one position.

connectorx decodes natively, and opens a connection of its own per query. It gets one to a `SessionRelay`, which lends
it the participant's one session. That session stands at the snapshot barrier's position and has said so itself.

Wire types are chosen from the catalogue, never from what a driver guesses (connectorx 0.4.6: DECIMAL is cut to scale
10, TIME beyond a day and zero dates end the read).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import connectorx
import pyarrow as pa
import pyarrow.compute as pc
import pymysql

from seamline.adapters.children import native_wait
from seamline.adapters.connections import Connection
from seamline.databases.mysql.barrier_readers import BarrierReaders
from seamline.databases.mysql.bulk_types import expression_of
from seamline.databases.mysql.canonical import quoted
from seamline.databases.mysql.client import MARIADB, translated
from seamline.databases.mysql.read import condition_of, relation_of
from seamline.databases.mysql.snapshot_barrier import BarrierLocks, take, used
from seamline.databases.mysql.snapshot_sessions import SnapshotLock
from seamline.databases.mysql.watched import WatchedSession
from seamline.domain.catalogue import Table
from seamline.domain.digest import Segment
from seamline.domain.errors import InvariantViolated, SchemaConflict, SeamlineError, TransientError
from seamline.domain.table_places import TablePlace, TablePlaces
from seamline.kinds.bulk import ArrowRows, BulkRead
from seamline.sources.mariadb.relay import SessionRelay
from seamline.sources.mariadb.sessions import MariaDbSnapshots
from seamline.values.arrow import arrow_type, schema_of

BATCH_ROWS = 65_536


def bulk_statement(lies: TablePlace, table: Table, segment: Segment) -> str:
    columns = ", ".join(f"{expression_of(column)} AS {quoted(column.name)}" for column in table.columns)
    return f"SELECT {columns} FROM {relation_of(lies, table)} WHERE {condition_of(table, segment)}"


class BulkReaders(BarrierReaders):
    """The tables of one participant of a snapshot barrier, read one after another through one session.

    For a process that does nothing else meanwhile: connectorx 0.4.6 keeps Python's lock while it waits for rows. And
    that forks no more: a child in which connectorx runs may die of what threads of its parent have left.
    """

    def __init__(
        self,
        connection: Connection,
        reads: Sequence[BulkRead],
        *,
        locks: BarrierLocks,
        participant: int,
        places: TablePlaces | None = None,
    ) -> None:
        # Which lock is allowed is the coordinator's business.
        snapshots = MariaDbSnapshots(connection, SnapshotLock.NONE)
        super().__init__(
            connection,
            reads,
            server=MARIADB,
            snapshots=snapshots,
            locks=locks,
            participant=participant,
            places=places,
        )
        self._relay: SessionRelay | None = None
        self._proof = ""
        # By this lock the session can be found at the server, should it hang.
        self._named = locks.name("reading", attempt=0, participant=participant)

    def rows(self, number: int, *, proven: Callable[[str], None]) -> ArrowRows:
        return ArrowRows(schema_of(self._reads[number].table), self.batches(number, proven=proven))

    def batches(self, number: int, *, proven: Callable[[str], None]) -> Iterator[pa.RecordBatch]:
        """The rows of one table; before the first the session's place is `proven`, by its own word."""
        if self._relay is None:
            raise InvariantViolated("the readers have not met yet")
        read = self._reads[number]
        self._require_session(read.table)
        proven(self._proof)
        with _foreign_errors(read.table), native_wait(self._named):
            source = connectorx.read_sql(
                self._relay.url,
                bulk_statement(self._places.of(read.table.name), read.table, read.segment),
                return_type="arrow_stream",
                batch_size=BATCH_ROWS,
            )
        while (batch := _next(source, read.table, self._named)) is not None:
            yield _converted(batch, read.table)

    def _begin_to_read(self, session: WatchedSession, proof: str) -> None:
        self._proof = proof
        take(session, self._named)
        self._relay = SessionRelay(session)

    def _require_session(self, table: Table) -> None:
        """connectorx would try to connect for 30 s."""
        try:
            is_there = used(self._control, [self._named])
        except pymysql.err.MySQLError as exc:
            raise translated(exc, self._connection) from exc
        if not is_there:
            raise TransientError(
                "the session that stood at the position of the read was lost",
                hint="the run reads again, at a new position",
                table=table.name,
            )

    def _close_session(self) -> None:
        if self._relay is not None:
            self._relay.close()
            self._relay = None
        super()._close_session()


def _next(source: Iterator[pa.RecordBatch], table: Table, session: str) -> pa.RecordBatch | None:
    """`session` is the name of a user lock that the session holds: by that it can be found at the server."""
    with _foreign_errors(table), native_wait(session):
        return next(source, None)


@contextmanager
def _foreign_errors(table: Table) -> Iterator[None]:
    """connectorx panics (a BaseException of its own) instead of raising; its words go on under our own error."""
    try:
        yield
    except SeamlineError:
        raise
    except BaseException as exc:
        if type(exc).__name__ == "PanicException" or isinstance(exc, (RuntimeError, OSError, pa.ArrowException)):
            raise _translated(str(exc), table) from None
        raise


def _translated(text: str, table: Table) -> SeamlineError:
    if "convert the value" in text and "Date(" in text:
        return SchemaConflict(
            f"table {table.name} holds an invalid date (as 0000-00-00): {_shortened(text)}",
            hint="correct the value at the source (find it with: WHERE column < '0001-01-01' OR DAY(column) = 0), or "
            "leave the table out of the sync",
            table=table.name,
        )
    return TransientError(f"reading table {table.name} failed: {_shortened(text)}", table=table.name)


def _shortened(text: str) -> str:
    return " ".join(text.split())[:300]


def _converted(batch: pa.RecordBatch, table: Table) -> pa.RecordBatch:
    arrays = []
    for number, column in enumerate(table.columns):
        try:
            # A safe cast: a value that does not fit raises, nothing is rounded or cut.
            arrays.append(pc.cast(batch.column(number), arrow_type(column), safe=True))
        except pa.ArrowException as exc:
            raise SchemaConflict(
                f"a value of {table.name}.{column.name} does not fit {column.source_type}: {_shortened(str(exc))}",
                hint="was the column changed? Run preflight again",
                table=table.name,
            ) from None
    return pa.RecordBatch.from_arrays(arrays, schema=schema_of(table))
