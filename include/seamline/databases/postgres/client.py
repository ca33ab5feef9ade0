"""Sessions to PostgreSQL as a destination needs them, and its errors in Seamline's words."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import errors

from seamline.adapters import libpq
from seamline.adapters.connections import Connection
from seamline.adapters.hanging import SILENCE_S
from seamline.adapters.tls import clear_cure, is_refused_in_the_clear, is_tls_refusal, tls_cure
from seamline.databases.postgres.watched import WatchedSession, connect
from seamline.domain.catalogue import NAME_BYTES_MAX
from seamline.domain.errors import (
    ConfigError,
    InvariantViolated,
    Refused,
    SchemaConflict,
    SeamlineError,
    TransientError,
)
from seamline.domain.ledger import StreamId

Session = WatchedSession
Row = tuple[Any, ...]

# A worker that stands still must not hold locks for longer than this, nor wait for one.
_PATIENCE_MS = 15_000
_VERSION_MIN = 170_000
# A handful per table; the client forgets the oldest beyond this.
_STATEMENTS_MAX = 5_000
_SETTINGS = {
    "TimeZone": "UTC",
    "DateStyle": "ISO,YMD",
    "IntervalStyle": "postgres",
    "extra_float_digits": "1",
    "standard_conforming_strings": "on",
    "search_path": "pg_catalog,pg_temp",
    # A policy on a live table is an error then; otherwise the rows that it hides would be taken for missing.
    "row_security": "off",
    # JIT compiles for longer than a span's statements run.
    "jit": "off",
    # The statements of a span are prepared once; planning them again for each span costs more than it finds.
    "plan_cache_mode": "force_generic_plan",
    "work_mem": "64MB",
    "temp_buffers": "128MB",
    # What an administrator gave the role or the database must not end a span, a load or a publish of hours, each time.
    "statement_timeout": "0",
    "lock_timeout": str(_PATIENCE_MS),
    "idle_in_transaction_session_timeout": str(_PATIENCE_MS),
    "tcp_user_timeout": str(_PATIENCE_MS),
    "client_min_messages": "warning",
}
# Beside _SETTINGS, which a server gets before its version is known: an old one would refuse the session for them.
_LATE_SETTINGS = "SET transaction_timeout = 0; SET idle_session_timeout = 0"


def open_session(
    connection: Connection, *, application_name: str, stalls_ms: int = _PATIENCE_MS, silence_s: float = SILENCE_S
) -> Session:
    """An autocommit session in UTC whose transactions neither wait for a lock nor idle for longer than 15 s.

    `stalls_ms`: for how long a server that lives may take nothing of what is sent to it. `silence_s`: after how long
    without an answer somebody looks whether the server still works.
    """
    options = " ".join(f"-c {name}={value}" for name, value in _SETTINGS.items())
    try:
        session = connect(
            silence_s=silence_s,
            autocommit=True,
            **libpq_arguments(connection, application_name=application_name, stalls_ms=stalls_ms),
            options=options,
        )
        session.prepared_max = _STATEMENTS_MAX
    except psycopg.Error as exc:
        raise cannot_connect(connection, exc) from exc
    try:
        _set_up(session, connection)
    except BaseException:
        session.close()
        raise
    return session


def _set_up(session: Session, connection: Connection) -> None:
    if session.info.server_version < _VERSION_MIN:
        raise Refused(
            f"PostgreSQL of connection `{connection.connection_id}` has version {session.info.server_version // 10000}",
            hint="a destination needs PostgreSQL 17 or newer (MERGE … RETURNING)",
        )
    with translated("set up a session"):
        session.execute(_LATE_SETTINGS)


def libpq_arguments(connection: Connection, *, application_name: str, stalls_ms: int = _PATIENCE_MS) -> dict[str, Any]:
    """How every session of a destination is opened, in libpq's own words."""
    return {
        **libpq.address(connection),
        "application_name": application_name[:NAME_BYTES_MAX],
        "connect_timeout": 10,
        "keepalives_idle": 5,
        "keepalives_interval": 5,
        "keepalives_count": 2,
        "tcp_user_timeout": stalls_ms,
    }


def cannot_connect(connection: Connection, exc: psycopg.Error) -> SeamlineError:
    """ConfigError where the server refuses the session, else TransientError."""
    where = f"PostgreSQL at {connection.host}:{connection.port} (connection `{connection.connection_id}`)"
    # libpq says it over several lines.
    text = " ".join(str(exc).split())
    if is_tls_refusal(text):
        return ConfigError(f"{where} refuses the session: {text}", hint=tls_cure(connection))
    if is_refused_in_the_clear(text):
        return ConfigError(f"{where} refuses the session: {text}", hint=clear_cure(connection))
    if any(
        sign in text
        for sign in ("authentication failed", "no password supplied", "no pg_hba.conf entry", "does not exist")
    ):
        return ConfigError(
            f"{where} refuses the session: {text}", hint="check login, password and database of the connection"
        )
    if "is not permitted to log in" in text:
        # A login that its owner has closed for a while is no mistake of the connection: it may be opened again.
        cure = "the login is refused: its owner allows it; `./seamline grants NAME` of the destination shows how"
        return TransientError(f"{where} refuses the session: {text}", hint=cure)
    return TransientError(f"{where} cannot be reached: {text}", hint="check that the server runs and can be reached")


