from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.date_before import PublishedTable, late_in_words
from seamline.domain.day_closed import CLOSED
from seamline.domain.digest import Segment, SegmentDigest
from seamline.domain.errors import Refused, TransientError
from seamline.domain.made_from import MadeFrom, day_slice_in_words
from seamline.domain.runs import NOT_STAGED, Receipt, Reconciliation, RunKind, RunState, Scope
from seamline.domain.self_test import self_test_in_words
from seamline.domain.staged_cut import CutMode, Lateness, StagedCut
from seamline.domain.verdict import TableVerdict, Verdict
from seamline.plan.checks import BudgetPlan
from seamline.plan.model import (
    BusinessDate,
    DerivedTablePlan,
    DestinationPlan,
    NightlyPlan,
    Run,
    SourcePlan,
    SyncPlan,
    TablePlan,
)
from seamline.ports import Load, TableRead
from seamline.sources.mariadb.position import BinlogPosition
from seamline.sync.comparison import Work, compare_tables
from seamline.sync.derived import Derived
from seamline.sync.nightly_cut import CutTools, take_cut
from seamline.sync.repetition import NEEDS_A_PERSON
from tests.unit.memory_views import MemoryView, Row

DAY = date(2026, 3, 5)
# The date ends at 16:00 UTC.
SOON = datetime(2026, 3, 5, 16, 30, tzinfo=UTC)
P = BinlogPosition("0-1-7")
ENTRY = Table(
    "entry",
    (
        Column("id", Kind.INTEGER, "bigint", length=64),
        Column("day", Kind.DATE, "date"),
    ),
    ("id",),
)
ACCOUNT = Table("account", (Column("id", Kind.INTEGER, "bigint", length=64),), ("id",))
PLAN = SyncPlan(
    "settlement",
    SourcePlan("bank", "mariadb", "bank", "r", "c", "m", "seamline.bank.log", "seamline-bank"),
    (DestinationPlan("warehouse", "postgres", "warehouse", "settlement"),),
    (TablePlan("account", None, ACCOUNT), TablePlan("entry", BusinessDate("day", "date"), ENTRY)),
    nightly=NightlyPlan(timezone="Asia/Shanghai", as_of_max_s=7200),
    derived=(DerivedTablePlan("balance", "entry", "id", ("day",)), DerivedTablePlan("heads", "account", "id", ("id",))),
)
ROWS: dict[str, list[Row]] = {
    "entry": [{"id": n, "day": date(2026, 3, 4 + n % 2)} for n in range(10)],
    "account": [{"id": n} for n in range(5)],
}


@dataclass
class DatedView(MemoryView):
    """Keeps to the bounds of the business date, as a database does."""

    def _selected(self, segment: Segment, run_key: str) -> list[Row]:
        rows = super()._selected(segment, run_key)
        if not segment.date_column:
            return rows
        return [row for row in rows if segment.date_from <= row[segment.date_column].isoformat() < segment.date_to]


@dataclass
class Views:
    """One session that knows every table, as the adapters' views do."""

    by_table: dict[str, MemoryView]
    position: BinlogPosition = P

    def __getattr__(self, name: str) -> Any:
        if not hasattr(MemoryView, name):
            raise AttributeError(name)

        def ask(first: Any, *rest: Any, **named: Any) -> Any:
            table = first.table if isinstance(first, Segment) else first
            return getattr(self.by_table[table], name)(first, *rest, **named)

        return ask


