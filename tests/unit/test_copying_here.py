"""A copy by threads of this process: what ends one of its readers ends all of them, at once and by the first error."""

import os
import signal
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection as Pipe
from typing import Any

import pytest

from seamline.adapters import children as children_of
from seamline.adapters.children import running
from seamline.bulk import threads
from seamline.bulk.threads import CopyingHere
from seamline.domain.errors import TransientError


def waits_for_a_word(pipe: Pipe) -> None:
    pipe.recv()


def dies(_: Pipe) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class SlowPipes:
    """Behind the first pipe another thread may fork before its child does."""

    def __init__(self, fork: Any) -> None:
        self._fork = fork
        self.made, self.other_forked = threading.Event(), threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fork, name)

    def Pipe(self) -> Any:  # noqa: N802 (as multiprocessing calls it)
        pipe = self._fork.Pipe()
        if not self.made.is_set():
            self.made.set()
            self.other_forked.wait(timeout=1)
        return pipe


def test_a_reader_that_dies_is_seen_while_one_that_another_thread_has_forked_lives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Forked in between, that one kept the pipe open until it ended itself."""
    fork, seen = SlowPipes(children_of._FORK), threading.Event()
    monkeypatch.setattr(children_of, "_FORK", fork)

    def die() -> None:
        with running([dies]) as children:
            (message,) = children.messages()
            assert message.error is not None
            seen.set()

    dying = threading.Thread(target=die)
    dying.start()
    assert fork.made.wait(timeout=10)
    with running([waits_for_a_word]):
        fork.other_forked.set()
        was_seen = seen.wait(timeout=5)
    dying.join()
    assert was_seen


class Readers:
    def __init__(self) -> None:
        self.killed = threading.Event()

    def kill(self) -> None:
        self.killed.set()


def test_the_first_error_ends_the_other_readers_and_is_the_one_that_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    """They waited three minutes for the one that had failed."""
    readers = Readers()

    def copy(group: str, *, began: Callable[[Any], None]) -> list[Any]:
        if group == "fails":
            raise TransientError("the source is gone")
        began(readers)
        assert readers.killed.wait(timeout=30)
        raise TransientError("a reading process died")

    monkeypatch.setattr(threads, "copy_group", copy)
    copying = CopyingHere(["waits", "fails"])  # type: ignore[list-item]
    copying.start()
    copying.wait(30)
    assert not copying.is_running()
    with pytest.raises(TransientError, match="the source is gone"):
        copying.result()
    copying.cancel()
