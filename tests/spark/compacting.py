"""Spark as somebody runs it beside a stream: `rewrite_data_files` of Iceberg tables again and again.

Run as `python -m tests.spark.compacting FOLDER`. The folder holds `lake.json`, and `done.jsonl` afterwards: a line for
each call, with how many files it has rewritten, or what it said. It ends once `stop` lies there.
"""

import json
import sys
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession


def main(folder: Path) -> None:
    lake = json.loads((folder / "lake.json").read_text(encoding="utf-8"))
    catalogue = {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "jdbc",
        ".uri": lake["uri"],
        ".jdbc.user": lake["login"],
        ".jdbc.password": lake["password"],
        ".jdbc.schema-version": "V1",
        ".warehouse": lake["warehouse"],
        ".cache-enabled": "false",
    }
    builder = SparkSession.builder.master("local[1]").config("spark.jars", lake["jars"])
    builder = builder.config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1")
    builder = builder.config(
        "spark.sql.extensions", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
    )
    for name, value in catalogue.items():
        builder = builder.config(f"spark.sql.catalog.lake{name}", value)
    spark = builder.getOrCreate()
    with (folder / "done.jsonl").open("a", encoding="utf-8") as done:
        while not (folder / "stop").exists():
            for table in lake["tables"]:
                done.write(json.dumps({"table": table, **_compacted(spark, table)}) + "\n")
                done.flush()
    spark.stop()


def _compacted(spark: SparkSession, table: str) -> dict[str, object]:
    try:
        (row,) = spark.sql(
            f"CALL lake.system.rewrite_data_files(table => '{table}', options => map('rewrite-all', 'true'))"
        ).collect()
    except (PySparkException, Py4JJavaError) as exc:
        # Also a conflict with the stream: Spark gives that rewrite up.
        return {"files": 0, "said": str(exc).strip().partition("\n")[0][:300]}
    return {"files": row["rewritten_data_files_count"]}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
