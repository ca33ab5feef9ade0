"""Reading sessions of MySQL: how one is set up, and how several come to stand at one position.

A consistent snapshot does not say where it stands in the log. Either commits stand still while all are opened
(`brief`), or each session asks for the position before and after: where nothing was committed in between, it is that of
its snapshot (`none`).
`performance_schema.log_status` gives GTIDs and address of one instant. Measured on 9.7.4 under writers: 40 of 40 exact,
where the position read once, before or after, was wrong in most.
"""

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from typing import Any

import pymysql
from pymysql.constants import ER

from seamline.adapters.connections import Connection
from seamline.databases.mysql.client import Session, query
from seamline.databases.mysql.mysql_client import MYSQL
from seamline.databases.mysql.reading import Reading
from seamline.databases.mysql.snapshot_sessions import PAUSE_S, SnapshotLock, Snapshots
from seamline.domain.errors import InvariantViolated, Refused, TransientError
from seamline.domain.position import Position
from seamline.sources.mysql.catalogue import survey
from seamline.sources.mysql.gtid_set import GtidSet
from seamline.sources.mysql.position import MySqlPosition
from seamline.sources.mysql.read import MySqlReadView

# No time-out of the lock is shorter. What would change something waits as long as we do.
_LOCK_SETTINGS = "SET SESSION lock_wait_timeout = 1, SESSION wait_timeout = 1"
_LOCK = "FLUSH TABLES WITH READ LOCK"
_LOCK_ATTEMPTS = 10
# The lock closes every table, and waits for those that a statement reads. Each new statement on such a table waits then
# for that old one, also after the lock was given up. So it is not asked for beside a statement that runs for long. What
# applies the log of another server is always one, and who waits for GET_LOCK has no table open.
_RUN_FOR_LONG = (
    "SELECT user, time FROM performance_schema.processlist WHERE command IN ('Query', 'Execute') AND time >= 1"
    " AND id <> CONNECTION_ID() AND user <> 'system user' AND COALESCE(state, '') <> 'User lock' ORDER BY time DESC"
)
# Of openings during which the server let go of the lock: this process stood still for a second, or its link.
_OPENINGS_MAX = 5
# As `str(MySqlPosition)`.
_STATUS = (
    "(SELECT CONCAT(REPLACE(local->>'$.gtid_executed', '\\n', ''), ' ', local->>'$.binary_log_file', ':',"
    " local->>'$.binary_log_position') FROM performance_schema.log_status)"
)
# At 730 commits a second one session needs 17 on average, and each takes less than a millisecond.
ATTEMPTS_MAX = 400

log = logging.getLogger(__name__)


def _take_lock(session: "Session[Any]", connection: Connection) -> None:
    for attempt in range(1, _LOCK_ATTEMPTS + 1):
        try:
            query(session, _LOCK_SETTINGS)
            in_the_way = _in_the_way(session)
        except pymysql.err.MySQLError as exc:
            raise MYSQL.translated(exc, connection) from exc
        if not in_the_way:
            return
        if attempt < _LOCK_ATTEMPTS:
            log.warning("no read lock of MySQL yet: %s. Attempt %d of %d", in_the_way, attempt, _LOCK_ATTEMPTS)
            time.sleep(PAUSE_S)
    raise TransientError(
        f"MySQL gave no read lock in {_LOCK_ATTEMPTS} attempts: {in_the_way} ({_LOCK})",
        hint="read at a quieter hour, or declare `snapshot: {lock: none}`; SHOW FULL PROCESSLIST names it",
    )


def _in_the_way(session: "Session[Any]") -> str:
    """Takes the lock, or says what keeps it from us."""
    running = query(session, _RUN_FOR_LONG)
    if running:
        user, seconds = running[0]
        return f"a statement of {user} runs for {seconds} s"
    try:
        query(session, _LOCK)
    except pymysql.err.MySQLError as exc:
        if exc.args[0] != ER.LOCK_WAIT_TIMEOUT:
            raise
        # One half of the lock may be ours all the same: nobody could change anything until this session ends.
        query(session, "UNLOCK TABLES")
        return "a statement runs for longer than a second"
    return ""


