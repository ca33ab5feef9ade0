"""What must not be at work twice on one data folder: whoever comes second is told so at once."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager

from seamline.domain.errors import TransientError
from seamline.stack.layout import Layout


@contextmanager
def alone(layout: Layout, name: str, *, what: str) -> Iterator[None]:
    """Hold the turn called `name`; it ends with this process, whatever becomes of it.

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
