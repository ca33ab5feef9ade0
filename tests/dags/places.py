"""The failpoints of DAGs, which have no stream and no snapshot to disturb: what dies at each, and must go on."""

PLACES = {
    "dag.double_run": "a task's process, before its step; or two of them stand there and do it side by side",
    "dag.state_written": "a task's process, its step done and written down, Airflow not informed",
    "dag.trigger_event": "a triggerer, the wait over, whoever waits not informed",
}
