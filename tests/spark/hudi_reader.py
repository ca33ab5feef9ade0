"""Hudi's own reader and writer, in the Spark of its own environment: a process that does what its input says, one JSON
document a line: {"read": <folder>, "instant": <text or null>, "into": <folder of Parquet>} or {"sql": <statement>}. Each
is answered by a line. It imports nothing of Seamline, which that environment does not have.
"""

import json
import sys

from pyspark.sql import SparkSession


def main() -> None:
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.jars", sys.argv[1])
        .config("spark.serializer", "org.apache.spark.serializer.KryoSerializer")
        .config("spark.kryo.registrator", "org.apache.spark.HoodieSparkKryoRegistrar")
        .config("spark.sql.extensions", "org.apache.spark.sql.hudi.HoodieSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.hudi.catalog.HoodieCatalog")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", sys.argv[2])
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    for line in sys.stdin:
        wanted = json.loads(line)
        if "sql" in wanted:
            said = json.dumps([row.asDict(recursive=True) for row in spark.sql(wanted["sql"]).collect()], default=str)
        else:
            reader = spark.read.format("hudi")
            if wanted["instant"] is not None:
                reader = reader.option("as.of.instant", wanted["instant"])
            found = reader.load(wanted["read"])
            found.write.mode("overwrite").option("compression", "uncompressed").parquet(wanted["into"])
            said = "read"
        print(f"answer: {said}", flush=True)


if __name__ == "__main__":
    main()
