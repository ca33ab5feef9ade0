"""What a process of Airflow's has loaded before it is forked. Imported in such processes only."""

from pathlib import Path

from airflow.dag_processing.dagbag import DagBag

from tests.dags.task_process import DAG_ID

_DAGS = Path(__file__).resolve().parents[2] / "dags"

DAG = DagBag(dag_folder=_DAGS / "syncs.py", bundle_path=_DAGS, bundle_name="dags-folder").dags[DAG_ID]
