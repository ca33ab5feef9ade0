"""Says in time that a stream will not catch up before its log ends, and that reading again is cheaper (ADR 92). Pure:
the watch of a source feeds in what it has seen, and does what comes out."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from seamline.domain.alarms import AlarmKind
from seamline.domain.catch_up import CatchUp, LastLoad, RunningLoad, load_in_words
from seamline.domain.ledger import StreamId
from seamline.domain.log_fill import Follower, LogFill, LogLimits
from seamline.domain.source_backlog import SourceBacklog
from seamline.sync.flow_control import PAUSED_AT, Level
from seamline.sync.stream_host import EndAlarm, RaiseAlarm

CATCH_UP = AlarmKind.CATCH_UP
_MEASURED_OVER_S = 600.0
# A shorter look says more about one transaction than about the pace.
_MEASURED_FOR_S = 60.0
# A log that is not full for so long is no reason to ask for loads.
_FAR_S = 24 * 3600.0


@dataclass(slots=True)
class CatchUpWatch:
    """Of one source. `last_load` of a stream and `running_loads` of a source: as the platform database has them; asked
    for only where they may matter."""

    source: str
    last_load: Callable[[StreamId], LastLoad | None]
    running_loads: Callable[[str], Sequence[RunningLoad]]
    _ends: deque[tuple[float, int]] = field(default_factory=deque)
    _seen: dict[StreamId, deque[tuple[float, int, int]]] = field(default_factory=dict)
    _is_open: bool | None = None
    # Bytes a second that came when the capture ran last.
    _grew: float = 0.0

    def seen(
        self,
        fill: LogFill,
        followers: Sequence[Follower],
        limits: LogLimits,
        backlog: SourceBacklog | None,
        *,
        now_s: float,
        level: Level = Level.FREE,
    ) -> list[RaiseAlarm | EndAlarm]:
        """What has to be said. Ask every few seconds. `level`: while the capture is paused the log counts as full."""
        self._note(fill, followers, now_s)
        room = 0.0 if level is Level.PAUSED else _room(fill, limits)
        growing = self._growing(fill)
        if room and growing is not None:
            self._grew = growing
        slowest = min((one.next_offset for one in followers), default=0)
        said = [*self._of_loads(room, growing, backlog)]
        # One that has ended applies nothing, however long it is watched: its own alarm says what is to be done.
        for one in (each for each in followers if not each.has_ended):
            found = self._forecast(one, fill, room, backlog)
            # What keeps the log is the slowest stream alone; the others only may be read again.
            if found is not None and (why := self._why(one, found, is_slowest=one.next_offset == slowest)):
                said.append(why)
        if said:
            self._is_open = True
            return [RaiseAlarm(CATCH_UP, self.source, "; ".join(said))]
        if self._is_open is False:
            return []
        self._is_open = False
        return [EndAlarm(CATCH_UP, self.source)]

    def _growing(self, fill: LogFill) -> float | None:
        """Bytes a second by which the log grows; None where it was not watched for long enough."""
        (first_s, first), (last_s, last) = self._ends[0], self._ends[-1]
        if last_s - first_s < _MEASURED_FOR_S:
            return None
        return max(0.0, (last - first) / (last_s - first_s) * fill.record_bytes)

    def _of_loads(self, room: float, growing: float | None, backlog: SourceBacklog | None) -> Iterator[str]:
        """Loads that go on and will be cut short by the end of the log, or of the source's own where that is full."""
        if growing is None:
            return
        full_in_s = _full_in_s(room, growing)
        ends_in_s = full_in_s if room else self._kept_for_s(backlog, growing) or 0.0
        for one in self.running_loads(self.source) if full_in_s < _FAR_S else ():
            if one.ends_in_s > ends_in_s:
                yield one.in_words(full_in_s)

    def _note(self, fill: LogFill, followers: Sequence[Follower], now_s: float) -> None:
        self._ends.append((now_s, fill.ends))
        while self._ends[0][0] < now_s - _MEASURED_OVER_S:
            self._ends.popleft()
        self._seen = {one.stream: self._seen.get(one.stream, deque()) for one in followers}
        for one in followers:
            places = self._seen[one.stream]
            # One that is loaded again begins elsewhere.
            if places and one.next_offset < places[-1][1]:
                places.clear()
            places.append((now_s, one.next_offset, fill.ends))
            while places[0][0] < now_s - _MEASURED_OVER_S:
                places.popleft()

    def _forecast(self, one: Follower, fill: LogFill, room: float, backlog: SourceBacklog | None) -> CatchUp | None:
        """None where it was not watched for long enough."""
        (first_s, first, first_end), (last_s, last, last_end) = self._seen[one.stream][0], self._seen[one.stream][-1]
        if (length := last_s - first_s) < _MEASURED_FOR_S:
            return None
        come = max(0.0, (last_end - first_end) / length)
        growing = come * fill.record_bytes
        return CatchUp(
            max(0, fill.ends - max(one.next_offset, fill.begins)),
            max(0.0, (last - first) / length),
            come,
            _full_in_s(room, growing),
            self._kept_for_s(backlog, growing),
        )

    def _kept_for_s(self, backlog: SourceBacklog | None, growing: float) -> float | None:
        """The nearer one of the source's own limits; None where it has none, or that is not known. What comes while the
        capture stands nobody sees: it is taken to be what came before."""
        if backlog is None:
            return None
        limits = [backlog.expires_in_s] if backlog.expires_in_s is not None else []
        if backlog.room_bytes is not None and (comes := max(growing, self._grew)):
            limits.append(backlog.room_bytes / comes)
        return min(limits, default=None)

    def _why(self, one: Follower, found: CatchUp, *, is_slowest: bool) -> str:
        load = self.last_load(one.stream) if not found.makes_it or found.is_slower_than(_AT_ONCE) else None
        is_late = is_slowest and not found.makes_it
        if not is_late and not found.is_slower_than(load):
            return ""
        pace = f"stream {one.stream} has {found.pace_in_words()}"
        if is_late:
            pace = f"will not make it: {pace}; {found.end_in_words()}"
        if load is None or not found.is_slower_than(load):
            return pace
        return f"{pace}. {load_in_words(load, one.stream.sync, one.stream.destination)}"


# Whether a load could be faster at all is known before anybody is asked how long one takes.
_AT_ONCE = LastLoad(0, 0.0)


def _room(fill: LogFill, limits: LogLimits) -> float:
    """Bytes until the capture pauses."""
    return max(0.0, PAUSED_AT * limits.bytes_max - fill.size_bytes)


def _full_in_s(room: float, growing: float) -> float:
    if not room:
        return 0.0
    return room / growing if growing else float("inf")
