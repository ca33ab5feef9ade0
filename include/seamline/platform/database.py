"""Connections to the platform database: short time-outs, foreign errors translated, a dead connection replaced."""

import threading
from collections.abc import Callable
from typing import Any, TypeVar

import psycopg
from psycopg import errors
from psycopg.rows import TupleRow

from seamline.adapters import libpq
from seamline.adapters.connections import Connection, resolve
from seamline.adapters.hanging import SILENCE_S
from seamline.adapters.tls import is_tls_refusal, tls_cure
from seamline.databases.postgres.watched import connect
from seamline.domain.errors import ConfigError, Refused, SeamlineError, TransientError

CONNECTION_ID = "seamline_db"
ResultT = TypeVar("ResultT")
# What the triggers of the log of acts (v0009) raise.
_AGAINST_THE_LOG = "SLM01"
# The constraint of tolerances (v0011).
_BY_ANOTHER = "approved_by_another_person"
# And that of declared ones (v0017).
_BY_THE_DECLARED = "approved_by_the_declared_person"
# And that of the triggers that keep repairs.
_AGAINST_A_REPAIR = "SLM02"
Session = psycopg.Connection[TupleRow]
OpenSession = Callable[[], Session]


def parameters(connection: Connection, *, application_name: str, statement_timeout_s: float) -> dict[str, Any]:
    """libpq parameters. Every wait has an end: a store that hangs would hold back whoever asks it."""
    timeout_ms = int(statement_timeout_s * 1000)
    return {
        **libpq.address(connection),
        "application_name": application_name[:63],
        "connect_timeout": 5,
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": 15_000,
        "options": f"-c statement_timeout={timeout_ms} -c lock_timeout={timeout_ms}"
        " -c idle_in_transaction_session_timeout=30000 -c timezone=UTC -c search_path=seamline"
        # Compiling a statement takes longer than a page may; its breaks are joined without files beside the memory.
        " -c jit=off -c work_mem=32MB",
    }


def open_session(
    *, application_name: str = "seamline", statement_timeout_s: float = 10.0, silence_s: float = SILENCE_S
) -> Session:
    """A new session of the connection `seamline_db`, read from its file now. Raises TransientError, ConfigError.

    The server ends a statement after `statement_timeout_s`, but no COMMIT, nor what never reaches it or us: after
    `silence_s` without an answer somebody looks.
    """
    connection = resolve(CONNECTION_ID)
    try:
        return connect(
            silence_s=silence_s,
            **parameters(connection, application_name=application_name, statement_timeout_s=statement_timeout_s),
            autocommit=True,
        )
    except psycopg.Error as exc:
        if is_tls_refusal(str(exc)):
            text = f"the platform database refuses the session: {_first_line(exc)}"
            raise ConfigError(text, hint=tls_cure(connection)) from exc
        raise translated(exc) from exc


def translated(exc: psycopg.Error) -> SeamlineError:
    """The project's error for one of the client's. The client's own text holds no password."""
    if isinstance(exc, (errors.UndefinedTable, errors.UndefinedColumn, errors.InvalidSchemaName)):
        return ConfigError(
            f"the platform database has not the tables that this version needs: {_first_line(exc)}",
            hint="run its migrations: `./seamline up` does, or seamline.platform.migrate.upgrade()",
        )
    if exc.sqlstate == _AGAINST_THE_LOG:
        return Refused(f"the log of acts refuses it: {_first_line(exc)}", hint="docs/reference/audit.md says why")
    if isinstance(exc, errors.CheckViolation) and exc.diag.constraint_name == _BY_ANOTHER:
        return Refused("whoever asks for a tolerance does not approve it", hint="another person does")
    if isinstance(exc, errors.CheckViolation) and exc.diag.constraint_name == _BY_THE_DECLARED:
        return Refused("the declaration names another approver", hint="that person approves it, or the file is changed")
    if exc.sqlstate == _AGAINST_A_REPAIR:
        return Refused(_first_line(exc), hint="docs/how-to/repair.md says who may do what")
    if _is_wrong_login(exc):
        return ConfigError(
            f"the platform database refuses the login: {_first_line(exc)}",
            hint=f"correct the connection `{CONNECTION_ID}`",
        )
    return TransientError(
        f"the platform database does not answer: {_first_line(exc)}",
        hint=f"is the server of connection `{CONNECTION_ID}` up? `./seamline ps` shows it",
    )


def _is_wrong_login(exc: psycopg.Error) -> bool:
    # libpq gives no SQLSTATE for a refused connection attempt, only the server's text.
    text = str(exc)
    return isinstance(exc, errors.InvalidAuthorizationSpecification) or "authentication failed" in text


def _first_line(exc: psycopg.Error) -> str:
    return (str(exc).strip() or type(exc).__name__).splitlines()[0]


class Database:
    """One kept session, used by one caller at a time. Safe to share between threads."""

    def __init__(self, open_one: OpenSession = open_session) -> None:
        self._open = open_one
        self._lock = threading.Lock()
        self._session: Session | None = None

    def transact(self, work: Callable[[Session], ResultT]) -> ResultT:
        """Run `work` in one transaction and return its result.

        `work` is run a second time when the *kept* session proves to be dead, as after a restart of the server: so it
        must be safe to repeat. A session opened for this very call is not given a second chance.
        """
        with self._lock:
            if self._session is not None:
                try:
                    return self._once(self._session, work)
                except psycopg.Error as exc:
                    if not self._session.closed:
                        raise translated(exc) from exc
                    self._session = None
            self._session = self._open()
            try:
                return self._once(self._session, work)
            except psycopg.Error as exc:
                raise translated(exc) from exc

    def _once(self, session: Session, work: Callable[[Session], ResultT]) -> ResultT:
        with session.transaction():
            return work(session)

    def close(self) -> None:
        with self._lock:
            if self._session is not None:
                self._session.close()
                self._session = None
