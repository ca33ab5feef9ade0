"""Run the streams of one pool: `python spark_jobs/stream_host.py --pool default`, or by spark-submit on a cluster."""

import sys

from seamline_spark.stream_host.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
