"""Whole tables out of MariaDB in the typed form, all at one position.

connectorx decodes natively but opens a connection of its own per query, so every table has a session of its own: its
`pre_execution_query` waits at the snapshot barrier, opens the snapshot and says where it stands. Each query then joins
the table to one row that waits at the table's *turn* and carries the session's binlog address (`LEFT JOIN`: MariaDB
11.4.5 streams it at the speed of the bare table; a `UNION ALL` doubles the time). So a session proves its position
together with its rows, also for an empty table, and sessions that wait to be read cost neither a thread nor memory
here.

Wire types are chosen from the catalogue, never from what a driver guesses (connectorx 0.4.6: DECIMAL is cut to scale
10, TIME beyond a day and zero dates end the read).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from urllib.parse import quote

import connectorx
import pyarrow as pa
import pyarrow.compute as pc
import pymysql

from seamline.adapters.children import native_wait
from seamline.adapters.connections import Connection
from seamline.databases.mysql import client
from seamline.databases.mysql.bulk_types import expression_of
from seamline.databases.mysql.canonical import quoted, text_literal
from seamline.databases.mysql.read import condition_of, relation_of
from seamline.databases.mysql.snapshot_sessions import BEGIN_SNAPSHOT, close_all
from seamline.domain.catalogue import Table
from seamline.domain.digest import Segment
from seamline.domain.errors import ConfigError, InvariantViolated, SchemaConflict, SeamlineError, TransientError
from seamline.domain.table_places import TablePlace, TablePlaces
from seamline.kinds.bulk import ArrowRows, BulkRead
from seamline.sources.mariadb.sessions import ADDRESS_TEXT, SESSION_SETTINGS, open_session
from seamline.sources.mariadb.snapshot_barrier import BarrierLocks, Participant, let_go, take
from seamline.values.arrow import arrow_type, schema_of

BATCH_ROWS = 65_536
_START_LOCK_S = 6 * 3600
_PROOF = "seamline.proof"
_IS_ROW = "seamline.is_row"


def bulk_statement(lies: TablePlace, table: Table, segment: Segment, *, start_lock: str) -> str:
    """The SELECT of a table's rows, each beside the proof (address, whether its start lock was given) and whether it is
    one.

    Without rows the join gives one row of NULLs, which does not count.
    """
    place, condition = relation_of(lies, table), condition_of(table, segment)
    # Without the cast a session variable makes it a long text, which connectorx hands over as bytes.
    proof = f"CAST(CONCAT({ADDRESS_TEXT},':',GET_LOCK({text_literal(start_lock)},{_START_LOCK_S})) AS CHAR(300))"
    columns = "".join(f"{expression_of(column)} AS {quoted(column.name)}, " for column in table.columns)
    certain = next((column for column in (*table.key_columns, *table.columns) if not column.nullable), None)
    # Asking the table itself scans it a second time up to the first row: only where a row may be of NULLs alone.
    is_row = f"{quoted(certain.name)} IS NOT NULL" if certain else f"EXISTS(SELECT 1 FROM {place} WHERE {condition})"
    return (
        f"SELECT {columns}{quoted(_PROOF)}, {is_row} AS {quoted(_IS_ROW)}"
        f" FROM (SELECT {proof} AS {quoted(_PROOF)}) AS seamline_proof LEFT JOIN {place} ON {condition}"
    )


class BulkReaders:
    """The tables of one participant of a snapshot barrier, each with its own session, read one after another.

    For a process that does nothing else meanwhile: connectorx 0.4.6 keeps Python's lock while a session waits at its
    gate and while it waits for rows.
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
        self._connection = connection
        self._places = places or TablePlaces(connection.database)
        self._reads = reads
        self._locks = locks
        self._participant = participant
        self._attempt = 0
        self._streams: list[pa.RecordBatchReader] = []
        # The tables' turns are held by a session of this process, so that they end with it.
        self._control = open_session(connection)

    def meet(self) -> None:
        """Open all sessions at the coordinator's address."""
        try:
            participant = Participant(self._control, locks=self._locks, number=self._participant)
            participant.meet(open_all=self._open_all, close_all=self.close_streams)
        except pymysql.err.MySQLError as exc:
            raise client.translated(exc, self._connection) from exc

    def rows(self, number: int, *, proven: Callable[[str], None]) -> ArrowRows:
        return ArrowRows(schema_of(self._reads[number].table), self.batches(number, proven=proven))

    def batches(self, number: int, *, proven: Callable[[str], None]) -> Iterator[pa.RecordBatch]:
        """The rows of one table; before the first its session's address is `proven`."""
        table = self._reads[number].table
        try:
            let_go(self._control, self._start_lock(number))
        except pymysql.err.MySQLError as exc:
            raise client.translated(exc, self._connection) from exc
        source = iter(self._streams[number])
        session = self._start_lock(number)
        first = _next(source, table, session)
        if first is None:
            raise InvariantViolated("a read ended before it reported its position", table=table.name)
        proven(_proof_of(first, table))
        batch: pa.RecordBatch | None = first if first.column(_IS_ROW)[0].as_py() else None
        while batch is not None:
            yield _converted(batch, table)
            batch = _next(source, table, session)

    def close_streams(self) -> None:
        """End the sessions of this attempt, also those that wait: nobody will read them."""
        # The statements hold the name of their lock in hex, as every literal of ours.
        mark = self._locks.name("start", attempt=self._attempt, participant=self._participant).encode().hex()
        statement = (
            "SELECT id FROM information_schema.processlist WHERE id <> CONNECTION_ID()"
            f" AND info LIKE {text_literal(f'%{mark}%')} AND user = SUBSTRING_INDEX(USER(), '@', 1)"
        )
        for (session_id,) in client.query(self._control, statement):
            with suppress(pymysql.err.MySQLError):  # it may just have ended by itself
                client.query(self._control, f"KILL {int(session_id)}")
        self._streams = []

    def close(self) -> None:
        with suppress(pymysql.err.MySQLError):
            self.close_streams()
        close_all([self._control])

    def _open_all(self, attempt: int) -> None:
        self._attempt = attempt
        for number in range(len(self._reads)):
            take(self._control, self._start_lock(number))
        self._streams = [self._open(number) for number in range(len(self._reads))]

    def _open(self, number: int) -> pa.RecordBatchReader:
        read = self._reads[number]
        statement = bulk_statement(
            self._places.of(read.table.name), read.table, read.segment, start_lock=self._start_lock(number)
        )
        # The first session waits at the barrier for all of this participant; it is connected and prepared by then.
        gate = self._locks.arrive(attempt=self._attempt, participant=self._participant) if number == 0 else ()
        publish = self._locks.publish_address(attempt=self._attempt, session=read.session)
        # The coordinator has a limit for this.
        with _foreign_errors(read.table), native_wait(""):
            return connectorx.read_sql(
                _url(self._connection),
                statement,
                return_type="arrow_stream",
                batch_size=BATCH_ROWS,
                pre_execution_query=[*SESSION_SETTINGS, *gate, BEGIN_SNAPSHOT, *publish],
            )

    def _start_lock(self, number: int) -> str:
        return f"{self._locks.name('start', attempt=self._attempt, participant=self._participant)}.{number}"


def _proof_of(first: pa.RecordBatch, table: Table) -> str:
    address, _, started = str(first.column(_PROOF)[0].as_py()).rpartition(":")
    if started != "1":
        raise TransientError(
            f"table {table.name} was read before its start lock was given: {started}", table=table.name
        )
    return address


def _next(source: Iterator[pa.RecordBatch], table: Table, session: str) -> pa.RecordBatch | None:
    """`session` holds the user lock of this name: by that it can be found at the server."""
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
    if "insecure transport" in text:
        return ConfigError(
            f"the source takes encrypted sessions only, and table {table.name} was to be read in the clear",
            hint="set sslmode (and sslrootcert) of the source's connection: docs/reference/connections.md",
            table=table.name,
        )
    return TransientError(f"reading table {table.name} failed: {_shortened(text)}", table=table.name)


def _shortened(text: str) -> str:
    return " ".join(text.split())[:300]


def _url(connection: Connection) -> str:
    """`prefer_socket=false`: otherwise each connection is made twice where the server is local."""
    login, password = quote(connection.login, safe=""), quote(connection.password, safe="")
    place = f"{connection.host}:{connection.port}/{quote(connection.database, safe='')}"
    return f"mysql://{login}:{password}@{place}?prefer_socket=false"


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