@dataclass
class World:
    """Source, staging and platform database in memory."""

    now: datetime = SOON
    position_time: datetime = SOON
    lost: int = 0
    results: dict[str, Any] = field(default_factory=dict)
    receipts: list[Receipt] = field(default_factory=list)
    saved: list[Reconciliation] = field(default_factory=list)
    reads: list[TableRead] = field(default_factory=list)
    is_open: bool = False
    derived_bases: list[str] = field(default_factory=list)
    source_fault: TransientError | None = None
    cut_before: list[Row] = field(default_factory=list)
    cut_fault: TransientError | None = None
    away: tuple[str, ...] = ()
    forgotten: int = 0

    # records
    def put_result(self, run_id: str, key: str, value: Any) -> None:
        self.results[key] = value

    def put_receipt(self, run_id: str, receipt: Receipt) -> None:
        self.receipts.append(receipt)

    def save_reconciliation(self, reconciliation: Reconciliation) -> None:
        self.saved.append(reconciliation)

    # the bulk read
    position = P

    def views_for(self, destination: DestinationPlan) -> Sequence[Any]:
        faults = {"digests": self.source_fault} if self.source_fault else {}
        return [Views({t.name: DatedView(t, ROWS[t.name], position=P, faults=dict(faults)) for t in (ENTRY, ACCOUNT)})]

    def stage(self, destination: DestinationPlan) -> Sequence[Load]:
        if destination.name in self.away:
            raise TransientError(f"{destination.name} does not answer")
        return [
            Load(read.table, f"settlement_stage.{read.table.name}_1", len(self._staged(read))) for read in self.reads
        ]

    def digest(self, segment: Segment, destination: DestinationPlan) -> SegmentDigest:
        raise AssertionError("the source is not read a second time")

    def _staged(self, read: TableRead) -> list[Row]:
        view = DatedView(read.table, ROWS[read.table.name])
        return view._selected(read.segment, "")[self.lost if read.table.name == "entry" else 0 :]

    @contextmanager
    def open_read(self, reads: Sequence[TableRead]) -> Iterator[Any]:
        self.reads, self.is_open = list(reads), True
        yield self
        self.is_open = False

    @contextmanager
    def open_staged(self, destination: DestinationPlan, loads: Sequence[Load], count: int) -> Iterator[Any]:
        assert self.is_open, "compared while the source's views are open"
        yield [Views({r.table.name: DatedView(r.table, self._staged(r), position=P) for r in self.reads})]

    def derive(self, destination: Any, derived: DerivedTablePlan, bases: Mapping[str, Load], position: str) -> Derived:
        assert not self.is_open, "the source's views are closed first"
        self.derived_bases += [base.staged_as for base in bases.values()]
        return Derived(f"settlement_stage.{derived.name}_1", 3, TableVerdict(derived.name, Verdict.MATCH, "", position))

    def date_before(self, destination: DestinationPlan, day: date) -> Sequence[PublishedTable]:
        return [PublishedTable("entry", date(2026, 3, 4), 3, "c", "entry_v3")] if day == DAY and self.cut_before else []

    @contextmanager
    def open_cut(self, destination: DestinationPlan, published: Sequence[PublishedTable]) -> Iterator[Any]:
        assert self.is_open, "compared while the source's views are open"
        faults = {"digests": self.cut_fault} if self.cut_fault else {}
        yield MemoryView(ENTRY, self.cut_before, position=P, faults=faults)

    def lateness(self, destination: Any, day: date, load: Load) -> Lateness | None:
        return Lateness(2, 1)

    def tools(self) -> CutTools:
        parts: Any = self
        return CutTools(
            open_read=self.open_read,
            open_staged=self.open_staged,
            derive=self.derive,
            lateness=self.lateness,
            date_before=self.date_before,
            open_cut=self.open_cut,
            records=parts,
            clock=lambda: self.now,
            forget=self.forget,
        )

    def forget(self) -> None:
        self.forgotten += 1

    def take(self, *, day: date | None = DAY, plan: SyncPlan = PLAN) -> StagedCut:
        run = Run("r1", "settlement", RunKind.NIGHTLY, day, plan, RunState.RUNNING)
        return take_cut(run, self.tools())[0]["warehouse"]


ARCHIVE = DestinationPlan("archive", "postgres", "archive", "settlement")
TWO = replace(PLAN, destinations=(ARCHIVE, *PLAN.destinations))


def test_a_destination_that_fails_keeps_no_other_from_its_cut() -> None:
    world = World(away=("archive",))
    assert world.take(plan=TWO).verdict is Verdict.MATCH
    assert (list(world.results["cut"]), world.results[NOT_STAGED]) == (
        ["warehouse"],
        {"archive": "archive does not answer"},
    )
    archive, warehouse = world.saved
    assert (archive.destination, archive.verdict) == ("archive", Verdict.NOT_RUN)
    assert {table.verdict for table in archive.tables} == {Verdict.NOT_RUN}
    assert "archive does not answer" in archive.tables[0].reason
    assert (warehouse.destination, warehouse.verdict) == ("warehouse", Verdict.MATCH)
    assert "0 others" in self_test_in_words(warehouse.evidence)[0]
    assert self_test_in_words(archive.evidence) == []
    world.away = ()
    world.take(plan=TWO)
    assert (list(world.results["cut"]), world.results[NOT_STAGED]) == (["archive", "warehouse"], {})


