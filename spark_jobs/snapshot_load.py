"""Stage all tables of a sync at one position: `spark-submit spark_jobs/snapshot_load.py --run R`."""

import sys

from seamline_spark.snapshot.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
