"""What a person may ask of a nightly run, by the form or by a partition key; what is wrong is refused before Spark."""

import asyncio
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.definitions.param import ParamsDict
from airflow.sdk.exceptions import AirflowFailException, ParamValidationError

from seamline.domain.calendar import date_at
from seamline.domain.runs import ASKED_BY, MODE, ONLY_TABLES, PUBLISH, REASON, NightlyMode, RunKind, RunState
from seamline.domain.verdict import Verdict
from seamline.plan.document import plan_to_json
from seamline.plan.model import DerivedTablePlan, ParkedTable
from seamline_airflow import deadline
from seamline_airflow.nightly_form import form
from seamline_airflow.operators.gate import NOT_CLEAN, GateOperator
from seamline_airflow.operators.publish_cut import PublishCutOperator
from seamline_airflow.operators.run_jobs import OpenNightlyOperator
from seamline_airflow.operators.step import VerdictsOperator
from tests.dags import results

PLAN = results.plan(
    derived=(DerivedTablePlan("per_day", "account", "balance", ()),), parked=(ParkedTable("audit", "on Monday"),)
)
ZONE = "Asia/Shanghai"
COMPARE = {MODE: NightlyMode.COMPARE_ONLY.value}


@pytest.fixture
def platform(monkeypatch: pytest.MonkeyPatch) -> results.Platform:
    made = results.use(monkeypatch, results.Platform())
    made.start_run(run_id="o", sync="settlement", kind="onboard", plan_json=plan_to_json(PLAN))
    made.put_result("o", PUBLISH, {"warehouse": ""})
    return made


def _open(platform: results.Platform, key: str | None = None, **filled: Any) -> Any:
    """As the task `open` is run: with the form's values, those that nobody filled in as they are declared."""
    params = ParamsDict(form(PLAN))
    params.update(filled)
    dag_run = SimpleNamespace(partition_key=key, run_id="manual__1", run_type="manual", triggering_user_name="operator")
    operator = OpenNightlyOperator(task_id="open", plan_json=plan_to_json(PLAN))
    return platform.runs[operator.execute({"dag_run": dag_run, "params": params.validate()})]


def _refused(platform: results.Platform, match: str, key: str | None = None, **filled: Any) -> None:
    """Final, so that no retry holds the nightly's only slot; and nothing is left that looks like a run."""
    with pytest.raises(AirflowFailException, match=match):
        _open(platform, key, **filled)
    assert set(platform.runs) == {"o"}
    assert platform.finished == {}


@pytest.mark.parametrize(("key", "chosen"), [(None, "2026-11-19"), ("2026-11-19", None), ("2026-11-19", "2026-11-19")])
def test_the_date_comes_from_the_form_or_as_partition_key(
    platform: results.Platform, key: str | None, chosen: str | None
) -> None:
    run = _open(platform, key, business_date=chosen)
    assert (run.run_id, run.business_date, run.kind) == (results.RUN, results.DATE, RunKind.NIGHTLY)


def test_a_run_without_a_date_and_one_with_two_are_refused_with_the_cure(platform: results.Platform) -> None:
    _refused(platform, r"no business date[^→]*→ choose one in the form of \*Trigger\*, or give it as business_date")
    _refused(platform, "two business dates: the partition key says 2026-11-19, the form says 2026-11-18",
             "2026-11-19", business_date="2026-11-18")  # fmt: skip


@pytest.mark.parametrize("key", ["26/11/2026", "20261126", "2026-W48-4", "yesterday"])
def test_a_date_that_is_none_is_refused_by_the_form_and_by_the_run(platform: results.Platform, key: str) -> None:
    _refused(platform, "not a business date.*\n.*write it as YYYY-MM-DD", key)
    with pytest.raises(ParamValidationError, match="business_date"):
        ParamsDict(form(PLAN)).update({"business_date": key})


def test_a_date_that_has_not_ended_in_the_zone_of_the_sync_is_refused(platform: results.Platform) -> None:
    today = date_at(datetime.now(UTC), timezone=ZONE)
    newest = f"00:00 in {ZONE}.*\n.*the newest date that has ended is {today - timedelta(days=1)}"
    for chosen in (today, today + timedelta(days=400)):
        _refused(platform, f"{chosen} has not ended.*{newest}", business_date=str(chosen))
    assert _open(platform, business_date=str(today - timedelta(days=1))).business_date < today


