"""Let tables enter and leave running streams: `spark-submit spark_jobs/table_join.py --run R`."""

import sys

from seamline_spark.join.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
