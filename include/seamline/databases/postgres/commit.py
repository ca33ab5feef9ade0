"""COMMIT: the only place where an outcome may be unknown, from its sending until its answer."""

import selectors
from collections.abc import Callable
from contextlib import suppress

import psycopg
from psycopg import pq

from seamline.databases.postgres.client import Session, seamline_error
from seamline.domain.errors import CommitUnknown, InvariantViolated, SeamlineError

# For how long a COMMIT is waited for at which the server works: constraints and triggers may be deferred to it.
_COMMIT_S = 3600.0


def send_commit(session: Session, *, to: str, sent: Callable[[], None]) -> None:
    """COMMIT. `to`: the destination's name; `sent` is called between the statement and its answer.

    CommitUnknown: the answer is lost, and the session is closed.
    """
    connection = session.pgconn
    try:
        connection.send_query(b"COMMIT")
        connection.flush()
        sent()
        with session.watch.limited(_COMMIT_S), session.watch.waiting():
            result = _answer(connection)
    except (psycopg.Error, SeamlineError) as exc:
        close(session)
        said = session.watch.ended or exc
        raise CommitUnknown(f"COMMIT was sent to {to}, its answer is lost: {said}") from exc
    if result.status != pq.ExecStatus.COMMAND_OK:
        error = psycopg.errors.error_from_result(result)
        if connection.status != pq.ConnStatus.OK:
            close(session)
            raise CommitUnknown(f"the session ended while it committed: {error}") from error
        raise seamline_error(error, "commit a span")
    if result.command_status != b"COMMIT":
        raise InvariantViolated(f"COMMIT was answered by {result.command_status!r}")


def abandon(session: Session) -> None:
    """After a failed commit: roll back where that is possible, else forget the session (the server rolls back)."""
    if session.closed:
        return
    try:
        session.rollback()
    except psycopg.Error:
        close(session)


def close(session: Session) -> None:
    with suppress(psycopg.Error):
        session.close()


def _answer(connection: "pq.abc.PGconn") -> "pq.abc.PGresult":
    """The result of what was sent, waiting outside of the interpreter's lock."""
    with selectors.DefaultSelector() as selector:
        selector.register(connection.socket, selectors.EVENT_READ)
        connection.consume_input()
        while connection.is_busy():
            selector.select()
            connection.consume_input()
    result = connection.get_result()
    if result is None:
        raise psycopg.OperationalError("the server gave no answer")
    while connection.get_result() is not None:
        pass
    return result
