"""The world as the real code sees it: a destination, a control and a source whose every call is a step."""

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from seamline.domain.catalogue import Table
from seamline.domain.changes import TableChanges
from seamline.domain.digest import Segment, SegmentDigest
from seamline.domain.errors import CommitUnknown, Fenced, NotCaughtUp, TransientError
from seamline.domain.ledger import LedgerRow, StreamId
from seamline.domain.position import Position
from seamline.domain.unavailable_values import lacks_values
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.ports import (
    Commit,
    Joining,
    Lease,
    Load,
    Marker,
    Orders,
    Problem,
    Progress,
    Publication,
    Staged,
    StreamReport,
    TableRead,
)
from seamline_memory.sink import rows_in
from tests.fault.simulator.bank_source import TABLES, BankSource
from tests.fault.simulator.checks import Checks, as_held, as_rows, held_by
from tests.fault.simulator.schedule import Process, Schedule
from tests.log_topic import STREAM, ManualClock
from tests.memory_sink import LostAnswer, MemoryDestination, MemorySink
from tests.unit.memory_views import MemoryView

# Those that the real code reaches over a destination in memory.
FAILPOINTS = (
    "app.epoch_taken",
    "app.fetched",
    "app.dml_half",
    "app.commit_acked",
    "app.hold",
    "snap.opened",
    "snap.chunk_staged",
    "snap.manifest_written",
)


