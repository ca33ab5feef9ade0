"""Delta's own reader and writer in Spark, as a process that does what its input says, one JSON document a line:

{"read": <folder>, "version": <n or null>, "into": <Arrow file>} or {"sql": <statement>}. Each is answered by a line.
"""

import json
import sys

import pyarrow as pa
from pyspark.sql import SparkSession


def main() -> None:
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.jars", sys.argv[1])
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", sys.argv[2])
        # As many as a small table needs: the defaults, 50 and 200, take seconds for each version.
        .config("spark.databricks.delta.snapshotPartitions", "1")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    for line in sys.stdin:
        wanted = json.loads(line)
        if "sql" in wanted:
            rows = [row.asDict(recursive=True) for row in spark.sql(wanted["sql"]).collect()]
            said = json.dumps(rows, default=str)
        else:
            reader = spark.read.format("delta")
            if wanted["version"] is not None:
                reader = reader.option("versionAsOf", wanted["version"])
            found = reader.load(wanted["read"]).toArrow()
            with pa.OSFile(wanted["into"], "wb") as file, pa.ipc.new_file(file, found.schema) as writer:
                writer.write_table(found)
            said = str(found.num_rows)
        print(f"answer: {said}", flush=True)


if __name__ == "__main__":
    main()
