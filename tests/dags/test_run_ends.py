"""A run that fails says by which task, why and how to mend it; when it goes on it says so no more."""

from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import structlog
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from seamline.domain.alarms import AlarmKind
from seamline.domain.cut_state import Headline
from seamline.domain.decision import DECISION, Decision
from seamline.domain.errors import GateFailed, PositionLost, Refused
from seamline.domain.runs import (
    FAILURE,
    LOADED,
    MODE,
    PUBLISH,
    STAGE,
    TABLES,
    NightlyMode,
    RunKind,
    RunState,
    Scope,
    SyncState,
)
from seamline.domain.verdict import Verdict
from seamline.plan.document import plan_to_json
from seamline.plan.model import TablePlan
from seamline_airflow import runs
from seamline_airflow.dag_factory import sync_dags
from seamline_airflow.errors import task_errors
from seamline_airflow.operators.gate import GateOperator
from seamline_airflow.operators.run_jobs import CompareJobOperator, OpenNightlyOperator
from seamline_airflow.operators.step import VerdictsOperator
from seamline_airflow.run_ends import RunOf
from tests.dags import results

NIGHTLY = RunOf("settlement", RunKind.NIGHTLY)


@pytest.fixture
def platform(monkeypatch: pytest.MonkeyPatch) -> results.Platform:
    made = results.use(monkeypatch, results.Platform())
    made.runs[results.RUN] = results.run(result={})
    return made


def _context(task_id: str = "cut", key: str | None = "2026-11-19", **more: Any) -> dict[str, Any]:
    dag_run = SimpleNamespace(partition_key=key, run_id="manual__1")
    return {"dag_run": dag_run, "params": {}, "ti": SimpleNamespace(task_id=task_id), **more}


def _error(error: Exception) -> Exception:
    """As Airflow hears it from a task."""
    with pytest.raises(AirflowException) as raised, task_errors():
        raise error
    return raised.value


def test_a_failure_is_kept_with_the_error_and_its_cure(platform: results.Platform) -> None:
    NIGHTLY.failed(_context("gate", exception=_error(GateFailed("not clean", hint="mend the cause"))))
    run = platform.runs[results.RUN]
    kept = run.result[FAILURE]
    assert {**kept, "at": ""} == {"task": "gate", "error": "not clean", "cure": "mend the cause", "at": ""}
    assert kept["at"].endswith("+00:00")
    assert run.state is RunState.FAILED


def test_a_killed_task_leaves_a_failure_too(platform: results.Platform) -> None:
    """Airflow's DAG processor reports it without an error."""
    NIGHTLY.failed(_context("cut"))
    assert "killed" in platform.runs[results.RUN].result[FAILURE]["error"]
    assert "clear the task" in platform.runs[results.RUN].result[FAILURE]["cure"]


def test_of_a_foreign_error_only_the_first_line_is_kept(platform: results.Platform) -> None:
    NIGHTLY.failed(_context(exception=ValueError("duplicate key\nDETAIL: Key (iban)=(8675309)")))
    assert platform.runs[results.RUN].result[FAILURE]["error"] == "duplicate key"


@pytest.mark.parametrize("task", ["ready", "cut", "verdicts", "expectations"])
def test_a_night_that_ends_before_its_gate_is_an_exception_of_its_date_until_a_gate_finds_it_clean(
    platform: results.Platform, task: str
) -> None:
    """With several destinations, of which one could be written, the gate said so; with one nobody did."""
    about = (AlarmKind.CUT_NOT_CLEAN, "settlement 2026-11-19")
    NIGHTLY.failed(_context(task, exception=_error(GateFailed("the views are old", hint="run it again"))))
    assert platform.alarms == {about: "warehouse has no cut of 2026-11-19: the views are old; run it again"}
    platform.runs[results.RUN] = results.run()
    platform.found = [results.clean()]
    GateOperator(task_id="gate", run=results.RUN, on_break="fail").choose_branch({})
    assert platform.alarms == {}


def test_a_night_that_was_ended_from_outside_says_so_by_the_stage_that_was_under_way(
    platform: results.Platform,
) -> None:
    NIGHTLY.goes_on(_context("cut"))
    NIGHTLY.ended({"dag_run": _context()["dag_run"], "params": {}, "reason": "timed_out"})
    assert "(timed_out); see the task's log" in platform.alarms[AlarmKind.CUT_NOT_CLEAN, "settlement 2026-11-19"]