class SteppedFailpoints:
    """ports.Failpoints: each place is a step. The one inside a transaction lets nobody in between."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule

    def reach(self, name: str) -> None:
        if name in ("app.tx_assembled", "app.chunk_staged"):
            return  # nothing but this process's memory changes to the next step
        self._schedule.tally[f"reached {name}"] += 1
        if name == "app.dml_half":
            self._schedule.inside(name)
        else:
            self._schedule.step(name, is_network=name.startswith("app."))


class SteppedSink(MemorySink):
    """Crashes and lost answers on either side of each effect, late and repeated requests."""

    def __init__(
        self, plan: SyncPlan, database: MemoryDestination, schedule: Schedule, checks: Checks, process: Process
    ) -> None:
        super().__init__(plan, database, failpoints=SteppedFailpoints(schedule))
        self._schedule = schedule
        self._checks = checks
        self._process = process
        self._in_chunks: dict[tuple[int, str], set[bytes]] = {}

    def read_ledger(self, stream: StreamId) -> LedgerRow | None:
        self._schedule.step("read_ledger", is_network=True)
        return super().read_ledger(stream)

    def acquire(self, stream: StreamId, *, after_epoch: int | None = None) -> Lease:
        self._schedule.step("acquire", is_network=True)
        lease = super().acquire(stream, after_epoch=after_epoch)
        self._checks.after_acquire(stream, lease.epoch)
        self._process.epoch, self._process.has_begun = lease.epoch, True
        self._schedule.step("acquired", is_network=True)
        return lease

    def stage(self, lease: Lease, changes: TableChanges) -> Staged:
        self._schedule.step("stage", is_network=True)
        if changes.chunk:
            self._schedule.tally["chunk staged"] += 1
        before = self._in_chunks.setdefault((lease.epoch, changes.table), set())
        moved = {c.taken_from for c in changes.keyed if c.taken_from and lacks_values(c.row)}
        self._schedule.tally["moved behind a chunk"] += len(moved & before)
        before.update(change.key for change in changes.keyed if changes.chunk)
        self._schedule.tally["values left out"] += sum(lacks_values(change.row) for change in changes.keyed)
        return super().stage(lease, changes)

    def commit(self, lease: Lease, staged: Sequence[Staged], *, progress: Progress) -> Commit:
        self._schedule.step("commit", is_network=True)
        self._schedule.send()
        commit = self._answered(lease, staged, progress)
        self._schedule.step("committed")
        return commit

    def _answered(self, lease: Lease, staged: Sequence[Staged], progress: Progress) -> Commit:
        dice, odds = self._schedule.dice, self._schedule.odds
        if dice.random() < odds.lost_answer:
            return self._unanswered(dice, lease, staged, progress)
        commit = self._take_effect(lease, staged, progress)
        if dice.random() < odds.repeat:
            # The network's own repeat of the request must change nothing.
            self._schedule.tally["repeated request"] += 1
            self._take_effect(lease, staged, progress)
        return commit

    def _unanswered(self, dice: random.Random, lease: Lease, staged: Sequence[Staged], progress: Progress) -> Commit:
        how = dice.choice(["applied", "not applied", "late"])
        self._schedule.tally[f"lost answer: {how}"] += 1
        if how == "late":
            self._deliver_later(lease, staged, progress)
            raise CommitUnknown("the answer of the commit is lost")
        self._store.lose_answer = LostAnswer(how)
        try:
            return self._take_effect(lease, staged, progress)
        finally:
            self._store.lose_answer = None

    def _deliver_later(self, lease: Lease, staged: Sequence[Staged], progress: Progress) -> None:
        def life() -> None:
            self._schedule.wait()
            self._schedule.wait()
            self._take_effect(lease, staged, progress)

        self._schedule.spawn(Process("a request on its way", may_crash=False), life)

    def _take_effect(self, lease: Lease, staged: Sequence[Staged], progress: Progress) -> Commit:
        before = self._store.ledgers.get(lease.stream)
        try:
            return super().commit(lease, staged, progress=progress)
        except Fenced:
            self._schedule.tally["fenced"] += 1
            raise
        finally:
            if before is not None and self._store.ledgers.get(lease.stream) != before:
                self._schedule.tally["commits"] += 1
                self._checks.after_commit(before, lease.epoch)

    def publish(self, stream: StreamId, loads: Sequence[Load], *, publication: Publication) -> Commit:
        self._schedule.step("publish", is_network=True)
        known = self._store.ledgers.get(stream)
        try:
            with self._answer_perhaps_lost():
                commit = super().publish(stream, loads, publication=publication)
        finally:
            ledger = self._store.ledgers.get(stream)
            if ledger is not None and ledger is not known:
                what = "published" if stream == STREAM else "incremental snapshot published"
                self._schedule.tally[f"{what}, generation {min(2, ledger.boundaries[0].generation)}"] += 1
                self._checks.after_publish(known, ledger, schema=self._schema)
                for load in loads:
                    # It became the live table.
                    del self._store.state.staged[load.staged_as]
        self._schedule.step("published")
        return commit

    def join(self, stream: StreamId, joining: Joining) -> Commit:
        self._schedule.step("join", is_network=True)
        self._schedule.send()
        known = self._store.ledgers.get(stream)
        try:
            with self._answer_perhaps_lost():
                commit = super().join(stream, joining)
        except NotCaughtUp:
            self._schedule.tally[
                "not caught up" if joining.incremental_stream in self._store.ledgers else "no incremental snapshot yet"
            ] += 1
            raise
        finally:
            ledger = self._store.ledgers.get(stream)
            if known is not None and ledger is not None and ledger is not known:
                self._checks.after_join(known, ledger)
        self._schedule.step("joined", is_network=True)
        return commit

    @contextmanager
    def _answer_perhaps_lost(self) -> Iterator[None]:
        if self._schedule.dice.random() < self._schedule.odds.lost_answer:
            self._store.lose_answer = self._schedule.dice.choice(list(LostAnswer))
        try:
            yield
        finally:
            self._store.lose_answer = None


@dataclass
class Direction:
    """Orders and reports of the one stream: both sides of the platform database. A hold's lease ends by the clock."""

    schedule: Schedule
    clock: ManualClock
    plan_json: str = ""
    is_wanted: bool = False
    is_paused: bool = False
    want_number: int = 0
    hold_id: str = ""
    hold_until: float = 0.0
    apply_to: Position | None = None
    holds: int = 0
    report: StreamReport | None = None
    reported_at: float = 0.0

    def hear(self, report: StreamReport) -> None:
        self.report, self.reported_at = report, self.clock.time

    def want_again(self) -> None:
        """By the plan that was wanted last."""
        self.is_wanted = True
        self.want_number += 1

    def orders(self) -> Orders:
        if self.hold_id and self.clock.time >= self.hold_until:
            self.schedule.tally["hold expired"] += 1
            self.hold_id = ""
        apply_to = self.apply_to if self.hold_id else None
        return Orders(self.is_wanted, self.is_paused, self.hold_id, self.hold_until, apply_to)

    # ports.StreamDirector, as far as barriers and incremental snapshots ask

    def want(self, stream: StreamId, *, plan_json: str) -> None:
        self.schedule.step("want", is_network=True)
        if self.schedule.dice.random() < self.schedule.odds.lost_answer:
            raise TransientError("the platform database is away")
        self.plan_json = plan_json
        self.want_again()
        self.schedule.step("wanted", is_network=True)

    def unwant(self, stream: StreamId) -> None:
        raise NotImplementedError

    def latest_report(self, stream: StreamId) -> StreamReport | None:
        self.schedule.step("report read")
        return self.report and replace(self.report, age_s=self.clock.time - self.reported_at)

    def hold(self, stream: StreamId, *, lease_s: float) -> str:
        self.schedule.step("hold")
        self.holds += 1
        self.hold_id, self.hold_until, self.apply_to = f"hold-{self.holds}", self.clock.time + lease_s, None
        return self.hold_id

    def extend(self, hold_id: str, *, lease_s: float) -> None:
        self.schedule.step("extend")
        if hold_id != self.hold_id or self.clock.time >= self.hold_until:
            raise TransientError(f"hold {hold_id} has ended")
        self.schedule.tally["hold extended"] += 1
        self.hold_until = self.clock.time + lease_s

    def apply_up_to(self, hold_id: str, position: Position) -> None:
        self.schedule.step("apply_up_to")
        if hold_id == self.hold_id:
            self.apply_to = position

    def release(self, hold_id: str) -> None:
        if hold_id == self.hold_id:
            self.hold_id = ""

    # for the barrier's clock

    def now(self) -> float:
        return self.clock.time

    def wall(self) -> float:
        return self.clock.time

    def sleep(self, seconds: float) -> None:
        self.clock.time += seconds
        self.schedule.wait()
        self.schedule.step("look")


