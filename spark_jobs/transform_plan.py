"""Analyse transforms, which come as JSON by standard input: `python spark_jobs/transform_plan.py`."""

import sys

from seamline_spark.transform.main import main

if __name__ == "__main__":
    sys.exit(main())
