"""What hangs, as a test makes it, and calls whose own hanging fails the test instead of the whole run."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing, contextmanager
from typing import TypeVar

import psycopg

from seamline.adapters.connections import resolve
from seamline.domain.errors import SeamlineError
from tests.integration.databases import PUBLISHER, WRITER, postgres
from tests.integration.replicated import Server, restorable_postgres
from tests.waiting import wait_until

ResultT = TypeVar("ResultT")


def begun(call: Callable[[], ResultT]) -> "Future[ResultT]":
    """The call in a thread that nobody waits for at the end."""
    future: Future[ResultT] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except (SeamlineError, psycopg.Error) as exc:
            future.set_exception(exc)

    threading.Thread(target=run, daemon=True).start()
    return future


def within(timeout_s: float, call: Callable[[], ResultT]) -> ResultT:
    """The call's result or error; TimeoutError where it hangs."""
    return begun(call).result(timeout=timeout_s)


@contextmanager
def own_postgres() -> Iterator[Server]:
    """A server of the test's own, to which every connection of the destination leads."""
    with restorable_postgres() as backup:
        for connection in map(resolve, (PUBLISHER, WRITER)):
            backup.server.ask(f"ALTER ROLE {connection.login} PASSWORD '{connection.password}'")
        yield backup.server


@contextmanager
def standby_away(server: Server) -> Iterator[None]:
    """Every COMMIT waits for a synchronous standby that is not there, until the end of the block."""
    with closing(_Probe(server)) as probe:
        server.ask("ALTER SYSTEM SET synchronous_standby_names = 'nobody'", "SELECT pg_reload_conf()")
        try:
            wait_until(probe.waits, timeout_s=30, what="a COMMIT that waits for the standby")
            yield
        finally:
            server.ask("ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")


class _Probe:
    """A transaction of no consequence, to see whether its COMMIT waits."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._session = postgres(server.administrator)
        self._is_sent = False

    def waits(self) -> bool:
        connection = self._session.pgconn
        if not self._is_sent:
            connection.send_query(b"SELECT pg_logical_emit_message(true, '', '')")
            self._is_sent = True
        connection.consume_input()
        if not connection.is_busy():
            while connection.get_result() is not None:
                self._is_sent = False
            return False
        pid = self._session.info.backend_pid
        return bool(self._server.ask(f"SELECT 1 FROM pg_stat_activity WHERE pid = {pid} AND wait_event = 'SyncRep'"))

    def close(self) -> None:
        self._session.close()
