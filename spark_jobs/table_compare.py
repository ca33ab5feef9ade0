"""Compare the live tables of a sync with their source: `spark-submit spark_jobs/table_compare.py --run R`."""

import sys

from seamline_spark.compare.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
