"""A backfill of 60 dates by Airflow's own scheduler: in the order and side by side as it was asked for, paused,
continued and cancelled."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.jobs.job import Job
from airflow.jobs.scheduler_job_runner import SchedulerJobRunner
from airflow.models.backfill import Backfill, BackfillDagRun
from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.utils.session import create_session
from sqlalchemy import delete, select, update

from seamline.domain.runs import NightlyMode
from seamline.sync.dates_asked import DatesAsked
from seamline_airflow.page import dag_runs
from seamline_airflow.page.dag_runs import BackfillOrder
from tests.dags.test_dag_run import dag_of

DAG = "settlement__nightly"
FIRST = date(2026, 9, 1)
DATES = [FIRST + timedelta(days=number) for number in range(60)]
AT_ONCE = 3


@pytest.fixture
def runner(checkout: Path, airflow_database: Path) -> Iterator[SchedulerJobRunner]:
    dag_of(checkout, DAG)
    with create_session() as session:
        session.execute(update(DagModel).where(DagModel.dag_id == DAG).values(is_paused=False))
    yield SchedulerJobRunner(job=Job())
    with create_session() as session:
        ours = select(Backfill.id).where(Backfill.dag_id == DAG)
        session.execute(delete(BackfillDagRun).where(BackfillDagRun.backfill_id.in_(ours)))
        session.execute(delete(DagRun).where(DagRun.dag_id == DAG))
        session.execute(delete(Backfill).where(Backfill.dag_id == DAG))


def _begun(runner: SchedulerJobRunner) -> list[date]:
    """What runs once the scheduler has looked, the oldest first."""
    with create_session() as session:
        runner._start_queued_dagruns(session)
        session.flush()
        running = session.scalars(select(DagRun.partition_key).where(DagRun.dag_id == DAG, DagRun.state == "running"))
        return sorted(date.fromisoformat(str(key)) for key in running)


def _end() -> None:
    """Of all that run."""
    now = datetime.now(UTC)
    ended: dict[str, Any] = {"state": "success", "end_date": now}
    with create_session() as session:
        session.execute(update(DagRun).where(DagRun.dag_id == DAG, DagRun.state == "running").values(**ended))


@pytest.mark.parametrize("newest_first", [False, True], ids=["oldest first", "newest first"])
def test_sixty_dates_are_made_in_their_order_as_many_at_once_as_asked_paused_continued_and_cancelled(
    runner: SchedulerJobRunner, *, newest_first: bool
) -> None:
    asked = DatesAsked(
        FIRST,
        DATES[-1],
        NightlyMode.PUBLISH,
        reason="a month was corrected",
        newest_first=newest_first,
        at_once=AT_ONCE,
    )
    number = dag_runs.start_backfill(DAG, asked, by="operator", note="started by operator")
    left = DATES[::-1] if newest_first else list(DATES)
    seen = dag_runs.backfill_of(DAG)
    assert seen is not None and [one.business_date for one in seen.dates] == left
    for _ in range(15):
        now, left = left[:AT_ONCE], left[AT_ONCE:]
        assert _begun(runner) == sorted(now)
        assert _begun(runner) == sorted(now), "no more than were asked for"
        _end()
    dag_runs.order_backfill(DAG, number, BackfillOrder.PAUSE, note="the source is busy")
    assert _begun(runner) == []
    dag_runs.order_backfill(DAG, number, BackfillOrder.CONTINUE, note="it is not any more")
    assert _begun(runner) == sorted(left[:AT_ONCE])
    dag_runs.order_backfill(DAG, number, BackfillOrder.CANCEL, note="wrong month")
    _end()
    assert _begun(runner) == []
    seen = dag_runs.backfill_of(DAG)
    assert seen is not None and seen.is_over
    assert [one.state for one in seen.dates] == ["success"] * 48 + ["failed"] * 12
