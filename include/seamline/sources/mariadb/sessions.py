"""Reading sessions of MariaDB: how one is set up, and how several come to stand at one position.

`START TRANSACTION WITH CONSISTENT SNAPSHOT` gives the read view and, in `binlog_snapshot_file/position`, the binlog
address of the same instant (MariaDB 11.4.5: exact in 25 of 25 under writers, where the position read before or after
was wrong in most). Several sessions stand at one position either because commits stood still while they were opened
(`brief`) or because it turned out so, which their addresses prove (`none`).
"""

import logging
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any

import pymysql
from pymysql.constants import CLIENT, ER

from seamline.adapters.connections import Connection
from seamline.adapters.hanging import QUESTION_S, SILENCE_S
from seamline.databases.mysql import client
from seamline.databases.mysql.client import Session
from seamline.databases.mysql.snapshot_sessions import NeverTogether, SnapshotLock, begin, close_all
from seamline.databases.mysql.watched import WatchedSession
from seamline.domain.catalogue import Table
from seamline.domain.errors import Refused, TransientError
from seamline.domain.names import NameLimit
from seamline.domain.table_places import TablePlaces
from seamline.plan.model import SourcePlan
from seamline.sources.mariadb.catalogue import survey
from seamline.sources.mariadb.position import BinlogPosition
from seamline.sources.mariadb.read import MariaDbReadView
from seamline.sources.mariadb.several_databases import survey_of

# UTC: canonical texts of instants. derived_merge: see `canonical`. The two time-outs: a view lives through long scans.
# A table that somebody alters just now is waited for for 30 s: who alters may wait for another view of ours.
SESSION_SETTINGS = (
    "SET SESSION time_zone = '+00:00', SESSION transaction_isolation = 'REPEATABLE-READ',"
    " SESSION optimizer_switch = 'derived_merge=off', SESSION wait_timeout = 28800, SESSION net_write_timeout = 3600,"
    " SESSION max_statement_time = 0, SESSION lock_wait_timeout = 30",
    # The derived table of a digest stays in memory up to some two million rows; beyond, it goes to disk as before.
    "SET SESSION tmp_memory_table_size = 134217728, SESSION max_heap_table_size = 134217728",
)
# MariaDB 11.4.5 answers `binlog_snapshot_*` through variables of the whole server: sessions that ask at the same time
# may get each other's address (ADR 7). Ours ask one after the other, and twice: a stranger's question, as a
# monitor's SHOW STATUS, would have to fall into both with the same answer.
_READING = (
    "(SELECT GROUP_CONCAT(variable_value ORDER BY variable_name SEPARATOR ':') FROM information_schema.session_status"
    " WHERE variable_name IN ('BINLOG_SNAPSHOT_FILE', 'BINLOG_SNAPSHOT_POSITION'))"
)
_ALONE_S = 1
# One statement: whatever becomes of who sent it, the server carries it to its end and lets go of the lock.
READ_ADDRESS = (
    f"BEGIN NOT ATOMIC SET @seamline_alone = GET_LOCK('seamline.address', {_ALONE_S});"
    f" SET @seamline_address = {_READING}; SET @seamline_again = {_READING};"
    " DO RELEASE_LOCK('seamline.address'); END"
)
# What READ_ADDRESS found, as `str(Address)`; empty where it is not certain. The same at any time of the transaction.
ADDRESS_TEXT = "IF(@seamline_alone = 1 AND @seamline_address = @seamline_again, @seamline_address, '')"
_READINGS_MAX = 20
ATTEMPTS_MAX = 60
# How long new commits may queue behind the wait for those in flight, and then for us: 200 ms together.
_COMMITS_END_S = 0.05
HELD_MAX_S = 0.15
_STAGE_ATTEMPTS = 10
# Commits go on for longer than they have waited.
PAUSE_S = 0.3
# If this process stops dead between two statements, the server ends what it has begun after so many idle seconds.
_STAGE_IDLE_S = 2

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Address:
    """A place in the binlog: the first byte that is not included."""

    file: str
    offset: int

    def __str__(self) -> str:
        return f"{self.file}:{self.offset}"


