"""The watch of a test's own source, as the stream host runs it: heartbeats, restarts and alarms."""

import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from seamline.adapters.connect.debezium_capture import open_probe
from seamline.ports import Followers
from seamline.sync.capture_watch import CAPTURE_FAILED
from seamline.sync.source_watch import Rhythm, SourceWatch
from tests.integration.captured import NAMED_WITHIN_S, Captured
from tests.waiting import wait_until


class Alarms:
    """Those that are raised now, by kind."""

    def __init__(self) -> None:
        self.raised: dict[str, str] = {}

    def raise_alarm(self, kind: str, subject: str, message: str) -> None:  # noqa: ARG002 (there is one source)
        print(f"alarm {kind}: {message}")
        self.raised[kind] = message

    def end_alarm(self, kind: str, subject: str) -> None:  # noqa: ARG002
        print(f"over: alarm {kind}")
        self.raised.pop(kind, None)

    def name_in_time(self, match: str) -> str:
        """Invariant I9: from now on, that is from the fault, the alarm has a minute to hold the name of the loss."""

        def named() -> str:
            message = self.raised.get(CAPTURE_FAILED, "")
            return message if re.search(match, message) else ""

        return wait_until(named, timeout_s=NAMED_WITHIN_S, what=f"an alarm that says {match!r}")


@contextmanager
def watched(bank: Captured, *, rhythm: Rhythm | None = None, followers: Followers | None = None) -> Iterator[Alarms]:
    alarms = Alarms()
    plan = bank.source_plan
    watch = SourceWatch(
        plan,
        open_source=lambda: bank.source,
        open_probe=lambda: open_probe(plan),
        alarms=alarms,
        followers=followers,
        rhythm=rhythm,
    )
    end = threading.Event()

    def live(cycle: Callable[..., None]) -> None:
        while not end.wait(1.0):
            cycle(now_s=time.monotonic())

    # As SourceWatchThread does; but a test has to see both end before it takes the servers away.
    with ThreadPoolExecutor(2) as pool:
        lives = [pool.submit(live, cycle) for cycle in (watch.beat, watch.look)]
        try:
            yield alarms
        finally:
            end.set()
    for life in lives:
        life.result()
