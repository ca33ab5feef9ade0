"""Sessions of MariaDB and MySQL at which nobody waits for an answer that never comes: see `adapters.hanging`."""

import weakref
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import pymysql
from pymysql.constants import CR

from seamline.adapters.hanging import SocketWatch

# Errors by which a server answers that it gives no other session: it lives.
_REFUSED = range(1000, 2000)
_HANGS = {
    "Writing to net": "the server sends its answer and none of it arrives; look at what lies between",
    "Reading from net": "the server waits for the rest of what was sent to it; look at what lies between",
    "Waiting for semi-sync ACK from slave": "its COMMIT waits for a replica (rpl_semi_sync_master_timeout)",
    "Waiting for semi-sync ACK from replica": "its COMMIT waits for a replica (rpl_semi_sync_source_timeout)",
}
_ANSWERED = "the server has nothing to do for it, so the statement or its answer was lost; look at what lies between"
_GONE = "the server has no such session any more"


if TYPE_CHECKING:
    _Connection = pymysql.connections.Connection[Any]
else:
    # Only its stubs are generic.
    _Connection = pymysql.connections.Connection


class WatchedSession(_Connection):
    """Where a wait was ended, pymysql.err.OperationalError names the server, the session and why.

    A statement's answer is waited for under its eyes, of an unbuffered one the beginning: who reads its rows says so by
    `waiting`.
    """

    server = "MariaDB"
    doing = "SELECT command, state FROM information_schema.processlist WHERE id = %s"
    watch: SocketWatch | None = None

    def __init__(self, **arguments: Any) -> None:
        self._arguments = arguments
        super().__init__(**arguments)

    def be_watched(self, *, silence_s: float, limit_s: float) -> None:
        """From now on no time-out of the socket ends a wait. As of `hanging.SocketWatch`."""
        (number,) = self.server_thread_id  # type: ignore[attr-defined]
        self._read_timeout = None
        self.watch = SocketWatch(
            self._sock.fileno(),  # type: ignore[attr-defined]
            name=f"{self.server} at {self.host}:{self.port} (session {number})",
            look=partial(_look, self._arguments, number, doing=self.doing),
            silence_s=silence_s,
            limit_s=limit_s,
        )
        weakref.finalize(self, self.watch.close)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        if self.watch is None:
            yield
            return
        try:
            with self.watch.waiting():
                yield
        except pymysql.err.MySQLError as exc:
            if self.watch.ended:
                raise pymysql.err.OperationalError(CR.CR_SERVER_LOST, self.watch.ended) from exc
            raise

    @contextmanager
    def limited(self, limit_s: float) -> Iterator[None]:
        """While this is open no answer is waited for longer than this, whatever the server does."""
        if self.watch is None:
            yield
            return
        with self.watch.limited(limit_s):
            yield

    def _read_query_result(self, unbuffered: bool = False) -> Any:  # noqa: FBT001, FBT002 (PyMySQL's own)
        with self.waiting():
            return super()._read_query_result(unbuffered)  # type: ignore[misc]

    def _force_close(self) -> None:
        super()._force_close()  # type: ignore[misc]
        if self._result is not None:  # type: ignore[attr-defined]
            # Else what is left of an unbuffered answer would be read when the result is collected.
            self._result.unbuffered_active = False  # type: ignore[attr-defined]
        if self.watch is not None:
            self.watch.close()


def _look(arguments: dict[str, Any], number: int, *, doing: str) -> str:
    try:
        with closing(pymysql.connect(**arguments)) as other:
            return what_hangs(other, number, doing=doing)
    except pymysql.err.MySQLError as exc:
        if exc.args and exc.args[0] in _REFUSED:
            return ""
        return f"the server does not answer another session either ({exc.args[-1] if exc.args else exc})"


def what_hangs(other: "pymysql.connections.Connection[Any]", number: int, *, doing: str = WatchedSession.doing) -> str:
    """What session `number` hangs at, asked by another one. Empty where the server works, or waits for something that
    has a limit of its own, as a lock."""
    with other.cursor() as cursor:
        cursor.execute(doing, (number,))
        row = cursor.fetchone()
    if row is None:
        return _GONE
    command, state = row
    return _ANSWERED if command == "Sleep" else _HANGS.get(str(state), "")