def open_session(connection: Connection, *, silence_s: float = SILENCE_S) -> WatchedSession:
    """A session with the settings that canonical texts need; no transaction is open yet. `silence_s`: as of
    `client.open_session`."""
    # A digest of a large table answers after minutes.
    session = client.open_session(connection, limit_s=QUESTION_S, silence_s=silence_s)
    try:
        for setting in SESSION_SETTINGS:
            client.query(session, setting)
    except pymysql.err.MySQLError as exc:
        session.close()
        raise client.translated(exc, connection) from exc
    return session


def address_of(session: "Session[Any]") -> Address:
    """Where the open consistent snapshot of a session stands. Exact at any later time of its transaction too."""
    for _ in range(_READINGS_MAX):
        client.query(session, READ_ADDRESS)
        ((text, found),) = client.query(session, f"SELECT {ADDRESS_TEXT}, @seamline_address")
        if not str(found or "").strip(":0"):
            raise Refused(
                "MariaDB does not report the binlog address of a consistent snapshot",
                hint="switch the binlog on (log_bin) and grant BINLOG MONITOR; preflight says more",
            )
        if text:
            file, _, offset = str(text).rpartition(":")
            return Address(file, int(offset))
    raise TransientError(
        f"MariaDB did not report the address of a snapshot with certainty, {_READINGS_MAX} times in a row",
        hint="does something ask for SHOW STATUS all the time, or hold the user lock `seamline.address`?",
    )


def position_of(session: "Session[Any]", address: Address) -> BinlogPosition:
    """The address with the GTIDs that lie before it."""
    ((gtid,),) = client.query(session, "SELECT BINLOG_GTID_POS(%s, %s)", (address.file, address.offset))
    if not gtid:
        raise TransientError(f"MariaDB has no GTID for {address}: was the binlog purged or reset just now?")
    return BinlogPosition(str(gtid), address.file, address.offset)


@contextmanager
def commits_held(connection: Connection) -> Iterator[float]:
    """Commits of the whole server stand still inside, until HELD_MAX_S are over. Gives the moment (monotonic) at which
    that began. Whether it lasted for what was done inside, the addresses of the sessions show.

    TransientError when the stage is not to be had: another backup runs, or commits that do not end.
    The server itself counts the time, so it holds also where this process or the network stands still.
    """
    with (
        closing(client.open_session(connection)) as gate,
        closing(client.open_session(connection, client_flag=CLIENT.MULTI_STATEMENTS)) as session,
    ):
        stage = session.cursor()
        ((number,),) = client.query(session, "SELECT CONNECTION_ID()")
        let_go = f"'seamline.held.{number}'"
        client.query(gate, f"DO GET_LOCK({let_go}, 0)")
        _take_stage(stage, let_go, connection)
        try:
            yield time.monotonic()
        finally:
            with suppress(pymysql.err.MySQLError):
                client.query(gate, f"DO RELEASE_LOCK({let_go})")
                while stage.nextset():
                    pass


def _take_stage(stage: pymysql.cursors.Cursor, let_go: str, connection: Connection) -> None:
    """Commits stand still from here on, until the user lock is let go of or the time is over."""
    held = (
        f"SET SESSION max_statement_time = {_COMMITS_END_S}; BACKUP STAGE BLOCK_COMMIT;"
        f" SET SESSION max_statement_time = 0; DO GET_LOCK({let_go}, {HELD_MAX_S}); BACKUP STAGE END"
    )
    for attempt in range(1, _STAGE_ATTEMPTS + 1):
        try:
            # In these stages no commit waits. A DDL may, and a write to a table without transactions, as long as we do.
            stage.execute(f"SET SESSION max_statement_time = 0, lock_wait_timeout = 1, wait_timeout = {_STAGE_IDLE_S}")
            for name in ("START", "FLUSH", "BLOCK_DDL"):
                stage.execute(f"BACKUP STAGE {name}")
            name = "BLOCK_COMMIT"
            stage.execute(held)
            stage.nextset()
        except pymysql.err.MySQLError as exc:
            with suppress(pymysql.err.MySQLError):
                stage.execute("BACKUP STAGE END")
            if exc.args[0] not in (ER.LOCK_WAIT_TIMEOUT, ER.STATEMENT_TIMEOUT):
                raise client.translated(exc, connection) from exc
            if attempt == _STAGE_ATTEMPTS:
                raise _never_held(name, attempt, exc) from exc
            log.warning(
                "commits of MariaDB do not stand still yet: %s. Attempt %d of %d",
                _waits_for(name),
                attempt,
                _STAGE_ATTEMPTS,
            )
            time.sleep(PAUSE_S)
        else:
            return


