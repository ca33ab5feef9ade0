"""Derived tables by a real Spark session over a real PostgreSQL: every group, every digit."""

import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from seamline import settings
from seamline.adapters.connections import Connection
from seamline.databases.postgres.client import open_session
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.verdict import Verdict
from seamline.kinds.bulk import ArrowRows
from seamline.kinds.found import sink_kind
from seamline.plan.model import DerivedTablePlan, DestinationPlan
from seamline.ports import Load
from seamline.sinks.postgres.arrow_rows import page_ranges, read_batches
from seamline.values.build import batch_of
from seamline_spark.cut.derived import derive
from tests.contract.lake_worlds import PostgresLakeWorld
from tests.integration.databases import postgres, postgres_database
from tests.log_topic import STREAM, publication

ENTRY = Table(
    "entry",
    (
        Column("account_id", Kind.INTEGER, "bigint", length=64),
        Column("currency", Kind.CHAR, "char(3)", length=3),
        Column("amount", Kind.DECIMAL, "decimal(20,4)", precision=20, scale=4),
        Column("memo", Kind.STRING, "varchar(40)", length=40),
    ),
)
BALANCE = DerivedTablePlan("daily_balance", "entry", "amount", ("account_id", "currency"))
VARIABLE = "SEAMLINE_CONNECTION_RECONCILE_DERIVED"
BY_MEMO = DerivedTablePlan("by_memo", "entry", "amount", ("memo",))


@pytest.fixture(scope="module")
def warehouse() -> Iterator[Connection]:
    with postgres_database("reconcile_derived") as connection, postgres(connection) as sql:
        sql.execute("CREATE SCHEMA stage")
        sql.execute(
            "CREATE TABLE stage.entry (account_id bigint, currency varchar(3), amount numeric(20,4), memo varchar(40))"
        )
        sql.execute(
            "INSERT INTO stage.entry SELECT n % 997, (ARRAY['EUR','USD',NULL])[n % 3 + 1], n * 1234567890.1234,"
            r" (ARRAY[NULL, '', ' ', 'a,b', 'q\"q', E'line\nbreak', '\N', '工资'])[n % 8 + 1]"
            " FROM generate_series(1, 30000) n"
        )
        sql.execute("CREATE TABLE stage.empty (LIKE stage.entry)")
        yield connection


@pytest.fixture(scope="module")
def known_by_id(warehouse: Connection) -> Iterator[str]:
    """The test's database by a connection id, as driver and tasks resolve any other."""
    where = f"{warehouse.login}:{warehouse.password}@{warehouse.host}:{warehouse.port}/{warehouse.database}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, f"postgres://{where}")
        yield VARIABLE.removeprefix("SEAMLINE_CONNECTION_").lower()


@pytest.fixture(scope="module")
def spark(known_by_id: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    folder: Path = tmp_path_factory.mktemp("spark")
    builder: Any = SparkSession.builder
    session = (
        builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(folder))
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "512m")
        .config(f"spark.executorEnv.{VARIABLE}", settings.process_environment()[VARIABLE])
        .getOrCreate()
    )
    # Workers are `python3` of PATH otherwise, which need not be this environment.
    session.sparkContext.pythonExec = sys.executable
    yield session
    session.stop()


@pytest.mark.parametrize("derived", [BALANCE, BY_MEMO], ids=lambda derived: derived.name)
@pytest.mark.parametrize("relation", ["entry", "empty"])
def test_a_derived_table_equals_the_sums_of_its_rows_to_the_last_digit(
    derived: DerivedTablePlan, relation: str, spark: SparkSession, warehouse: Connection, known_by_id: str
) -> None:
    destination = DestinationPlan("warehouse", "postgres", known_by_id, "kept", staged_in="stage")
    found = derive(spark, destination, derived, Load(ENTRY, relation, 0), run_id=f"run of {relation}", position="0-1-1")
    assert (found.verdict.verdict, found.verdict.reason) == (Verdict.MATCH, "")
    groups = 0 if relation == "empty" else 8 if derived is BY_MEMO else 997 * 3
    assert found.rows == found.verdict.source_rows == groups
    with postgres(warehouse) as sql:
        assert sql.execute(f'SELECT count(*) FROM stage."{found.staged_as}"').fetchone() == (groups,)


def test_a_derived_table_of_a_lake_equals_the_sums_of_what_a_run_holds_of_it(
    spark: SparkSession, warehouse: Connection, known_by_id: str, tmp_path: Path
) -> None:
    with postgres(warehouse) as sql:
        rows = sql.execute("SELECT * FROM stage.entry").fetchall()
    with closing(PostgresLakeWorld([ENTRY], warehouse, tmp_path / "lake")) as world:
        destination = replace(world.destination, connection=known_by_id)
        kind = sink_kind(destination.kind)
        place = kind.load_area(destination, run_id="a run").create([ENTRY])["entry"]
        batch = batch_of(ENTRY, rows)
        kind.load(destination, place, ArrowRows(batch.schema, iter([batch])))
        world.sink().publish(STREAM, [Load(ENTRY, place.name, len(rows))], publication=publication([ENTRY]))
        held = Load(ENTRY, str(world.seen().snapshots["entry"]), len(rows))
        for derived, groups in ((BALANCE, 997 * 3), (BY_MEMO, 8)):
            found = derive(spark, destination, derived, held, run_id="a run", position="0-1-1")
            assert (found.verdict.verdict, found.verdict.reason) == (Verdict.MATCH, "")
            assert found.rows == found.verdict.source_rows == groups


def test_page_ranges_leave_no_row_out_and_read_none_twice(warehouse: Connection) -> None:
    columns = ENTRY.columns[:1]
    with closing(open_session(warehouse, application_name="test")) as session:
        for parts in (1, 3, 7, 10_000):
            ranges = page_ranges(session, "stage.entry", parts=parts)
            counts = [
                sum(batch.num_rows for batch in read_batches(session, "stage.entry", columns, pages))
                for pages in ranges
            ]
            assert sum(counts) == 30_000
            assert len(ranges) <= parts
