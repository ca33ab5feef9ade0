"""The notify loop: a thread that talks to the platform database, so that nobody else waits for it."""

import logging
import selectors
import socket
import threading
import time
from collections.abc import Callable

import psycopg

from seamline.domain.errors import SeamlineError
from seamline.platform.database import OpenSession, Session

log = logging.getLogger(__name__)

CHANNEL = "seamline_control"


class NotifyLoop:
    """Calls `cycle(session)` at the start, at every notice, at every `wake`, and every `poll_s`; once more at the end.

    An error of the database or of ours ends the session, and the next one is tried after `poll_s`; `cycle` must be safe
    to repeat. Any other error ends the thread: it is a bug, and the report's age will show it.
    """

    def __init__(self, name: str, *, cycle: Callable[[Session], None], open_one: OpenSession, poll_s: float) -> None:
        self._name = name
        self._cycle = cycle
        self._open = open_one
        self._poll_s = poll_s
        self._is_away = False
        self._is_closing = False
        # How often somebody has asked for a cycle of his own, and up to which of those was answered.
        self._asked = self._answered = 0
        self._change = threading.Condition()
        self._wake_sender, self._wake_receiver = socket.socketpair()
        self._wake_sender.settimeout(0)
        self._wake_receiver.settimeout(0)
        self._thread = threading.Thread(target=self._run, name=f"platform {name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self, *, timeout_s: float = 5.0) -> None:
        """One last cycle if the database is there; does not wait for one that is away."""
        self._is_closing = True
        self.wake()
        self._thread.join(timeout=timeout_s)
        self._wake_sender.close()

    def wake(self) -> None:
        """Ask for a cycle now. Never waits."""
        try:
            self._wake_sender.send(b"!")
        except OSError:
            return  # the thread is woken already, or has ended

    def wait_for_cycle(self, *, timeout_s: float) -> None:
        """Wait, at most so long, for the end of a cycle that begins now, or of an attempt to connect that meets nobody.

        A session that was lost before, as after a long sleep, is no such attempt: the next one begins at once.
        """
        with self._change:
            self._asked += 1
            mine = self._asked
        self.wake()
        with self._change:
            self._change.wait_for(lambda: self._answered >= mine, timeout=timeout_s)

    @property
    def is_away(self) -> bool:
        """Whether the last attempt met no database."""
        return self._is_away

    def _run(self) -> None:
        with self._wake_receiver:
            while not self._is_closing:
                asked = self._asked
                try:
                    with self._open() as session:
                        session.execute(f"listen {CHANNEL}")
                        self._serve(session)
                except (psycopg.Error, SeamlineError) as exc:
                    self._note_absence(exc)
                    self._answer(asked)
                    self._wait_to_try_again()

    def _serve(self, session: Session) -> None:
        while True:
            is_closing, asked = self._is_closing, self._asked
            self._cycle(session)
            if self._is_away:
                log.info("platform database is back: for=%s", self._name)
            self._is_away = False
            self._answer(asked)
            if is_closing:
                return
            self._sleep(session)

    def _answer(self, asked: int) -> None:
        with self._change:
            self._answered = max(self._answered, asked)
            self._change.notify_all()

    def _sleep(self, session: Session) -> None:
        """Until a notice, a `wake` or the next poll."""
        # A notice that came in with the last answer waits inside the client: the socket does not show it.
        if any(True for _ in session.notifies(timeout=0)):
            return
        with selectors.DefaultSelector() as selector:
            selector.register(session.fileno(), selectors.EVENT_READ)
            selector.register(self._wake_receiver, selectors.EVENT_READ)
            selector.select(self._poll_s)
        self._drain()

    def _drain(self) -> None:
        try:
            while self._wake_receiver.recv(4096):
                pass
        except BlockingIOError:
            return

    def _note_absence(self, exc: Exception) -> None:
        is_news, self._is_away = not self._is_away, True
        if is_news:
            reason = str(exc).splitlines()[0] if str(exc) else type(exc).__name__
            log.warning("platform database is away, all goes on as before: for=%s error=%s", self._name, reason)

    def _wait_to_try_again(self) -> None:
        """`wake` does not shorten it, or each report would mean an attempt to connect. `close` and `wait_for_cycle`
        do."""
        deadline = time.monotonic() + self._poll_s
        with selectors.DefaultSelector() as selector:
            selector.register(self._wake_receiver, selectors.EVENT_READ)
            while (
                not self._is_closing and self._answered >= self._asked and (left_s := deadline - time.monotonic()) > 0
            ):
                selector.select(left_s)
                self._drain()
