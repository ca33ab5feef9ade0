"""The DAGs of the platform itself, one for all syncs."""

from seamline_airflow.dag_factory import requested, streams_dag

if requested("seamline"):
    streams = streams_dag()
