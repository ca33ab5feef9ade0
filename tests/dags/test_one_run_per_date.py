"""Two runs of one business date never work side by side; tonight's never waits behind a backfill."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from airflow.sdk.exceptions import AirflowRescheduleException, AirflowSkipException

from seamline import settings
from seamline.domain.runs import (
    AGAIN,
    EXPECTATIONS,
    FAILURE,
    KEEP_DONE,
    KEPT,
    MODE,
    PUBLISH,
    TOOK_NOTHING,
    NightlyMode,
    RunState,
)
from seamline.domain.verdict import Verdict
from seamline.plan.document import plan_to_json
from seamline.plan.pools import BACKFILL, BACKFILL_SLOTS, declared_pools, pools_of
from seamline.sync.cut import staged_in
from seamline.sync.dates_asked import DateTaken
from seamline_airflow import policy, pools
from seamline_airflow.nightly_form import form
from seamline_airflow.one_run_per_date import LOOK_AGAIN, airflow_run, alone
from seamline_airflow.operators.gate import GateOperator
from seamline_airflow.operators.publish_cut import CompleteCutOperator
from seamline_airflow.operators.run_jobs import CutJobOperator, OpenNightlyOperator
from seamline_airflow.operators.step import VerdictsOperator
from tests.dags import results
from tests.dags.test_dag_run import dag_of

OTHER = "settlement/nightly/2026-11-19/backfill__1~2"


@pytest.fixture
def platform(monkeypatch: pytest.MonkeyPatch) -> results.Platform:
    made = results.use(monkeypatch, results.Platform())
    made.start_run(run_id="o", sync="settlement", kind="onboard", plan_json=plan_to_json(results.plan()))
    made.put_result("o", PUBLISH, {"warehouse": ""})
    return made


class Tries:
    """A task's own side, and what Airflow says of other runs."""

    def __init__(self, *, alive: set[str], max_tries: int = 0) -> None:
        self.alive, self.max_tries = alive, max_tries

    def get_dr_count(self, dag_id: str, *, run_ids: list[str], states: list[str]) -> int:
        assert (dag_id, states) == ("settlement__nightly", ["queued", "running"])
        return len(self.alive.intersection(run_ids))


def _open(ti: Tries, **params: Any) -> None:
    dag_run = SimpleNamespace(
        dag_id="settlement__nightly", partition_key="2026-11-19", run_id="manual__1", run_type="manual"
    )
    operator = OpenNightlyOperator(task_id="open", plan_json=plan_to_json(results.plan()))
    operator.execute({"dag_run": dag_run, "params": params, "ti": ti, "task": operator})


def _other_goes_on(platform: results.Platform) -> None:
    platform.runs[OTHER] = replace(results.run(), run_id=OTHER)


def test_a_second_run_of_a_date_waits_and_names_the_first(platform: results.Platform) -> None:
    _other_goes_on(platform)
    before = datetime.now(UTC)
    with pytest.raises(AirflowRescheduleException) as waits:
        _open(Tries(alive={"backfill__1"}))
    assert waits.value.reschedule_date >= before + LOOK_AGAIN
    assert results.RUN not in platform.runs
    log, here = Mock(), {"dag_run": SimpleNamespace(dag_id="settlement__nightly"), "ti": Tries(alive={"backfill__1"})}
    taken = Mock(side_effect=DateTaken(results.DATE, by=OTHER, sync="settlement"))
    with pytest.raises(AirflowRescheduleException):
        alone(here, platform, log, taken)
    assert f"2026-11-19 is taken by run {OTHER}, which goes on" in str(log.info.call_args.args[1])
    platform.finish_run(OTHER, state="succeeded")
    _open(Tries(alive=set()))
    assert platform.runs[results.RUN].state is RunState.RUNNING


def test_a_run_that_was_killed_without_a_word_takes_its_date_from_nobody(platform: results.Platform) -> None:
    _other_goes_on(platform)
    _open(Tries(alive={"backfill__7"}))
    assert platform.finished[OTHER] == "failed"
    assert "over in Airflow" in platform.runs[OTHER].result[FAILURE]["error"]
    assert platform.runs[results.RUN].state is RunState.RUNNING