def _position_under_lock(session: "Session[Any]") -> MySqlPosition:
    rows = query(session, "SHOW BINARY LOG STATUS")
    if not rows:
        raise _no_log()
    file, offset, *_, gtids = rows[0]
    return _position(str(gtids), str(file), int(offset))


def position_now(session: "Session[Any]") -> MySqlPosition:
    """Where the log is, all of one instant."""
    ((status,),) = query(session, f"SELECT {_STATUS}")
    return _position_of(status)


def _position_of(status: str | None) -> MySqlPosition:
    if status is None:
        raise _no_log()
    gtids, _, address = str(status).rpartition(" ")
    file, _, offset = address.rpartition(":")
    return _position(gtids, file, int(offset))


def _position(gtids: str, file: str, offset: int) -> MySqlPosition:
    found = GtidSet.parse(gtids)
    if not found:
        raise Refused(
            "MySQL has given no transaction a GTID", hint="set gtid_mode = ON; preflight says what else is missing"
        )
    return MySqlPosition(found, file, offset)


def _no_log() -> Refused:
    return Refused("MySQL writes no binary log", hint="switch the binlog on (log_bin)")


class SnapshotsBetweenCommits(Snapshots):
    """Without a lock. Each session that is alone proves itself; of several in one process, opened one after
    the other, the first and the last do it for all."""

    lock = SnapshotLock.NONE
    before = (f"SET @seamline_before = {_STATUS}",)
    after = (f"SET @seamline_after = {_STATUS}",)
    proof = "IF(@seamline_before = @seamline_after, @seamline_after, '')"
    lasts = True
    stands_still = "statements stand still"

    def __init__(self) -> None:
        self.attempts_max = ATTEMPTS_MAX

    def held(self, sessions: int) -> nullcontext[None]:  # noqa: ARG002
        return nullcontext()

    def begin(self, sessions: "Sequence[Session[Any]]") -> None:
        for statement in self.before:
            query(sessions[0], statement)
        super().begin(sessions)
        for statement in self.after:
            query(sessions[-1], statement)

    def position(self, sessions: "Sequence[Session[Any]]") -> Position | None:
        ((before,),) = query(sessions[0], "SELECT @seamline_before")
        ((after,),) = query(sessions[-1], "SELECT @seamline_after")
        return _position_of(before) if before == after else None

    def proof_of(self, position: Position) -> str:
        return str(position)


class SnapshotsUnderLock(Snapshots):
    """While the statements of the whole server that change something stand still. What the server has
    executed then a session proves only as long as they do: a commit is visible before its GTID is."""

    lock = SnapshotLock.BRIEF
    attempts_max = _OPENINGS_MAX
    after = ("SET @seamline_after = REPLACE(@@GLOBAL.gtid_executed, '\\n', '')",)
    proof = "@seamline_after"
    lasts = False
    stands_still = SnapshotsBetweenCommits.stands_still

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._held_at: MySqlPosition | None = None

    @contextmanager
    def held(self, sessions: int) -> Iterator[None]:  # noqa: ARG002
        """TransientError when the lock is not to be had. Where it does not last, the server has let go of it: it ends a
        session that is silent for a second."""
        self._held_at = None
        with closing(MYSQL.open_session(self._connection)) as session:
            _take_lock(session, self._connection)
            position = _position_under_lock(session)
            yield
            try:
                query(session, "UNLOCK TABLES")
            except pymysql.err.MySQLError as exc:
                log.warning("MySQL did not hold its commits for as long as sessions opened: %s", exc.args[-1])
            else:
                self._held_at = position

    def position(self, sessions: "Sequence[Session[Any]]") -> Position | None:  # noqa: ARG002
        return self._held_at

    def proof_of(self, position: Position) -> str:
        if not isinstance(position, MySqlPosition):
            raise InvariantViolated(f"no session of MySQL stands at {position}")
        return str(position.gtids)


def snapshots_of(connection: Connection, lock: SnapshotLock) -> Snapshots:
    return SnapshotsUnderLock(connection) if lock is SnapshotLock.BRIEF else SnapshotsBetweenCommits()


READING = Reading(MYSQL, MySqlReadView, survey, snapshots_of)
open_session, views_at, open_views = MYSQL.open_reading_session, READING.views_at, READING.open_views
