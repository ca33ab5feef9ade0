"""A whole run inside Airflow, on a temporary SQLite: the comparison starts its driver, its verdict colours the run."""

import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from seamline.domain.runs import FAILURE, PUBLISH, RunKind, Scope
from seamline.domain.verdict import Verdict
from seamline.plan.compile import compile_plan
from seamline.plan.document import plan_to_json
from seamline.spec.load import load_sync
from seamline_airflow.operators import spark_job
from tests.dags import results
from tests.integration.platform_database import Server


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows_of_drivers: Server) -> Path:
    """A driver's Python that notes its last argument, the run."""
    programs = tmp_path / "bin"
    programs.mkdir()
    python = programs / "python"
    python.write_text(f'#!/bin/sh\nfor last; do :; done\necho "$last" >> {tmp_path}/runs\n')
    python.chmod(stat.S_IRWXU)
    monkeypatch.setattr(spark_job, "_PYTHON", str(python))
    return tmp_path / "runs"


@pytest.fixture
def platform(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> results.Platform:
    made = results.use(monkeypatch, results.Platform())
    declared = compile_plan(load_sync(checkout / "include" / "syncs" / "settlement.yaml"), "settlement")
    made.start_run(run_id="o", sync="settlement", kind=RunKind.ONBOARD, plan_json=plan_to_json(declared))
    made.put_result("o", PUBLISH, {"warehouse": {}})
    return made


def dag_of(checkout: Path, dag_id: str) -> Any:
    from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db

    bag = DagBag(dag_folder=checkout / "dags", bundle_path=checkout / "dags", bundle_name="dags-folder")
    from airflow.dag_processing.bundles.manager import DagBundlesManager

    DagBundlesManager().sync_bundles_to_db()
    sync_bag_to_db(bag, "dags-folder", None)
    return bag.dags[dag_id]


@pytest.mark.parametrize(("verdict", "colour"), [(Verdict.MATCH, "success"), (Verdict.BREAK, "failed")])
def test_a_comparison_on_demand_is_as_green_as_its_verdict(
    checkout: Path,
    airflow_database: Path,
    driver: Path,
    platform: results.Platform,
    monkeypatch: pytest.MonkeyPatch,
    verdict: Verdict,
    colour: str,
) -> None:
    def saved(run_id: str, scope: str, destination: str = "") -> Any:
        found = results.reconciliation(results.table("account", verdict), results.table("ledger_entry"))
        return results.reconciliation(*found.tables, run_id=run_id, scope=Scope.LIVE)

    monkeypatch.setattr(platform, "reconciliation", saved)
    run = dag_of(checkout, "settlement__reconcile").test(run_conf={"business_date": "2026-11-19"})
    assert str(run.state) == colour
    (run_id,) = driver.read_text().splitlines()
    assert run_id.startswith("settlement/reconcile/2026-11-19/")
    assert platform.runs[run_id].kind == RunKind.RECONCILE
    assert platform.finished == {run_id: "succeeded" if colour == "success" else "failed"}
    failure = platform.runs[run_id].result.get(FAILURE)
    if colour == "success":
        assert failure is None
    else:
        assert (failure["task"], "account BREAK" in failure["error"], "INCONCLUSIVE" in failure["cure"]) == (
            "verdicts",
            True,
            True,
        )


@pytest.mark.parametrize("date", [None, "2999-01-01"])
def test_a_night_without_a_date_or_with_one_to_come_is_refused_at_once_and_starts_no_driver(
    checkout: Path, airflow_database: Path, driver: Path, platform: results.Platform, date: str | None
) -> None:
    dag = dag_of(checkout, "settlement__nightly")
    # `dag.test()` of a DAG with a deadline fails in Airflow's own database.
    dag.deadline = None
    run = dag.test(run_conf={"business_date": date, "reason": "trying it"})
    states = {task.task_id: str(task.state) for task in run.get_task_instances()}
    assert {name: state for name, state in states.items() if state != "upstream_failed"} == {"open": "failed"}
    assert not driver.exists()
    assert list(platform.runs) == ["o"]


def test_a_night_that_failed_can_be_cleared_and_its_deadline_stays(
    checkout: Path, airflow_database: Path, platform: results.Platform
) -> None:
    """Airflow 3.3.2 answers 500 where the deadline of a run counts from its queueing."""
    from airflow.models.deadline import Deadline
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.models.taskinstance import clear_task_instances
    from airflow.utils.session import create_session
    from airflow.utils.state import DagRunState, TaskInstanceState
    from airflow.utils.types import DagRunTriggeredByType, DagRunType

    dag_of(checkout, "settlement__nightly")
    with create_session() as session:
        dag = SerializedDagModel.get_dag("settlement__nightly", session=session)
        run = dag.create_dagrun(
            run_id="night",
            run_after=datetime.now(UTC),
            run_type=DagRunType.MANUAL,
            triggered_by=DagRunTriggeredByType.TEST,
            state=DagRunState.QUEUED,
            partition_key="2026-11-19",
            session=session,
        )
        session.flush()
        (due,) = session.scalars(select(Deadline.deadline_time).where(Deadline.dagrun_id == run.id)).all()
        assert timedelta(hours=6) < due - datetime.now(UTC) < timedelta(hours=7)
        tasks = run.get_task_instances(session=session)
        for task in tasks:
            task.state = TaskInstanceState.FAILED
        run.state = DagRunState.FAILED
        session.flush()
        clear_task_instances(tasks, session)
        assert {task.state for task in tasks} == {None}
        session.flush()
        assert session.scalars(select(Deadline.deadline_time).where(Deadline.dagrun_id == run.id)).all() == [due]
        session.rollback()
