"""Runs of Airflow that the page starts. The one place that uses what is behind Airflow's own *Trigger* (3.3.2): the API
server that serves the page has Airflow's database open."""

from collections.abc import Mapping

from airflow.api.common.trigger_dag import trigger_dag
from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState
from airflow.utils.types import DagRunTriggeredByType
from sqlalchemy import select

from seamline.domain.errors import Refused


def start(dag_id: str, *, by: str, conf: Mapping[str, str]) -> str:
    """Queue a run for a person and return its name. Refused where it would not begin soon: the DAG is not there, is
    paused, or has a run that goes on."""
    with create_session() as session:
        known = session.get(DagModel, dag_id)
        if known is None or known.is_stale or known.has_import_errors:
            raise Refused(f"Airflow has no DAG {dag_id} now", hint="its page of import errors says why")
        if known.is_paused:
            raise Refused(f"the DAG {dag_id} is paused", hint="unpause it in Airflow")
        before = session.scalar(
            select(DagRun.run_id).where(
                DagRun.dag_id == dag_id, DagRun.state.in_((DagRunState.QUEUED, DagRunState.RUNNING))
            )
        )
    if before is not None:
        raise Refused(f"run {before} of {dag_id} goes on", hint="wait for its end, or end it in Airflow")
    made = trigger_dag(dag_id, triggered_by=DagRunTriggeredByType.UI, triggering_user_name=by, conf=dict(conf))
    return str(made.run_id)


def state(dag_id: str, run: str) -> str:
    """The state of a run in Airflow's words; "" where there is no such run."""
    with create_session() as session:
        found = session.scalar(select(DagRun.state).where(DagRun.dag_id == dag_id, DagRun.run_id == run))
    return str(found.value if isinstance(found, DagRunState) else found or "")
