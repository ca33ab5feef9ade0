"""Read, stage and compare the cut of a business date: `spark-submit spark_jobs/nightly_cut.py --run R`."""

import sys

from seamline_spark.cut.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
