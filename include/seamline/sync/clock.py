"""The two clocks of a stream: one to wait by, one to measure how old something is."""

import time
from typing import Protocol


class Clock(Protocol):
    def now(self) -> float:
        """Seconds from anywhere, which never go back: somebody may put the machine's clock back by an hour, and no wait
        may last that long."""

    def wall(self) -> float:
        """Seconds since the epoch, as the machine's clock says just now: to be held against the source's."""

    def sleep(self, seconds: float) -> None: ...


class SystemClock:
    def now(self) -> float:
        return time.monotonic()

    def wall(self) -> float:
        return time.time()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)
