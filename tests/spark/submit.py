"""What an Airflow task does with one Spark job: `python -m tests.spark.submit <job> <run> <connection id>`.

A process of its own: Airflow reads its settings once, from the environment that it is imported in. Its exit code says
how the task ended: 0, 1 where a retry may help, 2 where none will.
"""

import sys
import traceback
from types import SimpleNamespace

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from seamline_airflow.operators.spark_job import SparkJobOperator


def main() -> int:
    job, run, conn_id = sys.argv[1:]
    operator = SparkJobOperator(task_id="job", job=job, run=run, conn_id=conn_id)
    ti = SimpleNamespace(dag_id="cluster", run_id=run, task_id="job", map_index=-1, stats_tags={}, try_number=1)
    try:
        operator.execute({"ti": ti})
    except AirflowException as exc:
        traceback.print_exc()
        return 2 if isinstance(exc, AirflowFailException) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
