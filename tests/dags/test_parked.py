"""A parked table in the tasks and on the page: always reported, never red by itself, never a cover for another."""

import csv
import io
from dataclasses import replace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from fastapi.testclient import TestClient

from seamline.domain.errors import Refused
from seamline.domain.runs import RunState, Scope, SyncState
from seamline.domain.verdict import TableVerdict, Verdict, parked
from seamline.plan.model import DerivedTablePlan, ParkedTable, SyncPlan
from seamline_airflow import runs
from seamline_airflow.dag_factory import sync_dags
from seamline_airflow.operators.gate import NOT_CLEAN, GateOperator
from seamline_airflow.operators.step import EnableOperator, VerdictsOperator
from seamline_airflow.page import reports
from tests.dags import results
from tests.dags.test_gate import ABOUT, _judge
from tests.dags.test_page import signed_in as signed_in
from tests.dags.test_runs import ONBOARD, context
from tests.dags.test_runs import platform as platform
from tests.dags.test_table_runs import CARRIED, CHANGED, ledger

WHY = "zero dates, mended on Monday"
NOT_RUN = parked("account", WHY)
ENTRY = results.table("ledger_entry")


def plan() -> SyncPlan:
    """`account` is parked."""
    return results.plan(tables=results.plan().tables[1:], parked=(ParkedTable("account", WHY),))


def found(*tables: TableVerdict, scope: Scope = Scope.LIVE, **fields: Any) -> Any:
    return results.reconciliation(*tables, scope=scope, **fields)


@pytest.fixture
def night(platform: results.Platform) -> results.Platform:
    platform.runs[results.RUN] = results.run(plan=plan())
    return platform


# ---- the night -----------------------------------------------------------------------------------------------------


def test_the_suite_passes_with_a_parked_table_that_is_reported_and_misses_one_that_is_not() -> None:
    run = results.run(plan=plan())
    assert _judge(found(NOT_RUN, ENTRY, scope=Scope.CUT), run).verdict is Verdict.MATCH
    without_it = _judge(found(ENTRY, scope=Scope.CUT), run)
    assert without_it.verdict is Verdict.NOT_RUN
    assert [outcome.expectation.why for outcome in without_it.missing][:1] == ["every table of the plan was compared"]


def test_the_suite_asks_nothing_of_sums_and_derived_tables_of_a_parked_table() -> None:
    made = results.plan(
        tables=results.plan().tables[:1],
        parked=(ParkedTable("ledger_entry", WHY),),
        derived=(DerivedTablePlan("daily", "ledger_entry", "amount", ("id",)),),
    )
    derived = TableVerdict(
        "daily", Verdict.NOT_RUN, f"not computed from ledger_entry, which is left out: parked: {WHY}"
    )
    night = found(results.table("account"), derived, parked("ledger_entry", WHY), scope=Scope.CUT)
    assert _judge(night, results.run(plan=made)).verdict is Verdict.MATCH


def test_a_night_does_not_wait_for_a_signature_because_a_table_is_parked(night: results.Platform) -> None:
    night.found = [found(NOT_RUN, ENTRY, scope=Scope.CUT)]
    assert GateOperator(task_id="gate", run=results.RUN, on_break="ask").choose_branch({}) == "publish"
    assert night.alarms == {}


def test_a_parked_table_covers_no_break_of_another(night: results.Platform) -> None:
    night.found = [found(NOT_RUN, results.table("ledger_entry", Verdict.BREAK), scope=Scope.CUT)]
    assert GateOperator(task_id="gate", run=results.RUN, on_break="ask").choose_branch({}) == "approve"
    assert "ledger_entry BREAK" in night.alarms[NOT_CLEAN, ABOUT]


def test_a_cut_of_parked_tables_alone_goes_nowhere(night: results.Platform) -> None:
    night.found = [found(NOT_RUN, scope=Scope.CUT)]
    with pytest.raises(AirflowFailException, match="was not reconciled"):
        GateOperator(task_id="gate", run=results.RUN, on_break="publish_and_flag").choose_branch({})


def test_a_table_that_was_left_out_without_a_reason_is_asked_about(night: results.Platform) -> None:
    night.found = [found(TableVerdict("account", Verdict.NOT_RUN), ENTRY, scope=Scope.CUT)]
    assert GateOperator(task_id="gate", run=results.RUN, on_break="ask").choose_branch({}) == "approve"


# ---- live tables ---------------------------------------------------------------------------------------------------


def test_the_verdicts_of_live_tables_are_green_and_show_the_parked_table(
    night: results.Platform, capsys: pytest.CaptureFixture[str]
) -> None:
    night.found = [found(ENTRY, NOT_RUN)]
    shown = VerdictsOperator(task_id="verdicts", run=results.RUN, scope="live").execute({})
    assert shown == {"warehouse.ledger_entry": "MATCH", "warehouse.account": "NOT_RUN"}
    assert night.finished == {results.RUN: RunState.SUCCEEDED}
    assert f"account NOT_RUN, outside the guarantee: parked: {WHY}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("tables", "why"),
    [
        ((results.table("ledger_entry", Verdict.BREAK), NOT_RUN), "ledger_entry BREAK"),
        ((TableVerdict("ledger_entry", Verdict.NOT_RUN, "catching up"), NOT_RUN), r"ledger_entry NOT_RUN \(catching"),
        ((parked("ledger_entry", "not by its sync"), NOT_RUN), r"ledger_entry NOT_RUN \(parked: not by its sync"),
        ((ENTRY, TableVerdict("account", Verdict.NOT_RUN)), "account NOT_RUN"),
        ((NOT_RUN,), "no table was compared"),
    ],
)
def test_live_verdicts_are_red_for_all_that_the_plan_does_not_park(
    night: results.Platform, tables: tuple[TableVerdict, ...], why: str
) -> None:
    night.found = [found(*tables)]
    with pytest.raises(AirflowFailException, match=why):
        VerdictsOperator(task_id="verdicts", run=results.RUN, scope="live").execute({})
    assert night.finished == {results.RUN: RunState.FAILED}


