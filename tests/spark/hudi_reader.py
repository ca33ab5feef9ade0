"""Hudi's own reader in the Spark of its own environment, as a process that reads what its input says.

One JSON document a line: {"read": <folder>, "instant": <text or null>, "into": <folder of Parquet>}. The answer to each
is the line `read`. It imports nothing of Seamline, which that environment does not have.
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
        # What the test reads again: old dates and moments as they are.
        .config("spark.sql.parquet.datetimeRebaseModeInWrite", "CORRECTED")
        .config("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    for line in sys.stdin:
        wanted = json.loads(line)
        reader = spark.read.format("hudi")
        if wanted["instant"] is not None:
            reader = reader.option("as.of.instant", wanted["instant"])
        reader.load(wanted["read"]).write.mode("overwrite").parquet(wanted["into"])
        print("read", flush=True)


if __name__ == "__main__":
    main()
