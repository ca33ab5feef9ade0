"""A run knows its date and its name, and a sync that is not enabled is refused with its reason."""

import asyncio
from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from seamline.domain.decision import DECISION, Decision, DecisionState
from seamline.domain.errors import (
    CommitUnknown,
    ConfigError,
    Fenced,
    GateFailed,
    InvariantViolated,
    PositionLost,
    Refused,
    TransientError,
)
from seamline.domain.runs import GATE, PUBLISH, RunKind, RunState, Scope, SyncState
from seamline.domain.verdict import Verdict
from seamline.plan.checks import ReconcileOnlyPlan
from seamline.plan.document import plan_to_json
from seamline.plan.model import TablePlan
from seamline.ports import Problem, WantedStream
from seamline_airflow import deadline, runs
from seamline_airflow.errors import task_errors
from seamline_airflow.operators.run_jobs import SnapshotJobOperator
from seamline_airflow.operators.step import (
    DayReportOperator,
    EnableOperator,
    PublishOperator,
    SourceCheckOperator,
    VerdictsOperator,
    WantStreamOperator,
)
from seamline_airflow.run_context import business_date, run_id, run_id_macro
from seamline_airflow.run_ends import RunOf
from tests.dags import results

ONBOARD = "settlement/onboard/-/manual__0"
HOLLOW = "nothing was compared: 0 rows in all tables. Is the source filled?"


def context(key: str | None = "2026-11-19", run_type: str = "manual", **params: Any) -> dict[str, Any]:
    return {
        "dag_run": SimpleNamespace(partition_key=key, run_id="manual__1", run_type=run_type),
        "params": params,
        "ti": SimpleNamespace(dag_id="settlement__stream"),
    }


def try_of(number: int) -> dict[str, Any]:
    return {"ti": SimpleNamespace(try_number=number, max_tries=2)}


@pytest.fixture
def platform(monkeypatch: pytest.MonkeyPatch) -> results.Platform:
    made = results.use(monkeypatch, results.Platform())
    made.start_run(run_id=ONBOARD, sync="settlement", kind="onboard", plan_json=plan_to_json(results.plan()))
    made.put_result(ONBOARD, PUBLISH, {"warehouse": str(results.POSITION)})
    return made


def test_the_business_date_is_the_partition_key_then_the_parameter() -> None:
    assert business_date(context()) == results.DATE
    assert business_date(context(None, business_date="2026-11-01")).isoformat() == "2026-11-01"
    with pytest.raises(ConfigError, match="no business date"):
        business_date(context(None))
    with pytest.raises(ConfigError, match="not a business date"):
        business_date(context("yesterday"))


def test_every_task_and_attempt_of_a_run_says_the_same_name() -> None:
    assert run_id(context(), sync="settlement", kind=RunKind.NIGHTLY) == results.RUN
    assert run_id(context(None), sync="s", kind=RunKind.ONBOARD) == "s/onboard/-/manual__1"
    rendered = run_id_macro("settlement", RunKind.NIGHTLY)(context()["dag_run"], {})
    assert rendered == results.RUN


@pytest.mark.parametrize("error", [ConfigError, PositionLost, Refused, GateFailed, Fenced, InvariantViolated])
def test_a_final_error_is_not_retried(error: Any) -> None:
    with pytest.raises(AirflowFailException, match="how to mend"), task_errors():
        raise error("what", hint="how to mend")


@pytest.mark.parametrize("error", [TransientError, CommitUnknown])
def test_what_may_recover_is_left_to_airflows_retries(error: Any) -> None:
    with pytest.raises(AirflowException) as raised, task_errors():
        raise error("what")
    assert not isinstance(raised.value, AirflowFailException)


@pytest.mark.parametrize(
    ("state", "reason"),
    [(None, "never onboarded"), (SyncState.ONBOARDING, "has not ended")],
)
def test_a_sync_that_is_not_enabled_is_refused_with_the_reason(
    platform: results.Platform, state: Any, reason: str
) -> None:
    platform.state = state
    with pytest.raises(Refused, match=reason):
        runs.open_nightly(context(), platform, results.plan(), results.RUN)
    with pytest.raises(Refused, match=reason):
        runs.open_reconcile(context(), platform, results.plan(), results.RUN)


