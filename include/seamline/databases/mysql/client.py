"""Sessions of MariaDB from a connection, and its errors as Seamline's."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pymysql
from pymysql.constants import CR, ER

from seamline.adapters.connections import Connection, resolve
from seamline.adapters.hanging import SILENCE_S
from seamline.adapters.tls import is_tls_refusal, pymysql_tls, tls_cure
from seamline.databases.mysql.watched import WatchedSession
from seamline.domain.errors import ConfigError, Refused, SeamlineError, TerminalError, TransientError
from seamline.plan.model import SourcePlan

Session = pymysql.connections.Connection
# The server's defaults for what may be set otherwise for all sessions: how statements are read, and how CHAR values and
# SHOW CREATE are read.
_SETTINGS = (
    "SET time_zone = '+00:00', sql_quote_show_create = 1,"
    " sql_mode = 'STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'"
)

_CONNECT_TIMEOUT_S = 10
_LIMIT_S = 60.0
_LOST = {CR.CR_SERVER_GONE_ERROR, CR.CR_SERVER_LOST, CR.CR_CONN_HOST_ERROR, CR.CR_CONNECTION_ERROR, 0}
_RETRY = {ER.LOCK_WAIT_TIMEOUT, ER.STATEMENT_TIMEOUT, ER.LOCK_DEADLOCK, ER.SERVER_SHUTDOWN, ER.CON_COUNT_ERROR, 1927}
_CANNOT_CONNECT = {CR.CR_CONN_HOST_ERROR, CR.CR_SSL_CONNECTION_ERROR}
# "Connections using insecure transport are prohibited": PyMySQL has no name for it.
ER_SECURE_TRANSPORT = 3159
_LOGIN = {ER.ACCESS_DENIED_ERROR, ER.DBACCESS_DENIED_ERROR, 1698}
_NOT_GRANTED = {ER.TABLEACCESS_DENIED_ERROR, ER.COLUMNACCESS_DENIED_ERROR, ER.SPECIFIC_ACCESS_DENIED_ERROR}


def role(source: SourcePlan, connection_id: str) -> Connection:
    """The connection of one of the source's roles, pointed at the plan's database."""
    return replace(resolve(connection_id), database=source.database)


def open_session(
    connection: Connection, *, limit_s: float = _LIMIT_S, silence_s: float = SILENCE_S, client_flag: int = 0
) -> WatchedSession:
    """A session in UTC, utf8mb4 and the default sql_mode, autocommit on. The caller closes it.

    `limit_s`: for how long a statement is waited for at which the server works. `silence_s`: after how long without an
    answer somebody looks whether it does. `client_flag`: of pymysql.constants.CLIENT.
    """
    try:
        session = WatchedSession(
            host=connection.host,
            port=connection.port,
            user=connection.login,
            password=connection.password,
            database=connection.database or None,
            charset="utf8mb4",
            init_command=_SETTINGS,
            autocommit=True,
            connect_timeout=_CONNECT_TIMEOUT_S,
            read_timeout=_CONNECT_TIMEOUT_S,
            client_flag=client_flag,
            **pymysql_tls(connection),
        )
    except pymysql.err.MySQLError as exc:
        raise translated(exc, connection) from exc
    session.be_watched(silence_s=silence_s, limit_s=limit_s)
    return session


def query(session: "Session[Any]", sql: str, values: Sequence[Any] = ()) -> tuple[tuple[Any, ...], ...]:
    """All rows. The driver's own errors come through: the caller knows which connection it asked."""
    with session.cursor() as cursor:
        # Without values nothing is formatted into the statement, and a `%` in it stays what it is.
        cursor.execute(sql, values or None)
        return tuple(cursor.fetchall())


def translated(exc: pymysql.err.MySQLError, connection: Connection) -> SeamlineError:
    code = exc.args[0] if exc.args and isinstance(exc.args[0], int) else 0
    text = str(exc.args[-1]) if exc.args else str(exc)
    where = f"MariaDB at {connection.host}:{connection.port} (connection `{connection.connection_id}`)"
    if code in _LOGIN:
        return ConfigError(
            f"{where} refused login `{connection.login}`: {text}",
            hint=f"correct login, password or database of the connection `{connection.connection_id}`; where the login"
            " REQUIREs X509, its sslcert and sslkey too",
        )
    if code == ER.BAD_DB_ERROR:
        return ConfigError(f"{where} has no database `{connection.database}`", hint="correct `database` of the source")
    if code in _NOT_GRANTED:
        return Refused(f"{where}: {text}", hint="the grants each role needs are in docs/reference/grants.md")
    if code == ER_SECURE_TRANSPORT or (code in _CANNOT_CONNECT and is_tls_refusal(text)):
        return ConfigError(f"{where} refuses the session: {text}", hint=tls_cure(connection))
    if code in _LOST:
        return TransientError(f"{where} is away: {text}", hint="is the server up? `seamline status` shows it")
    if code in _RETRY:
        return TransientError(f"{where}: {text} (error {code})")
    return TerminalError(f"{where}: {text} (error {code})")
