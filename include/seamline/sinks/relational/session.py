"""Sessions of a destination, rows sent to them, and what the server says in Seamline's words."""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import pymysql
from pymysql.constants import CLIENT, COMMAND, CR, ER
from pymysql.protocol import OKPacketWrapper

from seamline.adapters.connections import Connection
from seamline.adapters.hanging import SILENCE_S
from seamline.databases.mysql import client
from seamline.databases.mysql.watched import WatchedSession
from seamline.domain.errors import (
    CommitUnknown,
    InvariantViolated,
    Refused,
    SchemaConflict,
    SeamlineError,
    TerminalError,
    TransientError,
)
from seamline.domain.ledger import StreamId
from seamline.sinks.relational.dialect import Dialect

Session = WatchedSession
Row = tuple[Any, ...]

# A worker that stands still must not wait for a lock for longer than this.
PATIENCE_S = 15
# How long a statement, or a COMMIT, is waited for at which the server works.
_LIMIT_S = 6 * 3600.0
_COMMIT_S = 3600.0
# How long an owner who was ended may keep his lock.
_OWNER_ENDS_S = 5
# However large a value is: the server takes no packet beyond its max_allowed_packet.
_PACKET_BYTES = 1 << 20
_SETTINGS = {
    # Every value as it is or an error. Notes are counted too: a value that was cut is one.
    "sql_mode": "'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,NO_AUTO_VALUE_ON_ZERO'",
    "sql_notes": "1",
    "autocommit": "1",
    "completion_type": "'NO_CHAIN'",
    # What somebody has set for all sessions must not end a span, a load or a publish of hours.
    "sql_safe_updates": "0",
    "sql_big_selects": "1",
    "foreign_key_checks": "1",
    "unique_checks": "1",
    "innodb_lock_wait_timeout": str(PATIENCE_S),
    "lock_wait_timeout": str(PATIENCE_S),
    "wait_timeout": "28800",
    "net_read_timeout": "600",
    "net_write_timeout": "600",
}
# Writers lock what they write and nothing between: others may go on writing their own tables.
_ISOLATION = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"


def open_session(connection: Connection, dialect: Dialect, *, silence_s: float = SILENCE_S) -> Session:
    """A session that commits each statement, in UTC and strict; no database is chosen. `silence_s`: after how long
    without an answer somebody looks whether the server still works."""
    session = dialect.open_session(
        replace(connection, database=""), limit_s=_LIMIT_S, silence_s=silence_s, client_flag=CLIENT.LOCAL_FILES
    )
    try:
        with translated("set up a session"):
            own = ", ".join(f"SESSION {name} = {value}" for name, value in _SETTINGS.items())
            for setting in (_ISOLATION, f"SET {own}", *dialect.settings):
                execute(session, setting)
    except BaseException:
        close(session)
        raise
    return session


def execute(session: Session, statement: str, values: Sequence[Any] = ()) -> int:
    """How many rows the statement changed. Without values nothing is formatted into it."""
    with session.cursor() as cursor:
        return int(cursor.execute(statement, values or None))


def query(session: Session, statement: str, values: Sequence[Any] = ()) -> Sequence[Row]:
    return client.query(session, statement, values)


def load_rows(session: Session, statement: str, document: Iterable[bytes]) -> int:
    """Send the document as the file of a LOAD DATA LOCAL; how many rows came in. Each value as it is: what the server
    had to change, it reports as a warning, and SchemaConflict says so.

    The client opens no file, whatever the server asks for: it sends these bytes and nothing else.
    """
    protocol: Any = session
    protocol._execute_command(COMMAND.COM_QUERY, statement)
    with session.waiting():
        answer = protocol._read_packet()
    if not answer.is_load_local_packet():
        raise InvariantViolated("the server asks for no rows at a LOAD DATA LOCAL")
    try:
        for part in document:
            for start in range(0, len(part), _PACKET_BYTES):
                protocol.write_packet(part[start : start + _PACKET_BYTES])
    except BaseException:
        # The rest of the rows will not come: what was sent must not stand for all.
        protocol._force_close()
        raise
    protocol.write_packet(b"")
    with session.waiting():
        taken = OKPacketWrapper(protocol._read_packet())
    if taken.warning_count:
        raise _changed_on_the_way(query(session, "SHOW WARNINGS LIMIT 5"))
    return int(taken.affected_rows)


