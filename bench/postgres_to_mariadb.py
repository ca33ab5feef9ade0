"""A table copied from PostgreSQL to MariaDB: the ways beside Seamline's own."""

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial

from bench.copied_table import (
    NAME,
    TABLE,
    Bench,
    Case,
    JdbcTable,
    by_seamline,
    copy_by_spark_jdbc,
    of_rows,
    source_plan,
    spark_session,
)
from bench.postgres_copy import DDL, FILL
from seamline.adapters.connections import resolve
from seamline.databases.mysql.canonical import quoted
from seamline.kinds.bulk import StagedPlace
from seamline.plan.model import DestinationPlan, SyncPlan, TablePlan
from seamline.sinks.relational.places import relation
from seamline.sources.postgres.catalogue import read_catalogue
from seamline.sources.postgres.client import open_session
from tests.integration.databases import mariadb, mariadb_destination, postgres, postgres_database
from tests.integration.known import known_by_id

SOURCE = replace(source_plan("postgres"), schema="public")
DESTINATION = DestinationPlan("archive", "mariadb", f"{NAME}_archive", f"{NAME}_archive")
# How the driver sends a batch: a statement of many rows, or the bulk protocol of the server.
ONE_STATEMENT, BULK = "rewriteBatchedStatements=true", "useBulkStmts=true"
TUNED = {"batchsize": "10000"}
GOALS = {"spark jdbc, one statement": 2.0, "spark jdbc, bulk": 2.0}


@contextmanager
def opened(rows: int) -> Iterator[Bench]:
    with (
        postgres_database(NAME) as owned,
        mariadb_destination(DESTINATION.namespace) as destination,
        # The capture's login makes the snapshot, by a replication session.
        known_by_id(source := replace(resolve("postgres_root"), database=owned.database), SOURCE.reader, "postgres"),
        known_by_id(destination, DESTINATION.connection, "mysql"),
    ):
        with postgres(source) as filling:
            filling.execute(DDL)
            filling.execute(FILL.format(rows=rows).encode())
            filling.execute("VACUUM ANALYZE entry")
        with closing(open_session(source)) as session:
            (table,) = read_catalogue(session, SOURCE, [TABLE])

        def drop(place: StagedPlace) -> None:
            with closing(mariadb(destination)) as session, session.cursor() as cursor:
                cursor.execute(f"DROP TABLE {relation(place.schema, place.name)}")

        plan = SyncPlan(NAME, SOURCE, (DESTINATION,), (TablePlan(TABLE, table=table),))
        spark = spark_session()
        try:
            yield Bench(spark, plan, source, destination, rows, CASES, GOALS, lambda: None, drop)
        finally:
            spark.stop()


def by_spark_jdbc(bench: Bench) -> StagedPlace:
    return _by_spark_jdbc(bench, reading={}, writing={}, options="")


def by_tuned_spark_jdbc(bench: Bench, *, options: str) -> StagedPlace:
    return _by_spark_jdbc(bench, reading=of_rows(bench), writing=TUNED, options=options)


def _by_spark_jdbc(
    bench: Bench, *, reading: Mapping[str, str], writing: Mapping[str, str], options: str
) -> StagedPlace:
    place = bench.empty_place()
    source, destination = bench.source, bench.destination
    url = f"jdbc:postgresql://{source.host}:{source.port}/{source.database}"
    # `jdbc:mysql` is what Spark's dialect knows; the driver takes it with a setting.
    into = f"jdbc:mysql://{destination.host}:{destination.port}/{place.schema}?permitMysqlScheme&timezone=UTC&{options}"
    copy_by_spark_jdbc(
        bench.spark,
        JdbcTable(source, "org.postgresql.Driver", url, TABLE, reading),
        JdbcTable(destination, "org.mariadb.jdbc.Driver", into, quoted(place.name), writing),
    )
    return place


CASES: Mapping[str, Case] = {
    "seamline": by_seamline,
    "spark jdbc, one statement": partial(by_tuned_spark_jdbc, options=ONE_STATEMENT),
    "spark jdbc, bulk": partial(by_tuned_spark_jdbc, options=BULK),
    "spark jdbc": by_spark_jdbc,
}