def session_name(stream: StreamId, epoch: int | None) -> str:
    """The `application_name` of a stream's session; long names are cut and made unique by a hash."""
    text = str(stream)
    if len(text) > 40:
        text = f"{text[:31]}~{hashlib.sha256(text.encode()).hexdigest()[:8]}"
    return f"seamline:{text}:e{'new' if epoch is None else epoch}"


def end_older_sessions(session: Session, stream: StreamId, *, below_epoch: int) -> None:
    """End this stream's sessions of lower epochs: they may hold the ledger row and could not commit anyway.

    Those of another login stay, as after another writer was declared: their time-outs end them. So does one whose
    COMMIT waits for a synchronous standby: ended, it would stand, and be seen, without the standby having it.
    """
    prefix = session_name(stream, None).removesuffix("new")
    session.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid() AND pg_has_role(usesysid, 'USAGE') "
        "AND wait_event IS DISTINCT FROM 'SyncRep' AND starts_with(application_name, %s) "
        "AND substr(application_name, length(%s) + 1) ~ '^[0-9]+$' "
        "AND substr(application_name, length(%s) + 1)::bigint < %s",
        (prefix, prefix, prefix, below_epoch),
    )


def waiting_for_a_standby(session: Session, stream: StreamId) -> list[int]:
    """The server's processes of this stream whose COMMIT waits for a synchronous standby."""
    rows = session.execute(
        "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND starts_with(application_name, %s)",
        (session_name(stream, None).removesuffix("new"),),
    ).fetchall()
    return [int(pid) for (pid,) in rows]


# A function that is not there for a type: somebody has altered a column's.
_WRONG_SCHEMA = (
    errors.UndefinedTable,
    errors.UndefinedColumn,
    errors.UndefinedFunction,
    errors.InvalidSchemaName,
    errors.DatatypeMismatch,
)
_RIGHTS = "`seamline grants <destination>` prints what its owner runs; the preflight of the sync names what is missing"
# A standby, which a failover may leave behind the address; and a transaction that the server gave up.
_NOT_NOW = (errors.ReadOnlySqlTransaction, errors.IdleInTransactionSessionTimeout, errors.TransactionTimeout)
# Broken connections, conflicts with others, resources that ran out, hands of an administrator, files that a server
# cannot read. Not all that the client calls operational: of these no repeat mends anything else.
_MAY_PASS = ("08", "40", "53", "57", "58", "55006", "55P03")
# What a trigger or a foreign table raises in the destination.
_OF_ITS_OWN = ("27", "2F", "38", "39", "HV", "P0")


@contextmanager
def translated(doing: str, *, table: str = "") -> Iterator[None]:
    """Foreign errors leave as Seamline's. A broken connection is transient here: who sends COMMIT knows better."""
    try:
        yield
    except psycopg.Error as exc:
        raise seamline_error(exc, doing, table=table) from exc


def seamline_error(exc: psycopg.Error, doing: str, *, table: str = "") -> SeamlineError:
    # The server's DETAIL carries rows, and this text goes into logs, reports and alarms.
    said = exc.diag.message_primary or str(exc).strip() or type(exc).__name__
    text = f"cannot {doing}: {said}"
    if isinstance(exc, errors.InsufficientPrivilege):
        return Refused(text, hint=_RIGHTS, table=table)
    if isinstance(exc, _WRONG_SCHEMA):
        return SchemaConflict(
            text,
            hint="the table is missing or was changed in the destination: undo that, or onboard again",
            table=table,
        )
    if isinstance(exc, (psycopg.DataError, psycopg.IntegrityError)):
        return SchemaConflict(
            text,
            hint="the destination refuses a value or a row of the source; nothing of the span is applied. Correct it at"
            " the source, then park the table (`parked: <why>`) and let it come back, each by a run of"
            " `<sync>__tables`: it is loaded as it is by then",
            table=table,
        )
    state = exc.sqlstate
    if state is None or state.startswith(_MAY_PASS) or isinstance(exc, _NOT_NOW):
        return TransientError(text, hint="it is tried again; if it stays, look at the destination's log", table=table)
    hint = _refusal_hint(state, said)
    return SchemaConflict(text, hint=hint, table=table) if hint else InvariantViolated(text, table=table)


def _refusal_hint(state: str, said: str) -> str:
    """The cure of a refusal that lasts until somebody changes the destination; "" for our own bug."""
    if state.startswith("54"):
        return _limit_hint(said)
    if state == "55000":
        return (
            "the table in the destination is in a state in which it cannot be written, as one that is published there"
            " without a replica identity: mend that, then start again"
        )
    if state.startswith(_OF_ITS_OWN):
        return "a trigger or a foreign table in the destination says this: mend or drop it, then start again"
    return ""


def _limit_hint(said: str) -> str:
    """How to mend it where a limit of the server itself is met."""
    if said.startswith("index row"):
        return (
            "an index of the destination cannot hold a value as long as this one. Where somebody made the index there,"
            " drop it and start again; where it is the table's key, park the table (`parked: <why>`)"
        )
    if said.startswith("row is too big"):
        return (
            "the destination keeps a row within one page of 8 kB, but for long values, which lie aside: too many of its"
            " columns hold values. Park the table (`parked: <why>`), or divide it at the source"
        )
    return "this is a limit of the destination's server that the table does not fit into: park it (`parked: <why>`)"
