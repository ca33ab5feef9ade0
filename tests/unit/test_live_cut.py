"""The cut of a destination whose cuts are its live tables: compared whole at one position, beside others or alone."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from typing import Any

import pytest

from seamline.domain.cut_job import CutJob
from seamline.domain.date_before import late_in_words
from seamline.domain.day_closed import CLOSED
from seamline.domain.errors import GateFailed, Refused, TransientError
from seamline.domain.runs import NOT_STAGED, RunKind, RunState, Scope
from seamline.domain.self_test import self_test_in_words
from seamline.domain.staged_cut import CutMode, CutSource, StagedCut
from seamline.domain.verdict import Verdict
from seamline.plan.model import DerivedTablePlan, DestinationPlan, Run, SyncPlan
from seamline.ports.cuts import PinnedTables
from seamline.sync.barrier import Aligned, NotAligned, StreamEnded
from seamline.sync.live_cut import LiveCutTools, Pinning, take_live_cut
from seamline.sync.nightly_cut import take_conclusive_cut
from seamline.sync.repetition import NEEDS_A_PERSON
from tests.log_topic import ManualClock
from tests.unit.memory_views import Row
from tests.unit.test_nightly_cut import ACCOUNT, DAY, ENTRY, PLAN, ROWS, SOON, DatedView, P, Views, World

LAKE = DestinationPlan("lake", "iceberg", "catalogue", "settlement", cut_source=CutSource.LIVE)
DERIVING = replace(PLAN, destinations=(LAKE,))
ALONE = replace(DERIVING, derived=())
BESIDE = replace(ALONE, destinations=(*PLAN.destinations, LAKE))


@dataclass
class LakeWorld(World):
    """A lake beside what the nightly has: `stored` are its rows."""

    stored: Mapping[str, list[Row]] = field(default_factory=lambda: ROWS)
    not_aligned: int = 0
    why: NotAligned = field(default_factory=lambda: NotAligned("the stream did not stand still"))
    pins: int = 0

    def live(self, destination: DestinationPlan) -> LiveCutTools:
        pinning = Pinning(self.pin)

        @contextmanager
        def aligned(count: int) -> Iterator[Aligned]:
            if self.not_aligned:
                self.not_aligned -= 1
                raise self.why
            self.is_open = True
            yield Aligned(P, 0, [self.view(ROWS)] * count, pinning.open(count), 0.1, lambda: None)
            self.is_open = False

        return LiveCutTools(aligned, pinning, self.date_before, self.open_cut, self.derive, lambda: self.now)

    def pin(self, count: int) -> PinnedTables:
        self.pins += 1
        return PinnedTables([self.view(self.stored)] * count, {"account": f"{self.pins}1", "entry": f"{self.pins}2"})

    def view(self, rows: Mapping[str, list[Row]]) -> Any:
        return Views({t.name: DatedView(t, rows[t.name], position=P) for t in (ENTRY, ACCOUNT)})

    def cuts(self, plan: SyncPlan, day: date = DAY) -> Mapping[str, StagedCut]:
        run = Run("r1", "settlement", RunKind.NIGHTLY, day, plan, RunState.RUNNING)
        return take_conclusive_cut(run, replace(self.tools(), live=self.live), clock=ManualClock())


def test_every_table_is_compared_whole_and_what_is_held_is_handed_on() -> None:
    world = LakeWorld()
    cut = world.cuts(ALONE)["lake"]
    assert [(t.table, t.mode, t.rows, t.staged_as, t.verdict) for t in cut.tables] == [
        ("account", CutMode.WHOLE, 5, "11", Verdict.MATCH),
        ("entry", CutMode.DATE, 10, "12", Verdict.MATCH),
    ]
    (saved,) = world.saved
    assert (saved.scope, saved.mode, saved.position, saved.verdict) == (Scope.CUT, "versioned", P, Verdict.MATCH)
    assert world.results["cut"]["lake"]["tables"][0]["staged_as"] == "11"
    assert [receipt.staged_as for receipt in world.receipts] == ["11", "12"]
    assert world.reads == [], "nothing is read into it a second time"


def test_derived_tables_are_computed_from_what_is_held_once_the_source_is_let_go() -> None:
    world = LakeWorld()
    cut = world.cuts(DERIVING)["lake"]
    assert world.derived_bases == ["12", "11"]
    assert [(t.table, t.mode, t.rows, t.verdict) for t in cut.tables[2:]] == [
        ("balance", CutMode.DERIVED, 3, Verdict.MATCH),
        ("heads", CutMode.DERIVED, 3, Verdict.MATCH),
    ]
    assert [table.table for table in world.saved[0].tables] == ["account", "entry", "balance", "heads"]
    assert len(world.receipts) == 2, "of what was read alone"


def test_a_derived_table_is_left_out_with_its_base_and_inconclusive_with_the_others() -> None:
    both = DerivedTablePlan("both", job=CutJob("include/transforms/both.sql", "", ("entry", "account")))
    plan = replace(DERIVING, derived=(*DERIVING.derived, both))
    earlier = LakeWorld(now=SOON).cuts(plan, day=DAY - timedelta(days=1))["lake"]
    assert set(earlier.left_out) == {"account", "heads", "both"}
    assert [table.table for table in earlier.tables] == ["entry", "balance"]
    world = LakeWorld(not_aligned=1)
    world.cuts(DERIVING)
    assert [(one.table, one.verdict) for one in world.saved[0].tables][2:] == [
        ("balance", Verdict.INCONCLUSIVE),
        ("heads", Verdict.INCONCLUSIVE),
    ]


def test_a_row_of_another_date_that_the_lake_lacks_is_a_break_too() -> None:
    lacking = {**ROWS, "entry": ROWS["entry"][1:]}
    assert lacking["entry"][0]["day"] == DAY
    cut = LakeWorld(stored=lacking).cuts(ALONE)["lake"]
    assert [table.verdict for table in cut.tables] == [Verdict.MATCH, Verdict.BREAK]


def test_it_is_taken_again_while_the_stream_does_not_come_and_then_stands_with_its_reason() -> None:
    world = LakeWorld(not_aligned=2)
    assert world.cuts(ALONE)["lake"].verdict is Verdict.MATCH
    assert [one.verdict for one in world.saved] == [Verdict.INCONCLUSIVE, Verdict.INCONCLUSIVE, Verdict.MATCH]
    with pytest.raises(TransientError, match="did not stand still"):
        LakeWorld(not_aligned=9).cuts(ALONE)


def test_a_lake_whose_stream_has_ended_is_not_tried_again_and_says_what_a_person_has_to_do() -> None:
    ended = StreamEnded("the stream into lake has ended: rows are gone", hint="put them back")
    world = LakeWorld(not_aligned=9, why=ended)
    with pytest.raises(GateFailed, match="no cut of lake: the stream into lake has ended: rows are gone") as caught:
        world.cuts(ALONE)
    assert caught.value.hint == "put them back; then run this date again"
    assert (world.not_aligned, world.saved[0].evidence[NEEDS_A_PERSON]) == (8, "put them back")
    world = LakeWorld(not_aligned=9, why=ended)
    assert list(world.cuts(BESIDE)) == ["warehouse"]
    said = "rows are gone. To mend it: put them back; then run this date again"
    assert (world.not_aligned, said in world.results[NOT_STAGED]["lake"]) == (8, True)


def test_a_lake_that_has_no_cut_keeps_no_other_destination_from_its_own_and_the_other_way_round() -> None:
    world = LakeWorld(not_aligned=9)
    assert list(world.cuts(BESIDE)) == ["warehouse"]
    assert "did not stand still" in world.results[NOT_STAGED]["lake"]
    world = LakeWorld(away=("warehouse",))
    assert list(world.cuts(BESIDE)) == list(world.results["cut"]) == ["lake"]
    assert world.results[NOT_STAGED] == {"warehouse": "warehouse does not answer"}
    world = LakeWorld()
    assert list(world.cuts(BESIDE)) == ["warehouse", "lake"]
    assert world.results[NOT_STAGED] == {}


def test_a_date_that_has_not_ended_is_refused_and_an_earlier_one_leaves_out_what_has_no_history() -> None:
    early = LakeWorld(now=datetime.fromisoformat("2026-03-05T15:59:00+00:00"))
    with pytest.raises(Refused, match="has not ended"):
        early.cuts(ALONE)
    assert early.pins == 0
    cut = LakeWorld(now=SOON).cuts(ALONE, day=DAY - timedelta(days=1))["lake"]
    assert ([table.table for table in cut.tables], set(cut.left_out)) == (["entry"], {"account"})


def test_a_source_that_has_closed_the_next_date_too_gives_no_whole_table() -> None:
    world = LakeWorld(now=SOON)
    result = {CLOSED: {"open_at": SOON.isoformat()}}
    run = Run("r1", "settlement", RunKind.NIGHTLY, DAY - timedelta(days=1), ALONE, RunState.RUNNING, result)

    def taken(*, is_closed: bool) -> list[str]:
        tools = replace(world.live(ALONE.destinations[0]), is_closed=lambda _: is_closed)
        cut, _ = take_live_cut(run, ALONE.destinations[0], tools)
        assert cut is not None
        return [table.table for table in cut.tables]

    assert (taken(is_closed=False), taken(is_closed=True)) == (["account", "entry"], ["entry"])


def test_rows_that_came_late_for_the_date_before_are_said_and_redden_nothing() -> None:
    world = LakeWorld(cut_before=[row for row in ROWS["entry"] if row["day"] != DAY][1:])
    assert world.cuts(ALONE)["lake"].verdict is Verdict.MATCH
    assert "0 others" in self_test_in_words(world.saved[0].evidence)[0]
    (late,) = late_in_words(world.saved[0].evidence)
    assert "entry of 2026-03-04: late rows: 1 since its cut, version 3" in late
