"""One seed, one schedule: a source, its capture, onboardings, streams that die and sleep, barriers, and the checks."""

import gc
import random
import sys
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import takewhile

import pytest

from seamline.domain.errors import (
    CommitUnknown,
    Fenced,
    LogCorrupted,
    PositionLost,
    SchemaConflict,
    SeamlineError,
    TerminalError,
    TransientError,
)
from seamline.domain.log import RecordKind
from seamline.plan.document import plan_from_json
from seamline.plan.model import StreamPlan, SyncPlan
from seamline.ports import StreamReport
from seamline.sync import span_loop
from seamline.sync.barrier import Barrier, NotAligned, NotComparable, Patience
from seamline.sync.log_listener import Listened, LogListener
from seamline.sync.pace import Pace
from seamline.sync.span_loop import run_stream
from tests.fault.simulator.bank_source import TABLES, BankSource, Log
from tests.fault.simulator.checks import Checks
from tests.fault.simulator.ports import Control, Direction, SteppedFailpoints, SteppedSink, SteppedSource
from tests.fault.simulator.runs import Runs, StreamClock
from tests.fault.simulator.schedule import Committer, Crash, EndedEarly, Odds, Process, Schedule, Violation
from tests.fault.simulator.topic import Capture, Loss
from tests.log_topic import MARKERS, STREAM, ManualClock, sync_plan
from tests.memory_sink import MemoryDestination

RESTARTS_AFTER_THE_LAST_FAULT = 3
COMMITS_MAX = 60
# Of so many seeds one has streams that give up their worker when nothing comes for them.
IDLE_EVERY, IDLE_AFTER_S = 3, 0.1
_NAMED: dict[Loss, tuple[type[TerminalError], ...]] = {
    Loss.ROW: (LogCorrupted,),
    Loss.WHOLE: (LogCorrupted,),
    Loss.TAIL: (LogCorrupted,),
    Loss.TWICE: (LogCorrupted,),
    Loss.ORDER: (LogCorrupted,),
    Loss.TOPIC: (PositionLost,),
    Loss.PURGED: (PositionLost,),
}


def run_seed(seed: int) -> Counter[str]:
    """Raises Violation, or gives what was met and checked."""
    collects, turn_s = gc.isenabled(), sys.getswitchinterval()
    simulation = Simulation(seed)
    # The stream's thread becomes an actor, so that the schedule decides about it too.
    pool = type("Pool", (Committer,), {"schedule": simulation.schedule})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(span_loop, "ThreadPoolExecutor", pool)
        try:
            simulation.run()
        except EndedEarly as ended:
            simulation.tally[f"ended early: {ended.case}"] += 1
        finally:
            simulation.schedule.end()
            # Streams that ended out of order have left Python as they found it, not as it was.
            sys.setswitchinterval(turn_s)
            (gc.enable if collects else gc.disable)()
    return simulation.tally


