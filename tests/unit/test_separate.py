"""Tables that another tool carries: what is MATCH, what is BREAK, and what was in flight."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from seamline.domain.catalogue import Table
from seamline.domain.errors import TransientError
from seamline.domain.runs import Reconciliation, RunKind, RunState
from seamline.domain.separate import READINGS, SEPARATE, Stand, separate_in_words
from seamline.domain.verdict import BreakType, TableVerdict, Verdict
from seamline.plan.checks import BudgetPlan, ControlTotalPlan, ReconcileOnlyPlan, ReconcilePlan
from seamline.plan.document import plan_from_json, plan_to_json
from seamline.plan.model import DestinationPlan, Run, SourcePlan, SyncPlan, TablePlan
from seamline.plan.stages import all_stages
from seamline.ports import Problem, Survey
from seamline.ports.separate import OpenedSide
from seamline.sync.bucket_search import Limits
from seamline.sync.budget import Spending
from seamline.sync.separate import compare_separately
from tests.unit.memory_views import AUDIT, ENTRY, RATE, MemoryView, Row, entries

BEGAN = datetime(2026, 3, 6, 1, tzinfo=UTC)
IN_FLIGHT_S = 60.0


def plan_of(table: Table) -> SyncPlan:
    totals = (ControlTotalPlan("entry", "amount", ("currency",)),) if table.name == "entry" else ()
    return SyncPlan(
        "mirror",
        SourcePlan("bank", "mariadb", "bank", "r", "c", "m", "seamline.bank.log", "seamline-bank"),
        (DestinationPlan("copy", "postgres", "copy", "bank"),),
        (TablePlan(table.name, None, table),),
        reconcile=ReconcilePlan(totals),
        reconcile_only=ReconcileOnlyPlan(IN_FLIGHT_S, ("06:30",), "Asia/Shanghai"),
    )


@dataclass
class Side:
    """A database of one table in memory. `fails_after`: openings after which it is away."""

    world: "World"
    table: Table
    content: list[Row]
    views: list[MemoryView] = field(default_factory=list)
    fails_after: int = 9
    mark: str = ""

    def survey(self, tables: Sequence[str]) -> Survey:
        if self.table.name in tables:
            return Survey((self.table,))
        problems = [Problem(f"there is no table {name}", "make it", table=name) for name in tables]
        return Survey((), tuple(problems))

    def open(self, tables: Sequence[Table], count: int) -> OpenedSide:
        if len(self.views) >= self.fails_after:
            raise TransientError("the server is away")
        self.world.opened.append(self)
        view = MemoryView(tables[0] if tables else self.table, [dict(row) for row in self.content])
        self.views.append(view)
        return OpenedSide([view], Stand("a place", BEGAN + timedelta(seconds=self.world.time), self.mark))


@dataclass
class World:
    """Both sides, and a clock whose waits let time pass: `meanwhile` is what happens then."""

    table: Table = ENTRY
    rows: int = 40
    meanwhile: Callable[["World"], None] = lambda _: None
    time: float = 0.0
    opened: list[Side] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.source = Side(self, self.table, entries(self.rows) if self.table is ENTRY else [])
        self.copy = Side(self, self.table, entries(self.rows) if self.table is ENTRY else [])

    def now(self) -> float:
        return self.time

    def wall(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        assert all(view.is_closed for side in (self.source, self.copy) for view in side.views), "old rows are kept"
        self.time += seconds
        self.meanwhile(self)

    def compare(self, spending: Callable[[], Spending] | None = None) -> Reconciliation:
        run = Run("r1", "mirror", RunKind.RECONCILE, None, plan_of(self.table), RunState.RUNNING)
        return compare_separately(
            run, "copy", source=self.source, other=self.copy, views=2, clock=self, spending=spending
        )

    def verdict(self) -> TableVerdict:
        (found,) = self.compare().tables
        return found


def test_equal_sides_are_a_match_that_names_both_places_and_waits_for_nothing() -> None:
    world = World()
    found = world.compare()
    assert (found.verdict, found.mode, found.position) == (Verdict.MATCH, SEPARATE, None)
    assert found.tables[0].position.count("a place at 2026-03-06T01:00:00.000+00:00") == 2
    assert world.time == 0
    assert [side is world.source for side in world.opened] == [True, False], "the source is read first"
    assert all(view.is_closed for side in world.opened for view in side.views)
    (line,) = separate_in_words(found.evidence)
    assert "positions of their own" in line and "INCONCLUSIVE" in line
    assert found.evidence["self_test"], "the self-test runs beside other positions too"


def test_a_difference_that_stands_after_the_tool_had_its_time_is_a_break() -> None:
    world = World()
    world.copy.content[4]["amount"] = Decimal("99.0000")
    del world.copy.content[7]
    world.copy.content.append({"id": 99, "currency": "EUR", "amount": Decimal(1), "memo": None})
    found = world.compare()
    (table,) = found.tables
    assert world.time == IN_FLIGHT_S
    assert table.verdict is Verdict.BREAK
    assert sorted(one.type for one in table.breaks) == [BreakType.MISSING, BreakType.UNEXPECTED, BreakType.VALUE]
    assert table.breaks_total == 3
    assert [side is world.source for side in world.opened] == [True, False, False, True]
    assert len(separate_in_words(found.evidence)) == 2


def test_a_change_that_arrives_is_inconclusive_and_never_a_match() -> None:
    def arrives(world: World) -> None:
        world.copy.content = [dict(row) for row in world.source.content]

    world = World(meanwhile=arrives)
    world.source.content[4]["amount"] = Decimal("99.0000")
    table = world.verdict()
    assert table.verdict is Verdict.INCONCLUSIVE
    assert "1 differences were in flight" in table.reason and not table.breaks


def test_a_row_that_goes_on_changing_is_inconclusive() -> None:
    def goes_on(world: World) -> None:
        world.source.content[4]["amount"] += 1
        world.copy.content[4]["amount"] += 1

    world = World(meanwhile=goes_on)
    world.source.content[4]["amount"] += 1
    assert world.verdict().verdict is Verdict.INCONCLUSIVE


def test_a_break_beside_changes_in_flight_is_a_break_of_its_rows_alone() -> None:
    def arrives(world: World) -> None:
        world.copy.content[4] = dict(world.source.content[4])

    world = World(meanwhile=arrives)
    world.source.content[4]["amount"] += 1
    world.copy.content[9]["memo"] = "lost"
    table = world.verdict()
    assert (table.verdict, table.breaks_total) == (Verdict.BREAK, 1)
    assert [one.key for one in table.breaks] == ['{"id": "10"}']
    assert "1 value, 1 differences were in flight" in table.reason


def test_differences_that_cannot_be_read_again_are_no_breaks() -> None:
    world = World()
    world.copy.content[4]["memo"] = "other"
    world.source.fails_after = 1
    table = world.verdict()
    assert table.verdict is Verdict.INCONCLUSIVE
    assert "could not be read again: the server is away" in table.reason


def test_a_side_that_is_away_is_inconclusive() -> None:
    world = World()
    world.copy.fails_after = 0
    assert world.verdict().reason == "the server is away"


def test_rows_without_a_key_are_held_against_a_second_comparison() -> None:
    def arrives(world: World) -> None:
        world.copy.content.append({"actor": "b", "object": "y"})

    both = {"actor": "a", "object": "x"}
    for meanwhile, verdict, breaks in ((arrives, Verdict.BREAK, 1), (lambda _: None, Verdict.BREAK, 2)):
        world = World(table=AUDIT, meanwhile=meanwhile)
        world.source.content = [dict(both), {"actor": "b", "object": "y"}, {"actor": "c", "object": "z"}]
        world.copy.content = [dict(both)]
        table = world.verdict()
        assert (table.verdict, table.breaks_total) == (verdict, breaks)


def test_the_same_row_twice_in_the_destination_stands_by_a_second_comparison() -> None:
    world = World()
    world.copy.content.append(dict(world.copy.content[0]))
    table = world.verdict()
    assert [one.type for one in table.breaks] == [BreakType.DUPLICATE]


def test_a_row_whose_key_is_null_there_stands_by_a_second_comparison() -> None:
    """No row is found by a NULL, and what is not found must not pass for something that has gone."""
    table = replace(ENTRY, columns=ENTRY.columns, key=("currency", "memo"))
    world = World(table=table)
    world.source.content = entries(6)[:1]
    world.copy.content = []
    assert world.verdict().verdict is Verdict.BREAK


def test_a_systematic_difference_stands_by_its_examples() -> None:
    world = World(rows=400)
    for row in world.copy.content:
        row["amount"] = -row["amount"]
    table = world.verdict()
    assert table.verdict is Verdict.BREAK
    assert table.breaks[0].type is BreakType.SYSTEMATIC
    assert "systematic" in table.reason


def test_floats_beyond_their_tolerance_stand_too() -> None:
    world = World(table=RATE)
    world.source.content = [{"id": 1, "rate": 1.5}, {"id": 2, "rate": 2.5}]
    world.copy.content = [{"id": 1, "rate": 1.5}, {"id": 2, "rate": 2.75}]
    table = world.verdict()
    assert (table.verdict, table.breaks[0].source) == (Verdict.BREAK, {"rate": "2.5"})


def test_a_table_that_is_not_there_or_has_another_type_is_a_break_of_its_schema_at_once() -> None:
    world = World()
    world.copy.table = replace(ENTRY, name="others")
    assert world.verdict().breaks[0].type is BreakType.SCHEMA
    world = World()
    columns = tuple(replace(one, scale=2) if one.name == "amount" else one for one in ENTRY.columns)
    world.copy.table = replace(ENTRY, columns=columns)
    table = world.verdict()
    assert table.verdict is Verdict.BREAK and "nothing is rounded" in table.reason
    assert world.time == 0 and not any(side.views[0].asked for side in world.opened)


def test_the_report_says_when_the_source_was_quiet_between_both_readings() -> None:
    for mark, is_quiet in (("7:7:", True), ("", None)):
        world = World()
        world.source.mark = mark
        world.copy.content[4]["memo"] = "other"
        found = world.compare()
        readings = found.evidence[READINGS]
        assert isinstance(readings, dict) and readings["is_source_quiet"] is is_quiet
        assert ("committed nothing" in separate_in_words(found.evidence)[1]) is (is_quiet is True)


def test_the_columns_may_stand_in_another_order_and_under_no_key() -> None:
    world = World()
    world.copy.table = replace(ENTRY, columns=tuple(reversed(ENTRY.columns)), key=())
    assert world.verdict().verdict is Verdict.MATCH


def test_the_budget_ends_the_first_reading_and_not_the_wait_that_follows() -> None:
    world = World()
    world.copy.content[4]["memo"] = "other"
    assert world.compare(lambda: Spending(BudgetPlan(time_s=10), world)).verdict is Verdict.BREAK
    over = World()
    found = over.compare(lambda: Spending(BudgetPlan(time_s=0), over))
    assert found.verdict is Verdict.INCONCLUSIVE and "budget" in found.tables[0].reason


def test_only_the_comparison_s_dag_exists_and_the_plan_comes_back_as_it_was() -> None:
    plan = plan_of(ENTRY)
    assert list(all_stages(plan)) == ["reconcile"]
    assert plan.streamed.destinations == ()
    assert plan_from_json(plan_to_json(plan)) == plan
    assert "reconcile_only" not in plan_to_json(replace(plan, reconcile_only=None))


def test_limits_of_the_search_hold_for_both_readings() -> None:
    world = World(rows=60)
    for row in world.copy.content[:20]:
        row["memo"] = "other"
    run = Run("r1", "mirror", RunKind.RECONCILE, None, plan_of(ENTRY), RunState.RUNNING)
    limits = Limits(breaks_listed=5)
    found = compare_separately(run, "copy", source=world.source, other=world.copy, views=1, clock=world, limits=limits)
    (table,) = found.tables
    assert (len(table.breaks), table.breaks_total) == (5, 20)
    assert "20 rows in all, of which 5 were read again" in table.reason
