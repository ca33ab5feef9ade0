"""The host's loop: what it hears goes into the roster, what the roster wants is done."""

import logging
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from queue import Empty, SimpleQueue
from typing import Any, Protocol

from seamline import registry
from seamline.domain.errors import SeamlineError
from seamline.domain.ledger import StreamId
from seamline.kinds.found import require_kinds
from seamline.plan.document import plan_from_json
from seamline.plan.model import SourcePlan, SyncPlan
from seamline.platform.host_coordinator import (
    HostCoordinator,
    LeaseLost,
    ReportLost,
    ReportsNow,
    StreamsReported,
    WantedNow,
)
from seamline.ports import LogReader, WantedStream
from seamline.sync.code_rollout import CodeRollout, Restart, RunsBy
from seamline.sync.log_listener import Listened, LogListenerThread
from seamline.sync.source_watch import SOURCE_ALARMS, SourceWatch, SourceWatchThread
from seamline.sync.stream_host import (
    Action,
    Cancel,
    EndAlarm,
    GiveUp,
    IdleStream,
    RaiseAlarm,
    Runs,
    SendReport,
    Start,
    StreamRoster,
    TaskEnd,
    TryAgain,
    Woken,
)
from seamline_spark.stream_host.spark_streams import SparkStreams

log = logging.getLogger(__name__)

# Beyond the roster's own grace, for Spark to kill what did not stop.
_KILL_S = 6.0
_LOOK_S = 1.0
# A question to the JVM costs a millisecond; a dead one also ends every stream's thread, which is heard at once.
_ALIVE_S = 5.0
# Older than this, a report says nothing of now.
_HEARD_S = 30.0
_UP = frozenset({"streaming", "catching_up", "paused", "held", "waiting"})
# One that is held is left alone: a run waits for it where it stands.
_CAUGHT_UP = frozenset({"streaming", "paused"})


@dataclass(frozen=True, slots=True)
class StopAsked:
    """A signal, or whoever started the host."""

    reason: str


class Watch(Protocol):
    """What looks after one source, until it is closed."""

    def carry(self, tables: frozenset[str]) -> None:
        """These are the tables of the source that streams want."""

    def close(self) -> None: ...


WatchSource = Callable[[SyncPlan], Watch]
OpenLog = Callable[[SyncPlan], LogReader]
# Which code is installed now.
LookAtCode = Callable[[], str]


# A host has few plans, and looks at them whenever a stream begins or ends to be idle.
_plan_of = lru_cache(maxsize=1024)(plan_from_json)