def send_commit(session: Session) -> None:
    """Send COMMIT and leave its answer to `commit_answer`."""
    protocol: Any = session
    protocol._execute_command(COMMAND.COM_QUERY, "COMMIT")


def commit_answer(session: Session) -> None:
    """CommitUnknown unless the server says what became of it."""
    try:
        with session.limited(_COMMIT_S):
            session._read_query_result()
    except pymysql.err.MySQLError as exc:
        if code_of(exc) == ER.LOCK_DEADLOCK:
            # A cluster's refusal: everything is rolled back.
            raise seamline_error(exc, "commit") from exc
        close(session)
        raise CommitUnknown(f"COMMIT was sent, its answer is lost: {said(exc)}") from exc


def close(session: Session) -> None:
    with suppress(pymysql.err.Error):
        session.close()
    session._force_close()


def lock_name(what: str) -> str:
    """Names of locks have 64 characters at most, in MySQL."""
    return f"seamline.{hashlib.sha256(what.encode()).hexdigest()[:40]}"


def mark_as_owner(session: Session, at: str, stream: StreamId) -> None:
    """By this lock a new owner finds the session. It holds nobody up for long, and ends with the session.

    That of an owner who was ended may last a moment longer. Where one of another login keeps it, this one is not found.
    """
    query(session, "SELECT GET_LOCK(%s, %s)", (_owned(at, stream), _OWNER_ENDS_S))


def end_owner(session: Session, at: str, stream: StreamId) -> None:
    """End the session that has the stream: it may stand still with the ledger's row, and could not commit anyway.

    One of another login stays; its time-outs end it. TransientError where its COMMIT waits for a replica: ended, it
    would stand, and be seen, without the replica having it.
    """
    ((owner,),) = query(session, "SELECT IS_USED_LOCK(%s)", (_owned(at, stream),))
    if owner is None:
        return
    for _, state in query(session, session.doing, (owner,)):
        if "semi-sync ACK" in str(state):
            raise TransientError(
                f"{stream} cannot be taken: the COMMIT of session {owner} waits for a replica that is away",
                hint="bring the replica back, or switch semi-synchronous replication off: the stream then goes on by"
                " itself",
                sync=stream.sync,
            )
    with suppress(pymysql.err.MySQLError):
        execute(session, f"KILL CONNECTION {int(owner)}")


def _owned(at: str, stream: StreamId) -> str:
    """`at`: of its ledger; another installation may have streams of the same names on this server."""
    return lock_name(f"stream {at} {stream}")


# ---- errors ---------------------------------------------------------------------------------------------------------

