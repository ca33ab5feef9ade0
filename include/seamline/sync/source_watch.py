"""What the stream host does for each captured source: it writes heartbeats and watches the capture."""

import logging
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from seamline.domain.alarms import AlarmKind
from seamline.domain.capture_status import CaptureState
from seamline.domain.errors import SeamlineError
from seamline.domain.log_fill import LogLimits
from seamline.domain.source_backlog import SourceBacklog
from seamline.plan.model import SourcePlan
from seamline.ports import CaptureProbe, Followers, HeartbeatPayload, KeepsItsLog, LoggedSource, Marker
from seamline.sync.backlog_watch import SOURCE_BACKLOG, BacklogWatch
from seamline.sync.capture_flow import CaptureFlow
from seamline.sync.capture_watch import (
    CAPTURE_FAILED,
    CAPTURE_STOPPED,
    CAPTURE_UNREACHABLE,
    LOG_SIZE,
    Action,
    CaptureWatch,
    Step,
)
from seamline.sync.catch_up_watch import CATCH_UP
from seamline.sync.flow_control import CAPTURE_PAUSED, CAPTURE_SLOWED
from seamline.sync.markers import HEARTBEAT, HEARTBEAT_S
from seamline.sync.stream_host import EndAlarm, RaiseAlarm

log = logging.getLogger(__name__)

# Heartbeats add 360 rows an hour. Old markers are of no use, except the newest one that the log has: by it a capture
# knows its source when it starts (ADR 18). So none are deleted while the log gets none.
_MARKERS_KEPT_S = 7 * 24 * 3600.0
_MARKERS_PRUNED_MAX = 1_000

SOURCE_UNREACHABLE = AlarmKind.SOURCE_UNREACHABLE
SOURCE_ALARMS = (
    SOURCE_UNREACHABLE,
    CAPTURE_FAILED,
    CAPTURE_STOPPED,
    CAPTURE_UNREACHABLE,
    LOG_SIZE,
    CAPTURE_SLOWED,
    CAPTURE_PAUSED,
    SOURCE_BACKLOG,
    CATCH_UP,
)


class _Cycle(Protocol):
    def __call__(self, *, now_s: float) -> None: ...


