"""Reading sessions of MySQL: how one is set up, and how several come to stand at one position.

A consistent snapshot does not say where it stands in the log. Either commits stand still while all are opened
(`brief`), or the position is asked before and after: where nothing was committed in between, it is that of all
(`none`).
`performance_schema.log_status` gives GTIDs and address of one instant. Measured on 9.7.4 under writers: 40 of 40 exact,
where the position read once, before or after, was wrong in most.
"""

import json
import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from functools import cache
from typing import Any

import pymysql
from pymysql.constants import ER

from seamline.adapters.connections import Connection
from seamline.adapters.hanging import QUESTION_S, SILENCE_S
from seamline.databases.mysql import mysql_client as client
from seamline.databases.mysql.client import Session, query, role
from seamline.databases.mysql.mysql_client import MySqlSession
from seamline.databases.mysql.snapshot_sessions import NeverTogether, SnapshotLock, begin, close_all
from seamline.domain.catalogue import Table
from seamline.domain.errors import InvariantViolated, Refused, TransientError
from seamline.plan.model import SourcePlan
from seamline.sources.mysql.catalogue import read_catalogue
from seamline.sources.mysql.gtid_set import GtidSet
from seamline.sources.mysql.position import MySqlPosition
from seamline.sources.mysql.read import MySqlReadView

# As for MariaDB; sizes of tables are those of now, not of yesterday.
SESSION_SETTINGS = (
    "SET SESSION transaction_isolation = 'REPEATABLE-READ', SESSION optimizer_switch = 'derived_merge=off',"
    " SESSION wait_timeout = 28800, SESSION net_write_timeout = 3600, SESSION max_execution_time = 0,"
    " SESSION lock_wait_timeout = 30, SESSION information_schema_stats_expiry = 0,"
    " SESSION tmp_table_size = 134217728, SESSION max_heap_table_size = 134217728"
)
# No time-out of the lock is shorter. Other statements wait as long as we do.
_LOCK_SETTINGS = "SET SESSION lock_wait_timeout = 1, SESSION wait_timeout = 1"
_LOCK = "FLUSH TABLES WITH READ LOCK"
_LOCK_ATTEMPTS = 10
# Of openings during which the server let go of the lock: this process stood still for a second, or its link.
_OPENINGS_MAX = 5
_STATUS = "SELECT local FROM performance_schema.log_status"
# At 730 commits a second one session needs 17 on average, and each takes less than a millisecond.
ATTEMPTS_MAX = 400
# Commits go on for longer than they have waited.
PAUSE_S = 0.3

log = logging.getLogger(__name__)


def open_session(connection: Connection, *, silence_s: float = SILENCE_S) -> MySqlSession:
    """A session with the settings that canonical texts need; no transaction is open yet. `silence_s`: as of
    `client.open_session`."""
    # A digest of a large table answers after minutes.
    session = client.open_session(connection, limit_s=QUESTION_S, silence_s=silence_s)
    try:
        query(session, SESSION_SETTINGS)
    except pymysql.err.MySQLError as exc:
        session.close()
        raise client.translated(exc, connection) from exc
    return session


class LockLost(TransientError):
    """The server has let go of the lock before it was given back: it ends a session that is silent for a second."""


@contextmanager
def commits_held(connection: Connection) -> Iterator[MySqlPosition]:
    """Commits of the whole server stand still inside; gives where. TransientError when the lock is not to be had,
    LockLost at the end where it did not last."""
    with closing(client.open_session(connection)) as session:
        _take_lock(session, connection)
        try:
            position = _position_under_lock(session)
        except pymysql.err.MySQLError as exc:
            raise client.translated(exc, connection) from exc
        yield position
        try:
            query(session, "UNLOCK TABLES")
        except pymysql.err.MySQLError as exc:
            raise LockLost(f"MySQL did not hold its commits for as long as sessions opened: {exc.args[-1]}") from exc


def _take_lock(session: "Session[Any]", connection: Connection) -> None:
    for attempt in range(1, _LOCK_ATTEMPTS + 1):
        try:
            query(session, _LOCK_SETTINGS)
            query(session, _LOCK)
        except pymysql.err.MySQLError as exc:
            if exc.args[0] != ER.LOCK_WAIT_TIMEOUT:
                raise client.translated(exc, connection) from exc
            if attempt == _LOCK_ATTEMPTS:
                raise TransientError(
                    f"MySQL gave no read lock in {attempt} attempts of a second: a statement runs for longer ({_LOCK})",
                    hint="read at a quieter hour, or declare `snapshot: {lock: none}`; SHOW FULL PROCESSLIST names it",
                ) from exc
            log.warning("MySQL gives no read lock yet, a statement runs. Attempt %d of %d", attempt, _LOCK_ATTEMPTS)
            time.sleep(PAUSE_S)
        else:
            return


