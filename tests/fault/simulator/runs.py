"""Runs of a sync, one after the other: onboardings, and tables that enter its stream, are loaded again or leave it.

A run is a task in a process that may crash, sleep and be overtaken; it is tried again until it has succeeded.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from seamline.domain.errors import CommitUnknown, Fenced, Refused, SeamlineError, TransientError
from seamline.domain.runs import RunKind, RunState
from seamline.plan.document import plan_to_json
from seamline.plan.list_change import ListChange, entering_only, list_change
from seamline.plan.model import Run, SyncPlan
from seamline.sync.incremental_snapshot import JoinPatience, JoinTools, join_stream
from seamline.sync.onboard import publish
from seamline.sync.snapshot import SnapshotTools, take_snapshot
from tests.fault.simulator.bank_source import TABLES
from tests.fault.simulator.checks import Checks
from tests.fault.simulator.ports import Direction, SteppedFailpoints, SteppedSink, SteppedSource
from tests.fault.simulator.schedule import Crash, Process, Schedule, Violation
from tests.fault.simulator.topic import Capture, SimulatedReader
from tests.log_topic import STREAM, ManualClock
from tests.memory_sink import MemoryDestination

ATTEMPTS_MAX = 6
# Steps within which who was left alone mostly ends.
SOON = 1_000
_NAMES = tuple(table.name for table in TABLES)


class StreamClock:
    """Sleeping is a step."""

    def __init__(self, clock: ManualClock, schedule: Schedule) -> None:
        self._clock = clock
        self._schedule = schedule

    def now(self) -> float:
        return self._clock.time

    def wall(self) -> float:
        return self._clock.time

    def sleep(self, seconds: float) -> None:
        self._clock.time += seconds
        self._schedule.wait()


@dataclass
class Runs:
    """`whole` is the plan of all tables; `wanted` are those that the newest run wants."""

    whole: SyncPlan
    schedule: Schedule
    capture: Capture
    destination: MemoryDestination
    checks: Checks
    direction: Direction
    world: SteppedSource
    wanted: tuple[str, ...] = _NAMES
    _unfinished: Callable[[], bool] | None = None
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))
    _left_alone: list[list[SeamlineError | Crash | None]] = field(default_factory=list)

    @property
    def is_idle(self) -> bool:
        return self._unfinished is None

    @property
    def is_published(self) -> bool:
        return STREAM in self.destination.ledgers

    def onboard(self) -> None:
        """A change of tables that was under way is given up: what it has left is in nobody's way."""
        self._unfinished = None
        self._wait_for_those_left_alone()
        run = self._new_run(RunKind.ONBOARD)

        def attempt(process: Process) -> None:
            publish(self._with_snapshot(run, run), "warehouse", sink=self._sink(run.plan, process))
            self.direction.want(STREAM, plan_json=plan_to_json(run.plan))

        while not self._succeeds(attempt):
            self.schedule.wait()

    def change_tables(self) -> None:
        """Change the table list, as far as a few attempts take it: `finish` does the rest."""
        self._wait_for_those_left_alone()
        again = self._draw_change()
        run = self._new_run(RunKind.TABLES)
        change = list_change(run.plan, {"warehouse": self.destination.ledgers[STREAM]}, again=again)
        if not change:
            return

        def attempt(process: Process) -> None:
            self._join(run, change, process)

        self._unfinished = lambda: self._succeeds(attempt)
        for _ in range(ATTEMPTS_MAX):
            if self.capture.lost_at is not None:
                return
            if self._unfinished():
                self._unfinished = None
                self._report(change)
                return
            # The next attempt comes when its owner's back-off is over: the stream goes on meanwhile.
            for _ in range(self.schedule.dice.randint(1, 120)):
                self.schedule.wait()

    def finish(self) -> None:
        """What is under way comes to its end."""
        while self._unfinished is not None and not self._unfinished():
            self.schedule.wait()
        self._unfinished = None
        self._wait_for_those_left_alone()

    def draw_tables(self) -> None:
        """Some of the tables, for a sync that begins without the others."""
        dice = self.schedule.dice
        self.wanted = tuple(name for name in _NAMES if dice.random() < 0.7) or _NAMES

    def reader(self) -> SimulatedReader:
        return SimulatedReader(self.capture, self.schedule.dice, self._pass_time)

    # ---- tasks ------------------------------------------------------------------------------------------------------

    def _succeeds(self, work: Callable[[Process], None]) -> bool:
        """One attempt. One that sleeps may be given up: it wakes beside the next one."""
        ends: list[SeamlineError | Crash | None] = []

        def on_end(process: Process, error: SeamlineError | Crash | None) -> None:
            self._judge(error)
            ends.append(error)

        process = Process("run", on_end)
        self.schedule.spawn(process, lambda: work(process))
        while not ends:
            if process.sleeps_until > self.schedule.steps and self.schedule.dice.random() < 0.05:
                self.schedule.tally["task overtaken in its sleep"] += 1
                self._left_alone.append(ends)
                return False
            self.schedule.wait()
        return ends == [None]

    def _judge(self, error: SeamlineError | Crash | None) -> None:
        match error:
            case None:
                return
            case Crash() | TransientError() | CommitUnknown() | Fenced() | Refused():
                self.schedule.tally[f"task ended: {type(error).__name__}"] += 1
            case _:
                raise Violation(f"unexplained stop: {type(error).__name__}", f"{error}") from error

    def _wait_for_those_left_alone(self) -> None:
        steps = 0
        while not all(self._left_alone):
            # A step, and no mere wait: they sleep for so many of them.
            self.schedule.step("waits for those left alone")
            steps += 1
            if steps > SOON:
                # The stream may wait for the next run, and they for the stream: until their patience ends.
                self.direction.clock.time += 1.0
        self._left_alone.clear()

    def _join(self, run: Run, change: ListChange, process: Process) -> None:
        if change.entering:
            if self.schedule.dice.random() < 0.1:
                self.world.results.pop((run.run_id, "snapshot"), None)
            run = self._with_snapshot(run, entering_only(run, change))
        tools = JoinTools(
            director=self.direction,
            open_log=self.reader,
            open_sink=lambda plan: self._sink(plan, process),
            open_schema_guard=lambda plan: None,
            failpoints=SteppedFailpoints(self.schedule),
            clock=StreamClock(self.direction.clock, self.schedule),
            patience=JoinPatience(
                lease_s=self.schedule.dice.choice([2.0, 5.0, 30.0]),
                held_max_s=self.schedule.dice.choice([5.0, 60.0]),
                attempts=2,
            ),
        )
        join_stream(run, "warehouse", change, tools=tools)

    def _with_snapshot(self, run: Run, reading: Run) -> Run:
        """A task that is done is not done again."""
        result = self.world.results.get((run.run_id, "snapshot"))
        if result is None:
            result = take_snapshot(reading, self._snapshot_tools())
        return replace(run, result={"snapshot": result})

    def _snapshot_tools(self) -> SnapshotTools:
        return SnapshotTools(
            source=self.world,  # type: ignore[arg-type]
            open_log=self.reader,
            open_read=self.world.open_read,
            open_staged=self.world.open_staged,
            holds=self.world,
            records=self.world,
            failpoints=SteppedFailpoints(self.schedule),
        )

    def _sink(self, plan: SyncPlan, process: Process) -> SteppedSink:
        return SteppedSink(plan, self.destination, self.schedule, self.checks, process)

    # ---- what is wanted ---------------------------------------------------------------------------------------------

    def _new_run(self, kind: RunKind) -> Run:
        plan = replace(self.whole, tables=tuple(table for table in self.whole.tables if table.name in self.wanted))
        return Run(f"run-{next(self._numbers)}", plan.sync, kind, None, plan, RunState.RUNNING)

    def _draw_change(self) -> Collection[str]:
        """One table enters, leaves or both in one run, or some are loaded again; gives those that are loaded again."""
        dice, carried = self.schedule.dice, set(self.wanted)
        again = [name for name in _NAMES if name in carried and dice.random() < 0.3]
        # After a loss a transaction without rows of carried tables is no loss to the stream: then all are carried.
        if self.capture.loss is None:
            carried = carried.symmetric_difference(dice.sample(_NAMES, dice.choice([0, 1, 1, 2]))) or carried
        self.wanted = tuple(name for name in _NAMES if name in carried)
        return [name for name in again if name in carried]

    def _report(self, change: ListChange) -> None:
        named: dict[str, Any] = {"added": change.added, "loaded again": change.again, "removed": change.removed}
        for what, names in named.items():
            self.schedule.tally[f"tables {what}"] += len(names)

    def _pass_time(self, seconds: float) -> None:
        self.direction.clock.time += seconds
        self.schedule.wait()
