"""Read a database by JDBC for another process: `python spark_jobs/jdbc_reader.py`, asked by standard input."""

import sys

from seamline_spark.jdbc.main import main

if __name__ == "__main__":
    sys.exit(main())