def _position_under_lock(session: "Session[Any]") -> MySqlPosition:
    rows = query(session, "SHOW BINARY LOG STATUS")
    if not rows:
        raise _no_log()
    file, offset, *_, gtids = rows[0]
    return _position(str(gtids), str(file), int(offset))


def position_now(session: "Session[Any]") -> MySqlPosition:
    """Where the log is, all of one instant."""
    ((local,),) = query(session, _STATUS)
    status = json.loads(local)
    if "gtid_executed" not in status:
        raise _no_log()
    return _position(status["gtid_executed"], status["binary_log_file"], int(status["binary_log_position"]))


def _position(gtids: str, file: str, offset: int) -> MySqlPosition:
    found = GtidSet.parse(gtids)
    if not found:
        raise Refused(
            "MySQL has given no transaction a GTID", hint="set gtid_mode = ON; preflight says what else is missing"
        )
    return MySqlPosition(found, file, offset)


def _no_log() -> Refused:
    return Refused("MySQL writes no binary log", hint="switch the binlog on (log_bin)")


def bring_to_one_position(
    sessions: Sequence["Session[Any]"], *, lock: SnapshotLock, connection: Connection
) -> MySqlPosition:
    """Snapshots of all sessions at one position; bounded, then Refused with the cure."""
    if lock is SnapshotLock.BRIEF:
        return _opened_under_lock(sessions, connection)
    for _ in range(ATTEMPTS_MAX):
        before = position_now(sessions[0])
        begin(sessions)
        if position_now(sessions[-1]) == before:
            return before
    raise NeverTogether(
        f"{len(sessions)} sessions did not come to stand at one binlog position in {ATTEMPTS_MAX} attempts: the source"
        " commits too often",
        hint="allow `snapshot: {lock: brief}` for this source (statements stand still for some milliseconds), or read"
        " at a quieter hour; or onboard a few of the tables and add the others with `<sync>__tables`, each at a"
        " position of its own",
    )


def _opened_under_lock(sessions: Sequence["Session[Any]"], connection: Connection) -> MySqlPosition:
    for attempt in range(1, _OPENINGS_MAX + 1):
        try:
            with commits_held(connection) as position:
                begin(sessions)
        except LockLost as exc:
            if attempt == _OPENINGS_MAX:
                raise
            log.warning("%s. Attempt %d of %d", exc, attempt, _OPENINGS_MAX)
        else:
            return position
    raise InvariantViolated("no attempt was made")


def views_at(
    sessions: Sequence["Session[Any]"],
    *,
    connection: Connection,
    position: MySqlPosition,
    tables: Sequence[Table] = (),
) -> list[MySqlReadView]:
    """Read views over sessions that stand at `position`. Tables not given are read from the catalogue when asked."""

    @cache
    def table_of(name: str) -> Table:
        with closing(client.open_session(connection)) as session:
            return read_catalogue(session, connection.database, [name])[0]

    ((now,),) = query(sessions[0], "SELECT UTC_TIMESTAMP(6)")
    opened_at = now if isinstance(now, datetime) else datetime.fromisoformat(str(now))
    return [
        MySqlReadView(
            session,
            database=connection.database,
            tables=tables,
            position=position,
            opened_at=opened_at.replace(tzinfo=UTC),
            definition_of=table_of,
        )
        for session in sessions
    ]


@contextmanager
def errors_translated(sessions: Sequence["Session[Any]"], connection: Connection) -> Iterator[None]:
    """Where something fails inside, the sessions are closed."""
    try:
        yield
    except BaseException as exc:
        close_all(sessions)
        if isinstance(exc, pymysql.err.MySQLError):
            raise client.translated(exc, connection) from exc
        raise


def open_together(source: SourcePlan, connection: Connection, count: int) -> tuple[list[MySqlSession], MySqlPosition]:
    """`count` sessions whose snapshots stand at one position. The caller closes them."""
    sessions: list[MySqlSession] = []
    with errors_translated(sessions, connection):
        for _ in range(count):
            sessions.append(open_session(connection))
        lock = SnapshotLock(source.snapshot_lock)
        return sessions, bring_to_one_position(sessions, lock=lock, connection=connection)


def open_views(source: SourcePlan, count: int, *, tables: Sequence[Table] = ()) -> list[MySqlReadView]:
    """`count` read views at one position."""
    connection = role(source, source.reader)
    sessions, position = open_together(source, connection, count)
    with errors_translated(sessions, connection):
        return views_at(sessions, connection=connection, position=position, tables=tables)