def test_a_sync_that_only_compares_is_opened_without_an_onboarding(platform: results.Platform) -> None:
    mirror = replace(results.plan(), sync="mirror", nightly=None, reconcile_only=ReconcileOnlyPlan(60))
    runs.open_reconcile(context(None), platform, mirror, "mirror/reconcile/-/manual__1")
    opened = platform.run("mirror/reconcile/-/manual__1")
    assert (opened.kind, opened.plan) == (RunKind.RECONCILE, mirror)


def test_the_schedule_is_silent_until_the_sync_is_onboarded(platform: results.Platform) -> None:
    platform.state = None
    with pytest.raises(AirflowSkipException, match="not onboarded yet"):
        runs.open_nightly(context(run_type="scheduled"), platform, results.plan(), results.RUN)


def test_the_schedule_does_not_repeat_a_date_and_a_person_may(platform: results.Platform) -> None:
    platform.cut_list = [SimpleNamespace(run_id="other", verdict=Verdict.MATCH, destination="warehouse")]
    with pytest.raises(AirflowSkipException, match="published already"):
        runs.open_nightly(context(run_type="scheduled"), platform, results.plan(), results.RUN)
    for run_type in ("manual", "backfill"):
        runs.open_nightly(context(run_type=run_type), platform, results.plan(), results.RUN)
        assert platform.runs[results.RUN].business_date == results.DATE


def test_a_destination_that_is_not_onboarded_yet_lets_no_date_be_repeated(platform: results.Platform) -> None:
    archive = replace(results.destination_plan("archive", "archived"), name="archive")
    both = results.plan(destinations=(*results.plan().destinations, archive))
    platform.cut_list = [SimpleNamespace(run_id="other", verdict=Verdict.MATCH, destination="warehouse")]
    with pytest.raises(AirflowSkipException, match="published already"):
        runs.open_nightly(context(run_type="scheduled"), platform, both, results.RUN)


def test_a_date_whose_newest_version_is_a_break_is_not_done_for_the_schedule(platform: results.Platform) -> None:
    match, broken = (
        SimpleNamespace(run_id=str(verdict), verdict=verdict, destination="warehouse")
        for verdict in (Verdict.MATCH, Verdict.BREAK)
    )
    platform.cut_list = [broken, match]  # The newest version first.
    runs.open_nightly(context(run_type="scheduled"), platform, results.plan(), results.RUN)
    assert platform.runs[results.RUN].business_date == results.DATE
    platform.cut_list = [match, broken]
    with pytest.raises(AirflowSkipException, match="published already, by run MATCH"):
        runs.open_nightly(context(run_type="scheduled"), platform, results.plan(), results.RUN)


def test_a_scheduled_run_that_is_cleared_does_its_work_again(platform: results.Platform) -> None:
    platform.cut_list = [SimpleNamespace(run_id=results.RUN, verdict=Verdict.MATCH, destination="warehouse")]
    again = f"{results.RUN}~2"
    runs.open_nightly(context(run_type="scheduled"), platform, results.plan(), again)
    assert platform.runs[again].business_date == results.DATE


def test_the_night_of_a_sync_that_is_onboarded_again_is_red_and_not_skipped(platform: results.Platform) -> None:
    platform.state = SyncState.ONBOARDING
    platform.cut_list = [SimpleNamespace(run_id="other", verdict=Verdict.MATCH, destination="warehouse")]
    with pytest.raises(Refused, match="has not ended"):
        runs.open_nightly(context(run_type="scheduled"), platform, results.plan(), results.RUN)


def test_opening_a_run_twice_is_opening_it_once(platform: results.Platform) -> None:
    runs.open_nightly(context(), platform, results.plan(), results.RUN)
    platform.put_result(results.RUN, "cut", {"warehouse": 1})
    runs.open_nightly(context(), platform, results.plan(), results.RUN)
    assert platform.runs[results.RUN].result["cut"] == {"warehouse": 1}


