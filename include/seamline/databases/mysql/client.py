"""Sessions of MariaDB and MySQL from a connection, and their errors as Seamline's. MySQL's own is in `mysql_client`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pymysql
from pymysql.constants import CR, ER

from seamline.adapters.connections import Connection, resolve
from seamline.adapters.hanging import QUESTION_S, SILENCE_S
from seamline.adapters.tls import is_tls_refusal, pymysql_tls, tls_cure
from seamline.databases.mysql import canonical
from seamline.databases.mysql.watched import WatchedSession
from seamline.domain.errors import ConfigError, Refused, SeamlineError, TerminalError, TransientError
from seamline.plan.model import SourcePlan

Session = pymysql.connections.Connection

_CONNECT_TIMEOUT_S = 10
_LIMIT_S = 60.0
LOST = frozenset({CR.CR_SERVER_GONE_ERROR, CR.CR_SERVER_LOST, CR.CR_CONN_HOST_ERROR, CR.CR_CONNECTION_ERROR, 0})
RETRY = frozenset({ER.LOCK_WAIT_TIMEOUT, ER.LOCK_DEADLOCK, ER.SERVER_SHUTDOWN, ER.CON_COUNT_ERROR})
LOGIN = frozenset({ER.ACCESS_DENIED_ERROR, ER.DBACCESS_DENIED_ERROR})
_CANNOT_CONNECT = {CR.CR_CONN_HOST_ERROR, CR.CR_SSL_CONNECTION_ERROR}
# "Connections using insecure transport are prohibited": PyMySQL has no name for it.
ER_SECURE_TRANSPORT = 3159
_NOT_GRANTED = {ER.TABLEACCESS_DENIED_ERROR, ER.COLUMNACCESS_DENIED_ERROR, ER.SPECIFIC_ACCESS_DENIED_ERROR}


@dataclass(frozen=True, slots=True)
class Server:
    """What is a server's own. `settings`: of every session; `reading`: of one that reads inside a snapshot, a statement
    each. The numbers are those of errors; `login_cure`: what else a refused login may come from."""

    session: type[WatchedSession]
    dialect: canonical.Dialect
    settings: str
    reading: tuple[str, ...]
    lost: frozenset[int] = LOST
    retry: frozenset[int] = RETRY
    login: frozenset[int] = LOGIN
    login_cure: str = ""

    @property
    def name(self) -> str:
        return self.session.server

    def open_session(
        self, connection: Connection, *, limit_s: float = _LIMIT_S, silence_s: float = SILENCE_S, client_flag: int = 0
    ) -> WatchedSession:
        """A session in UTC, utf8mb4 and the default sql_mode, autocommit on. The caller closes it.

        `limit_s`: for how long a statement is waited for at which the server works. `silence_s`: after how long without
        an answer somebody looks whether it does. `client_flag`: of pymysql.constants.CLIENT.
        """
        try:
            session = self.session(
                host=connection.host,
                port=connection.port,
                user=connection.login,
                password=connection.password,
                database=connection.database or None,
                charset="utf8mb4",
                init_command=self.settings,
                autocommit=True,
                connect_timeout=_CONNECT_TIMEOUT_S,
                read_timeout=_CONNECT_TIMEOUT_S,
                client_flag=client_flag,
                **pymysql_tls(connection),
            )
        except pymysql.err.MySQLError as exc:
            raise self.translated(exc, connection) from exc
        session.be_watched(silence_s=silence_s, limit_s=limit_s)
        return session

    def open_reading_session(self, connection: Connection, *, silence_s: float = SILENCE_S) -> WatchedSession:
        """A session with the settings that canonical texts need; no transaction is open yet. `silence_s`: as of
        `open_session`."""
        # A digest of a large table answers after minutes.
        session = self.open_session(connection, limit_s=QUESTION_S, silence_s=silence_s)
        try:
            for setting in self.reading:
                query(session, setting)
        except pymysql.err.MySQLError as exc:
            session.close()
            raise self.translated(exc, connection) from exc
        return session

    def translated(self, exc: pymysql.err.MySQLError, connection: Connection) -> SeamlineError:
        code = exc.args[0] if exc.args and isinstance(exc.args[0], int) else 0
        text = str(exc.args[-1]) if exc.args else str(exc)
        where = f"{self.name} at {connection.host}:{connection.port} (connection `{connection.connection_id}`)"
        if code in self.login:
            return ConfigError(
                f"{where} refused login `{connection.login}`: {text}",
                hint=f"correct login, password or database of the connection `{connection.connection_id}`; where the"
                f" login REQUIREs X509, its sslcert and sslkey too{self.login_cure}",
            )
        if code == ER.BAD_DB_ERROR:
            return ConfigError(
                f"{where} has no database `{connection.database}`", hint="correct `database` of the source"
            )
        if code in _NOT_GRANTED:
            return Refused(f"{where}: {text}", hint="the grants each role needs are in docs/reference/grants.md")
        if code == ER_SECURE_TRANSPORT or (code in _CANNOT_CONNECT and is_tls_refusal(text)):
            return ConfigError(f"{where} refuses the session: {text}", hint=tls_cure(connection))
        if code in _CANNOT_CONNECT:
            cure = "check that the server runs and can be reached"
            return TransientError(f"{where} cannot be reached: {text}", hint=cure)
        if code in self.lost:
            return TransientError(
                f"{where} is away: {text}", hint="is the server up, and is it MariaDB or MySQL that answers there?"
            )
        if code in self.retry:
            return TransientError(f"{where}: {text} (error {code})")
        return TerminalError(f"{where}: {text} (error {code})")


MARIADB = Server(
    WatchedSession,
    canonical.MARIADB,
    # The server's defaults for what may be set otherwise for all sessions: how statements are read, and how CHAR values
    # and SHOW CREATE are read.
    settings="SET time_zone = '+00:00', sql_quote_show_create = 1,"
    " sql_mode = 'STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'",
    # UTC: canonical texts of instants. derived_merge: see `canonical`. The two time-outs: a view lives through long
    # scans. A table that somebody alters just now is waited for for 30 s: who alters may wait for another view of ours.
    reading=(
        "SET SESSION time_zone = '+00:00', SESSION transaction_isolation = 'REPEATABLE-READ',"
        " SESSION optimizer_switch = 'derived_merge=off', SESSION wait_timeout = 28800,"
        " SESSION net_write_timeout = 3600, SESSION max_statement_time = 0, SESSION lock_wait_timeout = 30",
        # The derived table of a digest stays in memory up to some two million rows; beyond, it goes to disk as before.
        "SET SESSION tmp_memory_table_size = 134217728, SESSION max_heap_table_size = 134217728",
    ),
    retry=RETRY | {ER.STATEMENT_TIMEOUT, 1927},
    login=LOGIN | {1698},
)
open_session, translated = MARIADB.open_session, MARIADB.translated


def role(source: SourcePlan, connection_id: str) -> Connection:
    """The connection of one of the source's roles, pointed at the plan's database."""
    return replace(resolve(connection_id), database=source.database)


def query(session: "Session[Any]", sql: str, values: Sequence[Any] = ()) -> tuple[tuple[Any, ...], ...]:
    """All rows. The driver's own errors come through: the caller knows which connection it asked."""
    with session.cursor() as cursor:
        # Without values nothing is formatted into the statement, and a `%` in it stays what it is.
        cursor.execute(sql, values or None)
        return tuple(cursor.fetchall())
