from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.digest import KeyedDigest, SegmentDigest
from seamline.domain.errors import GateFailed, InvariantViolated, Refused
from seamline.domain.expectation_results import with_results
from seamline.domain.runs import EXPECTATIONS, Cut, Reconciliation, RunKind, RunState, Scope
from seamline.domain.staged_cut import CutMode, Published, StagedCut, StagedTable, cut_from_json, cut_to_json
from seamline.domain.verdict import TableVerdict, Verdict
from seamline.plan.checks import ReconcilePlan
from seamline.plan.model import BusinessDate, DestinationPlan, NightlyPlan, Run, SourcePlan, SyncPlan, TablePlan
from seamline.sources.mariadb.position import BinlogPosition
from seamline.sync.cut import publish_cut, published_by, select, with_verdicts

ACCOUNT = Table("account", (Column("id", Kind.INTEGER, "bigint", length=64),), ("id",))
ENTRY = Table(
    "entry",
    (Column("id", Kind.INTEGER, "bigint", length=64), Column("at", Kind.INSTANT, "timestamp(6)", precision=6)),
    ("id",),
)
PLAN = SyncPlan(
    "settlement",
    SourcePlan("bank", "mariadb", "bank", "r", "c", "m", "seamline.bank.log", "seamline-bank"),
    (DestinationPlan("warehouse", "postgres", "warehouse", "settlement"),),
    (TablePlan("account", None, ACCOUNT), TablePlan("entry", BusinessDate("at", "instant"), ENTRY)),
    nightly=NightlyPlan(timezone="Asia/Shanghai", as_of_max_s=7200),
)
DAY = date(2026, 3, 5)
# The date ends at 16:00 UTC.
SOON = datetime(2026, 3, 5, 16, 30, tzinfo=UTC)
DIGEST = KeyedDigest("key", SegmentDigest(3, 3, 2**70, 2**71 + 1), SegmentDigest(3, 3, 5, 2**70 + 1))
STAGED = StagedCut(
    "r1",
    "settlement",
    "warehouse",
    DAY,
    BinlogPosition("0-1-7"),
    SOON,
    (
        StagedTable("entry", CutMode.DATE, "settlement_stage.e", 3, Verdict.MATCH, 1, 0, DIGEST),
        StagedTable("account", CutMode.WHOLE, "settlement_stage.a", 2, Verdict.MATCH),
    ),
)


def test_a_dated_table_is_read_by_bounds_and_the_others_whole() -> None:
    selection = select(PLAN, DAY, as_of=SOON)
    whole, dated = selection.reads
    assert (whole.mode, whole.segment.date_column) == (CutMode.WHOLE, "")
    assert (dated.mode, dated.segment.date_column) == (CutMode.DATE, "at")
    assert (dated.segment.date_from, dated.segment.date_to) == ("2026-03-04 16:00:00", "2026-03-05 16:00:00")
    assert not selection.left_out


def test_a_whole_table_has_no_history_for_an_earlier_date() -> None:
    selection = select(PLAN, date(2026, 3, 3), as_of=SOON)
    assert [read.plan.name for read in selection.reads] == ["entry"]
    assert selection.left_out["account"] == (
        "not in this cut, it has no history for 2026-03-03: without a business date the table is read whole, as it is"
        " now, and that is 2026-03-05, the date that has just ended; a cut from the log has it (`nightly.from`)"
    )


def test_a_whole_table_counts_only_soon_after_the_end_of_its_date() -> None:
    selection = select(PLAN, DAY, as_of=datetime(2026, 3, 5, 18, 0, tzinfo=UTC))
    assert not selection.left_out
    selection = select(PLAN, DAY, as_of=datetime(2026, 3, 5, 18, 0, 1, tzinfo=UTC))
    assert "2.0 h after the date had ended (`nightly.as_of_max` is 2 h)" in selection.left_out["account"]


def test_a_whole_table_counts_for_a_date_that_its_source_closed_behind_the_end_of_the_next_one() -> None:
    # The source has the 3rd open until the 5th is over by the clock.
    day, seen_open = date(2026, 3, 3), datetime(2026, 3, 5, 16, 20, tzinfo=UTC)
    assert not select(PLAN, day, as_of=SOON, open_at=seen_open).left_out
    late = select(PLAN, day, as_of=seen_open + timedelta(hours=2, seconds=1), open_at=seen_open)
    assert "(`nightly.as_of_max` is 2 h)" in late.left_out["account"]
    # Closed before the 5th was over, the 5th had a time of its own.
    before = select(PLAN, day, as_of=SOON, open_at=datetime(2026, 3, 5, 15, 59, tzinfo=UTC))
    assert "that is 2026-03-05, the date that has just ended" in before.left_out["account"]