def test_a_source_that_has_closed_the_next_date_too_when_it_is_read_gives_no_whole_table() -> None:
    """It catches up: it closes the date late, and the next one while it is read."""
    world, day, plan = World(), DAY - timedelta(days=1), replace(PLAN, derived=())
    run = Run("r1", "settlement", RunKind.NIGHTLY, day, plan, RunState.RUNNING, {CLOSED: {"open_at": SOON.isoformat()}})

    def taken(*, is_closed: bool) -> StagedCut:
        def closed(asked: date) -> bool:
            assert (asked, world.is_open) == (DAY, True), "asked once the read stands"
            return is_closed

        return take_cut(run, replace(world.tools(), is_closed=closed))[0]["warehouse"]

    assert [table.table for table in taken(is_closed=False).tables] == ["account", "entry"]
    cut = taken(is_closed=True)
    assert [table.table for table in cut.tables] == ["entry"]
    assert "the source has closed 2026-03-05 too" in cut.left_out["account"]


def test_an_error_of_the_platform_database_is_taken_for_no_destinations_own() -> None:
    class Forgetful(World):
        def put_receipt(self, run_id: str, receipt: Receipt) -> None:
            if not self.receipts:
                super().put_receipt(run_id, receipt)
                raise TransientError("the platform database is away")

    world = Forgetful()
    with pytest.raises(TransientError, match="platform database is away"):
        world.take(plan=TWO)
    assert NOT_STAGED not in world.results


def test_a_night_without_any_destination_fails() -> None:
    world = World(away=("archive", "warehouse"))
    with pytest.raises(TransientError, match="archive does not answer"):
        world.take(plan=TWO)
    assert (world.saved, world.results) == ([], {})


def test_a_cut_holds_the_dates_rows_whole_tables_and_what_is_derived() -> None:
    world = World()
    cut = world.take()
    assert [(t.table, t.mode, t.rows, t.verdict) for t in cut.tables] == [
        ("account", CutMode.WHOLE, 5, Verdict.MATCH),
        ("entry", CutMode.DATE, 5, Verdict.MATCH),
        ("balance", CutMode.DERIVED, 3, Verdict.MATCH),
        ("heads", CutMode.DERIVED, 3, Verdict.MATCH),
    ]
    assert (cut.position, cut.as_of, cut.verdict, cut.is_partial) == (P, SOON, Verdict.MATCH, False)
    (saved,) = world.saved
    assert (saved.scope, saved.mode, saved.verdict, saved.position_time) == (Scope.CUT, "read", Verdict.MATCH, SOON)
    assert [table.table for table in saved.tables] == ["account", "entry", "balance", "heads"]
    assert saved.evidence["rows_since_the_version_before"] == {"entry": {"late": 2, "gone": 1}}
    assert [receipt.staged_as for receipt in world.receipts] == [
        "settlement_stage.account_1",
        "settlement_stage.entry_1",
    ]
    assert world.results["cut"]["warehouse"]["verdict"] == "MATCH"


def test_a_date_that_is_replaced_says_that_its_rows_alone_were_read() -> None:
    """Its report had the mode `read`, like one of whole tables."""
    world = World()
    world.take(plan=replace(PLAN, nightly=NightlyPlan("Asia/Shanghai", made_from=MadeFrom.DAY_SLICE)))
    (saved,) = world.saved
    assert saved.mode == "day_slice"
    (said,) = day_slice_in_words(saved.evidence)
    assert "the rows of this date alone" in said
    world.take(plan=replace(PLAN, nightly=NightlyPlan("Asia/Shanghai", made_from=MadeFrom.READ)))
    assert not day_slice_in_words(world.saved[-1].evidence)