def test_a_run_that_has_published_goes_on_under_a_new_name_when_it_is_cleared(platform: results.Platform) -> None:
    assert runs.take_of(platform, results.RUN) == results.RUN
    runs.open_nightly(context(), platform, results.plan(), results.RUN)
    assert runs.take_of(platform, results.RUN) == results.RUN
    platform.put_result(results.RUN, PUBLISH, {"warehouse": 1})
    assert runs.take_of(platform, results.RUN) == f"{results.RUN}~2"


@pytest.mark.parametrize(
    ("lines", "state", "is_left_as_it_is"),
    [
        (["warehouse: account BREAK, 1 breaks"], DecisionState.REJECTED, True),
        (["warehouse: account BREAK, 1 breaks"], DecisionState.EXPIRED, True),
        (["warehouse: account BREAK, 1 breaks"], None, True),
        (["warehouse: account BREAK, 1 breaks"], DecisionState.WAITING, False),
        ([], None, False),
    ],
)
def test_what_was_found_not_clean_stays_on_record_when_its_run_is_cleared(
    platform: results.Platform, lines: list[str], state: DecisionState | None, is_left_as_it_is: bool
) -> None:
    """A break and its rejection would be gone with the comparison that takes their place."""
    runs.open_nightly(context(), platform, results.plan(), results.RUN)
    platform.put_result(results.RUN, GATE, {"lines": lines})
    decision = Decision.asked(["approver"]).answered(state).to_json() if state else None
    platform.put_result(results.RUN, DECISION, decision)
    platform.finish_run(results.RUN, state=RunState.FAILED)
    taken = runs.take_of(platform, results.RUN)
    assert (taken != results.RUN) == is_left_as_it_is
    ends = RunOf("settlement", RunKind.NIGHTLY)
    for task, goes_on in (("cut", not is_left_as_it_is), ("gate", True)):
        ends.goes_on({**context(), "ti": SimpleNamespace(task_id=task)})
        assert (platform.runs[results.RUN].state is RunState.RUNNING) == goes_on


def test_a_snapshot_of_a_run_that_has_published_is_refused(platform: results.Platform) -> None:
    operator = SnapshotJobOperator(task_id="snapshot", job="spark_jobs/snapshot_load.py", run=ONBOARD)
    with pytest.raises(AirflowFailException, match="clear the task `preflight`"):
        operator.execute({})


def test_a_run_takes_todays_settings_and_the_tables_as_onboarded(platform: results.Platform) -> None:
    declared = results.plan(tables=tuple(replace(table, table=None) for table in results.plan().tables))
    declared = replace(declared, reconcile=replace(declared.reconcile, on_break="fail"))
    runs.open_nightly(context(), platform, declared, results.RUN)
    opened = platform.runs[results.RUN].plan
    assert opened.reconcile.on_break == "fail"
    assert opened.table("account").definition.key == ("id",)


def test_a_table_that_was_not_onboarded_stops_the_run(platform: results.Platform) -> None:
    declared = results.plan(tables=(*results.plan().tables, TablePlan("fees")))
    with pytest.raises(Refused, match="fees"):
        runs.open_nightly(context(), platform, declared, results.RUN)


def test_a_sync_is_enabled_only_by_a_match(platform: results.Platform, capsys: pytest.CaptureFixture[str]) -> None:
    platform.state = SyncState.ONBOARDING
    operator = EnableOperator(task_id="enable", run=ONBOARD)
    with pytest.raises(AirflowFailException, match="did not run"):
        operator.execute({})
    tables = (results.table("account", Verdict.INCONCLUSIVE, reason="lease ended"), results.table("ledger_entry"))
    platform.found = [results.reconciliation(*tables, run_id=ONBOARD, scope=Scope.LIVE)]
    with pytest.raises(AirflowFailException, match="lease ended"):
        operator.execute({})
    assert platform.state is SyncState.ONBOARDING
    platform.found = [replace(results.clean(), run_id=ONBOARD, scope=Scope.LIVE)]
    operator.execute({})
    assert platform.state is SyncState.ENABLED
    assert HOLLOW not in capsys.readouterr().out
    # A bank that nobody has filled yet: right, and worth a loud word.
    empty = replace(results.table("account"), source_rows=0, destination_rows=0)
    platform.found = [results.reconciliation(empty, run_id=ONBOARD, scope=Scope.LIVE)]
    operator.execute({})
    assert HOLLOW in capsys.readouterr().out


