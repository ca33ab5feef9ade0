"""The DAG that lets go what nobody needs any more, one for all syncs."""

from seamline_airflow.dag_factory import maintenance_dag, requested_sync

if requested_sync() in (None, "seamline"):
    maintenance = maintenance_dag()
