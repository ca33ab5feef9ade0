"""Work in forked child processes that report over a pipe: for native libraries that keep Python's lock while they wait.

A child ends with its parent, whatever becomes of that. One that dies without a word is a TransientError.
"""

import ctypes
import gc
import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe
from multiprocessing.connection import wait
from typing import Any

from seamline.domain.errors import InvariantViolated, SeamlineError, TransientError

_PR_SET_PDEATHSIG = 1
_FORK = multiprocessing.get_context("fork")


@dataclass(frozen=True, slots=True)
class Message:
    """What a child said; `error` is set when its work failed, and nothing follows it."""

    child: int
    value: Any = None
    error: SeamlineError | None = None
    is_end: bool = False


class Children:
    """Running children, numbered from 0."""

    def __init__(self, works: Sequence[Callable[[Pipe], None]]) -> None:
        self._pipes: dict[Pipe, int] = {}
        self._processes: list[Any] = []
        for number, work in enumerate(works):
            mine, theirs = _FORK.Pipe()
            process = _FORK.Process(target=_run, args=(work, theirs, os.getpid()), daemon=True)
            process.start()
            theirs.close()
            self._pipes[mine] = number
            self._processes.append(process)

    def tell(self, child: int, word: Any) -> None:
        """Send a word to a child. One that has just died is told of by `messages`."""
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

    def end(self) -> None:
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
            code = self._processes[child].exitcode
            message = Message(child, error=TransientError(f"a reading process died (exit code {code})"), is_end=True)
        if message.is_end:
            del self._pipes[pipe]
            pipe.close()
        return Message(child, message.value, message.error, message.is_end)


@contextmanager
def running(works: Sequence[Callable[[Pipe], None]]) -> Iterator[Children]:
    """Children that run these works; killed at the end where they still run. Each work gets its end of the pipe, over
    which it may `recv` words and `send` a `Message`."""
    children = Children(works)
    try:
        yield children
    finally:
        children.end()


def _run(work: Callable[[Pipe], None], pipe: Pipe, parent: int) -> None:
    """The child's whole life; a process edge."""
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