def test_what_was_asked_stays_with_the_run(platform: results.Platform) -> None:
    result = _open(platform, business_date="2026-11-19", reason=" late\n file ", **COMPARE).result
    assert [result[key] for key in (MODE, REASON, ASKED_BY)] == ["compare only", "late file", "operator"]
    assert result[ONLY_TABLES] == []
    result = _open(platform, "2026-11-19").result
    assert [result[key] for key in (MODE, REASON, ASKED_BY)] == ["publish", "", "operator"]


def test_some_of_the_tables_can_be_compared_and_never_published(platform: results.Platform) -> None:
    filled = {"business_date": "2026-11-19", "tables": ["ledger_entry"]}
    _refused(platform, "only ledger_entry cannot be published", **filled)
    _refused(platform, "has no table fees.*\n.*account, ledger_entry", **COMPARE, **{**filled, "tables": ["fees"]})
    run = _open(platform, **filled, **COMPARE)
    assert [table.name for table in run.plan.tables] == run.result[ONLY_TABLES] == ["ledger_entry"]
    assert (run.plan.derived, run.plan.parked) == ((), ())
    assert run.plan.reconcile == PLAN.reconcile
    account = _open(platform, "2026-11-18", tables=["account"], **COMPARE).plan
    assert (account.derived, account.reconcile.control_totals) == (PLAN.derived, ())


def test_a_comparison_that_is_clean_ends_at_the_gate_without_a_version(platform: results.Platform) -> None:
    _compared(platform, Verdict.MATCH)
    about = "settlement 2026-11-19"
    platform.alarms = {(deadline.ALARM, about): "late", (NOT_CLEAN, about): "before"}
    VerdictsOperator(task_id="verdicts", run=results.RUN, scope="cut").execute({})
    assert GateOperator(task_id="gate", run=results.RUN, on_break="ask").choose_branch({}) is None
    assert platform.runs[results.RUN].state is RunState.SUCCEEDED
    # Of the night that is still to come, and of the version that is published, it says nothing.
    assert len(platform.alarms) == 2


@pytest.mark.parametrize("on_break", ["ask", "fail", "publish_and_flag"])
def test_a_comparison_that_is_not_clean_is_red_and_asks_nobody(platform: results.Platform, on_break: str) -> None:
    _compared(platform, Verdict.BREAK)
    with pytest.raises(AirflowFailException, match="compared only, and not clean: warehouse: account BREAK"):
        GateOperator(task_id="gate", run=results.RUN, on_break=on_break).choose_branch({})
    assert platform.alarms == {}


def test_what_was_only_compared_is_not_published_by_clearing_a_task(platform: results.Platform) -> None:
    _compared(platform, Verdict.MATCH)
    with pytest.raises(AirflowFailException, match="compares only"):
        PublishCutOperator(task_id="publish", run=results.RUN).execute({})
    assert platform.cut_list == []


def _compared(platform: results.Platform, verdict: Verdict) -> None:
    platform.runs[results.RUN] = replace(results.run(), result={**results.run().result, **COMPARE})
    platform.found = [results.reconciliation(results.table("account", verdict), results.table("ledger_entry"))]


def test_the_event_of_a_cut_bears_the_date_also_where_the_run_has_no_partition_key(
    platform: results.Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reconcile DAG of the date follows it."""
    from airflow.sdk import Asset
    from airflow.sdk.execution_time.context import OutletEventAccessors
    from airflow.sdk.execution_time.task_runner import _serialize_outlet_events

    platform.runs[results.RUN] = results.run()
    cut = SimpleNamespace(version=2, business_date=results.DATE, verdict=Verdict.MATCH)
    monkeypatch.setattr("seamline.sync.cut.publish_cut", lambda *_, **__: cut)
    monkeypatch.setattr("seamline_airflow.parts.cut_publisher", lambda *_: nullcontext())
    platform.found = [results.clean()]
    GateOperator(task_id="gate", run=results.RUN, on_break="ask").choose_branch({})
    asset, events = Asset("settlement.cut", "seamline://settlement/cut"), OutletEventAccessors()
    context = {"ti": SimpleNamespace(xcom_pull=lambda **_: None), "outlet_events": events}
    PublishCutOperator(task_id="publish", run=results.RUN, outlets=[asset]).execute(context)
    (event,) = _serialize_outlet_events(events)
    assert event["partition_key"] == "2026-11-19"
    assert event["extra"]["versions"] == {"warehouse": 2}


def test_a_late_verdict_names_the_date_of_the_form_too(platform: results.Platform) -> None:

    asyncio.run(deadline.verdict_is_late("settlement", context={"dag_run": {"conf": {"business_date": "2026-11-19"}}}))
    assert list(platform.alarms) == [("verdict_late", "settlement 2026-11-19")]
