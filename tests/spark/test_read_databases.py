"""`spark.read.format("seamline")` of cuts in a real PostgreSQL and a real MariaDB, held against SQL of the same."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from seamline import registry, settings
from seamline.adapters.connections import Connection
from seamline.databases.postgres.client import open_session as open_postgres
from seamline.domain.staged_cut import StagedCut
from seamline.plan.document import plan_to_json
from seamline.plan.model import DestinationPlan
from seamline.platform import migrate
from seamline.sinks.mariadb.dialect import MARIADB
from seamline.sinks.postgres.cuts import PostgresCuts
from seamline.sinks.relational.cuts import RelationalCuts
from seamline.sinks.relational.session import open_session as open_mariadb
from seamline_spark.data_source import SeamlineDataSource
from seamline_spark.session import open_session
from tests.conftest import RunningStack
from tests.integration.cuts_published import DAY, EARLIER, Place, whole
from tests.integration.databases import mariadb, mariadb_destination, postgres, postgres_database
from tests.integration.known import known_by_id
from tests.log_topic import sync_plan
from tests.spark.hosts import uri

NAME = "read_databases"
ROWS = 150_000
IN_POSTGRES = DestinationPlan("warehouse", "postgres", f"{NAME}_pg", NAME)
IN_MARIADB = DestinationPlan("ledger_copy", "mariadb", f"{NAME}_maria", NAME)
PLAN = replace(sync_plan(schema=NAME), destinations=(IN_POSTGRES, IN_MARIADB))
COLUMNS = "id bigint PRIMARY KEY, amount decimal(18,2) NOT NULL, at {moment} NOT NULL, memo varchar(20)"
VALUES = "n, n * 0.01 - 500, {moment}, CASE WHEN n % 3 = 0 THEN NULL ELSE CONCAT('n', n) END"
# Of two dates; the second lacks rows, has others, and some that changed.
EDITS = ("DELETE FROM {} WHERE id <= 10", "UPDATE {} SET amount = amount + 1 WHERE id IN (20, 30)")
SUMS = "SELECT COUNT(*), SUM(amount), COUNT(memo), MIN(at), MAX(at) FROM {} WHERE cut_business_date = '{}'"

Query = Callable[[str], Any]


def cut(run: str, rows: int, day: date) -> StagedCut:
    found = whole(run, {"entry": Place(f"{NAME}_stage.{run}", rows)}, day=day)
    (table,) = found.tables
    return replace(found, tables=(replace(table, digest=None),))


def fill_postgres(database: Connection) -> None:
    with (
        postgres(database) as sql,
        closing(PostgresCuts(IN_POSTGRES, open_postgres(database, application_name="t"))) as to,
    ):
        sql.execute(f"CREATE SCHEMA {NAME}_stage")
        for run, day, edits in (("r1", EARLIER, ()), ("r2", DAY, EDITS)):
            table = f"{NAME}_stage.{run}"
            sql.execute(f"CREATE TABLE {table} ({COLUMNS.format(moment='timestamptz(6)')})".encode())
            moment = "'2026-03-05 10:00:00.000001+00'::timestamptz + n * interval '1 microsecond'"
            rows = f"SELECT {VALUES.format(moment=moment)} FROM generate_series(1, {ROWS}) n"
            sql.execute(f"INSERT INTO {table} {rows}".encode())
            for edit in edits:
                sql.execute(edit.format(table).encode())
            to.publish(cut(run, ROWS - 10 * bool(edits), day), definitions={})


def fill_mariadb(publisher: Connection) -> None:
    cuts = RelationalCuts(IN_MARIADB, open_mariadb(publisher, MARIADB), MARIADB)
    with closing(mariadb(publisher)) as session, session.cursor() as sql, closing(cuts) as to:
        sql.execute(f"CREATE DATABASE IF NOT EXISTS {NAME}_stage")
        for run, day, edits in (("r1", EARLIER, ()), ("r2", DAY, EDITS)):
            table = f"{NAME}_stage.{run}"
            sql.execute(f"CREATE TABLE {table} ({COLUMNS.format(moment='datetime(6)')})")
            moment = "'2026-03-05 10:00:00.000001' + INTERVAL n MICROSECOND"
            numbers = f"(SELECT seq AS n FROM {NAME}_stage.seq_1_to_{ROWS}) AS numbers"
            rows = f"SELECT {VALUES.format(moment=moment)} FROM {numbers}"
            sql.execute(f"INSERT INTO {table} {rows}")
            for edit in edits:
                sql.execute(edit.format(table))
            to.publish(cut(run, ROWS - 10 * bool(edits), day), definitions={})


@pytest.fixture(scope="module")
def queries(stack: RunningStack) -> Iterator[dict[str, Query]]:
    """By destination what asks it by SQL. The platform database knows the streams of both."""
    with ExitStack() as around:
        warehouse = around.enter_context(postgres_database(NAME))
        platform = around.enter_context(postgres_database(f"{NAME}_platform"))
        copy = around.enter_context(mariadb_destination(NAME))
        around.enter_context(known_by_id(warehouse, IN_POSTGRES.connection, "postgres"))
        around.enter_context(known_by_id(copy, IN_MARIADB.connection, "mysql"))
        patch = around.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("SEAMLINE_CONNECTION_SEAMLINE_DB", uri(platform))
        migrate.upgrade()
        with closing(registry.director()) as director:
            for one in PLAN.destinations:
                director.want(PLAN.stream_id(one.name), plan_json=plan_to_json(PLAN))
        fill_postgres(warehouse)
        fill_mariadb(copy)
        by_postgres = around.enter_context(postgres(warehouse))
        by_mariadb = around.enter_context(closing(mariadb(copy))).cursor()

        def ask_mariadb(statement: str) -> Any:
            by_mariadb.execute(statement)
            return by_mariadb.fetchall()

        yield {
            "warehouse": lambda statement: by_postgres.execute(statement.encode()).fetchall(),
            "ledger_copy": ask_mariadb,
        }


@pytest.fixture(scope="module")
def spark(queries: dict[str, Query]) -> Iterator[SparkSession]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_SUBMIT_ARGS", "--master local[2] --driver-memory 512m pyspark-shell")
        session = open_session("read databases")
    for name, value in settings.process_environment().items():
        if name.startswith("SEAMLINE_CONNECTION_"):
            session.sparkContext.environment[name] = value
    session.conf.set("spark.sql.session.timeZone", "UTC")
    session.dataSource.register(SeamlineDataSource)
    yield session
    session.stop()


def read(spark: SparkSession, destination: str, **options: str) -> DataFrame:
    reader = spark.read.format("seamline").option("sync", "settlement").option("destination", destination)
    return reader.options(**{"table": "entry", **options}).load()


@pytest.mark.parametrize("destination", ["warehouse", "ledger_copy"])
def test_spark_reads_the_cut_of_a_date_in_parts_and_what_differs_between_two_as_sql_says(
    spark: SparkSession, queries: dict[str, Query], destination: str
) -> None:
    ask, moment = queries[destination], "timestamp" if destination == "warehouse" else "timestamp_ntz"
    frame = read(spark, destination, date=DAY.isoformat())
    assert frame.dtypes == [("id", "bigint"), ("amount", "decimal(18,2)"), ("at", moment), ("memo", "string")]
    assert frame.rdd.getNumPartitions() == 2
    frame.createOrReplaceTempView("entry")
    (found,) = spark.sql("SELECT COUNT(*), SUM(amount), COUNT(memo), MIN(at), MAX(at) FROM entry").collect()
    (shown,) = ask(SUMS.format(f"{NAME}_cut.entry_current", DAY))
    assert (*found[:3], *(one.replace(tzinfo=None) for one in found[3:])) == (
        *shown[:3], *(one.replace(tzinfo=None) for one in shown[3:]),
    )  # fmt: skip
    assert (found[0], found[1]) == (ROWS - 10, sum(Decimal(n) / 100 - 500 for n in range(11, ROWS + 1)) + 2)
    assert read(spark, destination).count() == ROWS - 10, "the newest proven cut where no date is named"
    assert read(spark, destination, date=f"cut_{EARLIER:%Y_%m_%d}_v1").count() == ROWS

    differs = read(spark, destination, since=EARLIER.isoformat(), date=DAY.isoformat())
    changes = sorted((row[0], row[1], row[2], row[4]) for row in differs.collect())
    assert changes == sorted(
        tuple(row)
        for row in ask(
            f"SELECT cut_change, id, amount, memo FROM {NAME}_cut.entry_cut_changes"
            f" WHERE cut_since = '{EARLIER}' AND cut_business_date = '{DAY}'"
        )
    )
    assert len(changes) == 14


def test_what_cannot_be_read_is_refused_with_the_reason(spark: SparkSession, queries: dict[str, Query]) -> None:
    for options, words in (
        ({"destination": "warehouse", "date": "2020-01-01"}, "has no cut of 2020-01-01"),
        ({"destination": "warehouse", "table": "fee"}, "table 'fee' is not in cut"),
        ({"destination": "warehouse", "date": "live"}, "was never published there"),
        ({"destination": ""}, "has 2 destinations to be read at one position"),
    ):
        with pytest.raises(PySparkException, match=words):
            read(spark, **options)
