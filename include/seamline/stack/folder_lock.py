"""Locks on a folder: whoever comes second is refused at once, or waits."""

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from seamline.domain.errors import TransientError
from seamline.stack.layout import Layout


@contextmanager
def lock_or_refuse(layout: Layout, name: str, *, what: str) -> Iterator[None]:
    """Hold the lock called `name`; it ends with this process, whatever becomes of it.

    TransientError where another process holds it: `what` says who that is.
    """
    layout.data.mkdir(parents=True, exist_ok=True)
    with (layout.data / f"{name}.lock").open("w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            raise TransientError(
                f"another {what} is at work on {layout.data}", hint="wait for it, then try again"
            ) from exc
        yield


@contextmanager
def lock_after_waiting(folder: Path, name: str, *, on_wait: Callable[[], None]) -> Iterator[None]:
    """Hold the lock called `name` in this folder, which is made; `on_wait` is called where another process has it."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.lock").open("w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
