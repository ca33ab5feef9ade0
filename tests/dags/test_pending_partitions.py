"""Two pending runs for one partition key, of which one never starts (apache/airflow#71070): by the scheduler of the
pinned Airflow, with the comparison that follows a cut."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
from airflow.sdk import Asset

from tests.dags.test_dag_run import dag_of

KEY = "2026-11-19"
# Two assets make one run: the shape that the report is about.
OF_TWO = """
from airflow.sdk import DAG, Asset, PartitionedAssetTimetable
from airflow.providers.standard.operators.empty import EmptyOperator

assets = Asset("left", uri="test://left") & Asset("right", uri="test://right")
with DAG("of_two", schedule=PartitionedAssetTimetable(assets=assets)):
    EmptyOperator(task_id="nothing")
"""


@pytest.fixture
def session(airflow_database: Path) -> Iterator[Any]:
    from airflow.utils.session import create_session

    with create_session() as opened:
        yield opened
        opened.rollback()


def _pending(session: Any, dag_id: str) -> list[Any]:
    from airflow.models.asset import AssetPartitionDagRun
    from sqlalchemy import select

    waiting = (AssetPartitionDagRun.target_dag_id == dag_id, AssetPartitionDagRun.created_dag_run_id.is_(None))
    return list(session.scalars(select(AssetPartitionDagRun).where(*waiting)))


def _twice(session: Any, dag_id: str, *assets: str) -> None:
    """As two events leave it that were written at the same moment: each has made a pending run of its own."""
    from airflow.models.asset import AssetEvent, AssetModel, AssetPartitionDagRun, PartitionedAssetKeyLog
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.timetables.base import compute_rollup_fingerprint
    from sqlalchemy import select

    fingerprint = compute_rollup_fingerprint(SerializedDagModel.get_dag(dag_id, session=session).timetable)
    for name in assets:
        asset = session.scalar(select(AssetModel).where(AssetModel.name == name))
        event = AssetEvent(asset_id=asset.id, partition_key=KEY, extra={})
        waits = AssetPartitionDagRun(target_dag_id=dag_id, partition_key=KEY, rollup_fingerprint=fingerprint)
        session.add_all([event, waits])
        session.flush()
        session.add(
            PartitionedAssetKeyLog(
                asset_id=asset.id,
                asset_event_id=event.id,
                asset_partition_dag_run_id=waits.id,
                source_partition_key=KEY,
                target_dag_id=dag_id,
                target_partition_key=KEY,
            )  # fmt: skip
        )
    session.flush()


def _looked_at(session: Any) -> None:
    from airflow.jobs.job import Job
    from airflow.jobs.scheduler_job_runner import SchedulerJobRunner

    SchedulerJobRunner(job=Job())._create_dagruns_for_partitioned_asset_dags(session)


def test_both_comparisons_start_where_two_pend_for_one_date(checkout: Path, session: Any) -> None:
    """Each has all that it waits for: a comparison waits for one asset, the cut of its sync."""
    dag_of(checkout, "settlement__reconcile")
    _twice(session, "settlement__reconcile", "settlement.cut", "settlement.cut")
    assert len(_pending(session, "settlement__reconcile")) == 2
    _looked_at(session)
    assert _pending(session, "settlement__reconcile") == []


def test_a_run_that_waits_for_two_assets_would_never_start(tmp_path: Path, session: Any) -> None:
    """The fault is there in this Airflow, so the shape of our DAGs is what keeps it away."""
    (tmp_path / "of_two.py").write_text(OF_TWO)
    sync_bag_to_db(DagBag(dag_folder=tmp_path, bundle_path=tmp_path, bundle_name="dags-folder"), "dags-folder", None)
    _twice(session, "of_two", "left", "right")
    _looked_at(session)
    assert len(_pending(session, "of_two")) == 2, "Airflow has mended it: nothing depends on the shape any more"


def test_every_dag_that_follows_cuts_waits_for_one_asset_only(checkout: Path) -> None:
    bag = DagBag(dag_folder=checkout / "dags" / "syncs.py", bundle_name="dags")
    follows = [dag.timetable for name, dag in bag.dags.items() if name.endswith("__reconcile")]
    assert follows and all(isinstance(one.asset_condition, Asset) for one in follows)