class Alarms(Protocol):
    def raise_alarm(self, kind: AlarmKind, subject: str, message: str) -> None: ...

    def end_alarm(self, kind: str, subject: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Rhythm:
    heartbeat_s: float = HEARTBEAT_S
    status_s: float = 5.0
    size_s: float = 10.0
    backlog_s: float = 10.0
    place_s: float = 60.0
    silence_s: float = 30.0
    prune_s: float = 3600.0


@dataclass(slots=True)
class _Every:
    """Says once per interval that it is time."""

    interval_s: float
    due_s: float = 0.0

    def is_due(self, now_s: float) -> bool:
        if now_s < self.due_s:
            return False
        self.due_s = now_s + self.interval_s
        return True


class SourceWatch:
    """One source. `beat` and `look` are called about every second, each by a thread of its own: a source whose commits
    hang, or Connect, holds back nothing else.

    A failed call is repeated at its next cycle, with a new session where the old one may be broken.
    """

    def __init__(
        self,
        plan: SourcePlan,
        *,
        open_source: Callable[[], LoggedSource],
        open_probe: Callable[[], CaptureProbe],
        alarms: Alarms,
        payload_source: HeartbeatPayload | None = None,
        followers: Followers | None = None,
        rhythm: Rhythm | None = None,
    ) -> None:
        rhythm = rhythm or Rhythm()
        self._plan = plan
        self._open_source = open_source
        self._open_probe = open_probe
        self._alarms = alarms
        self._payload_source = payload_source
        self._tables: frozenset[str] = frozenset()
        self._silence_s = rhythm.silence_s
        self._heartbeat = _Every(rhythm.heartbeat_s)
        self._status = _Every(rhythm.status_s)
        self._size = _Every(rhythm.size_s)
        self._prune = _Every(rhythm.prune_s)
        self._backlog_due = _Every(rhythm.backlog_s)
        self._backlog = BacklogWatch(plan.name, plan.source_backlog_max_gb)
        self._is_given_up = False
        self._kept: SourceBacklog | None = None
        self._place: Mapping[str, object] = {}
        self._place_due = _Every(rhythm.place_s)
        self._watch = CaptureWatch(plan.name, plan.connector, plan.log_max_gb, unreachable_after_s=rhythm.silence_s)
        self._source: LoggedSource | None = None
        self._probe: CaptureProbe | None = None
        self._limits = LogLimits(plan.log_max_gb, plan.log_behind_max_gb)
        self._flow = CaptureFlow(plan.name, followers, backlog_max_gb=plan.source_backlog_max_gb) if followers else None
        self._state: CaptureState | None = None
        self._silent_since_s: float | None = None
        # Whether this watch has committed a heartbeat: before that an earlier one may have left its alarm open.
        self._has_beaten = False
        self._is_closed = False

    def carry(self, tables: frozenset[str]) -> None:
        """From now on heartbeats say what the catalogue has of these tables, as the capture calls them."""
        self._tables = tables

    def beat(self, *, now_s: float) -> None:
        """What is written into the source."""
        if self._heartbeat.is_due(now_s):
            self._commit_heartbeat(now_s)
        if self._source is not None and self._state is CaptureState.RUNNING and self._prune.is_due(now_s):
            self._prune_markers(self._source)
        if isinstance(self._source, KeepsItsLog) and self._backlog_due.is_due(now_s):
            self._measure_backlog(self._source, now_s)

    def look(self, *, now_s: float) -> None:
        """What the capture says, and what is done about it."""
        if self._status.is_due(now_s):
            self._ask(now_s)
        if self._size.is_due(now_s):
            self._weigh(now_s)
        # One that stands still may be what a host finds when it starts: its place says what the source keeps for it.
        if self._state not in (None, CaptureState.MISSING) and self._place_due.is_due(now_s):
            self._hear_place()

    def _commit_heartbeat(self, now_s: float) -> None:
        """It closes what waits for an END and proves progress on an idle source."""
        try:
            if self._source is None:
                self._source = self._open_source()
            self._source.commit_marker(Marker(f"heartbeat-{uuid.uuid4().hex}", HEARTBEAT, self._seen()))
        except SeamlineError as exc:
            self._source = None
            if self._silent_since_s is None:
                self._silent_since_s = now_s
                log.warning("no heartbeat: source=%s error=%s", self._plan.name, exc.message)
            if now_s - self._silent_since_s >= self._silence_s:
                self._say([RaiseAlarm(SOURCE_UNREACHABLE, self._plan.name, exc.message)])
            return
        if self._silent_since_s is not None:
            self._silent_since_s = None
            log.info("heartbeats again: source=%s", self._plan.name)
        elif self._has_beaten:
            return
        self._has_beaten = True
        self._say([EndAlarm(SOURCE_UNREACHABLE, self._plan.name)])

    def _seen(self) -> Mapping[str, Any]:
        """A heartbeat that can say nothing of the catalogue is still one."""
        if self._payload_source is None or not self._tables:
            return {}
        try:
            return self._payload_source.payload(self._tables)
        except SeamlineError as exc:
            log.info("a heartbeat without the catalogue: source=%s error=%s", self._plan.name, exc.message)
            return {}

    def _prune_markers(self, source: LoggedSource) -> None:
        """Not urgent: a source that refuses, or is busy, is asked again at the next cycle."""
        try:
            source.prune_markers(older_than_s=_MARKERS_KEPT_S, rows_max=_MARKERS_PRUNED_MAX)
        except SeamlineError as exc:
            log.warning("old markers stay: source=%s error=%s", self._plan.name, exc)

    def _measure_backlog(self, source: KeepsItsLog, now_s: float) -> None:
        """Its slot goes only once the capture was seen to be stopped."""
        try:
            self._kept = backlog = source.backlog(self._place)
            self._say(self._backlog.seen(backlog, now_s=now_s))
            self._is_given_up = self._backlog.must_give_up(backlog)
            if self._is_given_up and self._state is CaptureState.STOPPED:
                log.error("the capture is given up, its source keeps too much: source=%s", self._plan.name)
                source.let_go()
        except SeamlineError as exc:
            log.warning("what the source keeps is not known: source=%s error=%s", self._plan.name, exc.message)

    def _ask(self, now_s: float) -> None:
        self._state = None
        try:
            probe = self._probed()
            status = probe.status()
            self._state = status.state
            self._act(probe, self._watch.seen(status, now_s=now_s))
            if self._is_given_up and status.state is not CaptureState.STOPPED:
                probe.stop()
        except SeamlineError as exc:
            self._probe = None
            self._say(self._watch.silent(exc.message, now_s=now_s))

    def _weigh(self, now_s: float) -> None:
        try:
            probe = self._probed()
            self._hear_limits(probe)
            fill = probe.log_fill()
            self._act(probe, self._watch.sized(fill.size_bytes, max_gb=self._limits.max_gb))
            if self._flow is not None:
                self._say(
                    self._flow.steer(probe, fill, self._limits, state=self._state, now_s=now_s, backlog=self._kept)
                )
        except SeamlineError as exc:
            self._probe = None
            log.warning("size of the log not known: source=%s error=%s", self._plan.name, exc.message)

    def _hear_limits(self, probe: CaptureProbe) -> None:
        """The broker can be asked for the size while Connect does not answer: then the last limits count."""
        try:
            self._limits = probe.log_limits() or self._limits
        except SeamlineError as exc:
            log.warning("limits of the log not heard: source=%s error=%s", self._plan.name, exc.message)

    def _hear_place(self) -> None:
        """Seldom: Connect reads its whole topic of offsets for it."""
        try:
            self._place = self._probed().place()
        except SeamlineError as exc:
            log.warning("place of the capture not heard: source=%s error=%s", self._plan.name, exc.message)

    def _probed(self) -> CaptureProbe:
        if self._probe is None:
            self._probe = self._open_probe()
        return self._probe

    def _act(self, probe: CaptureProbe, actions: list[Action]) -> None:
        self._say(actions)
        for action in actions:
            if action is Step.RESTART:
                log.warning(
                    "restarting a failed capture: source=%s connector=%s", self._plan.name, self._plan.connector
                )
                probe.restart_failed()
            elif action is Step.STOP:
                log.error("log topic at its limit, stopping its capture: source=%s", self._plan.name)
                probe.stop()

    def close(self) -> None:
        """From now on it says nothing, also where a call to a server that hangs ends late."""
        self._is_closed = True

    def _say(self, actions: Sequence[Action]) -> None:
        for action in () if self._is_closed else actions:
            if isinstance(action, RaiseAlarm):
                self._alarms.raise_alarm(action.kind, action.subject, action.message)
            elif isinstance(action, EndAlarm):
                self._alarms.end_alarm(action.kind, action.subject)


class SourceWatchThread:
    """Lets one watch beat and look until it is closed."""

    def __init__(self, watch: SourceWatch, *, name: str, every_s: float = 1.0) -> None:
        self._watch = watch
        self._every_s = every_s
        self._end = threading.Event()
        self.carry = watch.carry
        for what, cycle in (("heartbeats of", watch.beat), ("capture of", watch.look)):
            threading.Thread(target=self._live, args=(cycle,), name=f"{what} {name}", daemon=True).start()

    def _live(self, cycle: _Cycle) -> None:
        while not self._end.wait(self._every_s):
            try:
                cycle(now_s=time.monotonic())
            except Exception:
                # Without this thread there are no heartbeats, or no restarts and no size limit: it goes on, and the
                # log shows it.
                log.exception("the watch of a source met an error of ours; it goes on")

    def close(self) -> None:
        """Does not wait: a thread may be inside a call to a server that hangs."""
        self._watch.close()
        self._end.set()
