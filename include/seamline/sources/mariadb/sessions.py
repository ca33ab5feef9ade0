"""Reading sessions of MariaDB: how one is set up, and how several come to stand at one position.

`START TRANSACTION WITH CONSISTENT SNAPSHOT` gives the read view and, in `binlog_snapshot_file/position`, the binlog
address of the same instant (MariaDB 11.4.5: exact in 25 of 25 under writers, where the position read before or after
was wrong in most). Several sessions stand at one position either because commits stood still while they were opened
(`brief`) or because it turned out so, which their addresses prove (`none`).
"""

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import pymysql
from pymysql.constants import CLIENT, ER

from seamline.adapters.connections import Connection
from seamline.databases.mysql import client
from seamline.databases.mysql.client import MARIADB, Session
from seamline.databases.mysql.reading import Reading
from seamline.databases.mysql.snapshot_sessions import HELD_MAX_S, PAUSE_S, SnapshotLock, Snapshots
from seamline.domain.errors import InvariantViolated, Refused, TransientError
from seamline.domain.position import Position
from seamline.sources.mariadb.catalogue import survey
from seamline.sources.mariadb.position import BinlogPosition
from seamline.sources.mariadb.read import MariaDbReadView

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
_STAGE_ATTEMPTS = 10
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
def commits_held(connection: Connection) -> Iterator[None]:
    """Commits of the whole server stand still inside, until HELD_MAX_S are over. Whether it lasted for what was done
    inside, the addresses of the sessions show.

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
            yield
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


class MariaDbSnapshots(Snapshots):
    """A session knows the address at which its snapshot stands."""

    attempts_max = ATTEMPTS_MAX
    after = (READ_ADDRESS,)
    proof = ADDRESS_TEXT
    lasts = True
    stands_still = "commits stand still"

    def __init__(self, connection: Connection, lock: SnapshotLock) -> None:
        self._connection = connection
        self.lock = lock

    @contextmanager
    def held(self, sessions: int) -> Iterator[None]:
        if self.lock is SnapshotLock.NONE or sessions == 1:
            yield
        else:
            with commits_held(self._connection):
                yield

    def position(self, sessions: "Sequence[Session[Any]]") -> Position | None:
        # The first and the last prove it for all: between two equal addresses nothing was committed.
        first, last = address_of(sessions[0]), address_of(sessions[-1])
        return position_of(sessions[0], first) if first == last else None

    def proof_of(self, position: Position) -> str:
        if not isinstance(position, BinlogPosition):
            raise InvariantViolated(f"no session of MariaDB stands at {position}")
        return str(Address(position.file, position.offset))


READING = Reading(MARIADB, MariaDbReadView, survey, MariaDbSnapshots)
open_session, views_at, open_views = MARIADB.open_reading_session, READING.views_at, READING.open_views
