"""Sessions of a PostgreSQL source from a connection, and its errors as Seamline's."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import psycopg
from psycopg import errors

from seamline.adapters import libpq
from seamline.adapters.connections import Connection, resolve
from seamline.adapters.hanging import QUESTION_S, SILENCE_S
from seamline.adapters.tls import clear_cure, is_refused_in_the_clear, is_tls_refusal, tls_cure
from seamline.databases.postgres.watched import WatchedSession, connect
from seamline.domain.errors import ConfigError, Refused, SchemaConflict, SeamlineError, TerminalError, TransientError
from seamline.plan.model import SourcePlan

Session = WatchedSession

_CONNECT_TIMEOUT_S = 10
_LOGIN = ("authentication failed", "no pg_hba.conf entry", "does not exist", "not permitted to log in")
_NOT_THERE = (errors.UndefinedTable, errors.UndefinedColumn, errors.InvalidSchemaName)
# Lost connection, deadlock, too many sessions, shutdown, a standby behind the address, a transaction that stood still
# for too long: SQLSTATE classes and codes.
_RETRY = ("08", "40", "53", "55", "57", "25006", "25P03", "25P04")


def role(source: SourcePlan, connection_id: str) -> Connection:
    """The connection of one of the source's roles, pointed at the plan's database."""
    return replace(resolve(connection_id), database=source.database)


def open_session(
    connection: Connection, *, settings: Sequence[str] = (), replication: str = "", silence_s: float = SILENCE_S
) -> Session:
    """An autocommit session in UTC; the caller closes it. `settings` are `name=value` of the server.

    `replication` "database": a session for commands of the replication protocol. `silence_s`: after how long without an
    answer somebody looks whether the server still works.
    """
    arguments = libpq_arguments(connection, settings=settings)
    if replication:
        arguments["replication"] = replication
    try:
        return connect(silence_s=silence_s, limit_s=QUESTION_S, autocommit=True, **arguments)
    except psycopg.Error as exc:
        raise source_error(exc, connection) from exc


def libpq_arguments(connection: Connection, *, settings: Sequence[str] = ()) -> dict[str, Any]:
    """How every session of a source is opened, in libpq's own words, which both drivers take."""
    options = " ".join(f"-c {setting}" for setting in ("TimeZone=UTC", "search_path=pg_catalog", *settings))
    return {
        **libpq.address(connection),
        "application_name": "seamline",
        "options": options,
        "connect_timeout": _CONNECT_TIMEOUT_S,
        "keepalives_idle": 5,
        "keepalives_interval": 5,
        "keepalives_count": 2,
        # No keepalive is sent while a question is on its way: where every packet is lost, this ends the wait for it.
        "tcp_user_timeout": 15_000,
        "client_encoding": "utf8",
    }


@contextmanager
def translated(connection: Connection) -> Iterator[None]:
    """Errors of the driver leave as Seamline's, with the connection that met them."""
    try:
        yield
    except psycopg.Error as exc:
        raise source_error(exc, connection) from exc


def source_error(exc: psycopg.Error, connection: Connection) -> SeamlineError:
    # The server's DETAIL carries rows, and this text goes into logs, reports and alarms.
    text = exc.diag.message_primary or str(exc).strip() or type(exc).__name__
    where = f"PostgreSQL at {connection.host}:{connection.port} (connection `{connection.connection_id}`)"
    # Of a session that was never opened: what a statement says of certificates may be about a table's.
    if exc.sqlstate is None and is_tls_refusal(text):
        return ConfigError(f"{where} refuses the session: {text}", hint=tls_cure(connection))
    if is_refused_in_the_clear(text):
        return ConfigError(f"{where} refuses the session: {text}", hint=clear_cure(connection))
    if any(sign in text for sign in _LOGIN) and not isinstance(exc, _NOT_THERE):
        return ConfigError(
            f"{where} refused login `{connection.login}`: {text}",
            hint=f"correct login, password or database of the connection `{connection.connection_id}`",
        )
    if isinstance(exc, errors.InsufficientPrivilege):
        return Refused(f"{where}: {text}", hint="the grants each role needs are in docs/reference/grants.md")
    if isinstance(exc, _NOT_THERE):
        return SchemaConflict(f"{where}: {text}", hint="was the table renamed or dropped? Run preflight again")
    if exc.sqlstate is None or exc.sqlstate.startswith(_RETRY):
        return TransientError(f"{where} is away or busy: {text}", hint="it is tried again; is the server running?")
    return TerminalError(f"{where}: {text}", hint="the source's log says more")