class Control:
    """ports.StreamControl of one worker, which ends where the stream is wanted by another plan than its own."""

    def __init__(self, direction: Direction, plan_json: str) -> None:
        self._direction = direction
        self._plan_json = plan_json

    def orders(self) -> Orders:
        self._direction.schedule.step("orders")
        if self._plan_json != self._direction.plan_json:
            return Orders(wanted=False)
        return self._direction.orders()

    def report(self, report: StreamReport) -> None:
        self._direction.hear(report)


class Tables:
    """A read view of all tables of one side, as they were when it was opened."""

    def __init__(self, held: dict[str, Any], position: Position) -> None:
        self.held = {name: rows.copy() for name, rows in held.items()}
        self.position = position

    def rows_of(self, table: str) -> list[dict[str, Any]]:
        if table == "audit":
            return [{"action": text.split('"')[3]} for text in self.held["audit"].elements()]
        return list(self.held[table].values())

    def __getattr__(self, name: str) -> Any:
        def ask(about: Any, *more: Any, **said: Any) -> Any:
            table = next(table for table in TABLES if table.name == (about if isinstance(about, str) else about.table))
            return getattr(MemoryView(table, self.rows_of(table.name), self.position), name)(about, *more, **said)

        return ask

    def close(self) -> None:
        return


@dataclass
class SteppedSource:
    """ports.Source and the bulk read of an onboarding, over the model source."""

    source: BankSource
    schedule: Schedule
    database: MemoryDestination
    results: dict[tuple[str, str], Any] = field(default_factory=dict)
    staged: int = 0
    read_at: Position = field(init=False)

    def altered(self, planned: Sequence[Table]) -> list[str]:
        """No step of its own: nothing changes here, so a crash is one at the next."""
        return []

    def preflight(self, tables: Sequence[Table]) -> tuple[Problem, ...]:
        """No step either."""
        return ()

    def commit_marker(self, marker: Marker) -> None:
        self.schedule.step("marker", is_network=True)
        self.source.commit_marker(marker)
        self.schedule.step("marker committed", is_network=True)

    def view(self) -> Tables:
        return Tables(as_held(self.source.now), self.source.position())

    def open_views(self, count: int) -> Sequence[Tables]:
        self.schedule.step("views")
        view = self.view()
        self.schedule.step("views open")
        return [view] * count

    def open_destination(self, count: int) -> Sequence[Tables]:
        self.schedule.step("destination views")
        view = Tables(held_by(self.database), self.database.ledgers[STREAM].position)
        self.schedule.step("destination views open")
        return [view] * count

    @contextmanager
    def open_read(self, reads: Sequence[TableRead]) -> Iterator["StagedRead"]:
        self.schedule.step("read")
        view = self.view()
        self.read_at = view.position
        yield StagedRead(self, view, [read.table for read in reads])

    @contextmanager
    def open_staged(self, destination: DestinationPlan, loads: Sequence[Load], count: int) -> Iterator[list[Tables]]:
        held: dict[str, Any] = {}
        for load in loads:
            rows = rows_in(load.table, self.database.state.staged[load.staged_as])
            held[load.table.name] = as_rows(load.table, rows.values())
        yield [Tables(held, self.read_at)] * count

    # platform database and pruning

    def put_result(self, run_id: str, key: str, value: Any) -> None:
        self.schedule.step("result", is_network=True)
        self.results[run_id, key] = value

    def put_receipt(self, run_id: str, receipt: object) -> None:
        return

    def hold_log(self, topic: str, *, holder: str, offset: int, lease_s: float) -> str:
        return holder

    def release_log(self, hold_id: str) -> None:
        return


class StagedRead:
    """ports for `take_snapshot`: tables at one position; staging lasts while the source goes on."""

    position_time = datetime(2026, 11, 20, 1, 2, 3, tzinfo=UTC)
    is_carried_on = False

    def __init__(self, world: SteppedSource, view: Tables, tables: Sequence[Table]) -> None:
        self._world = world
        self._view = view
        self._tables = tables
        self.position = view.position

    def views_for(self, destination: DestinationPlan) -> Sequence[Tables]:
        return [self._view]

    def stage(self, destination: DestinationPlan) -> Sequence[Load]:
        loads = []
        for table in self._tables:
            self._world.schedule.step("stage table", is_network=True)
            self._world.staged += 1
            name = f"{table.name}_{self._world.staged}"
            rows = self._view.rows_of(table.name)
            self._world.database.stage(table, name, rows)
            loads.append(Load(table, name, len(rows)))
        return loads

    def digest(self, segment: Segment, destination: DestinationPlan) -> SegmentDigest:
        return SegmentDigest(len(self._view.rows_of(segment.table)))
