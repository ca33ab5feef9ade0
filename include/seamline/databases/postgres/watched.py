"""Sessions of PostgreSQL at which nobody waits for an answer that never comes: see `seamline.adapters.hanging`."""

import math
import time
import weakref
from collections.abc import Mapping
from functools import partial
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen

from seamline.adapters.hanging import SILENCE_S, SocketWatch

ResultT = TypeVar("ResultT")

_DOING = "SELECT state, wait_event_type, wait_event, backend_type FROM pg_catalog.pg_stat_activity WHERE pid = %s"
_HANGS = {
    "SyncRep": "its COMMIT waits for a synchronous standby that is away or slow; bring the standby back, or take it out"
    " of synchronous_standby_names",
    "ClientWrite": "the server sends its answer and none of it arrives; look at what lies between",
    "ClientRead": "the server waits for the rest of what was sent to it; look at what lies between",
}
_ANSWERED = "the server has nothing to do for it, so the statement or its answer was lost; look at what lies between"
_GONE = "the server has no such session any more"


class WatchedSession(psycopg.Connection[Any]):
    """Where a wait was ended, psycopg.OperationalError names the server, the session and why."""

    watch: SocketWatch

    def wait(self, gen: PQGen[ResultT], *args: Any, **kwargs: Any) -> ResultT:
        watch = self.watch
        watch.since = time.monotonic()
        try:
            return super().wait(gen, *args, **kwargs)
        except psycopg.Error as exc:
            if watch.ended:
                raise psycopg.OperationalError(watch.ended) from exc
            raise
        finally:
            watch.since = 0.0

    def close(self) -> None:
        super().close()
        self.watch.close()


def connect(*, silence_s: float = SILENCE_S, limit_s: float = math.inf, **arguments: Any) -> WatchedSession:
    """As psycopg.connect. `silence_s`: after how long without an answer somebody looks; `limit_s`: for how long a
    server that works is waited for."""
    session = WatchedSession.connect(**arguments)
    session.watch = watch_of(
        arguments, fileno=session.fileno(), pid=session.info.backend_pid, silence_s=silence_s, limit_s=limit_s
    )
    weakref.finalize(session, session.watch.close)
    return session


def watch_of(
    arguments: Mapping[str, Any], *, fileno: int, pid: int, silence_s: float = SILENCE_S, limit_s: float = math.inf
) -> SocketWatch:
    """The watch of a session of any driver that was opened by these arguments of libpq."""
    name = f"PostgreSQL at {arguments['host']}:{arguments['port']} (process {pid}, `{arguments['application_name']}`)"
    return SocketWatch(
        fileno, name=name, look=partial(_look, dict(arguments), pid), silence_s=silence_s, limit_s=limit_s
    )


def _look(arguments: dict[str, Any], pid: int) -> str:
    ours = {
        "application_name": "seamline looks after a session",
        "options": "-c statement_timeout=10000",
        "connect_timeout": 10,
        "autocommit": True,
    }
    asked = {name: value for name, value in arguments.items() if name != "replication"}
    try:
        with psycopg.connect(**{**asked, **ours}) as other:
            row = other.execute(_DOING, (pid,)).fetchone()
    except psycopg.Error as exc:
        said = (str(exc).strip() or type(exc).__name__).splitlines()[0]
        # A server that refuses the session lives.
        return "" if "FATAL" in said else f"the server does not answer another session either ({said})"
    return what_hangs(row)


def what_hangs(row: tuple[Any, ...] | None) -> str:
    """Empty where the server works, or waits for something that has a limit of its own, as a lock."""
    if row is None:
        return _GONE
    state, kind, event, backend = row
    # Not every version reports what a replication session does.
    if str(state).startswith("idle") and backend != "walsender":
        return _ANSWERED
    if kind in ("Client", "IPC"):
        return _HANGS.get(str(event), "")
    return ""