_LOST = {0, CR.CR_SERVER_GONE_ERROR, CR.CR_SERVER_LOST, CR.CR_CONN_HOST_ERROR, CR.CR_CONNECTION_ERROR}
_MAY_PASS = _LOST | {
    ER.LOCK_WAIT_TIMEOUT,
    ER.LOCK_DEADLOCK,
    ER.LOCK_TABLE_FULL,
    ER.CON_COUNT_ERROR,
    ER.TOO_MANY_USER_CONNECTIONS,
    ER.SERVER_SHUTDOWN,
    ER.DISK_FULL,
    ER.RECORD_FILE_FULL,
    ER.OUT_OF_RESOURCES,
    ER.QUERY_INTERRUPTED,
    # A standby, which a failover may leave behind the address.
    ER.OPTION_PREVENTS_STATEMENT,
    # A node of a cluster that is not ready.
    ER.UNKNOWN_COM_ERROR,
    1205, 1412, 1836, 1927, 1969, 3024, 4031, *range(1158, 1162),
}  # fmt: skip
_RIGHTS = {ER.TABLEACCESS_DENIED_ERROR, ER.COLUMNACCESS_DENIED_ERROR, ER.SPECIFIC_ACCESS_DENIED_ERROR, 1044, 1045, 1370}
_WRONG_SCHEMA = {ER.NO_SUCH_TABLE, ER.BAD_TABLE_ERROR, ER.BAD_FIELD_ERROR, ER.BAD_DB_ERROR, ER.NO_DEFAULT_FOR_FIELD}
# Values, unique indexes, foreign keys, checks, and what a trigger says.
_REFUSED_ROWS = {
    ER.DUP_ENTRY, ER.BAD_NULL_ERROR, ER.WARN_DATA_OUT_OF_RANGE, ER.TRUNCATED_WRONG_VALUE_FOR_FIELD, ER.DATA_TOO_LONG,
    ER.TRUNCATED_WRONG_VALUE, ER.NO_REFERENCED_ROW, ER.ROW_IS_REFERENCED, ER.ROW_IS_REFERENCED_2,
    ER.NO_REFERENCED_ROW_2, 1118, 1265, 1644, 1586, 3819, 4025,
}  # fmt: skip
_ROWS_HINT = (
    "the destination refuses a value or a row of the source; nothing of the span is applied. Correct it at the source,"
    " then park the table (`parked: <why>`) and let it come back, each by a run of `<sync>__tables`: it is loaded as it"
    " is by then"
)
# What the server quotes of a row: this text goes into logs, reports and alarms.
_QUOTED_VALUE = re.compile(r"((?:Duplicate entry|value:?) )'.*'(?= for )", re.DOTALL)


@contextmanager
def translated(doing: str, *, table: str = "") -> Iterator[None]:
    """Foreign errors leave as Seamline's. A broken connection is transient here: who sends COMMIT knows better."""
    try:
        yield
    except (pymysql.err.MySQLError, OSError) as exc:
        raise seamline_error(exc, doing, table=table) from exc
    except SeamlineError as exc:
        exc.table = exc.table or table
        raise


def seamline_error(exc: Exception, doing: str, *, table: str = "") -> SeamlineError:
    text, code = f"cannot {doing}: {said(exc)}", code_of(exc)
    if code in _MAY_PASS:
        return TransientError(text, hint="it is tried again; if it stays, look at the destination's log", table=table)
    if code in _RIGHTS:
        rights = "`seamline grants <destination>` prints what its owner runs"
        return Refused(text, hint=rights, table=table)
    if code in _WRONG_SCHEMA:
        hint = "the table is missing or was changed in the destination: undo that, or onboard again"
        return SchemaConflict(text, hint=hint, table=table)
    if code in _REFUSED_ROWS:
        return SchemaConflict(text, hint=_ROWS_HINT, table=table)
    return TerminalError(f"{text} (error {code})", hint="look at the destination's log", table=table)


def code_of(exc: BaseException | None) -> int:
    """The server's number of the error; 0 where the session was lost."""
    found = exc.args[0] if isinstance(exc, pymysql.err.MySQLError) and exc.args else 0
    return found if isinstance(found, int) else 0


def said(exc: Exception) -> str:
    text = str(exc.args[-1]) if exc.args else type(exc).__name__
    return _QUOTED_VALUE.sub(r"\1'…'", text)


def _changed_on_the_way(warnings: Sequence[Row]) -> SchemaConflict:
    texts = "; ".join(dict.fromkeys(_QUOTED_VALUE.sub(r"\1'…'", str(text)) for _, _, text in warnings))
    return SchemaConflict(f"a value does not fit its column, or is too long for it: {texts}", hint=_ROWS_HINT)


@contextmanager
def rolled_back(session: Session) -> Iterator[None]:
    """A transaction in which everything is read and nothing kept."""
    execute(session, "START TRANSACTION")
    try:
        yield
    finally:
        with suppress(pymysql.err.Error):
            execute(session, "ROLLBACK")


@contextmanager
def transaction(session: Session) -> Iterator[None]:
    """For what is small and may be repeated: an answer of COMMIT that is lost is an error like any other."""
    execute(session, "START TRANSACTION")
    try:
        yield
    except BaseException:
        with suppress(pymysql.err.Error):
            execute(session, "ROLLBACK")
        raise
    execute(session, "COMMIT")