def test_runs_of_other_dates_and_takes_of_this_run_are_not_in_the_way(platform: results.Platform) -> None:
    before = results.RUN.replace("11-19", "11-18")
    platform.runs[before] = replace(results.run(), run_id=before, business_date=results.DATE - timedelta(days=1))
    platform.runs[results.RUN] = results.published()
    platform.runs[f"{results.RUN}~2"] = replace(results.run(), run_id=f"{results.RUN}~2")
    _open(Tries(alive={"manual__1"}))
    assert set(platform.finished) == set()


def test_a_backfill_keeps_what_is_done_unless_it_is_asked_for_again(platform: results.Platform) -> None:
    cut = SimpleNamespace(destination="warehouse", verdict=Verdict.MATCH, run_id="settlement/nightly/x/night")
    platform.cut_list = [cut]
    with pytest.raises(AirflowSkipException, match="is published already, by run settlement/nightly/x/night"):
        _open(Tries(alive=set()), **{KEEP_DONE: True})
    _open(Tries(alive=set()))
    assert results.RUN in platform.runs
    del platform.runs[results.RUN]
    # A person who clears the task that was skipped wants it done.
    _open(Tries(alive=set(), max_tries=1), **{KEEP_DONE: True})
    assert results.RUN in platform.runs
    del platform.runs[results.RUN]
    _open(Tries(alive=set()), **{KEEP_DONE: True, MODE: NightlyMode.COMPARE_ONLY.value})
    assert results.RUN in platform.runs, "what is published is compared again where that is asked for"
    assert form(results.plan())[KEEP_DONE].value is False


def test_a_break_is_not_done(platform: results.Platform) -> None:
    platform.cut_list = [SimpleNamespace(destination="warehouse", verdict=Verdict.BREAK, run_id="a/b/c/d")]
    _open(Tries(alive=set()), **{KEEP_DONE: True})
    assert results.RUN in platform.runs


@pytest.mark.parametrize(
    ("before", "max_tries", "again"),
    [
        (RunState.SUCCEEDED, 1, True),
        # Airflow's own retry, and one that had failed: another run may have taken the delivery since.
        (RunState.SUCCEEDED, 0, False),
        (RunState.FAILED, 1, None),
        (None, 1, False),
    ],
)
def test_a_task_that_is_cleared_behind_a_good_end_asks_for_the_date_again(
    platform: results.Platform, before: RunState | None, max_tries: int, again: bool | None
) -> None:
    if before is not None:
        platform.runs[results.RUN] = results.run(state=before, result={})
    _open(Tries(alive=set(), max_tries=max_tries))
    assert platform.runs[results.RUN].result.get(AGAIN) is again
    platform.finish_run(results.RUN, state="failed")
    _open(Tries(alive=set(), max_tries=2))
    assert platform.runs[results.RUN].result.get(AGAIN) is again, "what was asked for is asked for still"


def test_a_published_run_that_is_cleared_takes_its_delivery_once_more_as_its_next_take(
    platform: results.Platform,
) -> None:
    platform.runs[results.RUN] = results.published()
    _open(Tries(alive=set(), max_tries=1))
    assert platform.runs[f"{results.RUN}~2"].result[AGAIN] is True


def _cut(platform: results.Platform, monkeypatch: pytest.MonkeyPatch, *kept: str, is_followed: bool = False) -> None:
    """The task `cut`, whose job finds that these destinations have the delivery. `is_followed`: the job is that of an
    earlier try, whose worker died, and has found that already."""
    found = {name: {"run": "earlier", "version": 1, "why": f"taken already in {name}"} for name in kept}

    def job(*_: object) -> None:
        if not is_followed:
            platform.put_result(results.RUN, KEPT, found)

    warehouse = results.plan().destinations[0]
    both = replace(results.plan(), destinations=(warehouse, replace(warehouse, name="archive")))
    monkeypatch.setattr("seamline_airflow.operators.spark_job.SparkJobOperator.execute", job)
    platform.runs[results.RUN] = results.run(plan=both, result={KEPT: found} if is_followed else {})
    monkeypatch.setattr("seamline_airflow.runs.open_nightly", lambda *_: None)
    CutJobOperator(task_id="cut", job="j", run=results.RUN, plan_json=plan_to_json(both)).execute({})