def _waits_for(stage: str) -> str:
    return {
        "START": "another backup runs",
        "BLOCK_COMMIT": f"commits take longer than {_COMMITS_END_S * 1000:g} ms",
    }.get(stage, "a DDL or a write to a table without transactions is at work (SHOW FULL PROCESSLIST names it)")


def _never_held(stage: str, attempts: int, exc: pymysql.err.MySQLError) -> TransientError:
    return TransientError(
        f"commits of MariaDB did not stand still in {attempts} attempts: {_waits_for(stage)} (BACKUP STAGE {stage}:"
        f" {exc.args[-1]})",
        hint="read at a quieter hour, or declare `snapshot: {lock: none}`",
    )


def common_address(sessions: Sequence["Session[Any]"]) -> Address | None:
    """Where the sessions, opened one after the other, stand; None where a commit came in between."""
    # The first and the last prove it for all: between two equal addresses nothing was committed.
    first, last = address_of(sessions[0]), address_of(sessions[-1])
    return first if first == last else None


def bring_to_one_address(sessions: Sequence["Session[Any]"], *, lock: SnapshotLock, connection: Connection) -> Address:
    """Snapshots of all sessions at one address; bounded, then Refused with the cure."""
    for _ in range(ATTEMPTS_MAX):
        if lock is SnapshotLock.BRIEF and len(sessions) > 1:
            with commits_held(connection):
                begin(sessions)
        else:
            begin(sessions)
        address = common_address(sessions)
        if address is not None:
            return address
        if lock is SnapshotLock.BRIEF:
            time.sleep(PAUSE_S)
    raise never_together(lock, len(sessions))


def never_together(lock: SnapshotLock, count: int) -> NeverTogether:
    allowed = "allow `snapshot: {lock: brief}` for this source (commits stand still for a few milliseconds)"
    in_time = f"is the link to it slow? While commits stand still the sessions have {1000 * HELD_MAX_S:g} ms to open"
    slower = (
        "read at a quieter hour, or with fewer task slots: each has a session of its own; or onboard a few of the"
        " tables and add the others with `<sync>__tables`, each at a position of its own"
    )
    return NeverTogether(
        f"{count} sessions did not come to stand at one binlog position in {ATTEMPTS_MAX} attempts: the source commits"
        " too often",
        hint=f"{in_time}; {slower}" if lock is SnapshotLock.BRIEF else f"{allowed}, or {slower}",
    )


def views_at(
    sessions: Sequence["Session[Any]"],
    *,
    connection: Connection,
    position: BinlogPosition,
    tables: Sequence[Table] = (),
    places: TablePlaces | None = None,
    limits: Collection[NameLimit] = (),
) -> list[MariaDbReadView]:
    """Read views over sessions that stand at `position`. Shapes not given are read from the catalogue when asked.
    `places`: where the tables lie, if not all in the connection's database under their own names. `limits`: of the
    names of columns."""
    lie = places or TablePlaces(connection.database)

    @cache
    def definition_of(name: str) -> Table:
        return survey_of(connection, lie, [name], survey, limits=limits).whole()[0]

    ((now,),) = client.query(sessions[0], "SELECT UTC_TIMESTAMP(6)")
    opened_at = now if isinstance(now, datetime) else datetime.fromisoformat(str(now))
    return [
        MariaDbReadView(
            session,
            database=connection.database,
            tables=tables,
            position=position,
            opened_at=opened_at.replace(tzinfo=UTC),
            definition_of=definition_of,
            places=lie,
            limits=limits,
        )
        for session in sessions
    ]


def open_views(source: SourcePlan, count: int, *, tables: Sequence[Table] = ()) -> list[MariaDbReadView]:
    """`count` read views at one position."""
    connection = client.role(source, source.reader)
    sessions: list[Session[Any]] = []
    try:
        for _ in range(count):
            sessions.append(open_session(connection))
        lock = SnapshotLock(source.snapshot_lock)
        address = bring_to_one_address(sessions, lock=lock, connection=connection)
        position = position_of(sessions[0], address)
        return views_at(
            sessions,
            connection=connection,
            position=position,
            tables=tables,
            places=source.places,
            limits=source.limits,
        )
    except BaseException as exc:
        close_all(sessions)
        if isinstance(exc, pymysql.err.MySQLError):
            raise client.translated(exc, connection) from exc
        raise
