"""Says in time that a stream will not catch up before its log ends, and that reading again is cheaper (ADR 92). Pure:
the watch of a source feeds in what it has seen, and does what comes out."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from seamline.domain.alarms import AlarmKind
from seamline.domain.catch_up import CatchUp, LastLoad, RunningLoad, load_in_words
from seamline.domain.ledger import StreamId
from seamline.domain.log_fill import GIB, Follower, LogFill, LogLimits, gib_in_words
from seamline.domain.log_kept import LogKept
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
    for only where they may matter. `backlog_max_gb`: `log.source_backlog_max_gb`; 0: none is declared."""

    source: str
    last_load: Callable[[StreamId], LastLoad | None]
    running_loads: Callable[[str], Sequence[RunningLoad]]
    backlog_max_gb: float = 0.0
    _ends: deque[tuple[float, int]] = field(default_factory=deque)
    _seen: dict[StreamId, deque[tuple[float, int, int]]] = field(default_factory=dict)
    _is_open: bool | None = None
    # Bytes a second that came when the capture ran last.
    _grew: float = 0.0
    # Of the last look: what the log keeps for each stream.
    kept: dict[StreamId, LogKept] = field(default_factory=dict)
    # How far each running load was when it last said something else than before, and since when.
    _loads: dict[str, tuple[RunningLoad, float]] = field(default_factory=dict)

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
        said = [*self._of_loads(room, growing, backlog, now_s)]
        self.kept = {}
        for one in followers:
            found = self._forecast(one, fill, room, backlog)
            load = self._faster_load(one, found) if found and not one.has_ended else None
            self.kept[one.stream] = _kept(one, fill, limits, found, load=load, backlog=backlog)
            # One that has ended applies nothing, however long it is watched: its own alarm says what is to be done.
            if one.has_ended:
                continue
            # What keeps the log is the slowest stream alone; the others only may be read again.
            if found is not None and (why := _why(one, found, load, is_slowest=one.next_offset == slowest)):
                said.append(why)
        if said:
            self._is_open = True
            return [RaiseAlarm(CATCH_UP, self.source, "; ".join([*said, *_disk_in_words(fill, limits)]))]
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

    def _of_loads(
        self, room: float, growing: float | None, backlog: SourceBacklog | None, now_s: float
    ) -> Iterator[str]:
        """Loads that go on and will be cut short by the end of the log, or of the source's own where that is full."""
        if growing is None:
            return
        full_in_s = _full_in_s(room, growing)
        after_s = [self._kept_for_s(backlog, growing), self._given_up_after_s(backlog, growing)]
        ends_in_s = full_in_s if room else min((one for one in after_s if one is not None), default=0.0)
        running = self.running_loads(self.source) if full_in_s < _FAR_S else ()
        self._loads = {one.run_id: self._last_word(one, now_s) for one in running}
        for one, since_s in self._loads.values():
            left_s = one.ends_in_s(said_before_s=now_s - since_s)
            if left_s > ends_in_s:
                yield one.in_words(left_s, full_in_s)

    def _last_word(self, one: RunningLoad, now_s: float) -> tuple[RunningLoad, float]:
        before = self._loads.get(one.run_id)
        return (one, before[1] if before is not None and before[0].so_far == one.so_far else now_s)

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
            self._given_up_after_s(backlog, growing),
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

    def _given_up_after_s(self, backlog: SourceBacklog | None, growing: float) -> float | None:
        """None where no limit of ours is declared, what the source keeps is not known, or nothing comes."""
        comes = max(growing, self._grew)
        if backlog is None or not self.backlog_max_gb or not comes:
            return None
        return max(0.0, self.backlog_max_gb * GIB - backlog.size_bytes) / comes

    def _faster_load(self, one: Follower, found: CatchUp) -> LastLoad | None:
        """The last load of all tables, where it is clearly faster than what is before the stream."""
        load = self.last_load(one.stream) if found.is_slower_than(_AT_ONCE) else None
        return load if found.is_slower_than(load) else None


def _why(one: Follower, found: CatchUp, load: LastLoad | None, *, is_slowest: bool) -> str:
    """`load`: the last one of all tables, where it is clearly faster."""
    is_late = is_slowest and not found.makes_it
    if not is_late and load is None:
        return ""
    pace = f"stream {one.stream} has {found.pace_in_words()}"
    if is_late:
        pace = f"will not make it: {pace}; {found.end_in_words()}"
    return pace if load is None else f"{pace}. {load_in_words(load, one.stream.sync, one.stream.destination)}"


def _disk_in_words(fill: LogFill, limits: LogLimits) -> list[str]:
    if fill.free_bytes is None or not fill.is_disk_nearer(limits):
        return []
    return [f"the broker's disk has {gib_in_words(fill.free_bytes)} free, and `log.max_gb` would let it take more"]


def _kept(
    one: Follower,
    fill: LogFill,
    limits: LogLimits,
    found: CatchUp | None,
    *,
    load: LastLoad | None,
    backlog: SourceBacklog | None,
) -> LogKept:
    behind = fill.behind_bytes(one.next_offset)
    has_limit = None if backlog is None else backlog.room_bytes is not None or backlog.expires_in_s is not None
    if found is None:
        return LogKept(int(behind), has_source_limit=has_limit)
    grows = found.come_per_s * fill.record_bytes
    cut_off_in_s = max(0.0, one.cut_off_gb * GIB - behind) / grows if one.cut_off_gb and grows else None
    return LogKept(
        int(behind),
        grows,
        _known(found.log_full_in_s),
        is_disk=fill.is_disk_nearer(limits),
        cut_off_in_s=cut_off_in_s,
        has_source_limit=has_limit,
        source_in_s=_known(found.expires_in_s),
        given_up_in_s=_known(found.given_up_in_s),
        load=load,
    )


def _known(seconds: float) -> float | None:
    return None if seconds == float("inf") else seconds


# Whether a load could be faster at all is known before anybody is asked how long one takes.
_AT_ONCE = LastLoad(0, 0.0)


def _room(fill: LogFill, limits: LogLimits) -> float:
    """Bytes until the capture pauses."""
    return max(0.0, PAUSED_AT * fill.bytes_max(limits) - fill.size_bytes)


def _full_in_s(room: float, growing: float) -> float:
    if not room:
        return 0.0
    return room / growing if growing else float("inf")
