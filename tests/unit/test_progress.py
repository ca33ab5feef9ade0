"""Lines for a person who waits."""

import io
import itertools
import re

from seamline.stack.progress import Progress
from tests.waiting import wait_until


def test_a_long_step_says_now_and_then_how_far_it_is_and_nothing_once_it_is_over() -> None:
    out, counted = io.StringIO(), iter(range(1_000_000))
    with Progress(out=out, clock=itertools.chain([0.0], itertools.repeat(3.0)).__next__).saying(
        lambda: f"{next(counted)} of many", every_s=0.001
    ):
        wait_until(lambda: "2 of many" in out.getvalue(), timeout_s=10, what="three lines")
    said = out.getvalue().splitlines()
    assert said[:2] == ["[   3.0 s] 0 of many", "[   3.0 s] 1 of many"]
    assert next(counted) == len(said)
    assert all(re.fullmatch(r"\[   3\.0 s\] \d+ of many", line) for line in said)