def test_a_sync_with_a_parked_table_is_enabled_by_a_match_of_the_others(platform: results.Platform) -> None:
    platform.state = SyncState.ONBOARDING
    platform.runs[ONBOARD] = replace(platform.runs[ONBOARD], plan=plan())
    operator = EnableOperator(task_id="enable", run=ONBOARD)
    for tables in ((NOT_RUN,), (results.table("ledger_entry", Verdict.INCONCLUSIVE, reason="x"), NOT_RUN)):
        platform.found = [found(*tables, run_id=ONBOARD)]
        with pytest.raises(AirflowFailException):
            operator.execute({})
        assert platform.state is SyncState.ONBOARDING
    platform.found = [found(ENTRY, NOT_RUN, run_id=ONBOARD)]
    operator.execute({})
    assert platform.state is SyncState.ENABLED


# ---- the list ------------------------------------------------------------------------------------------------------


def test_until_the_run_of_the_tables_a_parked_table_is_one_that_differs(platform: results.Platform) -> None:
    with pytest.raises(Refused, match="differ from those that were onboarded: account") as raised:
        runs.open_nightly(context(), platform, plan(), results.RUN)
    assert raised.value.hint == "run settlement__tables, or take the change back"


def test_parking_and_bringing_back_are_two_runs_of_the_tables(platform: results.Platform) -> None:
    runs.open_tables(platform, plan(), CHANGED, (), CARRIED)
    assert platform.runs[CHANGED].result["tables"] == {"added": [], "again": [], "removed": ["account"]}
    platform.put_result(CHANGED, "publish", {"warehouse": str(results.POSITION)})
    runs.open_nightly(context(), platform, plan(), results.RUN)
    assert platform.runs[results.RUN].plan.parked == plan().parked
    again = f"{CHANGED}_again"
    runs.open_tables(platform, results.plan(), again, (), {"warehouse": ledger("ledger_entry")})
    assert platform.runs[again].result["tables"] == {"added": ["account"], "again": [], "removed": []}
    assert runs.onboarded_plan(platform, results.plan()).parked == plan().parked, "parked until it has joined"
    platform.put_result(again, "publish", {"warehouse": str(results.POSITION)})
    assert runs.onboarded_plan(platform, results.plan()).parked == ()


def test_another_reason_counts_at_once_and_needs_no_run(platform: results.Platform) -> None:
    runs.open_tables(platform, plan(), CHANGED, (), CARRIED)
    platform.put_result(CHANGED, "publish", {"warehouse": str(results.POSITION)})
    other = replace(plan(), parked=(ParkedTable("account", "until Tuesday"),))
    assert runs.onboarded_plan(platform, other).parked == other.parked
    with pytest.raises(Refused, match="exactly the declared tables"):
        runs.open_tables(platform, other, f"{CHANGED}_2", (), {"warehouse": ledger("ledger_entry")})


def test_each_dag_says_what_is_parked() -> None:
    made = sync_dags(plan())
    assert made
    for dag in made.values():
        assert "`account` is parked" in str(dag.doc_md)


# ---- the page ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", list(Scope))
def test_page_and_exports_show_the_parked_table_and_that_the_report_is_partial(
    signed_in: TestClient, platform: results.Platform, scope: Scope
) -> None:
    platform.found = [found(ENTRY, NOT_RUN, scope=scope)]
    platform.runs = {results.RUN: results.published()} if scope is Scope.CUT else {}
    (one,) = signed_in.get("/export.json?sync=settlement").json()
    about = f"&business_date={results.DATE}" if scope is Scope.CUT else f"&run={results.RUN}"
    text = signed_in.get(f"/page?sync=settlement{about}").text
    for part in (f"parked: {WHY}", "NOT_RUN", ", partial"):
        assert part in text
    assert ", partial" in signed_in.get("/page?sync=settlement").text
    assert "PARTIAL" in signed_in.get("/page").text
    assert (one["verdict"], one["partial"]) == ("PARTIAL", True)
    assert [(t["table"], t["verdict"], t["reason"]) for t in one["tables"]][1] == (
        "account", "NOT_RUN", f"parked: {WHY}",
    )  # fmt: skip
    rows = list(csv.DictReader(io.StringIO(signed_in.get("/export.csv?sync=settlement").text)))
    assert (rows[1]["table_verdict"], rows[1]["reason"]) == ("NOT_RUN", f"parked: {WHY}")
    assert {row["verdict"] for row in rows} == {"PARTIAL"}


@pytest.mark.parametrize("scope", list(Scope))
def test_a_parked_table_is_no_blemish_of_the_others_and_no_cover_for_them(
    platform: results.Platform, scope: Scope
) -> None:
    platform.runs = {results.RUN: results.published()} if scope is Scope.CUT else {}
    broken = results.table("ledger_entry", Verdict.BREAK)
    for tables, headline in (((ENTRY, NOT_RUN), "PARTIAL"), ((NOT_RUN,), "NOT_RUN"), ((broken, NOT_RUN), "BREAK")):
        platform.found = [found(*tables, scope=scope)]
        assert reports.read_sync("settlement").headline == headline