class StreamHost:
    def __init__(
        self,
        *,
        streams: SparkStreams,
        coordinator: HostCoordinator,
        roster: StreamRoster,
        events: "SimpleQueue[Any]",
        watch_source: WatchSource,
        open_log: OpenLog = registry.log_reader,
        rollout: CodeRollout | None = None,
        look_at_code: LookAtCode | None = None,
        code_s: float = 15.0,
    ) -> None:
        self._streams = streams
        self._coordinator = coordinator
        self._roster = roster
        self._events = events
        self._watch_source = watch_source
        self._watches: dict[str, tuple[SourcePlan, Watch]] = {}
        self._open_log = open_log
        self._listeners: dict[SourcePlan, LogListenerThread] = {}
        self._idle: tuple[IdleStream, ...] = ()
        self._stopping_since_s: float | None = None
        self._rollout = rollout
        self._look_at_code = look_at_code
        self._looked_s, self._code_s = time.monotonic(), code_s
        self._reports: ReportsNow = ReportsNow({})
        self._reports_s = 0.0

    def run(self) -> None:
        """Until asked to stop and every stream has stopped. TransientError: Spark is gone."""
        alive_until_s = 0.0
        while not self._is_over():
            self._hear()
            if (now_s := time.monotonic()) >= alive_until_s:
                self._streams.require_alive()
                if self._roster.offered(slots := self._streams.slots):
                    log.info("more executors have come: slots=%d", slots)
                alive_until_s = now_s + _ALIVE_S
            for action in self._roster.due(now_s=time.monotonic(), lease_until_s=self._coordinator.lease_until_s):
                self._do(action)
            self._roll_out()
            self._listen()
        for _, watch in self._watches.values():
            watch.close()

    def _is_over(self) -> bool:
        if self._stopping_since_s is None:
            return False
        waited_s = time.monotonic() - self._stopping_since_s
        return self._roster.running == 0 or waited_s > self._roster.stop_grace_s + _KILL_S

    def _hear(self) -> None:
        """Wait for an event, but not long: attempts fall due by the clock."""
        try:
            event = self._events.get(timeout=_LOOK_S)
            while True:
                self._take_in(event)
                event = self._events.get_nowait()
        except Empty:
            return

    def _take_in(self, event: object) -> None:
        match event:
            case TaskEnd():
                self._take_in_end(event)
            case WantedNow():
                self._roster.wanted(event.streams)
                self._watch_sources(list(self._usable(event.streams)))
            case Woken():
                self._wake(event.stream, event.reason)
            case ReportLost():
                self._wake(event.stream, "its last report did not arrive")
            case ReportsNow():
                self._reports, self._reports_s = event, time.monotonic()
            case StreamsReported():
                self._roster.heard_from(event.streams, now_s=time.monotonic())
            case LeaseLost() | StopAsked():
                self._stop(event.reason)

    def _take_in_end(self, event: TaskEnd) -> None:
        self._streams.require_alive()
        log.info("stream task ended: stream=%s outcome=%s error=%s", event.stream, event.outcome, event.error)
        self._roster.ended(event, now_s=time.monotonic())

    def _stop(self, reason: str) -> None:
        if self._stopping_since_s is None:
            log.info("stopping: reason=%s running=%d", reason, self._roster.running)
            self._stopping_since_s = time.monotonic()
            self._roster.stop_all()
            self._coordinator.begin_stop()

    def _do(self, action: Action) -> None:
        match action:
            case Start():
                log.info("starting stream: stream=%s attempt=%d", action.wanted.stream, action.attempt)
                self._coordinator.forget_report(str(action.wanted.stream))
                self._streams.start(action)
            case Cancel():
                log.warning("cancelling stream that did not stop: stream=%s", action.stream)
                self._streams.cancel(action)
            case SendReport():
                self._coordinator.report(action.report)
            case GiveUp():
                self._coordinator.give_up(action.stream, want_number=action.want_number, error=action.error)
            case TryAgain():
                self._coordinator.try_again(action.stream)
            case RaiseAlarm():
                log.error("%s: subject=%s %s", action.kind, action.subject, action.message)
                self._coordinator.raise_alarm(action.kind, action.subject, action.message)
            case EndAlarm():
                self._coordinator.end_alarm(action.kind, action.subject)

    def _roll_out(self) -> None:
        """New code, one stream after another."""
        now_s = time.monotonic()
        if self._rollout is None or self._look_at_code is None or self._stopping_since_s is not None:
            return
        if now_s - self._looked_s >= self._code_s:
            self._looked_s = now_s
            try:
                self._rollout.installed(self._look_at_code())
            except OSError as exc:
                log.info("the installed code changes while it is looked at: %s", exc)
        runs = self._roster.runs()
        if self._rollout.is_over({one.code for one in runs}):
            return
        for step in self._rollout.due([self._runs_by(one, now_s) for one in runs], now_s=now_s):
            if isinstance(step, Restart):
                log.info("new code: stream=%s code=%s", step.stream, step.code)
                for action in self._roster.run_by(step.stream, step.code):
                    self._do(action)
            else:
                self._do(step)

    def _runs_by(self, one: Runs, now_s: float) -> RunsBy:
        """As its newest report says, if the task that runs now has written it."""
        stream, plan = one.wanted.stream, next(self._usable([one.wanted]), None)
        report = self._reports.reports.get(stream)
        age_s = report.age_s + now_s - self._reports_s if report else math.inf
        # A report of the attempt before says nothing of this one.
        is_heard = one.is_running and not one.is_ending and age_s <= min(_HEARD_S, now_s - one.started_s)
        is_up = report is not None and is_heard and report.epoch > 0 and report.state in _UP
        is_caught_up = (
            report is not None
            and plan is not None
            and is_up
            and report.state in _CAUGHT_UP
            and report.lag_s <= plan.stream.lag_max_s
            and not report.error
        )
        return RunsBy(
            stream,
            one.code,
            is_running=one.is_running,
            is_idle=one.is_idle,
            is_up=is_up,
            is_caught_up=is_caught_up,
            failures=one.failures,
            is_final=one.is_final,
            error=one.error,
            is_bound=plan is not None and self._streams.is_bound(stream, plan),
        )

    def _listen(self) -> None:
        """To one log topic of each source with idle streams. Where nobody can, they get their workers back."""
        for idle in self._roster.idle:
            source = _plan_of(idle.wanted.plan_json).source
            if self._coordinator.is_away:
                # Once the lease has run out nothing could be started for them.
                self._wake(idle.wanted.stream, "the platform database is away")
            elif source in self._listeners and self._listeners[source].is_stuck:
                self._wake(idle.wanted.stream, "its log does not answer")
        self._coordinator.report_idle([idle.wanted.stream for idle in self._roster.idle])
        if self._idle != self._roster.idle:
            self._idle = self._roster.idle
            self._share_out(self._idle)

    def _share_out(self, idle: Sequence[IdleStream]) -> None:
        by_source: dict[SourcePlan, list[Listened]] = {}
        plans: dict[SourcePlan, SyncPlan] = {}
        for one in idle:
            plan = _plan_of(one.wanted.plan_json)
            tables = frozenset(table.name for table in plan.tables)
            listened = Listened(one.wanted.stream, tables, one.next_offset, one.since_s)
            by_source.setdefault(plan.source, []).append(listened)
            plans[plan.source] = plan
        for source in self._listeners.keys() - by_source.keys():
            self._listeners.pop(source).close()
        for source, listened_to in by_source.items():
            if source not in self._listeners or not self._listeners[source].listen(listened_to):
                self._listeners[source] = self._listener_of(plans[source])
                self._listeners[source].listen(listened_to)

    def _wake(self, stream: StreamId, reason: str) -> None:
        log.info("waking stream: stream=%s reason=%s", stream, reason)
        self._roster.woken(stream)

    def _listener_of(self, plan: SyncPlan) -> LogListenerThread:
        return LogListenerThread(
            lambda: self._open_log(plan),
            marker_table=plan.source.marker_table,
            wake=lambda stream, reason: self._events.put(Woken(stream, reason)),
            name=plan.source.name,
        )

    def _usable(self, streams: Sequence[WantedStream]) -> Iterator[SyncPlan]:
        """Their plans, but one that cannot be read or names a kind that is not installed: its stream fails by itself,
        with that reason."""
        for one in streams:
            try:
                require_kinds(plan := _plan_of(one.plan_json), one.stream.destination)
            except SeamlineError as exc:
                log.debug("a plan that cannot be used: stream=%s error=%s", one.stream, exc.message)
            else:
                yield plan

    def _watch_sources(self, plans: list[SyncPlan]) -> None:
        """One watch per source, by the newest plan that names it."""
        wanted = {plan.source.name: plan for plan in plans}
        for name, (source, watch) in list(self._watches.items()):
            if name not in wanted or wanted[name].source.shared != source:
                watch.close()
                del self._watches[name]
            if name not in wanted:
                # Nobody looks any more, so nobody could end them.
                for kind in SOURCE_ALARMS:
                    self._coordinator.end_alarm(kind, name)
        for name in wanted.keys() - self._watches.keys():
            self._watches[name] = wanted[name].source.shared, self._watch_source(wanted[name])
        for name, (_, watch) in self._watches.items():
            of_source = [plan for plan in plans if plan.source.name == name]
            watch.carry(frozenset(plan.source.places.captured(one.name) for plan in of_source for one in plan.tables))


def watch_source_with(coordinator: HostCoordinator) -> WatchSource:
    """Heartbeats into the source and an eye on its capture, in a thread of their own."""

    def watch(plan: SyncPlan) -> Watch:
        return SourceWatchThread(
            SourceWatch(
                plan.source,
                open_source=lambda: registry.logged_source(plan),
                open_probe=lambda: registry.capture_probe(plan),
                alarms=coordinator,
                payload_source=registry.heartbeat_payload(plan.source),
                followers=registry.followers(),
            ),
            name=plan.source.name,
        )

    return watch
