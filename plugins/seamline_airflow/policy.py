"""Where tasks of backfills wait: in a pool of their own, behind whatever else Airflow has to do.

Airflow asks this for every task of a run that it makes or looks at again (3.3.2: `task_instance_mutation_hook`). A pool
that a DAG declares would hold for the night and for a backfill alike.
"""

from datetime import date, timedelta
from typing import Any

from seamline import settings
from seamline.domain.runs import RunKind
from seamline.plan.pools import BACKFILL
from seamline_airflow.run_context import follows_a_cut, is_of_backfill

# The night's, and the comparisons that follow it.
_DAGS = (RunKind.NIGHTLY, RunKind.RECONCILE)
# A comparison of live tables that follows the cut of an older date is a backfill's.
_OLD = timedelta(days=2)
_WEIGHT = 1


def task_instance_mutation_hook(task_instance: Any, dag_run: Any = None) -> None:
    """Give a task of one of our DAGs the least priority, and the pool of backfills where there are pools, if its run
    belongs to a backfill. Touches no database."""
    if str(task_instance.dag_id).rpartition("__")[2] not in _DAGS:
        return
    if _is_behind(str(task_instance.run_id or ""), dag_run):
        task_instance.priority_weight = _WEIGHT
        if settings.load().has_pools:
            task_instance.pool = BACKFILL


def _is_behind(run_id: str, dag_run: Any) -> bool:
    # By its name: Airflow does not always hand over the run itself.
    if is_of_backfill(run_id):
        return True
    return follows_a_cut(run_id) and dag_run is not None and _is_old(dag_run)


def _is_old(dag_run: Any) -> bool:
    try:
        day = date.fromisoformat(str(dag_run.partition_key))
    except ValueError:
        return False
    return bool(day < dag_run.run_after.date() - _OLD)
