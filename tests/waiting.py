"""The one place where tests wait: for a condition, with a deadline, never for a time."""

import time
from collections.abc import Callable
from typing import TypeVar

ResultT = TypeVar("ResultT")


def wait_until(predicate: Callable[[], ResultT], *, timeout_s: float, what: str, every_s: float = 0.05) -> ResultT:
    """Call `predicate` until it returns something true, and return that; fails after `timeout_s`.

    An error that the predicate raises ends the wait at once: a predicate that may meet a server that is still away
    catches that error itself and returns False.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        result = predicate()
        if result:
            return result
        if time.monotonic() >= deadline:
            raise AssertionError(f"waited {timeout_s:g} s for {what}; the last answer was {result!r}")
        time.sleep(every_s)