class Simulation:
    def __init__(self, seed: int) -> None:
        dice = self._dice = random.Random(seed)
        self.tally: Counter[str] = Counter()
        odds = Odds(
            crash=dice.choice([0.0, 0.003, 0.02]),
            transient=dice.choice([0.0, 0.0, 0.01]),
            sleep=dice.choice([0.0, 0.002, 0.02]),
            lost_answer=dice.choice([0.0, 0.1, 0.3]),
            repeat=dice.choice([0.0, 0.1]),
            switch=dice.choice([0.1, 0.3, 0.7]),
        )
        self.schedule = Schedule(dice, odds, self.tally)
        self.source = BankSource(dice, dice.choice(list(Log)))
        self.is_changed = dice.random() < 0.25
        # Beside tables that join no topic is lost as a whole, and what is sent twice meets most of the rules.
        joined = (Loss.ROW, Loss.WHOLE, Loss.TAIL, Loss.ORDER, *[Loss.TWICE] * 4)
        losses = joined if self.is_changed else tuple(Loss)
        loss = dice.choice(losses) if dice.random() < (0.4 if self.is_changed else 0.2) else None
        self.capture = Capture(self.source, self.schedule, dice, loss, may_lose=self._may_lose)
        self.loses_after_joinings = int(self.is_changed and loss is not None and dice.random() < 0.8)
        # A slow one leaves the stream far behind the snapshots of tables that join.
        self.capture.waits = 0.9 if self.loses_after_joinings else dice.choice([0.3, 0.6, 0.9])
        self.destination = MemoryDestination()
        self.clock = ManualClock()
        self.checks = Checks(self.source, self.capture, self.destination, self.tally)
        self.direction = Direction(self.schedule, self.clock)
        self.world = SteppedSource(self.source, self.schedule, self.destination)
        span = dice.choice([1, 4, 12, 1_000])
        plan = sync_plan(TABLES, stream=StreamPlan(span_changes_max=span))
        kind = "mariadb" if self.source.log is Log.BINLOG else "postgres"
        self.plan: SyncPlan = replace(plan, source=replace(plan.source, kind=kind))
        self.runs = Runs(
            self.plan, self.schedule, self.capture, self.destination, self.checks, self.direction, self.world
        )
        # More rows than a transaction has that changes keys of notes: in chunks the product refuses those.
        self.pace = Pace(poll_records_max=dice.choice([3, 10, 200]), chunk_rows_max=dice.choice([8, 15, 1_000]))
        if seed % IDLE_EVERY == 1:
            self.pace = replace(self.pace, idle_after_s=IDLE_AFTER_S, idle_report_every_s=IDLE_AFTER_S)
            # A source that is silent by its clock keeps its streams awake.
            self.capture.topic.clock_ms = lambda: int(self.clock.time * 1_000)
        self.idle: Listened | None = None
        self.transactions = dice.randint(10, 40)
        self.current: Process | None = None
        self.stopped_by: TerminalError | None = None
        self.given_up_want = 0
        self.restarts = 0
        self.writer_done = self.runs_done = False

    def run(self) -> None:
        schedule = self.schedule
        schedule.spawn(Process("source", may_crash=False), self._write)
        schedule.spawn(Process("capture", may_crash=False), lambda: self.capture.carry_on(self.schedule.wait))
        runs = Process("runs", may_crash=False)
        schedule.spawn(runs, self._run_one_after_the_other)
        others = [runs]
        for name, work in (("barrier", self._compare), ("operator", self._operate)):
            if self._dice.random() < 0.5:
                others.append(Process(name, may_crash=False))
                schedule.spawn(others[-1], work)
        if self.capture.loss in (Loss.TOPIC, Loss.PURGED):
            others.append(Process("loss", may_crash=False))
            schedule.spawn(others[-1], self._lose_topic)
        schedule.run(
            lambda: self.writer_done and all(process.is_dead for process in others),
            each=self._supervise,
            what="the schedule's own end",
        )
        self._after_the_last_fault()

    # ---- life of the source, its operator and its readers -----------------------------------------------------------

    def _write(self) -> None:
        while len(self.source.commits) < self.transactions:
            self.source.commit_any()
            while self._dice.random() < 0.7:
                self.schedule.wait()
        while not self.runs.is_published:
            self.schedule.wait()
        for _ in range(self._dice.randint(2, 12)):
            self.source.commit_any()
            self.schedule.wait()
        # So that tables join a stream that moves.
        while not self.runs_done and len(self.source.commits) < COMMITS_MAX:
            self.source.commit_any()
            self._wait_some(60)
        self.writer_done = True

    def _run_one_after_the_other(self) -> None:
        if self.is_changed and self.capture.loss is None:
            self.runs.draw_tables()
        self.runs.onboard()
        for _ in range(self._dice.randint(1, 2) if self.is_changed else 0):
            self._wait_some(60)
            if self.runs.is_idle:
                self.runs.change_tables()
        if self.capture.loss is None and self._dice.random() < 0.3:
            self._wait_some(60)
            self.runs.onboard()
        self.runs_done = True

    def _operate(self) -> None:
        while not self.writer_done:
            self._wait_some(60)
            self.direction.is_paused = self._dice.random() < 0.5
            self._wait_some(20)
            self.direction.is_paused = False
            if self.direction.is_wanted and self._dice.random() < 0.4:
                self.tally["stopped and wanted again"] += 1
                self.direction.is_wanted = False
                self._wait_some(40)
                self.direction.want_again()

    def _may_lose(self) -> bool:
        """With some seeds not before tables have joined."""
        return self.runs.is_published and self.tally["joinings compared"] >= self.loses_after_joinings

    def _wait_some(self, most: int) -> None:
        for _ in range(self._dice.randint(1, most)):
            self.schedule.wait()

    def _compare(self) -> None:
        while not self.runs.is_published:
            self.schedule.wait()
        while not self.writer_done:
            self._wait_some(80)
            self._align()

    def _align(self, *, lease_s: float = 5.0) -> bool:
        """One comparison through the real barrier; whether both sides could be opened at one position."""
        barrier = Barrier(
            STREAM,
            self.direction,  # type: ignore[arg-type]
            self.world,  # type: ignore[arg-type]
            SteppedSink(self.plan, self.destination, self.schedule, self.checks, Process("barrier")),
            self.world.open_destination,
            clock=self.direction,
            patience=Patience(
                lease_s=lease_s,
                held_max_s=max(lease_s, self._dice.choice([5.0, 15.0])),
                near_s=float("inf"),
                attempts=2,
                look_every_s=0.1,
            ),
        )
        try:
            with barrier.aligned(1) as aligned:
                number = self.source.covered_by(aligned.position)
                held = aligned.destination[0].held  # type: ignore[attr-defined]
                self.checks.equal(held, number, "barrier")
                self.checks.equal(aligned.source[0].held, number, "barrier")  # type: ignore[attr-defined]
                self.tally["barriers compared"] += 1
                return True
        except (NotAligned, NotComparable, TransientError) as error:
            self.tally[f"barrier: {type(error).__name__}"] += 1
            return False

    def _lose_topic(self) -> None:
        """The worker dies with it, so that a new one has to begin at the ledger."""
        while not (self.writer_done and self.capture.is_drained):
            self.schedule.wait()
        self.capture.lose_topic(self.destination.ledgers[STREAM].next_offset)
        if self.current is not None:
            self.current.is_dead = True

    # ---- the host ---------------------------------------------------------------------------------------------------

    def _supervise(self) -> None:
        """One retry owner: it starts the stream that is wanted, and takes over from one that sleeps."""
        if self.current is not None and self.current.sleeps_until > self.schedule.steps and self._dice.random() < 0.1:
            self.tally["taken over from a sleeper"] += 1
            self.current = None
        if self.idle is not None and self._asked != self.asked_before:
            self._wake("asked")
        is_given_up = self.direction.want_number <= self.given_up_want
        is_to_run = self.direction.is_wanted and self.stopped_by is None and not is_given_up
        if self.current is None and self.idle is None and is_to_run:
            self._start()

    def _start(self) -> None:
        process = self.current = Process("stream", self._ended, want_number=self.direction.want_number)
        self.tally["streams started"] += 1
        self.schedule.spawn(process, lambda: self._stream(process))

    def _stream(self, process: Process) -> None:
        wanted = self.direction.plan_json
        plan = plan_from_json(wanted)
        process.carries = frozenset(table.name for table in plan.tables)
        asked = self._asked
        report = run_stream(
            plan,
            "warehouse",
            reader=self.runs.reader(),
            sink=SteppedSink(plan, self.destination, self.schedule, self.checks, process),
            control=Control(self.direction, wanted),
            failpoints=SteppedFailpoints(self.schedule),
            clock=StreamClock(self.clock, self.schedule),
            pace=self.pace,
        )
        if report.state == "idle" and process is self.current:
            self.tally["streams idle"] += 1
            self.asked_before = asked
            self.idle = Listened(STREAM, process.carries, report.next_offset, self.clock.time)
            listener = Process("listener", lambda *_: self._wake("its listener has ended"))
            self.schedule.spawn(listener, partial(self._listen, self.idle))

    @property
    def _asked(self) -> tuple[object, ...]:
        """Whatever is asked of an idle stream, a worker has to answer."""
        direction = self.direction
        return direction.want_number, direction.is_wanted, direction.is_paused, bool(direction.hold_id)

    def _listen(self, idle: Listened) -> None:
        reader = self.runs.reader()
        reader.assign(idle.next_offset)
        listener = LogListener(idle.next_offset, marker_table=MARKERS, now_s=self.clock.time)
        while self.idle is idle:
            with suppress(TransientError):
                listener.take_in(reader.poll(1.0, 10_000), now_s=self.clock.time)
            if listener.reason_to_wake(idle, now_s=self.clock.time):
                self._wake("news")
            elif reader.is_drained:
                self._require_nothing_for(idle)
            self.schedule.wait()

    def _require_nothing_for(self, idle: Listened) -> None:
        self.tally["idle streams checked"] += 1
        for record in takewhile(lambda one: one.offset >= idle.next_offset, reversed(self.capture.topic.records)):
            emptied = {record.table} if record.kind is RecordKind.TRUNCATE else set()
            for table in idle.tables & (emptied | {row.table for row in record.rows}):
                raise Violation("idle", f"{table} changed at offset {record.offset}, and nobody woke the stream")

    def _wake(self, why: str) -> None:
        self.tally[f"woken: {why}"] += self.idle is not None
        self.idle = None

    def _ended(self, process: Process, error: SeamlineError | Crash | None) -> None:
        is_current = process is self.current
        self.current = None if is_current else self.current
        self.restarts += is_current and error is not None
        match error:
            case None | Crash() | TransientError() | CommitUnknown():
                return
            case Fenced():
                self._was_fenced(process, is_current=is_current)
            case SchemaConflict() if process.carries != self._carried:
                # As the host does: not started again until somebody wants it again.
                self.tally["started by the plan of before"] += 1
                self.given_up_want = max(self.given_up_want, process.want_number)
                self.direction.hear(StreamReport(STREAM, "failed", error=str(error)))
            case TerminalError() if self.capture.lost_at is not None:
                assert self.capture.loss is not None
                if not isinstance(error, _NAMED[self.capture.loss]):
                    raise Violation("I9 named stop", f"{self.capture.loss.value} ended in {error!r}")
                self.stopped_by = error
                self.direction.hear(StreamReport(STREAM, "failed", error=str(error)))
            case _:
                raise Violation(f"unexplained stop: {type(error).__name__}", f"{error}") from error

    @property
    def _carried(self) -> frozenset[str]:
        return frozenset(boundary.table for boundary in self.destination.ledgers[STREAM].boundaries)

    def _was_fenced(self, process: Process, *, is_current: bool) -> None:
        if not is_current:
            self.tally["zombie fenced"] += 1
        elif self.checks.published_epoch > process.epoch:
            # The run that published, or let tables join, wants the stream again.
            self.tally["fenced by a run"] += 1
        else:
            raise Violation("I10 recovery", "the newest worker was fenced, though nobody published or took the stream")

    # ---- the end ----------------------------------------------------------------------------------------------------

    def _after_the_last_fault(self) -> None:
        self.schedule.quiet()
        self.restarts = 0
        # Two: the first closes what no END closes, both pass the ledger on.
        self.source.commit_nothing()
        self.source.commit_nothing()
        self.direction.is_paused, self.direction.hold_id = False, ""
        self.direction.want_again()
        if self.capture.lost_at is not None and not self._was_loaded(self.capture.missing):
            self._stays_stopped()
            return
        # What stopped it may have come with a later snapshot.
        self.capture.loss = self.stopped_by = None
        last = Process("last run", may_crash=False)
        self.schedule.spawn(last, self.runs.finish)
        self.schedule.run(lambda: last.is_dead, each=self._supervise, what="the end of the last run")
        self.restarts = 0
        self.schedule.run(self._is_through, each=self._supervise, what="the stream's way to the end of the log")
        aligned: list[bool] = []
        # With the lease that it has by default: each wait of a worker for its log may take a second of the same clock.
        lease_s = Patience().lease_s
        self.schedule.spawn(
            Process("last barrier", may_crash=False), lambda: aligned.append(self._align(lease_s=lease_s))
        )
        self.schedule.run(lambda: bool(aligned), each=self._supervise, what="the last barrier")
        if not aligned[0]:
            raise Violation("I10", "an undisturbed barrier could not bring both sides to one position")
        self.schedule.run(self._is_through, each=self._supervise, what="the stream's way on from a barrier")
        if self.restarts > RESTARTS_AFTER_THE_LAST_FAULT:
            raise Violation("I10", f"{self.restarts} restarts after the last fault")
        self.direction.is_wanted = False
        self.schedule.run(lambda: self.current is None, what="the stream's stop")
        self.checks.at_end(self.runs.wanted)

    def _was_loaded(self, missing: int | None) -> bool:
        """Whether a transaction that is not in the topic came with the snapshot: then nothing is missing.

        Behind one without END it is missed all the same: nobody says any more that all of that one is there.
        """
        ledger = self.destination.ledgers[STREAM]
        if missing is None or self.source.covered_by(ledger.position) < missing:
            return False
        lost_at = self.capture.lost_at
        is_behind = lost_at is not None and ledger.next_offset > lost_at
        has_end = missing == 1 or self.source.log is Log.WAL or not self.source.commits[missing - 2].truncated
        return has_end or is_behind

    def _is_through(self) -> bool:
        return self.capture.is_drained and self.destination.ledgers[STREAM].next_offset > self.capture.last_end

    def _stays_stopped(self) -> None:
        """Stopped by a named error, and again by the same one when a person starts it without a cure."""
        for _ in range(2):
            self.stopped_by = None
            self.schedule.run(
                lambda: self.stopped_by is not None or self._is_through(), each=self._supervise, what="the stop"
            )
            if self.stopped_by is None:
                raise Violation("I9 named stop", f"{self.capture.loss} did not stop the stream")
        self.tally["stops checked"] += 1
