"""How fast a source may be read in bulk: by its own load, its quiet times, and the log that its streams are behind in.

Pure: whoever reads asks the servers, feeds in what they say, and rests or waits as it comes out (ADR 96).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum

from seamline.domain.calendar import zone

# From this share of a limit on a source is read slower, at the limit nobody reads on.
SLOWED_FROM = 0.8


class Rate(IntEnum):
    FULL = 0
    SLOWED = 1
    WAITS = 2
    ENDS = 3


@dataclass(frozen=True, slots=True)
class ReadingPace:
    """`why` is for people; "" at full speed."""

    rate: Rate = Rate.FULL
    why: str = ""


@dataclass(frozen=True, slots=True)
class ServerLoad:
    """`running`: statements that the server works on, ours too; None: nobody asked. `replica_lag_s`: how far a replica
    is behind, as its server says; None where there is no replica, infinite where one stands still."""

    running: int | None = None
    replica_lag_s: float | None = None


@dataclass(frozen=True, slots=True)
class LogPressure:
    """What the watch of a source does to its capture, as its alarm says: SLOWED, or WAITS where the capture pauses.
    `is_ours`: nobody needs older records of the log than this very read, which keeps it."""

    rate: Rate
    why: str
    is_ours: bool = False


@dataclass(frozen=True, slots=True)
class QuietTime:
    """Local times "HH:MM"; `begins` belongs to it, `ends` does not. One that ends before it begins goes through
    midnight."""

    begins: str
    ends: str

    def holds(self, time: str) -> bool:
        if self.begins < self.ends:
            return self.begins <= time < self.ends
        return time >= self.begins or time < self.ends


def by_time(source: str, quiet: Sequence[QuietTime], timezone: str, now: datetime) -> ReadingPace:
    """`now` carries a zone."""
    time = f"{now.astimezone(zone(timezone)):%H:%M}"
    for one in quiet:
        if one.holds(time):
            return ReadingPace(Rate.WAITS, f"source {source} is to be quiet until {one.ends} ({timezone})")
    return ReadingPace()


def by_load(source: str, load: ServerLoad, *, running_max: int, replica_lag_max_s: float) -> ReadingPace:
    """A limit of 0 is none."""
    if replica_lag_max_s and load.replica_lag_s == math.inf:
        return ReadingPace(Rate.WAITS, f"a replica of source {source} stands still, or does not say where it is")
    return worst_of(
        _against(
            running_max, load.running, f"source {source} works on {{found:g}} statements, its limit is {{limit:g}}"
        ),
        _against(
            replica_lag_max_s,
            load.replica_lag_s,
            f"a replica of source {source} is {{found:,.0f}} s behind, its limit is {{limit:g}} s",
        ),
    )


def _against(limit: float, found: float | None, text: str) -> ReadingPace:
    if not limit or found is None or found < limit * SLOWED_FROM:
        return ReadingPace()
    return ReadingPace(Rate.WAITS if found >= limit else Rate.SLOWED, text.format(found=found, limit=limit))


def worst_of(*paces: ReadingPace) -> ReadingPace:
    found = [one for one in paces if one.rate is not Rate.FULL]
    if not found:
        return ReadingPace()
    return ReadingPace(max(one.rate for one in found), "; ".join(one.why for one in found))


def with_log(own: ReadingPace, log: LogPressure | None) -> ReadingPace:
    """`own`: what the source's load and its quiet times say.

    A read that keeps the log itself is not slowed down for the log: that would only make it keep more. It may not wait
    either, so where the source wants it to wait it ends.
    """
    if log is None:
        return own
    if not log.is_ours:
        return worst_of(own, ReadingPace(log.rate, log.why))
    if own.rate is Rate.WAITS:
        return ReadingPace(Rate.ENDS, f"{own.why}; meanwhile the log fills, which this read keeps: {log.why}")
    return own
