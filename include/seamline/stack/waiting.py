"""The one place where the stack waits: ask again until the answer is yes, or the deadline has passed."""

import time
from collections.abc import Callable

INTERVAL_S = 0.1


def wait_until(predicate: Callable[[], bool], *, timeout_s: float, every_s: float = INTERVAL_S) -> bool:
    """Return whether `predicate` became true within `timeout_s`, asking every `every_s` seconds."""
    deadline = time.monotonic() + timeout_s
    while not predicate():
        if time.monotonic() >= deadline:
            return False
        time.sleep(every_s)
    return True