def test_what_is_known_of_a_date_is_not_said_once_more_by_the_end_of_its_night(platform: results.Platform) -> None:
    about = "settlement 2026-11-19"
    ends = {"exception": _error(GateFailed("not clean", hint="mend the cause"))}
    for task in ("open", "gate", "approve", "publish"):
        NIGHTLY.failed(_context(task, **ends))
    platform.alarms = {(AlarmKind.LATE_INPUT, about): "the source has not closed it"}
    NIGHTLY.failed(_context("ready", **ends))
    assert list(platform.alarms) == [(AlarmKind.LATE_INPUT, about)]
    platform.alarms = {}
    platform.runs[results.RUN].result[MODE] = NightlyMode.COMPARE_ONLY
    NIGHTLY.failed(_context("cut", **ends))
    del platform.runs[results.RUN].result[MODE]
    platform.cut_list = [SimpleNamespace(destination="warehouse", run_id="an earlier take")]
    NIGHTLY.failed(_context("ready", **ends))
    assert platform.alarms == {}, "what was only to compare, or has not begun to read, leaves the date as it is"
    RunOf("settlement", RunKind.ONBOARD).failed(_context("cut", key=None, **ends))
    assert platform.alarms == {}


def test_a_run_that_goes_on_says_no_more_that_it_failed(platform: results.Platform) -> None:
    NIGHTLY.failed(_context(exception=AirflowFailException("x")))
    NIGHTLY.goes_on(_context())
    run = platform.runs[results.RUN]
    assert (run.state, FAILURE in run.result) == (RunState.RUNNING, False)


def test_a_run_keeps_which_task_is_under_way_and_since_its_first_attempt(platform: results.Platform) -> None:
    NIGHTLY.goes_on(_context("checks"))
    first = platform.runs[results.RUN].result[STAGE]
    assert first["task"] == "checks"
    NIGHTLY.goes_on(_context("checks"))
    assert platform.runs[results.RUN].result[STAGE] == first
    NIGHTLY.goes_on(_context("gate"))
    assert platform.runs[results.RUN].result[STAGE]["task"] == "gate"


def test_a_load_that_is_through_is_done_again_once_a_later_task_has_begun_and_not_by_another_attempt(
    platform: results.Platform,
) -> None:
    NIGHTLY.goes_on(_context("cut"))
    platform.put_result(results.RUN, LOADED, "by this plan")
    NIGHTLY.goes_on(_context("cut"))
    assert platform.runs[results.RUN].result[LOADED] == "by this plan"
    NIGHTLY.goes_on(_context("gate"))
    NIGHTLY.goes_on(_context("cut"))
    assert platform.runs[results.RUN].result[LOADED] is None


def test_a_run_that_succeeded_is_not_opened_again_by_a_task(platform: results.Platform) -> None:
    platform.finish_run(results.RUN, state=RunState.SUCCEEDED)
    NIGHTLY.goes_on(_context())
    assert platform.runs[results.RUN].state is RunState.SUCCEEDED


def test_the_newest_take_of_a_cleared_run_is_the_one_that_failed(platform: results.Platform) -> None:
    platform.put_result(results.RUN, PUBLISH, {"warehouse": 1})
    taken = runs.take_of(platform, results.RUN)
    platform.runs[taken] = replace(results.run(result={}), run_id=taken)
    NIGHTLY.failed(_context())
    assert FAILURE in platform.runs[taken].result
    assert FAILURE not in platform.runs[results.RUN].result