def test_a_whole_table_is_none_of_a_date_whose_source_has_closed_the_next_one_too() -> None:
    asked: list[date] = []

    def is_closed(day: date) -> bool:
        asked.append(day)
        return True

    day, seen_open = date(2026, 3, 3), datetime(2026, 3, 5, 16, 20, tzinfo=UTC)
    found = select(PLAN, day, as_of=SOON, open_at=seen_open, is_closed=is_closed)
    assert "the source has closed 2026-03-04 too" in found.left_out["account"]
    assert asked == [date(2026, 3, 4)]
    # The next date has not ended by the clock, or no table is read whole: nobody is asked.
    assert not select(PLAN, DAY, as_of=SOON, open_at=seen_open, is_closed=is_closed).left_out
    dated = replace(PLAN, tables=PLAN.tables[1:])
    assert not select(dated, day, as_of=SOON, open_at=seen_open, is_closed=is_closed).left_out
    assert len(asked) == 1


def test_a_date_that_has_not_ended_has_no_cut() -> None:
    with pytest.raises(Refused, match="has not ended"):
        select(PLAN, DAY, as_of=datetime(2026, 3, 5, 15, 59, 59, tzinfo=UTC))


def test_a_sync_without_nightly_has_no_cut() -> None:
    with pytest.raises(Refused, match="no nightly cut"):
        select(replace(PLAN, nightly=None), DAY, as_of=SOON)


def test_a_manifest_survives_its_json() -> None:
    partial = replace(STAGED, left_out={"audit": "no history"})
    assert cut_from_json(cut_to_json(partial)) == partial
    assert (partial.is_partial, STAGED.is_partial) == (True, False)


def test_a_table_nobody_judged_is_not_run() -> None:
    judged = with_verdicts(STAGED, [TableVerdict("entry", Verdict.MATCH)])
    assert [table.verdict for table in judged.tables] == [Verdict.MATCH, Verdict.NOT_RUN]
    assert judged.verdict is Verdict.NOT_RUN


class Place:
    """Publisher and records in one, that write down what they are given."""

    def __init__(self, reconciliation: Reconciliation | None) -> None:
        self.found = self.entered = reconciliation
        self.published: list[tuple[StagedCut, str]] = []
        self.saved: list[Cut] = []

    def publish(self, cut: StagedCut, *, definitions: Mapping[str, Table], signed_by: str) -> Published:
        assert definitions == {"account": ACCOUNT, "entry": ENTRY}
        self.published.append((cut, signed_by))
        return Published(2, is_new=len(self.published) == 1, signed_by=signed_by or self.published[0][1])

    def reconciliation(self, run_id: str, scope: str, destination: str = "") -> Reconciliation | None:
        assert (run_id, scope, destination) == ("r1", Scope.CUT, "warehouse")
        return self.found

    def require_as_entered(self, found: Reconciliation) -> None:
        if found != self.entered:
            raise Refused("not the one that the log of acts has")

    def save_reconciliation(self, reconciliation: Reconciliation) -> None:
        self.found = self.entered = reconciliation

    def save_cut(self, cut: Cut) -> None:
        self.saved.append(cut)


def run_of(staged: StagedCut, plan: SyncPlan = PLAN) -> Run:
    result: dict[str, Any] = {"cut": {"warehouse": cut_to_json(staged)}, EXPECTATIONS: {"verdict": "MATCH"}}
    return Run("r1", "settlement", RunKind.NIGHTLY, DAY, plan, RunState.RUNNING, result)


def reconciled(staged: StagedCut) -> Reconciliation:
    tables = tuple(TableVerdict(table.table, table.verdict, "") for table in staged.tables)
    return Reconciliation(
        "r1",
        "settlement",
        "warehouse",
        Scope.CUT,
        DAY,
        staged.position,
        SOON,
        "read",
        staged.verdict,
        tables,
        SOON,
        SOON,
    )


def test_a_reconciled_cut_is_published_and_written_down() -> None:
    place = Place(reconciled(STAGED))
    cut = publish_cut(run_of(STAGED), "warehouse", publisher=place, records=place)
    assert place.saved == [cut]
    assert (cut.version, cut.verdict, cut.partial, cut.tables) == (2, Verdict.MATCH, False, ("entry", "account"))


def test_what_a_run_has_published_is_what_the_list_of_cuts_has_of_it() -> None:
    place = Place(reconciled(STAGED))
    cut = publish_cut(run_of(STAGED), "warehouse", publisher=place, records=place)
    assert published_by(run_of(STAGED), [cut, replace(cut, destination="archive", run_id="r0")]) == {"warehouse": 2}


def test_a_cut_that_was_not_reconciled_is_not_published_even_when_signed() -> None:
    place = Place(None)
    for signed_by in ("", "olga"):
        with pytest.raises(GateFailed, match="not reconciled"):
            publish_cut(run_of(STAGED), "warehouse", publisher=place, records=place, signed_by=signed_by)
    assert not place.published


@pytest.mark.parametrize("verdict", [Verdict.BREAK, Verdict.INCONCLUSIVE, Verdict.NOT_RUN])
def test_a_cut_that_does_not_match_needs_a_signature(verdict: Verdict) -> None:
    staged = replace(STAGED, tables=(replace(STAGED.tables[0], verdict=verdict), STAGED.tables[1]))
    place = Place(reconciled(staged))
    with pytest.raises(GateFailed, match=f"entry {verdict}"):
        publish_cut(run_of(staged), "warehouse", publisher=place, records=place)
    cut = publish_cut(run_of(staged), "warehouse", publisher=place, records=place, signed_by="olga")
    assert cut.verdict is verdict, "a signature lets it through, it changes no verdict"
    assert place.published[0][1] == "olga"
    assert place.found == replace(reconciled(staged), evidence={"signed_by": "olga"}), "it is kept with what was found"


