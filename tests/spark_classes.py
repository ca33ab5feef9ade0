"""Uses a local Spark for what jobs and hosts use it for, so that Java has loaded the classes of it: `python -m
tests.spark_classes [jars of Iceberg]`. What it prints is of no interest; see `stack/class_archive.py`."""

import sys
import tempfile
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.window import Window


def main(jars: Sequence[str]) -> None:
    builder = SparkSession.builder.master("local[2]").appName("classes")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "true",
    }.items():
        builder = builder.config(name, value)
    if jars:
        builder = builder.config("spark.driver.extraClassPath", ":".join(jars))
    session = builder.getOrCreate()
    # Workers are `python3` of PATH otherwise, which need not be this environment.
    session.sparkContext.pythonExec = sys.executable
    try:
        statements(session)
        tasks(session)
        if jars:
            lake(session)
    finally:
        session.stop()


def statements(session: SparkSession) -> None:
    rows = pa.table({"id": list(range(100)), "name": [str(number % 7) for number in range(100)]})
    frame = session.createDataFrame(rows).withColumn("amount", f.expr("cast(id as decimal(20, 4))"))
    frame.createOrReplaceTempView("entry")
    asked = "SELECT name, sum(amount) total, count(*) n, max(id) last FROM entry GROUP BY name ORDER BY name"
    sums = session.sql(asked)
    sums.toArrow()
    newest = f.row_number().over(Window.partitionBy("name").orderBy(f.desc("id")))
    joined = frame.join(sums, "name").withColumn("place", newest).where("place = 1").cache()
    joined.collect()
    with tempfile.TemporaryDirectory() as folder:
        joined.write.mode("overwrite").parquet(f"{folder}/rows")
        session.read.parquet(f"{folder}/rows").groupBy("last").count().collect()


def tasks(session: SparkSession) -> None:
    def batches(found: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from found

    session.table("entry").mapInArrow(batches, session.table("entry").schema).toArrow()
    session.sparkContext.parallelize(range(4), 2).barrier().mapPartitions(list).collect()


def lake(session: SparkSession) -> None:
    with tempfile.TemporaryDirectory() as folder:
        session.conf.set("spark.sql.catalog.lake", "org.apache.iceberg.spark.SparkCatalog")
        session.conf.set("spark.sql.catalog.lake.type", "hadoop")
        session.conf.set("spark.sql.catalog.lake.warehouse", folder)
        session.sql("CREATE TABLE lake.n.t (id bigint, name string) USING iceberg")
        session.sql("INSERT INTO lake.n.t SELECT id, name FROM entry")
        session.sql("DELETE FROM lake.n.t WHERE id < 10")
        session.sql("SELECT count(*), max(name) FROM lake.n.t").toArrow()


if __name__ == "__main__":
    main(sys.argv[1:])
