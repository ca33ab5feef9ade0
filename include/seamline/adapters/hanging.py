"""What hangs is ended and named: a session whose answer never comes.

Keepalives and TCP's time-outs end the wait for a machine that is gone. They do not help against a server that lives and
waits for somebody, as COMMIT does for a synchronous standby that is away, nor against a proxy that takes everything and
passes nothing on. So one thread of this process looks after every session that waits and has heard nothing for
`SILENCE_S`: a second session asks the server what the first one does there. A server that works is waited for, however
much there is to do, up to a limit where the caller has one. Any other wait is ended by shutting the socket, and its
error says why. No statement is cancelled for it: a cancelled COMMIT may stand all the same (ADR 35).
"""

import array
import fcntl
import logging
import math
import os
import socket
import struct
import termios
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

log = logging.getLogger(__name__)

# Twice as long as our sessions at a destination wait for a lock: what comes back by itself is back by then.
SILENCE_S = 30.0
# One question of a read view or a load, at which the server works. A digest of a thousand million rows takes an hour.
QUESTION_S = 6 * 3600.0
# A second session that has no answer after this part of the silence has found that the server answers nobody.
_LOOK_SHARE = 0.5
# What the server sent in the moment of the look may still be on its way.
_ON_ITS_WAY_S = 1.0
_NO_ANSWER = "the server does not answer another session either: look at it, and at what lies between"
# `tcpi_last_data_recv` of <linux/tcp.h>, in milliseconds.
_LAST_DATA_MS = struct.Struct("52xI")

# Gives "" where the server works on it, else why nothing will come. Raises nothing.
Look = Callable[[], str]


class Watch(ABC):
    """Looks after one who waits. `ended` is the reason, once the wait was ended from here."""

    def __init__(self, *, look: Look, silence_s: float, limit_s: float) -> None:
        self.limit_s = limit_s
        self.ended = ""
        self._look = look
        self._silence_s = silence_s
        self._looking: _Looking | None = None
        _watcher.add(self)

    @property
    @abstractmethod
    def name(self) -> str:
        """Whose answer is waited for."""

    @abstractmethod
    def since_when(self) -> float:
        """When the wait of now began (monotonic); 0: nobody waits."""

    @abstractmethod
    def silent_s(self, since: float, now: float) -> float:
        """For how long nothing has come."""

    @abstractmethod
    def stop(self) -> None:
        """End the wait."""

    def close(self) -> None:
        _watcher.discard(self)

    @property
    def tick_s(self) -> float:
        """How often to look at it."""
        return min(1.0, self._silence_s / 10)

    def tick(self) -> None:
        """Look after the wait where it is silent for long, and end it where nothing will come of it."""
        if self.ended:
            return
        since, now = self.since_when(), time.monotonic()
        silent_s = self.silent_s(since, now) if since else 0.0
        if silent_s > self.limit_s:
            # A limit below the silence ends a wait without a look.
            how = "that is" if self._looking is None else "the server works on it for"
            self._end(since, silent_s, f"{how} longer than its limit of {self.limit_s:.0f} s")
        elif silent_s < self._silence_s:
            self._looking = None
        elif self._looking is None or self._looking.is_old(now, self._silence_s):
            # Where no thread can be had, the next tick tries again.
            with suppress(RuntimeError):
                self._looking = _Looking(self._look, patience_s=self._silence_s * _LOOK_SHARE)
        elif why := self._looking.found(now):
            self._end(since, silent_s, why)

    def _end(self, since: float, silent_s: float, why: str) -> None:
        if self.since_when() == since:  # else the answer has come meanwhile
            self.ended = f"no answer of {self.name} for {silent_s:.0f} s: {why}"
            # Whoever waited may go on by another session, and say nothing of it.
            log.warning("wait ended: %s", self.ended)
            self.stop()


class SocketWatch(Watch):
    """Looks after a session. Whoever waits at it sets `since` to now (monotonic), and to 0 when the wait is over.

    Holds the session's socket open until `close`.
    """

    def __init__(
        self, fileno: int, *, name: str, look: Look, silence_s: float = SILENCE_S, limit_s: float = math.inf
    ) -> None:
        self.since = 0.0
        self._name = name
        # Its own descriptor: the session's may be closed, and its number be another one's, at any moment.
        self._socket = socket.socket(fileno=os.dup(fileno))
        super().__init__(look=look, silence_s=silence_s, limit_s=limit_s)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """While this is open somebody waits at the session."""
        self.since = time.monotonic()
        try:
            yield
        finally:
            self.since = 0.0

    @contextmanager
    def limited(self, limit_s: float) -> Iterator[None]:
        """While this is open no answer is waited for longer than this, whatever the server does."""
        before, self.limit_s = self.limit_s, limit_s
        try:
            yield
        finally:
            self.limit_s = before

    def close(self) -> None:
        super().close()
        with suppress(OSError):
            self._socket.close()

    @property
    def name(self) -> str:
        return self._name

    def since_when(self) -> float:
        return self.since

    def stop(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def silent_s(self, since: float, now: float) -> float:
        """A long answer is no silence, however long it takes, and what has come and was not read yet is our own
        delay."""
        unread = array.array("i", [0])
        try:
            tcp_info = self._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _LAST_DATA_MS.size)
            fcntl.ioctl(self._socket, termios.FIONREAD, unread)
        except OSError:
            return now - since
        return 0.0 if unread[0] else min(now - since, _LAST_DATA_MS.unpack(tcp_info)[0] / 1000)


class _Looking:
    """One look, in a thread of its own: it may hang itself."""

    def __init__(self, look: Look, *, patience_s: float) -> None:
        self._began = time.monotonic()
        self._patience_s = patience_s
        self._look = look
        self._found: str | None = None
        self._found_at = 0.0
        threading.Thread(target=self._run, daemon=True, name="asks what a session does").start()

    def _run(self) -> None:
        found = self._look()
        self._found_at = time.monotonic()
        self._found = found

    def is_old(self, now: float, silence_s: float) -> bool:
        """Whether the server worked by then, and may hang by now."""
        return self._found == "" and now - self._began >= silence_s

    def found(self, now: float) -> str:
        """Why nothing will come; empty where the server works, or as long as that is not certain."""
        if self._found is None:
            return _NO_ANSWER if now - self._began > self._patience_s else ""
        return self._found if now - self._found_at > _ON_ITS_WAY_S else ""


class _Watcher:
    """The one thread of this process that looks after its sessions; it begins with the first."""

    def __init__(self) -> None:
        self._watches: set[Watch] = set()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def add(self, watch: Watch) -> None:
        self._watches.add(watch)
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._live, daemon=True, name="looks after what hangs")
                self._thread.start()

    def discard(self, watch: Watch) -> None:
        self._watches.discard(watch)

    def _live(self) -> None:
        while True:
            watches = self._watches.copy()
            time.sleep(min((watch.tick_s for watch in watches), default=1.0))
            for watch in watches:
                watch.tick()


def _after_fork() -> None:
    """A forked process has neither the thread nor the sessions of its parent, and the lock perhaps for ever."""
    global _watcher  # noqa: PLW0603
    _watcher = _Watcher()


_watcher = _Watcher()
os.register_at_fork(after_in_child=_after_fork)