def test_a_break_of_the_live_tables_stays_on_record_when_its_run_is_cleared(
    platform: results.Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seamline_airflow.operators.spark_job.SparkJobOperator.execute", lambda *_: None)
    plan_json = plan_to_json(results.plan())
    platform.start_run(run_id="o", sync="settlement", kind="onboard", plan_json=plan_json)
    platform.put_result("o", PUBLISH, {"warehouse": "p"})
    name = "settlement/reconcile/2026-11-19/manual__1"
    ends = RunOf("settlement", RunKind.RECONCILE)

    def compare(verdict: Verdict) -> str:
        ends.goes_on(_context("compare"))
        run = CompareJobOperator(task_id="compare", job="j", run=name, plan_json=plan_json).execute(_context("compare"))
        found = results.reconciliation(results.table("account", verdict), run_id=run, scope=Scope.LIVE)
        platform.found = [found, *(one for one in platform.found if one.run_id != run)]
        return str(run)

    assert compare(Verdict.BREAK) == compare(Verdict.BREAK) == name, "before its verdict is said, it is the same run"
    verdicts = VerdictsOperator(task_id="verdicts", run=name, scope="live")
    error = pytest.raises(AirflowFailException, verdicts.execute, {})
    ends.failed(_context("verdicts", exception=error.value))
    assert compare(Verdict.MATCH) == f"{name}~2"
    assert [one.verdict for one in platform.live_reconciliations("settlement", 9)] == [Verdict.MATCH, Verdict.BREAK]
    assert [platform.runs[one].state for one in (name, f"{name}~2")] == [RunState.FAILED, RunState.RUNNING]


def test_live_tables_are_not_compared_after_a_cut_that_is_older_than_one_that_is_published(
    platform: results.Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backfill of thirty dates compared the same tables thirty times."""
    monkeypatch.setattr("seamline_airflow.operators.spark_job.SparkJobOperator.execute", lambda *_: None)
    plan = results.plan()
    platform.start_run(run_id="o", sync="settlement", kind="onboard", plan_json=plan_to_json(plan))
    platform.put_result("o", PUBLISH, {"warehouse": "p"})

    def compare(day: date, airflow_run: str) -> str:
        task = CompareJobOperator(
            task_id="compare", job="j", run=f"settlement/reconcile/{day}/{airflow_run}", plan_json=plan_to_json(plan)
        )
        dag_run = SimpleNamespace(partition_key=str(day), run_id=airflow_run)
        return str(task.execute(_context("compare") | {"dag_run": dag_run}))

    older = results.DATE - timedelta(days=1)
    assert compare(older, "asset_triggered__1") in platform.runs, "no newer date is published yet"
    platform.runs[results.RUN] = results.run(result={PUBLISH: {"warehouse": 1}})
    with pytest.raises(AirflowSkipException, match=f"the cut of {results.DATE} is published"):
        compare(older, "asset_triggered__2")
    assert f"settlement/reconcile/{older}/asset_triggered__2" not in platform.runs
    for day, airflow_run in ((results.DATE, "asset_triggered__3"), (older, "manual__4")):
        assert compare(day, airflow_run) in platform.runs


def test_the_verdicts_of_a_comparison_are_those_of_the_run_that_its_job_opened() -> None:
    """The name of a comparison that was cleared and made again is known by that task alone."""
    dag = sync_dags(results.plan())["settlement__reconcile"]
    assert "task_ids='compare'" in dag.get_task("verdicts").run


def test_a_night_that_was_refused_before_it_opened_leaves_its_date_not_proven_with_the_reason(
    platform: results.Platform,
) -> None:
    platform.runs.clear()
    platform.state = SyncState.ONBOARDING
    task = OpenNightlyOperator(task_id="open", plan_json=plan_to_json(results.plan()))
    error = pytest.raises(AirflowFailException, task.execute, _context("open")).value
    for _ in range(2):
        NIGHTLY.failed(_context("open", exception=error, task=task))
        (state,) = platform.cut_states("settlement", 9)
        assert (state.business_date, state.headline, state.is_open) == (results.DATE, Headline.NOT_RUN, True)
        assert state.failure is not None and "is not enabled" in state.failure.error


def test_a_night_that_was_refused_takes_nothing_from_what_its_date_has(platform: results.Platform) -> None:
    """What was found before stands: a question that was refused has found nothing."""
    task = SimpleNamespace(plan_json=plan_to_json(results.plan()))
    dag_run = SimpleNamespace(partition_key="2026-11-19", run_id="manual__2")
    broken = results.reconciliation(results.table("account", Verdict.BREAK))
    for before, found in ((results.published(), []), (results.run(state=RunState.FAILED), [broken])):
        platform.runs, platform.found = {results.RUN: before}, found
        NIGHTLY.failed({**_context("open", exception=_error(Refused("no")), task=task), "dag_run": dag_run})
        assert list(platform.runs) == [results.RUN]


@pytest.mark.parametrize("key", [None, "26/11/2026", "2031-01-01"])
def test_a_run_that_was_never_written_down_leaves_nothing(platform: results.Platform, key: str | None) -> None:
    before = dict(platform.runs)
    task = SimpleNamespace(plan_json=plan_to_json(results.plan()))
    for result in (NIGHTLY.failed, NIGHTLY.goes_on, NIGHTLY.ended):
        result(_context("open", key, task=task))
    assert platform.runs == before
    assert platform.finished == {}


def test_a_run_that_somebody_ended_in_airflow_says_so_and_waits_for_nobody(platform: results.Platform) -> None:
    """Marked as failed there: no task of it can say so."""
    platform.put_result(results.RUN, DECISION, Decision.asked(["approver"]).to_json())
    NIGHTLY.ended(_context("approve", reason="task_failure"))
    run = platform.runs[results.RUN]
    assert run.state is RunState.FAILED
    assert "from outside" in run.result[FAILURE]["error"]
    assert run.result[DECISION] is None


def test_what_a_task_has_reported_stays_when_airflow_ends_the_run(platform: results.Platform) -> None:
    NIGHTLY.failed(_context(exception=_error(PositionLost("gone", hint="onboard again"))))
    result = dict(platform.runs[results.RUN].result)
    NIGHTLY.ended(_context(reason="task_failure"))
    NIGHTLY.ended({"reason": "timed_out"})
    assert platform.runs[results.RUN].result == result


@pytest.mark.parametrize("kind", [RunKind.ONBOARD, RunKind.TABLES, RunKind.RECONCILE])
def test_a_run_that_its_first_task_refused_is_written_down_to_say_why(
    platform: results.Platform, kind: RunKind
) -> None:
    task = SimpleNamespace(plan_json=plan_to_json(results.plan()))
    refused = _error(Refused("no rights", hint="run the script"))
    RunOf("settlement", kind).failed(_context("preflight", key=None, exception=refused, task=task))
    run = platform.runs[f"settlement/{kind}/-/manual__1"]
    assert (run.kind, run.state, run.result[FAILURE]["cure"]) == (kind, RunState.FAILED, "run the script")


def test_a_change_of_tables_that_was_refused_at_once_is_none(platform: results.Platform) -> None:
    """A list that was edited and never taken in stops the night still."""
    platform.start_run(run_id="o", sync="settlement", kind="onboard", plan_json=plan_to_json(results.plan()))
    platform.put_result("o", PUBLISH, {"warehouse": "p"})
    task = SimpleNamespace(plan_json=plan_to_json(results.plan()))
    RunOf("settlement", RunKind.TABLES).failed(_context("preflight", key=None, task=task))
    with pytest.raises(Refused, match="differ from those that were onboarded: fees"):
        runs.onboarded_plan(platform, results.plan(tables=(*results.plan().tables, TablePlan("fees"))))


def test_a_change_of_tables_that_failed_before_it_published_holds_up_no_night(platform: results.Platform) -> None:
    """The streams go on by the list of before, and so do the nights."""
    platform.start_run(run_id="o", sync="settlement", kind="onboard", plan_json=plan_to_json(results.plan()))
    platform.put_result("o", PUBLISH, {"warehouse": "p"})
    wider = results.plan(tables=(*results.plan().tables, TablePlan("fees")))
    tables = "settlement/tables/-/manual__1"
    platform.start_run(run_id=tables, sync="settlement", kind="tables", plan_json=plan_to_json(results.plan()))
    platform.put_result(tables, TABLES, {"added": ["fees"]})
    RunOf("settlement", RunKind.TABLES).failed(_context("snapshot", key=None, exception=_error(PositionLost("gone"))))
    assert platform.runs[tables].state is RunState.FAILED
    assert runs.onboarded_plan(platform, wider) == results.plan()


def test_airflows_dag_processor_reports_a_task_whose_process_is_gone(
    checkout: Path, airflow_database: Path, platform: results.Platform
) -> None:
    from airflow.callbacks.callback_requests import TaskCallbackRequest
    from airflow.dag_processing.dagbag import DagBag
    from airflow.dag_processing.processor import _execute_task_callbacks

    bag = DagBag(dag_folder=checkout / "dags" / "syncs.py", bundle_path=checkout / "dags", bundle_name="dags-folder")
    now = "2026-11-20T00:00:00Z"
    ti = {
        "id": "01980000-0000-7000-8000-000000000000",
        "dag_id": "settlement__nightly", "task_id": "cut", "run_id": "manual__1", "try_number": 1,
        "dag_version_id": "01980000-0000-7000-8000-000000000001",
    }  # fmt: skip
    dag_run = {
        "dag_id": "settlement__nightly", "run_id": "manual__1", "logical_date": None, "data_interval_start": None,
        "data_interval_end": None, "run_after": now, "start_date": now, "end_date": None, "run_type": "manual",
        "state": "running", "conf": {}, "consumed_asset_events": [], "partition_key": "2026-11-19",
    }  # fmt: skip
    request = {
        "type": "TaskCallbackRequest", "filepath": "syncs.py", "bundle_name": "dags-folder", "bundle_version": None,
        "ti": ti, "task_callback_type": "failed",
        "context_from_server": {"dag_run": dag_run, "max_tries": 2, "task_reschedule_count": 0},
    }  # fmt: skip
    _execute_task_callbacks(bag, TaskCallbackRequest.model_validate(request), structlog.get_logger())
    result = platform.runs[results.RUN].result[FAILURE]
    assert (result["task"], "killed" in result["error"]) == ("cut", True)