def test_a_budget_that_is_over_leaves_what_it_has_not_compared_inconclusive_for_a_person() -> None:
    world = World()
    budget = BudgetPlan(time_s=0, sessions=1)
    cut = world.take(plan=replace(PLAN, reconcile=replace(PLAN.reconcile, budget=budget)))
    assert cut.verdict is Verdict.INCONCLUSIVE
    (saved,) = world.saved
    assert "the budget of 0 s was over" in saved.tables[0].reason
    assert "reconcile.budget.time" in str(saved.evidence[NEEDS_A_PERSON])


def test_a_night_asks_by_as_many_sessions_as_its_budget_has(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []

    def compare(work: Sequence[Work], *, source: Any, destination: Any, **rest: Any) -> Any:
        asked.append((len(source), len(destination)))
        return compare_tables(work, source=source, destination=destination, **rest)

    class Wide(World):
        def views_for(self, destination: DestinationPlan) -> Sequence[Any]:
            return list(super().views_for(destination)) * 3

        @contextmanager
        def open_staged(self, destination: DestinationPlan, loads: Sequence[Load], count: int) -> Iterator[Any]:
            with super().open_staged(destination, loads, count) as views:
                yield list(views) * count

    monkeypatch.setattr("seamline.sync.nightly_cut.compare_tables", compare)
    for budget in (None, BudgetPlan(sessions=2), BudgetPlan(sessions=9)):
        plan = replace(PLAN, reconcile=replace(PLAN.reconcile, budget=budget))
        assert Wide().take(plan=plan).verdict is Verdict.MATCH
    assert asked == [(3, 3), (2, 2), (3, 3)]


def test_what_is_compared_is_as_large_as_the_date_and_not_as_its_table(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: dict[str, int] = {}

    def compare(work: Sequence[Work], **sides: Any) -> Any:
        compared.update({item.table.name: item.table.rows_estimate for item in work})
        return compare_tables(work, **sides)

    monkeypatch.setattr("seamline.sync.nightly_cut.compare_tables", compare)
    large = tuple(replace(table, table=replace(table.definition, rows_estimate=10**9)) for table in PLAN.tables)
    World().take(plan=replace(PLAN, tables=large))
    assert compared == {"account": 5, "entry": 5}


def test_an_earlier_date_leaves_whole_tables_out_with_the_reason() -> None:
    world = World()
    cut = world.take(day=date(2026, 3, 4))
    assert [table.table for table in cut.tables] == ["entry", "balance"]
    assert set(cut.left_out) == {"account", "heads"}
    assert "not computed from account, which is left out: not in this cut, it has no history" in cut.left_out["heads"]
    (saved,) = world.saved
    verdicts = {table.table: (table.verdict, bool(table.reason)) for table in saved.tables}
    assert verdicts["account"] == verdicts["heads"] == (Verdict.NOT_RUN, True)
    assert saved.verdict is Verdict.MATCH, "the verdict is of what is in the cut; partial says the rest"
    assert saved.evidence["partial"] is True


def test_a_row_lost_on_the_way_is_a_break_of_the_cut() -> None:
    world = World(lost=1)
    cut = world.take()
    assert cut.verdict is Verdict.BREAK
    entry = next(table for table in world.saved[0].tables if table.table == "entry")
    assert (entry.breaks_total, [found.type.value for found in entry.breaks]) == (1, ["missing"])


@pytest.fixture
def rated(monkeypatch: pytest.MonkeyPatch) -> SyncPlan:
    """The plan whose entries have a DOUBLE."""
    entry = replace(ENTRY, columns=(*ENTRY.columns, Column("rate", Kind.DOUBLE, "double")))
    monkeypatch.setitem(globals(), "ENTRY", entry)
    monkeypatch.setitem(ROWS, "entry", [{**row, "rate": row["id"] / 3} for row in ROWS["entry"]])
    account, dated = PLAN.tables
    return replace(PLAN, tables=(account, replace(dated, table=entry)))


def test_a_double_changed_on_the_way_is_a_break_of_the_cut(rated: SyncPlan) -> None:
    class Changed(World):
        def _staged(self, read: TableRead) -> list[Row]:
            return [{**row, "rate": 1.5} if row["id"] == 5 else row for row in super()._staged(read)]

    world = Changed()
    assert world.take(plan=rated).verdict is Verdict.BREAK
    entry = next(table for table in world.saved[0].tables if table.table == "entry")
    assert [(found.type.value, found.key, found.destination) for found in entry.breaks] == [
        ("value", '{"id": "5"}', {"rate": "1.5"})
    ]


def test_a_cut_hands_to_publishing_what_its_doubles_were(rated: SyncPlan) -> None:
    digests = {table.table: table.digest for table in World().take(plan=rated).tables}
    account, entry = digests["account"], digests["entry"]
    assert account is not None and account.whole is None
    assert entry is not None and entry.whole is not None and entry.whole.rows == 5


def test_a_source_that_fails_makes_the_cut_inconclusive() -> None:
    world = World(source_fault=TransientError("gone"))
    assert world.take().verdict is Verdict.INCONCLUSIVE


def test_only_rows_that_differ_are_no_part_of_what_the_next_read_goes_on_with() -> None:
    """A source that fails while they are compared, and a derived table that does, cost nothing that is staged."""
    for world, forgotten in ((World(), 0), (World(lost=1), 1), (World(source_fault=TransientError("gone")), 0)):
        world.take()
        assert world.forgotten == forgotten


OF_THE_4TH = [row for row in ROWS["entry"] if row["day"] == date(2026, 3, 4)]


@pytest.mark.parametrize(
    ("cut_before", "said"),
    [
        ([], None),
        (OF_THE_4TH, None),
        (OF_THE_4TH[2:], "late rows: 2 since its cut, version 3"),
        ([*OF_THE_4TH, {"id": 99, "day": date(2026, 3, 4)}], "rows gone: 1 since its cut, version 3"),
        ([*OF_THE_4TH[1:], {"id": 99, "day": date(2026, 3, 4)}], "rows changed since its cut, version 3"),
    ],
)
def test_the_night_finds_rows_that_came_after_the_cut_of_the_date_before(
    cut_before: list[Row], said: str | None
) -> None:
    world = World(cut_before=cut_before)
    assert world.take().verdict is Verdict.MATCH, "the cut itself has what its own date has"
    lines = late_in_words(world.saved[0].evidence)
    assert [line.startswith(f"entry of 2026-03-04: {said}") for line in lines] == ([True] if said else [])


def test_a_date_before_that_cannot_be_read_is_reported_and_fails_nothing() -> None:
    world = World(cut_before=OF_THE_4TH, cut_fault=TransientError("its partition is gone"))
    assert world.take().verdict is Verdict.MATCH
    (line,) = late_in_words(world.saved[0].evidence)
    assert "not known whether rows came after its cut, version 3: its partition is gone" in line


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("date_before", "all tables of the date before: not known whether rows came after its cut: too many clients"),
        ("open_cut", "entry of 2026-03-04: not known whether rows came after its cut, version 3: too many clients"),
    ],
)
def test_a_destination_that_is_away_for_the_date_before_fails_nothing(
    place: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: Any) -> Any:
        raise TransientError("too many clients")

    world = World(cut_before=OF_THE_4TH)
    monkeypatch.setattr(world, place, away)
    assert world.take().verdict is Verdict.MATCH
    assert late_in_words(world.saved[0].evidence) == [said]


def test_a_table_that_became_too_late_while_the_views_opened_is_left_out() -> None:
    world = World(position_time=datetime(2026, 3, 5, 18, 0, 1, tzinfo=UTC))
    cut = world.take()
    assert [table.table for table in cut.tables] == ["entry", "balance"]
    assert "as_of_max" in cut.left_out["account"]


def test_a_date_that_has_not_ended_or_no_date_is_refused_before_anything_is_read() -> None:
    world = World(now=datetime(2026, 3, 5, 15, tzinfo=UTC))
    with pytest.raises(Refused, match="has not ended"):
        world.take()
    with pytest.raises(Refused, match="no business date"):
        World().take(day=None)
    assert not world.reads
    with pytest.raises(Refused, match="no nightly cut"):
        World().take(plan=replace(PLAN, nightly=None))
