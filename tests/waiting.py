"""The one place where tests wait: for a condition, with a deadline, never for a time."""

from collections.abc import Callable
from typing import TypeVar

from seamline.stack import waiting

ResultT = TypeVar("ResultT")


def wait_until(predicate: Callable[[], ResultT], *, timeout_s: float, what: str, every_s: float = 0.05) -> ResultT:
    """Call `predicate` until it returns something true, and return that; fails after `timeout_s`.

    An error that the predicate raises ends the wait at once: a predicate that may meet a server that is still away
    catches that error itself and returns False.
    """
    answers: list[ResultT] = []

    def is_met() -> bool:
        answers[:] = [predicate()]
        return bool(answers[0])

    if not waiting.wait_until(is_met, timeout_s=timeout_s, every_s=every_s):
        raise AssertionError(f"waited {timeout_s:g} s for {what}; the last answer was {answers[0]!r}")
    return answers[0]
