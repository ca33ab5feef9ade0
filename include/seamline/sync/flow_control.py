"""How fast a source's capture may write into its log (ADR 83). Pure: who watches the source feeds in what the log holds
and where its streams stand, and does what comes out.

What the slowest destination has yet to apply slows the capture down to that destination's own rate. It never pauses it:
a transaction may be larger than the bound, and the stream applies none of it before its end has come. A log that is
nearly full slows the capture too, and then pauses it, just before it would be stopped at its limit.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from seamline.domain.alarms import AlarmKind
from seamline.domain.ledger import StreamId
from seamline.domain.log_fill import GIB, Follower, LogFill, LogLimits, gib_in_words

CAPTURE_SLOWED = AlarmKind.CAPTURE_SLOWED
CAPTURE_PAUSED = AlarmKind.CAPTURE_PAUSED
# Heartbeats come through at this rate, and the largest batch long before its transaction times out.
RATE_MIN = 64 * 1024
# Of what the slowest destination applies, so that it catches up.
_OF_ITS_RATE = 0.8
_MEASURED_OVER_S = 60.0
# Until then pruning has been at the log once more.
_ROOM_FOR_S = 3600.0
# A rate that hardly differs is left as it is: each change is a write to the cluster's metadata.
_CHANGED_BY = 0.2


class Level(IntEnum):
    FREE = 0
    SLOWED = 1
    PAUSED = 2


@dataclass(frozen=True, slots=True)
class CutOff:
    stream: StreamId
    reason: str


@dataclass(frozen=True, slots=True)
class Flow:
    """`bytes_per_s` None: as fast as it can. `why` is for people; "" where the capture is free."""

    level: Level = Level.FREE
    bytes_per_s: int | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class _Band:
    """Where a level begins, and below what it ends again, as shares of a limit."""

    slow: float
    slow_ends: float
    pause: float = float("inf")
    pause_ends: float = float("inf")

    def level(self, share: float, before: Level) -> Level:
        if share >= self.pause or (before is Level.PAUSED and share >= self.pause_ends):
            return Level.PAUSED
        if share >= self.slow or (before is not Level.FREE and share >= self.slow_ends):
            return Level.SLOWED
        return Level.FREE


_BEHIND = _Band(slow=1.0, slow_ends=0.7)
# Of `log.max_gb`: from here on nothing more is written.
PAUSED_AT = 0.97
_FULL = _Band(slow=0.90, slow_ends=0.85, pause=PAUSED_AT, pause_ends=0.93)


@dataclass(slots=True)
class FlowControl:
    """One source's. Ask `seen` every few seconds."""

    source: str
    _behind: Level = Level.FREE
    _full: Level = Level.FREE
    _rate: int | None = None
    _places: dict[StreamId, deque[tuple[float, int]]] = field(default_factory=dict)

    def cut_off(self, fill: LogFill, followers: Sequence[Follower]) -> tuple[CutOff, ...]:
        """Those that have too much of the log before them, by what their sync declares."""
        return tuple(
            CutOff(
                one.stream,
                f"{one.stream} has {gib_in_words(behind)} of the log of {self.source} before it, over its"
                f" `stream.cut_off_behind_gb` of {one.cut_off_gb:g} GiB: it was cut off so that it slows nobody down."
                f" Its tables stay as they are. To load it again run `{one.stream.sync}__onboard` and name"
                f" {one.stream.destination} under Destinations to load",
            )
            for one in followers
            if one.cut_off_gb and (behind := fill.behind_bytes(one.next_offset)) >= one.cut_off_gb * GIB
        )

    def seen(self, fill: LogFill, followers: Sequence[Follower], limits: LogLimits, *, now_s: float) -> Flow:
        self._note(followers, now_s)
        slowest = min(followers, key=lambda one: one.next_offset, default=None)
        behind = fill.behind_bytes(slowest.next_offset) if slowest else 0.0
        self._behind = _BEHIND.level(behind / limits.behind_bytes_max, self._behind)
        self._full = _FULL.level(fill.size_bytes / max(1.0, fill.bytes_max(limits)), self._full)
        found: list[tuple[float, str]] = []
        if self._behind is not Level.FREE and slowest is not None:
            found.append((self._applied(slowest.stream) * fill.record_bytes * _OF_ITS_RATE, self._far(slowest, behind)))
        if self._full is not Level.FREE:
            room = fill.bytes_max(limits) - fill.size_bytes
            found.append((room / _ROOM_FOR_S, self._filled(fill, limits)))
        return self._flow(found)

    def _flow(self, found: Sequence[tuple[float, str]]) -> Flow:
        if not found:
            self._rate = None
            return Flow()
        least, why = min(found)[0], "; ".join(why for _, why in found)
        wanted = max(RATE_MIN, int(least))
        if self._rate is None or abs(wanted - self._rate) > _CHANGED_BY * self._rate:
            self._rate = wanted
        return Flow(max(self._behind, self._full), self._rate, why)

    def _note(self, followers: Sequence[Follower], now_s: float) -> None:
        self._places = {one.stream: self._places.get(one.stream, deque()) for one in followers}
        for one in followers:
            places = self._places[one.stream]
            places.append((now_s, one.next_offset))
            while places[0][0] < now_s - _MEASURED_OVER_S:
                places.popleft()

    def _applied(self, stream: StreamId) -> float:
        """Records a second, over the last minute."""
        (first_s, first), (last_s, last) = self._places[stream][0], self._places[stream][-1]
        return max(0.0, (last - first) / (last_s - first_s)) if last_s > first_s else 0.0

    def _far(self, slowest: Follower, behind: float) -> str:
        return (
            f"stream {slowest.stream} has {gib_in_words(behind)} of the log of {self.source} before it and applies"
            f" {self._applied(slowest.stream):,.0f} records a second"
        )

    def _filled(self, fill: LogFill, limits: LogLimits) -> str:
        share = 100 * fill.size_bytes / max(1.0, fill.bytes_max(limits))
        limit = f"its limit of {limits.max_gb:g} GiB"
        if fill.free_bytes is not None and fill.is_disk_nearer(limits):
            limit = f"what its broker's disk has room for, of which {gib_in_words(fill.free_bytes)} are free"
        return (
            f"the log of {self.source} holds {gib_in_words(fill.size_bytes)}, {share:.0f} % of {limit}, by"
            " `log.keep_days` or by what its streams still need"
        )
