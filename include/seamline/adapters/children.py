"""Work in forked child processes that report over a pipe: for native libraries that keep Python's lock while they wait.

A child ends with its parent, whatever becomes of that. One that dies without a word is a TransientError, as is one that
hangs: what it waits for behind Python's lock its parent sees in memory that both share (`seamline.adapters.hanging`).
"""

import ctypes
import gc
import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe
from multiprocessing.connection import wait
from typing import Any

from seamline.adapters.hanging import QUESTION_S, SILENCE_S, Watch
from seamline.domain.errors import InvariantViolated, SeamlineError, TransientError

_PR_SET_PDEATHSIG = 1
_FORK = multiprocessing.get_context("fork")
_TICK_S = 1.0
_one_fork = threading.Lock()
# A process that did not get to move one thread for so many silences hangs, and is not only slow.
_STILL = 4
# Gives "" where the server works on what a child waits for, by the name that the child gave it. Raises nothing.
LookFor = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Message:
    """What a child said; `error` is set when its work failed, and nothing follows it."""

    child: int
    value: Any = None
    error: SeamlineError | None = None
    is_end: bool = False


class _Life:
    """What a child lets its parent see of itself, in memory of both."""

    def __init__(self) -> None:
        self.moved_at = _FORK.RawValue("d", time.monotonic())
        self.waits_since = _FORK.RawValue("d", 0.0)
        self._table, self._waits_for = _FORK.RawArray("c", 512), _FORK.RawArray("c", 512)

    @property
    def table(self) -> str:
        return bytes(self._table.value).decode(errors="replace")

    @table.setter
    def table(self, name: str) -> None:
        self._table.value = name.encode()[:511]

    @property
    def waits_for(self) -> str:
        return bytes(self._waits_for.value).decode(errors="replace")

    @waits_for.setter
    def waits_for(self, name: str) -> None:
        self._waits_for.value = name.encode()[:511]

    def move(self) -> None:
        while True:
            self.moved_at.value = time.monotonic()
            time.sleep(_TICK_S)


_own: _Life | None = None


def set_table(name: str) -> None:
    """What this child reads from now on: its parent names it where it hangs. A no-op in any other process."""
    if _own is not None:
        _own.table = name


@contextmanager
def native_wait(waits_for: str) -> Iterator[None]:
    """While this is open the child waits in native code that keeps Python's lock, so no thread of its own can look
    after it. `waits_for` is a name by which the parent can ask the server."""
    if _own is None:
        yield
        return
    _own.waits_for, _own.waits_since.value = waits_for, time.monotonic()
    try:
        yield
    finally:
        _own.waits_since.value = 0.0


class _ChildWatch(Watch):
    def __init__(self, life: _Life, process: Any, *, look: LookFor, silence_s: float) -> None:
        self._life = life
        self._process = process
        self._look_for = look
        super().__init__(look=self._found, silence_s=silence_s, limit_s=QUESTION_S)

    @property
    def name(self) -> str:
        return f"the process that reads table {self._life.table}" if self._life.table else "a reading process"

    @property
    def table(self) -> str:
        return self._life.table

    def since_when(self) -> float:
        moved_at, waits_since = self._life.moved_at.value, self._life.waits_since.value
        if waits_since:
            return float(waits_since)
        return float(moved_at) if time.monotonic() - moved_at > _STILL * self._silence_s else 0.0

    def silent_s(self, since: float, now: float) -> float:
        return now - since

    def stop(self) -> None:
        self._process.kill()

    def _found(self) -> str:
        if not self._life.waits_since.value:
            return "it stands still"
        return self._look_for(self._life.waits_for)


class Children:
    """Running children, numbered from 0."""

    def __init__(self, works: Sequence[Callable[[Pipe], None]], *, look: LookFor, silence_s: float) -> None:
        self._pipes: dict[Pipe, int] = {}
        self._processes: list[Any] = []
        self._watches: list[_ChildWatch] = []
        for number, work in enumerate(works):
            life = _Life()
            # A child that another thread forks in between would hold this one's end of the pipe open, and its death
            # would be seen only when that one ends too.
            with _one_fork:
                mine, theirs = _FORK.Pipe()
                process = _FORK.Process(target=_run, args=(work, theirs, os.getpid(), life), daemon=True)
                process.start()
                theirs.close()
            self._pipes[mine] = number
            self._processes.append(process)
            self._watches.append(_ChildWatch(life, process, look=look, silence_s=silence_s))

    def send(self, child: int, word: Any) -> None:
        """Send a word to a child. One that has just died is reported by `messages`."""
        for pipe, number in self._pipes.items():
            if number == child:
                try:
                    pipe.send(word)
                except OSError:
                    return

    def messages(self) -> Iterator[Message]:
        """What the children say, in the order it comes, until all have ended."""
        while self._pipes:
            for pipe in wait(list(self._pipes)):
                yield self._received(pipe)  # type: ignore[arg-type]

    def kill(self) -> None:
        """From any thread; `messages` then says of each that still ran that it died."""
        for process in self._processes:
            process.kill()

    def end(self) -> None:
        for watch in self._watches:
            watch.close()
        for process in self._processes:
            if process.is_alive():
                process.kill()
        for process in self._processes:
            process.join()

    def _received(self, pipe: Pipe) -> Message:
        child = self._pipes[pipe]
        try:
            message: Message = pipe.recv()
        except (EOFError, OSError):
            self._processes[child].join()
            message = Message(child, error=self._death_of(child), is_end=True)
        if message.is_end:
            del self._pipes[pipe]
            pipe.close()
        return Message(child, message.value, message.error, message.is_end)

    def _death_of(self, child: int) -> TransientError:
        watch, code = self._watches[child], self._processes[child].exitcode
        return TransientError(watch.ended or f"{watch.name} died (exit code {code})", table=watch.table)


@contextmanager
def running(
    works: Sequence[Callable[[Pipe], None]], *, look: LookFor = lambda _: "", silence_s: float = SILENCE_S
) -> Iterator[Children]:
    """Children that run these works; killed at the end where they still run. Each work gets its end of the pipe, over
    which it may `recv` words and `send` a `Message`. After `silence_s` of a `native_wait` somebody looks."""
    children = Children(works, look=look, silence_s=silence_s)
    try:
        yield children
    finally:
        children.end()


def _run(work: Callable[[Pipe], None], pipe: Pipe, parent: int, life: _Life) -> None:
    """The child's whole life; a process edge."""
    global _own, _one_fork  # noqa: PLW0603
    # The parent's is held while it forks.
    _own, _one_fork = life, threading.Lock()
    threading.Thread(target=life.move, daemon=True).start()
    # What the parent has left to the collector must not be ended here: a Kafka client's threads are not in this
    # process, and the child would die of it.
    gc.freeze()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    try:
        work(pipe)
        last = Message(0, is_end=True)
    except SeamlineError as exc:
        last = Message(0, error=exc, is_end=True)
    except BaseException:
        pipe.send(
            Message(0, error=InvariantViolated(f"a reading process failed: {traceback.format_exc()}"), is_end=True)
        )
        raise
    pipe.send(last)