def test_the_newest_signature_stays_and_a_clean_cut_bears_none() -> None:
    staged = replace(STAGED, tables=(replace(STAGED.tables[0], verdict=Verdict.BREAK), STAGED.tables[1]))
    place = Place(reconciled(staged))
    for signed_by in ("olga", "bob"):
        publish_cut(run_of(staged), "warehouse", publisher=place, records=place, signed_by=signed_by)
        assert place.found is not None and place.found.signed_by == signed_by
    clean = Place(reconciled(STAGED))
    publish_cut(run_of(STAGED), "warehouse", publisher=clean, records=clean, signed_by="olga: of the other warehouse")
    assert clean.found is not None and clean.found.signed_by == clean.published[0][1] == ""


def test_a_cut_whose_expectations_were_not_met_needs_a_signature_too() -> None:
    place = Place(reconciled(STAGED))
    run = run_of(STAGED)
    run.result[EXPECTATIONS] = {"verdict": "BREAK"}
    with pytest.raises(GateFailed, match="expectations BREAK"):
        publish_cut(run, "warehouse", publisher=place, records=place)
    publish_cut(run, "warehouse", publisher=place, records=place, signed_by="olga")
    assert place.published[0][1] == "olga"


def test_a_cut_whose_results_are_not_those_that_were_entered_is_published_by_nobody() -> None:
    run = run_of(STAGED)
    place = Place(with_results(reconciled(STAGED), {EXPECTATIONS: {"verdict": "BREAK", "checked": 1, "failed": [{}]}}))
    for signed_by in ("", "olga"):
        with pytest.raises(GateFailed, match="the results of its expectations were changed"):
            publish_cut(run, "warehouse", publisher=place, records=place, signed_by=signed_by)
    assert not place.published
    place.found = place.entered = with_results(reconciled(STAGED), run.result)
    publish_cut(run, "warehouse", publisher=place, records=place)


def test_a_cut_whose_verdict_is_not_the_one_that_was_entered_is_published_by_nobody() -> None:
    run = run_of(STAGED)
    place = Place(with_results(reconciled(STAGED), {EXPECTATIONS: {"verdict": "BREAK", "checked": 1, "failed": [{}]}}))
    for changed in (with_results(reconciled(STAGED), run.result), reconciled(STAGED)):
        place.found = changed
        for signed_by in ("", "olga"):
            with pytest.raises(Refused, match="not the one that the log of acts has"):
                publish_cut(run, "warehouse", publisher=place, records=place, signed_by=signed_by)
    assert (place.published, place.saved) == ([], [])


@pytest.mark.parametrize("on_break", ["ask", "fail", "publish_and_flag"])
def test_a_cut_that_nobody_has_checked_is_published_by_nobody(on_break: str) -> None:
    place = Place(reconciled(STAGED))
    run = run_of(STAGED, replace(PLAN, reconcile=ReconcilePlan(on_break=on_break)))
    unreadable = [{EXPECTATIONS: left} for left in (7, {"destinations": []}, {"verdict": "x"}, {"verdict": []})]
    for nothing in ({}, {EXPECTATIONS: None}, {EXPECTATIONS: {"verdict": "NOT_RUN"}}, *unreadable):
        result: dict[str, Any] = {"cut": run.result["cut"], **nothing}
        unchecked = replace(run, result=result)
        for signed_by in ("", "olga"):
            with pytest.raises(GateFailed, match="not checked"):
                publish_cut(unchecked, "warehouse", publisher=place, records=place, signed_by=signed_by)
    assert not place.published


def test_publish_and_flag_publishes_with_its_verdict() -> None:
    staged = replace(STAGED, tables=(replace(STAGED.tables[0], verdict=Verdict.BREAK), STAGED.tables[1]))
    place = Place(reconciled(staged))
    plan = replace(PLAN, reconcile=ReconcilePlan(on_break="publish_and_flag"))
    assert publish_cut(run_of(staged, plan), "warehouse", publisher=place, records=place).verdict is Verdict.BREAK


def test_a_manifest_that_shows_another_verdict_than_the_reconciliation_is_refused() -> None:
    place = Place(reconciled(replace(STAGED, tables=(replace(STAGED.tables[0], verdict=Verdict.BREAK),))))
    with pytest.raises(InvariantViolated):
        publish_cut(run_of(STAGED), "warehouse", publisher=place, records=place)


def test_a_run_that_staged_nothing_has_nothing_to_publish() -> None:
    place = Place(reconciled(STAGED))
    with pytest.raises(Refused, match="staged no cut"):
        publish_cut(replace(run_of(STAGED), result={}), "warehouse", publisher=place, records=place)
    with pytest.raises(GateFailed, match="holds no table"):
        publish_cut(run_of(replace(STAGED, tables=())), "warehouse", publisher=place, records=place)
