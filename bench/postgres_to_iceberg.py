"""A table copied from PostgreSQL into Iceberg: the ways beside Seamline's own.

Each ends with a table that any client of its catalogue sees; its rows are held against the source's by Arrow.
"""

import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from pyiceberg.table import StaticTable
from pyspark.sql import DataFrame

from bench.copied_table import NAME, TABLE, Bench, Case, by_seamline, of_rows, source_plan, spark_session
from bench.postgres_copy import DDL, FILL
from seamline import registry
from seamline.adapters.connections import resolve
from seamline.kinds.bulk import StagedPlace
from seamline.plan.model import DestinationPlan, SyncPlan, TablePlan
from seamline.ports import Load
from seamline.sinks.iceberg.kind import Iceberg
from seamline.sources.postgres.catalogue import read_catalogue
from seamline.sources.postgres.client import open_session
from tests.integration.databases import postgres, postgres_database
from tests.integration.known import known_by_id
from tests.log_topic import publication

SOURCE = replace(source_plan("postgres"), schema="public")
GOALS = {"spark jdbc, two partitions": 1.7, "spark jdbc": 2.5}
# The catalogue of the peer: a folder.
PEER = "peer"


@contextmanager
def opened(rows: int) -> Iterator[Bench]:
    with (
        postgres_database(NAME) as owned,
        tempfile.TemporaryDirectory(prefix=NAME) as warehouse,
        known_by_id(source := replace(resolve("postgres_root"), database=owned.database), SOURCE.reader, "postgres"),
        known_by_id(owned, f"{NAME}_lake", "postgres"),
    ):
        with postgres(source) as filling:
            filling.execute(DDL)
            filling.execute(FILL.format(rows=rows).encode())
            filling.execute("VACUUM ANALYZE entry")
        with closing(open_session(source)) as session:
            (table,) = read_catalogue(session, SOURCE, [TABLE])
        options = (("catalog", "lake"), ("warehouse", warehouse), ("write", "native"))
        destination = DestinationPlan("lake", "iceberg", f"{NAME}_lake", "bank", options=options)
        plan = SyncPlan(NAME, SOURCE, (destination,), (TablePlan(TABLE, table=table),))
        spark = spark_session(
            "spark",
            **{
                f"spark.sql.catalog.{PEER}": "org.apache.iceberg.spark.SparkCatalog",
                f"spark.sql.catalog.{PEER}.type": "hadoop",
                f"spark.sql.catalog.{PEER}.warehouse": f"{warehouse}/{PEER}",
                "spark.sql.timestampType": "TIMESTAMP_NTZ",
            },
        )
        staged_and_published(Bench(spark, plan, source, owned, rows, {}, {}, lambda: None, lambda _: None))
        wanted = rows_of(plan)

        def check(place: StagedPlace) -> None:
            found = rows_of_peer(Path(warehouse)) if place.schema == PEER else rows_of(plan)
            if not found.cast(wanted.schema).equals(wanted):
                raise RuntimeError(f"{place.schema}.{place.name} does not hold what the source holds")

        try:
            yield Bench(spark, plan, source, owned, rows, CASES, GOALS, lambda: None, lambda _: None, check)
        finally:
            spark.stop()


def rows_of(plan: SyncPlan) -> pa.Table:
    """As Seamline has published them."""
    (destination,) = plan.destinations
    return Iceberg().open_tables(destination, plan.stream_id(destination.name), "live")[TABLE].arrow().sort_by("id")


def rows_of_peer(warehouse: Path) -> pa.Table:
    (metadata,) = (warehouse / PEER / "bank" / TABLE / "metadata").glob("v1.metadata.json")
    return StaticTable.from_metadata(str(metadata)).scan().to_arrow().sort_by("id")


def staged_and_published(bench: Bench) -> StagedPlace:
    place = by_seamline(bench)
    (destination,) = bench.plan.destinations
    stream = bench.plan.stream_id(destination.name)
    with closing(registry.sink(bench.plan, destination.name)) as sink:
        load = Load(bench.table, place.name, bench.rows)
        sink.publish(stream, [load], publication=publication([bench.table], run_id=f"bench {time.monotonic_ns()}"))
    return place


def by_spark_jdbc(bench: Bench) -> StagedPlace:
    return _by_spark(bench, {})


def by_spark_jdbc_in_two(bench: Bench) -> StagedPlace:
    return _by_spark(bench, of_rows(bench))


def _by_spark(bench: Bench, reading: Mapping[str, str]) -> StagedPlace:
    source = bench.source
    options = {
        "url": f"jdbc:postgresql://{source.host}:{source.port}/{source.database}",
        "driver": "org.postgresql.Driver",
        "dbtable": TABLE,
        "user": source.login,
        "password": source.password,
        **reading,
    }
    rows: DataFrame = bench.spark.read.format("jdbc").options(**options).load()
    bench.spark.sql(f"DROP TABLE IF EXISTS {PEER}.bank.{TABLE} PURGE")
    rows.writeTo(f"{PEER}.bank.{TABLE}").using("iceberg").create()
    return StagedPlace(bench.table, PEER, TABLE)


CASES: Mapping[str, Case] = {
    "seamline": staged_and_published,
    "spark jdbc, two partitions": by_spark_jdbc_in_two,
    "spark jdbc": by_spark_jdbc,
}
