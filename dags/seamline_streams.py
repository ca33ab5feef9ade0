"""The DAG of the platform itself, one for all syncs."""

from seamline_airflow.dag_factory import requested_sync, streams_dag

if requested_sync() in (None, "seamline"):
    streams = streams_dag()
