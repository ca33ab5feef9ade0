"""What an Airflow task does with one Spark job: `python -m tests.spark.submit <job> <run> <connection id>`.

A process of its own: Airflow reads its settings once, from the environment that it is imported in.
"""

import sys
from types import SimpleNamespace

from seamline_airflow.operators.spark_job import SparkJobOperator


def main() -> None:
    job, run, conn_id = sys.argv[1:]
    operator = SparkJobOperator(task_id="job", job=job, run=run, conn_id=conn_id)
    ti = SimpleNamespace(dag_id="cluster", run_id=run, task_id="job", map_index=-1, stats_tags={}, try_number=1)
    operator.execute({"ti": ti})


if __name__ == "__main__":
    main()
