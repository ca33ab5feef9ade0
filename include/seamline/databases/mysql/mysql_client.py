"""Sessions of MySQL from a connection, and its errors as Seamline's."""

import pymysql
from pymysql.constants import CR, ER

from seamline.adapters.connections import Connection
from seamline.adapters.hanging import SILENCE_S
from seamline.adapters.tls import is_tls_refusal, pymysql_tls, tls_cure
from seamline.databases.mysql.client import ER_SECURE_TRANSPORT
from seamline.databases.mysql.watched import WatchedSession
from seamline.domain.errors import ConfigError, Refused, SeamlineError, TerminalError, TransientError

# The server's defaults for what may be set otherwise for all sessions: how statements are read, how CHAR values and
# SHOW CREATE are printed, and that information_schema shows a primary key that the server has made by itself.
_SETTINGS = (
    "SET time_zone = '+00:00', sql_quote_show_create = 1, show_gipk_in_create_table_and_information_schema = 1,"
    " sql_mode = 'STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'"
)
_CONNECT_TIMEOUT_S = 10
_LIMIT_S = 60.0
# PyMySQL has no names for these: max_execution_time is over; the server has ended an idle session (wait_timeout).
_QUERY_TIMEOUT, _IDLE_TIMEOUT = 3024, 4031
_LOST = {CR.CR_SERVER_GONE_ERROR, CR.CR_SERVER_LOST, CR.CR_CONN_HOST_ERROR, CR.CR_CONNECTION_ERROR, _IDLE_TIMEOUT, 0}
_RETRY = {ER.LOCK_WAIT_TIMEOUT, ER.LOCK_DEADLOCK, ER.SERVER_SHUTDOWN, ER.CON_COUNT_ERROR, _QUERY_TIMEOUT}
_CANNOT_CONNECT = {CR.CR_CONN_HOST_ERROR, CR.CR_SSL_CONNECTION_ERROR}
_LOGIN = {ER.ACCESS_DENIED_ERROR, ER.DBACCESS_DENIED_ERROR}
# An account that is locked, and one whose password has to be changed before anything else.
_ACCOUNT = {3118, 1820, 1862}
_NOT_GRANTED = {ER.TABLEACCESS_DENIED_ERROR, ER.COLUMNACCESS_DENIED_ERROR, ER.SPECIFIC_ACCESS_DENIED_ERROR}


class MySqlSession(WatchedSession):
    server = "MySQL"
    doing = "SELECT command, state FROM performance_schema.processlist WHERE id = %s"


def open_session(
    connection: Connection, *, limit_s: float = _LIMIT_S, silence_s: float = SILENCE_S, client_flag: int = 0
) -> MySqlSession:
    """A session in UTC, utf8mb4 and the default sql_mode, autocommit on. The caller closes it.

    `limit_s`: for how long a statement is waited for at which the server works. `silence_s`: after how long without an
    answer somebody looks whether it does. `client_flag`: of pymysql.constants.CLIENT.
    """
    try:
        session = MySqlSession(
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


def translated(exc: pymysql.err.MySQLError, connection: Connection) -> SeamlineError:
    code = exc.args[0] if exc.args and isinstance(exc.args[0], int) else 0
    text = str(exc.args[-1]) if exc.args else str(exc)
    where = f"MySQL at {connection.host}:{connection.port} (connection `{connection.connection_id}`)"
    if code in _LOGIN | _ACCOUNT:
        return ConfigError(
            f"{where} refused login `{connection.login}`: {text}",
            hint=f"correct login, password or database of the connection `{connection.connection_id}`; where the login"
            " REQUIREs X509, its sslcert and sslkey too; of an account that is locked or expired its owner's settings",
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
