"""A repair of live tables over a source, a stream and a destination in memory, with trouble at every step."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.changes import KeyedChange, TableChanges
from seamline.domain.errors import CommitUnknown, Fenced, Refused, TransientError
from seamline.domain.ledger import StreamId
from seamline.domain.log import Span
from seamline.domain.masking import DIFFERS, MASK, Hidden, masked_repair_row
from seamline.domain.position import Position
from seamline.domain.repair import (
    Repair,
    RepairLimits,
    RepairRow,
    RepairState,
    RowAction,
    RowState,
    Texts,
    judged,
    key_of,
)
from seamline.domain.runs import Reconciliation, RunKind, RunState
from seamline.domain.verdict import Break, BreakType, TableVerdict, Verdict
from seamline.kinds.arrow_view import ArrowView
from seamline.plan.checks import ReconcilePlan
from seamline.plan.model import Run, SyncPlan
from seamline.ports import Commit, Lease, Marker, Progress, ReadView, Staged, StreamReport
from seamline.repairing import GivenRows
from seamline.sync.barrier import Barrier, Standing
from seamline.sync.comparison import compare_live
from seamline.sync.repair import Applying, Planned, plan_repair
from seamline.values.canonical_rows import CanonicalDecoder, image_of, unfit
from seamline_memory.read_back import open_live
from seamline_memory.sink import MemorySink
from tests.log_topic import ACCOUNT, AUDIT, STREAM, position, publication, sync_plan
from tests.memory_sink import MemoryDestination

PLAN = sync_plan((ACCOUNT,))
RUN = Run("r1", "settlement", RunKind.REPAIR, None, PLAN, RunState.RUNNING)
Row = dict[str, str | None]


class Died(BaseException):
    """The process ends here, as by SIGKILL: nothing of it runs any more."""


def row(number: int, name: str | None) -> Row:
    return {"id": str(number), "name": name}


@dataclass
class World:
    """Transactions of the source by number; a stream that applies them in order; everything in this one process."""

    transactions: list[tuple[Row | None, Row | None]] = field(default_factory=list)
    destination: MemoryDestination = field(default_factory=MemoryDestination)
    time: float = 0.0
    hold_id: str = ""
    wants: int = 0
    worker_want: int = 0
    log: list[str] = field(default_factory=list)
    # By the name of a failpoint: what happens there, once.
    at: dict[str, Any] = field(default_factory=dict)
    begun: tuple[RepairRow, ...] = ()
    done: tuple[RepairRow, ...] = ()

    def __post_init__(self) -> None:
        self.destination.put(ACCOUNT, [])
        store_sink = self.sink()
        opened = publication((ACCOUNT,))
        with self.destination.transaction() as state:
            state.staged["s"] = []
        from seamline.ports import Load

        store_sink.publish(STREAM, [Load(ACCOUNT, "s", 0)], publication=opened)
        with self.destination.transaction() as state:
            ledger = state.ledgers[STREAM]
            state.ledgers[STREAM] = replace(ledger, boundaries=tuple(replace(b, ended=True) for b in ledger.boundaries))
        self.worker: MemorySink
        self.lease: Lease
        self.start_worker()

    def sink(self, kind: type[MemorySink] = MemorySink) -> MemorySink:
        return kind(PLAN, PLAN.destinations[0], store=self.destination, decoder=CanonicalDecoder(), failpoints=self)

    def reach(self, name: str) -> None:
        self.log.append(name)
        happens = self.at.pop(name, None)
        if happens is not None:
            happens()

    # ---- source and stream
    def change(self, before: Row | None, after: Row | None) -> None:
        self.transactions.append((before, after))

    def source_rows(self, number: int) -> list[Row]:
        rows: dict[str | None, Row] = {}
        for before, after in self.transactions[:number]:
            if before is not None:
                del rows[before["id"]]
            if after is not None:
                rows[after["id"]] = after
        return list(rows.values())

    def start_worker(self) -> None:
        self.worker = self.sink()
        self.lease = self.worker.acquire(STREAM)
        self.worker_want = self.wants

    def stream_to(self, number: int) -> None:
        """The worker applies what is not applied yet; one that was fenced starts again where it was wanted since."""
        if self.ledger.epoch != self.lease.epoch:
            if self.wants <= self.worker_want:
                raise AssertionError("the stream was fenced and nobody wants it again")
            self.start_worker()
        while self.ledger.next_offset // 10 < number:
            at = self.ledger.next_offset // 10
            before, after = self.transactions[at]
            changes = TableChanges("account", changes_in=1)
            image = after or before or {}
            changes.keyed = [KeyedChange(b"", after is None, before is not None, image_of(image), at * 10)]
            span = Span(at * 10, at * 10 + 10, 1, position(at + 1), 1)
            self.worker.commit(self.lease, [self.worker.stage(self.lease, changes)], progress=Progress(span))

    def spoil(self, *rows: tuple[Row | None, Row | None]) -> None:
        """Somebody else writes the destination."""
        held = {one["id"]: one for one in self.held}
        for before, after in rows:
            if before is not None:
                del held[before["id"]]
            if after is not None:
                held[after["id"]] = after
        self.destination.put(ACCOUNT, [{"id": int(one["id"] or 0), "name": one["name"]} for one in held.values()])

    @property
    def held(self) -> list[Row]:
        (view,) = open_live(PLAN, STREAM, self.destination, 1)
        keys = [one.key for one in view.row_hashes(_whole(), run_key="")]
        return [dict(one) for one in view.rows("account", keys).values()]

    @property
    def ledger(self) -> Any:
        return self.destination.ledgers[STREAM]

    # ---- clock, director, source
    def now(self) -> float:
        return self.time

    def wall(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds

    def want(self, stream: StreamId, *, plan_json: str) -> None:
        self.wants += 1
        self.reach("want")

    def hold(self, stream: StreamId, *, lease_s: float) -> str:
        self.hold_id = f"h{self.time}"
        return self.hold_id

    def extend(self, hold_id: str, *, lease_s: float) -> None: ...

    def apply_up_to(self, hold_id: str, position: Position) -> None:
        self.stream_to(len(self.transactions))

    def release(self, hold_id: str) -> None:
        self.hold_id = ""

    def latest_report(self, stream: StreamId) -> StreamReport:
        return StreamReport(STREAM, "held" if self.hold_id else "streaming", hold_id=self.hold_id)

    def open_views(self, count: int) -> Sequence[ReadView]:
        number = len(self.transactions)
        batch = CanonicalDecoder().rows(ACCOUNT, [image_of(one) for one in self.source_rows(number)])[0]
        return [ArrowView(position(number), {ACCOUNT: lambda: iter([batch])})] * count

    def commit_marker(self, marker: Marker) -> None: ...

    def open_destination(self, count: int) -> Sequence[ReadView]:
        return open_live(PLAN, STREAM, self.destination, count)

    # ---- records
    def begin(self, run_id: str, rows: Sequence[RepairRow]) -> None:
        self.begun = tuple(rows)
        self.reach("begun")

    def applied(self, run_id: str, rows: Sequence[RepairRow], *, position: str) -> None:
        self.done = tuple(rows)

    # ---- use cases
    def barrier(self, **more: Any) -> Barrier:
        parts: Any = self
        return Barrier(STREAM, parts, parts, self.sink(), self.open_destination, clock=self, **more)

    def compare(self, **more: Any) -> Reconciliation:
        return compare_live(RUN, "warehouse", barrier=self.barrier(**more), views=1)

    def plan(self, found: Reconciliation, plan: SyncPlan = PLAN) -> Planned:
        return plan_repair(found, plan, barrier=self.barrier(), writes=GivenRows())

    def apply(
        self, planned: Planned, *, kind: type[Applying] = Applying, sink: type[MemorySink] = MemorySink
    ) -> Reconciliation:
        """In a process of its own, by what is written down."""
        states = {one.key: one.state for one in self.begun}
        rows = tuple(replace(one, state=states.get(one.key, one.state)) for one in planned.rows)
        repair = Repair("r1", "settlement", "warehouse", "c1", planned.position, rows, state=RepairState.APPROVED)
        parts: Any = self
        applying = kind(
            repair, STREAM, {"account": ACCOUNT}, parts, self.sink(sink), self.open_destination, GivenRows(), parts,
            "", self,
        )  # fmt: skip
        found = self.compare(at_position=applying)
        if not applying.is_done and applying.failed is not None:
            raise applying.failed
        return found


def _whole() -> Any:
    from seamline.domain.digest import Segment

    return Segment("account")


def spoiled() -> tuple[World, Planned]:
    """One row of each kind of break, and a plan for them."""
    world = World()
    for number in (1, 2, 3):
        world.change(None, row(number, "as it is"))
    world.stream_to(3)
    world.spoil((row(1, "as it is"), row(1, "other")), (row(2, "as it is"), None), (None, row(9, "extra")))
    found = world.compare()
    assert found.verdict is Verdict.BREAK
    return world, world.plan(found)


REPAIRED = [row(1, "as it is"), row(2, "as it is"), row(3, "as it is")]


def by_id(rows: Sequence[Row]) -> list[Row]:
    return sorted(rows, key=lambda one: str(one["id"]))


# ---- the plan -------------------------------------------------------------------------------------------------------


def test_a_plan_has_both_values_of_each_row_and_changes_nothing() -> None:
    world, planned = spoiled()
    before, ledger = by_id(world.held), world.ledger
    assert [(one.action, one.named, one.source, one.destination) for one in planned.rows] == [
        (RowAction.UPSERT, '{"id": "1"}', row(1, "as it is"), row(1, "other")),
        (RowAction.UPSERT, '{"id": "2"}', row(2, "as it is"), None),
        (RowAction.DELETE, '{"id": "9"}', None, row(9, "extra")),
    ]
    assert (by_id(world.held), world.ledger) == (before, ledger)


def test_rows_that_have_moved_since_the_comparison_are_left_to_the_stream() -> None:
    world, _ = spoiled()
    found = world.compare()
    world.change(row(1, "as it is"), row(1, "moved on"))
    world.spoil((row(9, "extra"), row(9, "again another")))
    planned = world.plan(found)
    assert [(one.named, one.action, one.state) for one in planned.rows] == [
        ('{"id": "1"}', None, RowState.EQUAL),
        ('{"id": "2"}', RowAction.UPSERT, RowState.PLANNED),
        ('{"id": "9"}', None, RowState.SOURCE_MOVED),
    ]


def test_a_comparison_without_differences_is_refused() -> None:
    world, _ = spoiled()
    world.spoil((row(1, "other"), row(1, "as it is")), (None, row(2, "as it is")), (row(9, "extra"), None))
    with pytest.raises(Refused, match="nothing to repair"):
        world.plan(world.compare())


def test_tables_that_another_tool_carries_are_not_repaired() -> None:
    world, _ = spoiled()
    with pytest.raises(Refused, match="another tool carries these tables"):
        world.plan(replace(world.compare(), mode="separate"))


def test_more_rows_than_the_limit_are_refused_with_the_cure() -> None:
    world, _ = spoiled()
    plan = replace(PLAN, reconcile=ReconcilePlan(repair=RepairLimits(rows_max=2)))
    with pytest.raises(Refused, match="at most 2 are repaired") as refused:
        world.plan(world.compare(), plan)
    assert "load the table again" in refused.value.hint


@pytest.mark.parametrize(
    ("rows", "differing", "limits", "is_refused"),
    [
        (100, 20, RepairLimits(), False),
        (100, 21, RepairLimits(), True),
        (100_000, 100, RepairLimits(), False),
        (100_000, 101, RepairLimits(), True),
        (10_000_000, 1_001, RepairLimits(), True),
        (100, 21, RepairLimits(rows_max_share=0.5), False),
    ],
)
def test_the_limit_is_a_share_of_the_rows_and_a_number(
    rows: int, differing: int, limits: RepairLimits, is_refused: bool
) -> None:
    verdict = TableVerdict("t", Verdict.BREAK, "x", "", rows, rows - 5, breaks_total=differing)
    assert bool(limits.refusal(verdict)) is is_refused


@pytest.mark.parametrize(
    ("entry", "table", "why"),
    [
        (Break("account", BreakType.SYSTEMATIC, "{}", {"": "all"}), ACCOUNT, "systematic"),
        (Break("account", BreakType.SCHEMA, "{}", {"": "a column"}), ACCOUNT, "schema"),
        (Break("account", BreakType.FINDING, "{}", {"": "update met no row"}), ACCOUNT, "no row was found to differ"),
        (Break("audit", BreakType.MISSING, '{"actor": "x"}', {}), AUDIT, "no key"),
    ],
)
def test_what_no_single_row_can_put_right_is_refused(entry: Break, table: Table, why: str) -> None:
    world, _ = spoiled()
    verdict = TableVerdict(table.name, Verdict.BREAK, "x", "", 10, 10, breaks=(entry,), breaks_total=1)
    found = replace(world.compare(), tables=(verdict,))
    with pytest.raises(Refused, match=why):
        world.plan(found, sync_plan((table,)))


# ---- its application ------------------------------------------------------------------------------------------------


def test_a_repair_makes_the_rows_the_sources_and_leaves_the_ledger_where_it_is() -> None:
    world, planned = spoiled()
    before = world.ledger
    found = world.apply(planned)
    assert found.verdict is Verdict.MATCH
    assert str(found.position) == str(before.position)
    assert by_id(world.held) == REPAIRED
    assert world.ledger == replace(before, epoch=before.epoch + 1)
    assert {one.state for one in world.done} == {RowState.APPLIED}
    assert not world.destination.findings
    # The stream goes on where it stood.
    world.change(row(3, "as it is"), row(3, "moved on"))
    assert world.compare().verdict is Verdict.MATCH


def test_the_stream_is_wanted_before_its_worker_is_fenced() -> None:
    world, planned = spoiled()
    world.apply(planned)
    assert world.log.index("want") < world.log.index("app.epoch_taken")


def test_a_repeated_repair_does_nothing() -> None:
    world, planned = spoiled()
    world.apply(planned)
    assert world.apply(planned).verdict is Verdict.MATCH
    assert world.log.count("app.epoch_taken") == 1
    assert {one.state for one in world.done} == {RowState.APPLIED}


def test_a_row_that_has_moved_since_the_plan_is_left_to_the_stream() -> None:
    world, planned = spoiled()
    world.change(row(2, "as it is"), row(2, "moved on"))
    world.change(None, row(9, "the source's own"))
    found = world.apply(planned)
    assert found.verdict is Verdict.MATCH
    assert {one.kind for one in world.destination.findings} == {"update met no row", "insert met a row"}
    assert by_id(world.held) == by_id(world.source_rows(5))
    states = {one.key: one.state for one in world.done}
    assert states == {"1": RowState.APPLIED, "2": RowState.EQUAL, "9": RowState.EQUAL}


def test_a_row_that_somebody_has_changed_since_the_plan_is_left() -> None:
    world, planned = spoiled()
    world.spoil((row(1, "other"), row(1, "a third")))
    found = world.apply(planned)
    assert found.verdict is Verdict.BREAK
    assert {one.key: one.state for one in world.done}["1"] is RowState.DESTINATION_MOVED
    assert row(1, "a third") in world.held


def die() -> None:
    raise Died


@pytest.mark.parametrize("step", ["begun", "want", "app.epoch_taken", "app.dml_half", "app.commit_acked"])
def test_a_process_that_dies_leaves_nothing_or_the_whole_repair(step: str) -> None:
    world, planned = spoiled()
    before = by_id(world.held)
    world.at[step] = die
    with pytest.raises(Died):
        world.apply(planned)
    assert by_id(world.held) == (REPAIRED if step == "app.commit_acked" else before)
    # Nobody has tried again: the stream goes on all the same.
    world.change(None, row(4, "later"))
    world.stream_to(4)
    assert world.apply(planned).verdict is Verdict.MATCH
    assert {one.state for one in world.done} == {RowState.APPLIED}
    assert not world.destination.findings


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_lost_answer_is_resolved_by_a_new_epoch_and_the_rows(is_committed: bool) -> None:
    lost = [True]

    class Losing(MemorySink):
        def commit(self, lease: Lease, staged: Sequence[Staged], *, progress: Progress) -> Commit:
            is_lost, lost[:] = bool(lost), []
            if is_lost and not is_committed:
                raise CommitUnknown("the answer is lost")
            done = super().commit(lease, staged, progress=progress)
            if is_lost:
                raise CommitUnknown("the answer is lost")
            return done

    world, planned = spoiled()
    assert world.apply(planned, sink=Losing).verdict is Verdict.MATCH
    assert by_id(world.held) == REPAIRED
    assert {one.state for one in world.done} == {RowState.APPLIED}


def test_who_was_overtaken_cannot_commit() -> None:
    world, planned = spoiled()
    before = by_id(world.held)

    def another_owner() -> None:
        world.sink().acquire(STREAM)

    world.at["app.epoch_taken"] = another_owner
    with pytest.raises(Fenced):
        world.apply(planned)
    assert by_id(world.held) == before


def goes_on(world: World) -> None:
    """The hold has ended, and the stream has applied what changes a row of the plan."""
    world.change(row(1, "as it is"), row(1, "moved on"))
    world.stream_to(len(world.transactions))


def test_a_stream_that_has_moved_on_before_the_epoch_is_taken_is_not_overwritten() -> None:
    world, planned = spoiled()
    world.at["begun"] = lambda: goes_on(world)
    world.apply(planned)
    assert by_id(world.held) == by_id(world.source_rows(4))
    assert {one.key: one.state for one in world.done} == {
        "1": RowState.EQUAL,
        "2": RowState.APPLIED,
        "9": RowState.APPLIED,
    }


class WithoutTheGuard(Applying):
    def _require_standing(self, lease: Lease, standing: Standing) -> None: ...


class WithoutJudging(Applying):
    def _judge(self, standing: Standing) -> None:
        self.rows = tuple(replace(one, state=RowState.APPLYING) for one in self.rows)


def test_planted_a_repair_without_the_guard_of_its_position_is_caught() -> None:
    world, planned = spoiled()
    world.at["begun"] = lambda: goes_on(world)
    world.apply(planned, kind=WithoutTheGuard)
    found = world.compare()
    assert found.verdict is Verdict.BREAK
    assert by_id(world.held) != by_id(world.source_rows(4))


def test_planted_a_repair_that_does_not_read_the_rows_again_is_caught() -> None:
    world, planned = spoiled()
    world.change(row(1, "as it is"), row(1, "moved on"))
    assert world.apply(planned, kind=WithoutJudging).verdict is Verdict.BREAK


# ---- rules ----------------------------------------------------------------------------------------------------------

KEYED = RepairRow("account", "1", '{"id": "1"}', RowAction.UPSERT, row(1, "a"), row(1, "b"))


@pytest.mark.parametrize(
    ("before", "source", "destination", "after"),
    [
        (RowState.PLANNED, row(1, "a"), row(1, "b"), RowState.APPLYING),
        (RowState.PLANNED, row(1, "a"), row(1, "a"), RowState.EQUAL),
        (RowState.APPLYING, row(1, "a"), row(1, "a"), RowState.APPLIED),
        (RowState.APPLYING, row(1, "c"), row(1, "c"), RowState.EQUAL),
        (RowState.APPLYING, row(1, "a"), row(1, "b"), RowState.APPLYING),
        (RowState.PLANNED, row(1, "c"), row(1, "b"), RowState.SOURCE_MOVED),
        (RowState.PLANNED, None, row(1, "b"), RowState.SOURCE_MOVED),
        (RowState.PLANNED, row(1, "a"), row(1, "c"), RowState.DESTINATION_MOVED),
        (RowState.PLANNED, row(1, "a"), None, RowState.DESTINATION_MOVED),
        (RowState.PLANNED, None, None, RowState.EQUAL),
    ],
)
def test_a_row_is_changed_only_where_both_sides_are_as_approved(
    before: RowState, source: Texts | None, destination: Texts | None, after: RowState
) -> None:
    assert judged(ACCOUNT, replace(KEYED, state=before), source, destination) is after


def test_values_of_sensitive_columns_are_masked_in_a_row_that_is_shown() -> None:
    row_shown = masked_repair_row(replace(KEYED, why="holds 'b'"), Hidden({"account": frozenset({"name"})}))
    assert (row_shown.source, row_shown.destination) == ({"id": "1", "name": MASK}, {"id": "1", "name": DIFFERS})
    assert (row_shown.named, row_shown.why, row_shown.action) == (KEYED.named, MASK, KEYED.action)
    assert masked_repair_row(KEYED, Hidden()) == KEYED


def column(kind: Kind, *, name: str = "k", source_type: str = "", **more: Any) -> Column:
    return Column(name, kind, source_type or str(kind), nullable=False, **more)


@pytest.mark.parametrize(
    ("of", "named", "canonical"),
    [
        (column(Kind.INTEGER), '{"k": "-7"}', "-7"),
        (column(Kind.STRING), '{"k": "é, b"}', "5:é, b"),
        (column(Kind.DATE), '{"k": "2026-11-28"}', "2026-11-28"),
        (column(Kind.DATETIME), '{"k": "2026-11-28 10:00:00.000001"}', "1795860000000001"),
        (column(Kind.INSTANT), '{"k": "1969-12-31 23:59:59 UTC"}', "-1000000"),
        (column(Kind.TIME), '{"k": "-00:00:01.500000"}', "-1500000"),
    ],
)
def test_the_key_of_a_break_is_read_back_exactly(of: Column, named: str, canonical: str) -> None:
    assert key_of(Table("t", (of,), ("k",)), named) == canonical


@pytest.mark.parametrize("named", ["{}", "no json", '{"k": "1", "l": "2"}', '{"k": "2026-11-28T10:00:00"}'])
def test_a_key_that_cannot_be_read_back_is_not_guessed(named: str) -> None:
    assert key_of(Table("t", (column(Kind.DATETIME),), ("k",)), named) is None


@pytest.mark.parametrize(
    ("of", "text"),
    [
        (column(Kind.INTEGER, length=64), "12"),
        (column(Kind.DECIMAL, precision=20, scale=4), "-1.2500"),
        (column(Kind.BOOLEAN), "1"),
        (column(Kind.DATE), "2026-11-28"),
        (column(Kind.DATE), "infinity"),
        (column(Kind.DATETIME), "1795860000000001"),
        (column(Kind.INSTANT), "-Infinity"),
        (column(Kind.TIME), "-1500000"),
        (column(Kind.INTERVAL), "14m-3d1000"),
        (column(Kind.BYTES), "00ff"),
        (column(Kind.UUID), "6f9619ff-8b86-d011-b42d-00c04fc964ff"),
        (column(Kind.DOUBLE, source_type="double precision"), "1.5e+20"),
        (column(Kind.DOUBLE, source_type="double"), "1.5e20"),
        (column(Kind.STRING), "any 'text'\n"),
        (column(Kind.YEAR), "1999"),
    ],
)
def test_a_row_is_written_as_its_canonical_text_says(of: Column, text: str) -> None:
    assert not unfit(Table("t", (of,)), {"k": text})


@pytest.mark.parametrize(
    ("of", "text"),
    [
        (column(Kind.DATE), "0000-00-00"),
        (column(Kind.DATETIME), "!0000-00-00 00:00:00"),
        (column(Kind.DECIMAL, precision=4, scale=2), "12345.00"),
    ],
)
def test_a_value_that_cannot_be_written_exactly_leaves_its_row_out(of: Column, text: str) -> None:
    assert unfit(Table("t", (of,)), {"k": text})


def test_a_server_that_is_away_leaves_everything_as_it_is() -> None:
    world, planned = spoiled()
    before = by_id(world.held)

    def away() -> None:
        raise TransientError("the destination does not answer")

    world.at["app.epoch_taken"] = away
    with pytest.raises(TransientError):
        world.apply(planned)
    assert by_id(world.held) == before
    assert world.apply(planned).verdict is Verdict.MATCH