def test_an_onboarding_that_fails_before_it_publishes_leaves_everything_as_it_was(platform: results.Platform) -> None:
    wider = results.plan(
        tables=(*results.plan().tables, TablePlan("fees", None, results.plan().table("account").definition))
    )
    runs.open_onboarding(platform, wider, "settlement/onboard/-/manual__2")
    assert platform.state is SyncState.ENABLED
    runs.open_nightly(context(), platform, results.plan(), results.RUN)
    assert {table.name for table in platform.runs[results.RUN].plan.tables} == {"account", "ledger_entry"}
    assert _want().execute(context()) == ["settlement@warehouse"]
    assert platform.wants == [(results.STREAM, plan_to_json(results.plan()))]


def test_a_sync_is_onboarding_from_its_first_try_and_again_from_each_publish(
    platform: results.Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[SyncState | None] = []

    def lost(_run: Any, _records: Any) -> Any:
        seen.append(platform.state)
        raise CommitUnknown("the answer was lost")

    platform.state = None
    runs.open_onboarding(platform, results.plan(), "settlement/onboard/-/manual__2")
    assert platform.state is SyncState.ONBOARDING
    platform.state = SyncState.ENABLED
    monkeypatch.setattr("seamline_airflow.onboarding.publish", lost)
    with pytest.raises(AirflowException, match="lost"):
        PublishOperator(task_id="publish", run="settlement/onboard/-/manual__2").execute(try_of(1))
    assert seen == [SyncState.ONBOARDING]
    assert platform.state is SyncState.ONBOARDING


def _want() -> WantStreamOperator:
    return WantStreamOperator(task_id="want", plan_json=plan_to_json(results.plan()))


def test_a_stream_that_runs_by_its_plan_is_left_alone(platform: results.Platform) -> None:
    platform.wanted_streams = (WantedStream(results.STREAM, plan_to_json(results.plan().of_stream("warehouse")), 1),)
    platform.reports = {results.STREAM: results.report()}
    assert _want().execute(context()) == []
    assert platform.wants == []


def test_a_stream_that_is_down_or_has_another_plan_is_wanted_again(platform: results.Platform) -> None:
    platform.wanted_streams = (WantedStream(results.STREAM, plan_to_json(results.plan().of_stream("warehouse")), 1),)
    platform.reports = {results.STREAM: results.report(state="failed")}
    assert _want().execute(context()) == ["settlement@warehouse"]
    platform.reports = {results.STREAM: results.report()}
    platform.wanted_streams = (WantedStream(results.STREAM, "{}", 1),)
    assert _want().execute(context()) == ["settlement@warehouse"]


def test_a_stream_that_was_cut_off_is_not_wanted_again_by_itself(platform: results.Platform) -> None:
    platform.streams_cut_off = {results.STREAM}
    assert _want().execute(context()) == []
    assert platform.wants == []


def test_no_stream_stands_for_a_date_before_the_sync_is_enabled(platform: results.Platform) -> None:
    platform.state = None
    with pytest.raises(AirflowSkipException, match="not enabled"):
        _want().execute(context())


def _report(states: dict[str, str]) -> Any:
    here = context()
    here["ti"] = SimpleNamespace(dag_id="settlement__stream", get_task_states=lambda **_: {"manual__1": states})
    operator = DayReportOperator(task_id="report", sync="settlement", destinations=["warehouse"], timezone="UTC")
    return operator.execute(here)


def test_the_days_report_is_as_red_as_its_watch(platform: results.Platform) -> None:
    platform.reports = {results.STREAM: results.report(findings=2)}
    assert _report({"want": "success", "check": "success", "watch": "success"})["warehouse"]["findings"] == 2
    with pytest.raises(AirflowFailException, match="watch of this date is failed"):
        _report({"want": "success", "check": "success", "watch": "failed"})
    with pytest.raises(AirflowFailException, match="source's check is failed"):
        _report({"want": "success", "check": "failed", "watch": "success"})
    with pytest.raises(AirflowFailException, match="upstream_failed"):
        _report({"want": "failed", "watch": "upstream_failed"})
    with pytest.raises(AirflowSkipException):
        _report({"want": "skipped", "watch": "skipped"})


def test_the_source_is_checked_every_day_for_the_tables_that_are_carried(
    platform: results.Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    problems = [Problem("binlog_row_image is MINIMAL", "SET GLOBAL binlog_row_image = FULL")]
    source = SimpleNamespace(preflight=lambda tables: asked.append(tables) or tuple(problems))
    monkeypatch.setattr("seamline_airflow.parts.source", lambda plan: nullcontext(source))
    of_capture: list[Problem] = []
    monkeypatch.setattr("seamline.registry.capture_problems", lambda plan: tuple(of_capture))
    operator = SourceCheckOperator(task_id="check", plan_json=plan_to_json(results.plan()))
    with pytest.raises(AirflowFailException, match="MINIMAL"):
        operator.execute(context())
    assert [table.name for table in asked[0]] == ["account", "ledger_entry"]
    problems[0] = replace(problems[0], is_fatal=False)
    assert operator.execute(context()) == 1
    of_capture.append(Problem("connector 9.9 was not tested", "install a tested one"))
    with pytest.raises(AirflowFailException, match=r"9\.9"):
        operator.execute(context())


def test_what_is_wrong_with_a_source_is_reported_also_while_connect_is_away(
    platform: results.Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    problems = [Problem("binlog_row_image is MINIMAL", "SET GLOBAL binlog_row_image = FULL")]
    source = SimpleNamespace(preflight=lambda tables: tuple(problems))
    monkeypatch.setattr("seamline_airflow.parts.source", lambda plan: nullcontext(source))

    def away(plan: Any) -> Any:
        raise TransientError("Connect is not ready")

    monkeypatch.setattr("seamline.registry.capture_problems", away)
    operator = SourceCheckOperator(task_id="check", plan_json=plan_to_json(results.plan()))
    with pytest.raises(AirflowFailException, match="MINIMAL"):
        operator.execute(context())
    problems.clear()
    with pytest.raises(AirflowException, match="not ready"):
        operator.execute(context())


def test_a_verdict_that_is_late_opens_an_alarm_and_ends_it_when_it_comes(platform: results.Platform) -> None:
    asyncio.run(deadline.verdict_is_late("settlement", context={"dag_run": {"partition_key": "2026-11-19"}}))
    assert list(platform.alarms) == [("verdict_late", "settlement 2026-11-19")]
    runs.open_nightly(context(), platform, results.plan(), results.RUN)
    platform.found = [results.clean()]
    VerdictsOperator(task_id="verdicts", run=results.RUN, scope="cut").execute({})
    assert platform.alarms == {}


def test_the_hour_of_the_verdict_counts_from_the_start_of_the_run() -> None:
    nightly = replace(results.plan().nightly, verdict_by="07:00", run_at_delay_minutes=30)  # type: ignore[type-var]
    found = deadline.verdict_deadline(results.plan(nightly=nightly))
    assert found is not None
    assert found.interval == timedelta(hours=6, minutes=30)
    by_default = deadline.verdict_deadline(results.plan())
    assert by_default is not None and by_default.interval == timedelta(hours=6)
    assert deadline.verdict_deadline(replace(results.plan(), nightly=None)) is None


def test_a_run_that_waits_for_a_person_has_its_verdict_and_opens_no_alarm(platform: results.Platform) -> None:
    runs.open_nightly(context(), platform, results.plan(), results.RUN)
    platform.found = [results.clean()]
    asyncio.run(deadline.verdict_is_late("settlement", context={"dag_run": {"partition_key": str(results.DATE)}}))
    assert platform.alarms == {}
