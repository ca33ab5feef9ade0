"""The incremental snapshot: tables enter a running stream. They are read and staged, follow the log, join at one
offset.

An incremental snapshot is itself a stream, with its own schema and its own ledger, so it is exact for the same reasons.
It follows the stream that the tables shall enter, and never overtakes it: it reads the log only as far as that stream
has applied it. Once it is near, the stream is held for a moment, both come to the same offset, and one transaction
takes the tables over. That transaction compares both offsets: the hold makes equality likely, the comparison ensures
it.
"""

import hashlib
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

from seamline.domain.errors import InvariantViolated, NotCaughtUp, Refused, TransientError
from seamline.domain.ledger import StreamId
from seamline.domain.log import LogRecord, RecordKind
from seamline.plan.document import plan_to_json
from seamline.plan.list_change import ListChange, kept_name
from seamline.plan.model import Run, SyncPlan
from seamline.ports import (
    Commit,
    Failpoints,
    Joining,
    LogReader,
    Orders,
    SchemaGuard,
    Sink,
    StreamDirector,
    StreamReport,
)
from seamline.sync.clock import Clock, SystemClock
from seamline.sync.hold import Hold
from seamline.sync.onboard import publish, staged_snapshot
from seamline.sync.pace import Pace
from seamline.sync.span_loop import run_stream
from seamline.sync.stream_state import state_in_words

_STANDS = ("failed", "stopped", "paused")
_SILENT_S = 60.0
# It reports its offset as often as it reads that of the stream.
_PACE = Pace(
    idle_wait_s=0.05,
    quiet_wait_s=0.05,
    empty_commit_every_s=0.05,
    empty_commit_wait_max_s=0.05,
    report_every_s=0.05,
    idle_report_every_s=0.05,
)


@dataclass(frozen=True, slots=True)
class JoinPatience:
    """Seconds. The stream is held for `lease_s`, then for twice as long each time, at most `held_max_s`. `attempts`:
    how often."""

    lease_s: float = 30.0
    held_max_s: float = 120.0
    attempts: int = 5
    look_every_s: float = 0.1


@dataclass(frozen=True, slots=True)
class JoinTools:
    """What one incremental snapshot needs. `open_sink` and `open_schema_guard` take its plan or that of the sync."""

    director: StreamDirector
    open_log: Callable[[], LogReader]
    open_sink: Callable[[SyncPlan], Sink]
    open_schema_guard: Callable[[SyncPlan], SchemaGuard | None]
    failpoints: Failpoints
    clock: Clock = field(default_factory=SystemClock)
    patience: JoinPatience = field(default_factory=JoinPatience)


def join_stream(run: Run, destination: str, change: ListChange, *, tools: JoinTools) -> Commit:
    """Let the run's tables enter and leave the stream into one destination, and want it by the run's plan.

    Resolved by the run id; may be repeated. Refused if the stream is paused, stopped or failed; TransientError if both
    did not come to one offset, or if the destination could not finish: what it has begun, only a repeat may end.
    """
    stream = run.plan.stream_id(destination)
    beside = _snapshot_plan(run, change).held_by(destination) if change.entering else None
    joining = _joining(run, destination, change, beside)
    missed: NotCaughtUp | None = None
    with closing(tools.open_sink(run.plan)) as sink:
        for attempt in range(tools.patience.attempts + 1):
            lease_s = tools.patience.lease_s * 2 ** max(0, attempt - 1)
            with _TargetStream(stream, tools, lease_s=lease_s) as target:
                # Only the destination knows whether this run has joined already: so it is asked first.
                if attempt and beside is not None:
                    _lead(run, destination, beside, target, tools)
                try:
                    commit = sink.join(stream, joining)
                except NotCaughtUp as error:
                    missed = error
                else:
                    # The old epoch is over, and by its old plan the stream refuses to start.
                    tools.director.want(stream, plan_json=plan_to_json(run.plan.of_stream(stream.destination)))
                    return commit
    raise TransientError(
        f"the tables of run {run.run_id} did not join {stream} in {tools.patience.attempts} attempts: {missed}",
        hint="the stream is busy or its host is slow; run the task again",
        sync=run.sync,
    )


def _joining(run: Run, destination: str, change: ListChange, beside: SyncPlan | None) -> Joining:
    kept_as = {name: kept_name(name, run.run_id) for name in change.removed}
    if beside is None:
        return Joining(run.run_id, kept_as=kept_as)
    return Joining(
        run.run_id,
        tuple(table.target for table in beside.tables),
        beside.stream_id(destination),
        beside.destination(destination).namespace,
        kept_as,
    )


def _snapshot_plan(run: Run, change: ListChange) -> SyncPlan:
    """Named after its low marker: what an older attempt left can never be taken for it."""
    mark = hashlib.sha256(f"{run.run_id} {staged_snapshot(run)['low_marker']}".encode()).hexdigest()[:10]
    return run.plan.incremental_plan(change.entering, mark)


def _lead(run: Run, destination: str, beside: SyncPlan, target: "_TargetStream", tools: JoinTools) -> None:
    """Publish the incremental snapshot, unless that is done, and run it to the offset of the held stream."""
    schema_guard = tools.open_schema_guard(beside)
    try:
        with closing(tools.open_log()) as log, closing(tools.open_sink(beside)) as sink:
            publish(replace(run, run_id=beside.sync, plan=beside), destination, sink=sink)
            reader = ReaderBehind(log, tools.clock)
            control = _IncrementalControl(target, reader, tools)
            run_stream(
                beside,
                destination,
                reader=reader,
                sink=sink,
                control=control,
                schema_guard=schema_guard,
                failpoints=tools.failpoints,
                clock=tools.clock,
                pace=_PACE,
            )
    finally:
        if schema_guard is not None:
            schema_guard.close()