def test_what_a_job_has_found_in_force_stands_for_the_try_that_follows_it(
    platform: results.Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was forgotten when the try began, so the gate missed cuts that nobody had to make."""
    _cut(platform, monkeypatch, "warehouse", is_followed=True)
    assert [one.name for one in staged_in(platform.runs[results.RUN])] == ["archive"]
    with pytest.raises(AirflowSkipException, match="taken already in warehouse"):
        _cut(platform, monkeypatch, "warehouse", "archive", is_followed=True)


def test_a_run_that_has_taken_nothing_is_seen_again_once_it_is_opened_again(platform: results.Platform) -> None:
    """It was left out of the lists until its job began: also where it never did."""
    left = {KEPT: {"warehouse": {}}, TOOK_NOTHING: True}
    platform.runs[results.RUN] = results.run(state=RunState.SUCCEEDED, result=left)
    _open(Tries(alive=set(), max_tries=1))
    assert [platform.runs[results.RUN].result[key] for key in (KEPT, TOOK_NOTHING)] == [None, None]


def test_a_run_that_has_nothing_to_take_ends_well_and_skips_what_would_come_behind(
    platform: results.Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It failed, and its date was red from then on."""
    with pytest.raises(AirflowSkipException, match="taken already in warehouse; taken already in archive; nothing was"):
        _cut(platform, monkeypatch, "warehouse", "archive")
    assert platform.finished == {results.RUN: "succeeded"}


def test_a_run_that_one_destination_needs_goes_on_for_that_one_alone(
    platform: results.Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    _cut(platform, monkeypatch, "warehouse")
    run = platform.runs[results.RUN]
    run.result["cut"] = {"archive": results.manifest()}
    assert (platform.finished, [one.name for one in staged_in(run)]) == ({}, ["archive"])
    platform.found = [replace(results.clean(), destination="archive")]
    VerdictsOperator(task_id="verdicts", run=results.RUN, scope="cut").execute({})
    run.result[EXPECTATIONS] = {"destinations": {"archive": results.PASSED}}
    gate = GateOperator(task_id="gate", run=results.RUN, on_break="fail")
    assert (gate.choose_branch({}), platform.alarms) == ("publish", {})
    run.result[PUBLISH] = {"archive": 1}
    CompleteCutOperator(task_id="complete", run=results.RUN).execute({})


def test_the_run_in_airflow_is_known_from_ours() -> None:
    assert airflow_run(OTHER) == "backfill__1"
    assert airflow_run("a/nightly/2026-11-19/scheduled__2026-11-20T00:30:00+08:00") == (
        "scheduled__2026-11-20T00:30:00+08:00"
    )


# ---- the pool of backfills ----------------------------------------------------------------------------------------


def _task(dag_id: str, run_id: str) -> Any:
    return SimpleNamespace(dag_id=dag_id, run_id=run_id, pool="source_core_bank", priority_weight=40)


def test_tasks_of_a_backfill_wait_in_their_own_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEAMLINE_POOLS", "1")
    assert BACKFILL in {pool.name for pool in pools_of([])}
    tonight, past = _task("a__nightly", "scheduled__1"), _task("a__nightly", "backfill__2026-11-19")
    theirs = _task("their__etl", "backfill__1")
    for task in (tonight, past, theirs):
        policy.task_instance_mutation_hook(task)
    assert [task.pool for task in (tonight, past, theirs)] == ["source_core_bank", BACKFILL, "source_core_bank"]
    assert past.priority_weight < tonight.priority_weight
    monkeypatch.delenv("SEAMLINE_POOLS")
    past = _task("a__nightly", "backfill__2026-11-19")
    policy.task_instance_mutation_hook(past)
    assert (past.pool, past.priority_weight) == ("source_core_bank", 1)


@pytest.mark.parametrize(
    ("key", "pool"), [("2026-11-19", BACKFILL), ("2026-11-28", "source_core_bank"), (None, "source_core_bank")]
)
def test_the_comparison_behind_the_cut_of_an_old_date_waits_there_too(
    monkeypatch: pytest.MonkeyPatch, key: str | None, pool: str
) -> None:
    monkeypatch.setenv("SEAMLINE_POOLS", "1")
    task = _task("a__reconcile", "asset_triggered__1")
    run = SimpleNamespace(partition_key=key, run_after=datetime(2026, 11, 29, tzinfo=UTC))
    policy.task_instance_mutation_hook(task, run)
    assert task.pool == pool


def test_pools_are_made_in_airflows_database_once_and_a_resized_one_keeps_its_size(airflow_database: Path) -> None:
    """As in containers, where nobody calls `up`."""
    from airflow.models.pool import Pool
    from airflow.utils.session import create_session
    from sqlalchemy import delete, select, update

    wanted = {pool.name: pool.slots for pool in declared_pools(settings.load().declarations)}
    assert BACKFILL in wanted and "source_core_bank" in wanted
    try:
        assert set(pools.make()) == wanted.keys()
        with create_session() as session:
            session.execute(update(Pool).where(Pool.pool == BACKFILL).values(slots=7))
        assert pools.make() == []
        with create_session() as session:
            found = {pool.pool: pool.slots for pool in session.scalars(select(Pool)) if pool.pool in wanted}
        assert found == {**wanted, BACKFILL: 7}
    finally:
        with create_session() as session:
            session.execute(delete(Pool).where(Pool.pool.in_(wanted)))


def test_tonights_run_is_never_behind_a_backfill(
    checkout: Path, airflow_database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By Airflow's own scheduler: a month waits, as many dates at once as were asked for, and then the night comes."""
    from airflow.jobs.job import Job
    from airflow.jobs.scheduler_job_runner import SchedulerJobRunner
    from airflow.models.backfill import Backfill, BackfillDagRun, ReprocessBehavior, _create_backfill
    from airflow.models.dag import DagModel
    from airflow.models.dagrun import DagRun
    from airflow.models.deadline import Deadline
    from airflow.models.pool import Pool
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session
    from airflow.utils.state import DagRunState, TaskInstanceState
    from airflow.utils.types import DagRunTriggeredByType, DagRunType
    from sqlalchemy import delete, select, update

    monkeypatch.setenv("SEAMLINE_POOLS", "1")
    dag_id = "settlement__nightly"
    dag_of(checkout, dag_id)
    made = _create_backfill(
        dag_id=dag_id, from_date=datetime(2026, 10, 1, tzinfo=UTC), to_date=datetime(2026, 10, 31, tzinfo=UTC),
        max_active_runs=30, reverse=True, dag_run_conf={}, triggering_user_name="operator",
        reprocess_behavior=ReprocessBehavior.COMPLETED,
    )  # fmt: skip
    runner = SchedulerJobRunner(job=Job())
    pools.make()
    try:
        with create_session() as session:
            session.execute(update(DagModel).where(DagModel.dag_id == dag_id).values(is_paused=False))
            dag = SerializedDagModel.get_dag(dag_id, session=session)
            dag.create_dagrun(
                run_id="scheduled__tonight", run_after=datetime.now(UTC) - timedelta(minutes=1),
                run_type=DagRunType.SCHEDULED,
                triggered_by=DagRunTriggeredByType.TIMETABLE, state=DagRunState.QUEUED, partition_key="2026-11-27",
                session=session,
            )  # fmt: skip
            session.flush()
            due = session.scalars(select(DagRun.run_id).join(Deadline).where(DagRun.dag_id == dag_id)).all()
            assert due == ["scheduled__tonight"], "dates of a backfill wait their turn, and are late for nobody"
        with create_session() as session:
            for _ in range(4):
                runner._start_queued_dagruns(session)
                session.flush()
            running = list(session.scalars(select(DagRun).where(DagRun.dag_id == dag_id, DagRun.state == "running")))
            assert "scheduled__tonight" in {run.run_id for run in running}
            assert len(running) > 20, "the backfill has as many dates at once as were asked for"
            wanted = update(TaskInstance).where(TaskInstance.dag_id == dag_id, TaskInstance.task_id == "cut")
            session.execute(wanted.values(state=TaskInstanceState.SCHEDULED))
            session.flush()
            queued = runner._executable_task_instances_to_queued(max_tis=32, session=session)
            assert queued[0].run_id == "scheduled__tonight", "it comes first"
            assert queued[0].pool == "source_core_bank"
            assert [task.pool for task in queued[1:]] == [BACKFILL] * BACKFILL_SLOTS, "the others leave slots free"
            session.rollback()
    finally:
        with create_session() as session:
            session.execute(delete(BackfillDagRun).where(BackfillDagRun.backfill_id == made.id))
            session.execute(delete(DagRun).where(DagRun.dag_id == dag_id))
            session.execute(delete(Backfill).where(Backfill.id == made.id))
            session.execute(delete(Pool).where(Pool.pool != "default_pool"))
