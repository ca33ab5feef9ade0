"""How much of its own log a source's server keeps for its capture, and when that must end (ADR 84). Pure: who watches
the source feeds in what the server says, and does what comes out.

A capture that is behind costs the source a disk. At the declared limit the capture is given up, never the source.
"""

from collections import deque
from dataclasses import dataclass, field
from datetime import timedelta

from seamline.domain.alarms import AlarmKind
from seamline.domain.duration import duration
from seamline.domain.log_fill import GIB, gib_in_words
from seamline.domain.source_backlog import SourceBacklog
from seamline.sync.stream_host import EndAlarm, RaiseAlarm

SOURCE_BACKLOG = AlarmKind.SOURCE_BACKLOG
_SAID_FROM = 0.5
_MEASURED_OVER_S = 600.0
# What happens sooner than this is said, however little is used yet.
_SOON_S = 3600.0
# Beyond that a forecast says nothing.
_FAR_S = 30 * 24 * 3600.0


@dataclass(slots=True)
class BacklogWatch:
    """Of one source. `max_gb` 0: only the server's own limits count."""

    source: str
    max_gb: float = 0.0
    _seen: deque[tuple[float, int]] = field(default_factory=deque)
    _is_open: bool | None = None

    def must_give_up(self, backlog: SourceBacklog) -> bool:
        return bool(self.max_gb) and backlog.size_bytes >= self.max_gb * GIB

    def seen(self, backlog: SourceBacklog, *, now_s: float) -> list[RaiseAlarm | EndAlarm]:
        self._seen.append((now_s, backlog.size_bytes))
        while self._seen[0][0] < now_s - _MEASURED_OVER_S:
            self._seen.popleft()
        if why := self._why(backlog):
            self._is_open = True
            return [RaiseAlarm(SOURCE_BACKLOG, self.source, why)]
        if self._is_open is False:
            return []
        self._is_open = False
        return [EndAlarm(SOURCE_BACKLOG, self.source)]

    def _why(self, backlog: SourceBacklog) -> str:
        again = f"`./seamline capture reset {self.source}`, then onboard its syncs again"
        if backlog.is_lost:
            return f"the source no longer keeps its log for the capture of {self.source}, which cannot go on: {again}"
        kept = f"the source keeps {gib_in_words(backlog.size_bytes)} of its log for the capture of {self.source}"
        if self.must_give_up(backlog):
            limit = f"{kept}, its `log.source_backlog_max_gb` is {self.max_gb:g} GiB: the capture is given up"
            if not backlog.is_held:
                until = (
                    f"the source deletes nothing of its log by itself, for {backlog.never_while}. To go on"
                    if backlog.never_while
                    else "the source deletes its log by age. To go on before it has"
                )
                return (
                    f"{limit}, and keeps its place; {until}: raise the limit and run"
                    f" `./seamline capture start {self.source}`"
                )
            return f"{limit}, so that the source's disk does not fill. To go on: {again}"
        found = [said for said in (self._by_size(backlog), self._by_time(backlog)) if said]
        return f"{kept}; {'; '.join(found)}" if found else ""

    def _by_size(self, backlog: SourceBacklog) -> str:
        """The nearer one of our limit and the server's."""
        ours = [(int(self.max_gb * GIB), f"the capture is given up at {self.max_gb:g} GiB")] if self.max_gb else []
        own = backlog.size_bytes + backlog.room_bytes if backlog.room_bytes is not None else 0
        its = [(own, f"the server lets go of it at {gib_in_words(own)} by its own limit")] if own else []
        if not (limits := [*ours, *its]):
            return ""
        limit, what = min(limits)
        left_s = self._reached_in_s(limit - backlog.size_bytes)
        if backlog.size_bytes < limit * _SAID_FROM and left_s > _SOON_S:
            return ""
        when = f", in about {duration(timedelta(seconds=left_s))} as it grows now" if left_s < _FAR_S else ""
        return f"{what}{when}"

    def _reached_in_s(self, room: int) -> float:
        (first_s, first), (last_s, last) = self._seen[0], self._seen[-1]
        grown = last - first
        return room * (last_s - first_s) / grown if grown > 0 and last_s > first_s else float("inf")

    def _by_time(self, backlog: SourceBacklog) -> str:
        if backlog.expires_in_s is None or backlog.expires_in_s > _SOON_S:
            return ""
        return f"the server deletes the oldest of it in {duration(timedelta(seconds=backlog.expires_in_s))}"