class ReaderBehind:
    """ports.LogReader of an incremental snapshot: gives only records before `limit`, where the stream stands, and the
    BEGIN that follows: it alone says that a transaction without END is over."""

    def __init__(self, log: LogReader, clock: Clock) -> None:
        self.topic, self.topic_id = log.topic, log.topic_id
        self.limit = 0
        self.began_at = 0
        self._log = log
        self._clock = clock
        self._kept: deque[LogRecord] = deque()
        self._given_beyond = -1

    def assign(self, offset: int) -> None:
        self.began_at = offset
        self._log.assign(offset)

    def poll(self, timeout_s: float, records_max: int) -> Sequence[LogRecord]:
        if not self._kept:
            self._kept.extend(self._log.poll(timeout_s, records_max))
        given: list[LogRecord] = []
        while self._kept and self._may_give(self._kept[0]) and len(given) < records_max:
            given.append(self._kept.popleft())
            if given[-1].offset >= self.limit:
                self._given_beyond = given[-1].offset
        if not given and self._kept and timeout_s:
            self._clock.sleep(timeout_s)
        return given

    def _may_give(self, record: LogRecord) -> bool:
        is_next = self._given_beyond < self.limit
        return record.end <= self.limit or (is_next and record.kind is RecordKind.BEGIN)

    def end_offset(self) -> int:
        return min(self.limit, self._log.end_offset())

    def close(self) -> None:
        self._log.close()


class _TargetStream:
    """The stream as its incremental snapshot sees it: looked at, held, let go at the end of the context."""

    def __init__(self, stream: StreamId, tools: JoinTools, *, lease_s: float) -> None:
        self.stream = stream
        self._director = tools.director
        self._clock = tools.clock
        self._lease_s = min(lease_s, tools.patience.held_max_s)
        self._held_max_s = tools.patience.held_max_s
        self._hold: Hold | None = None

    def __enter__(self) -> "_TargetStream":
        return self

    def __exit__(self, *_: object) -> None:
        self.let_go()

    @property
    def is_asked(self) -> bool:
        return self._hold is not None

    @property
    def is_over(self) -> bool:
        return self._hold is not None and self._hold.is_over

    def look(self) -> StreamReport:
        report = self._director.latest_report(self.stream)
        if report is not None and (report.age_s > _SILENT_S or report.state == "no_slot"):
            raise TransientError(
                f"{self.stream} does not move: {state_in_words(report.state)}, reported {report.age_s:.0f} s ago",
                hint="see `seamline status`; once it moves, run the task again",
                sync=self.stream.sync,
            )
        if report is None or report.state in _STANDS:
            state = report.state if report else "not running"
            error = f": {report.error}" if report and report.error else ""
            raise Refused(
                f"{self.stream} is {state}{error}",
                hint="tables enter a stream that moves: mend, resume or start it first. Where a table that was altered"
                " stopped it, park that one alone first",
                sync=self.stream.sync,
            )
        return report

    def holds(self, report: StreamReport) -> bool:
        return self._hold is not None and report.state == "held" and report.hold_id == self._hold.id

    def ask(self) -> None:
        self._hold = Hold(self._director, self._clock, self.stream, lease_s=self._lease_s, held_max_s=self._held_max_s)
        # One that was too short is asked for again, and longer.
        self._lease_s = min(2 * self._lease_s, self._held_max_s)

    def advanced(self) -> None:
        """What the stream is held for has come nearer."""
        if self._hold is not None:
            self._hold.advanced()

    def let_go(self) -> None:
        hold, self._hold = self._hold, None
        if hold is not None:
            hold.release()


class _IncrementalControl:
    """ports.StreamControl of an incremental snapshot: follow the stream, ask it to stand once near, end where it
    stands."""

    def __init__(self, target: _TargetStream, reader: ReaderBehind, tools: JoinTools) -> None:
        self._target = target
        self._reader = reader
        self._clock = tools.clock
        self._patience = tools.patience
        self._next_look = 0.0
        self._stands_at = -1
        self._asked = 0
        self._is_done = False

    def report(self, report: StreamReport) -> None:
        # Before its first epoch it does not know its place.
        if not report.epoch:
            return
        if report.next_offset > max(self._reader.limit, self._reader.began_at):
            raise InvariantViolated(
                f"an incremental snapshot overtook {self._target.stream}: it stands at {report.next_offset}"
            )
        if report.next_offset > self._stands_at >= 0:
            self._target.advanced()
        self._stands_at = report.next_offset

    def orders(self) -> Orders:
        now = self._clock.now()
        if now >= self._next_look:
            self._next_look = now + self._patience.look_every_s
            self._look()
        return Orders(wanted=not self._is_done)

    def _look(self) -> None:
        report = self._target.look()
        self._reader.limit = max(self._reader.limit, report.next_offset)
        is_caught_up = self._stands_at == report.next_offset
        if self._target.holds(report):
            self._is_done = is_caught_up
            if is_caught_up:
                # What comes now is one commit, under what is left of the lease.
                self._target.advanced()
        elif self._target.is_over:
            self._target.let_go()
            if self._asked >= self._patience.attempts:
                raise TransientError(f"{self._target.stream} was asked {self._asked} times to stand and did not")
        elif is_caught_up and not self._target.is_asked:
            self._target.ask()
            self._asked += 1
