"""A night into PostgreSQL, Hive tables and files for a partner by one read, and what Spark reads of the metastore."""

import csv
import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from seamline import registry, settings
from seamline.adapters.connections import Connection
from seamline.demo.bank import SMALL, connect, fill
from seamline.domain.calendar import last_ended
from seamline.domain.row_transform import RowTransform
from seamline.domain.runs import EXPECTATIONS
from seamline.domain.staged_cut import StagedCut
from seamline.domain.verdict import Verdict
from seamline.plan.compile import destination_plan
from seamline.plan.document import plan_to_json
from seamline.plan.model import DestinationPlan, NightlyPlan, SourcePlan, SyncPlan, TablePlan
from seamline.platform import migrate
from seamline.sinks.files.spec import FilesDestination
from seamline.sources.mariadb.catalogue import read_catalogue
from seamline.sync.cut import publish_cut
from seamline_spark.cut.main import cut
from seamline_spark.session import Application, open_session
from seamline_spark.transform.analysis import analysed
from tests import hive_metastore
from tests.conftest import RunningStack
from tests.integration.databases import mariadb, mariadb_database, postgres, postgres_database
from tests.spark.test_nightly_cut import DATES, NAMES, TIMEZONE, known

NAME = "hive_nightly"
SOURCE, WAREHOUSE, ROWS, METASTORE = (f"{NAME}_{what}" for what in ("source", "warehouse", "rows", "metastore"))
MASKED = RowTransform(
    "include/transforms/account.sql", "SELECT id, left(owner, 1) AS owner, balance FROM account WHERE status = 'open'"
)
SUM = "SELECT count(*), sum(amount) FROM {}.ledger_entry WHERE {} = DATE '{}'"


@contextmanager
def submitted(**settings: str) -> Iterator[None]:
    """As `spark-submit --conf` says it to the JVM, which other tests of the session may have started."""
    SparkContext._ensure_initialized()
    system = SparkContext._jvm.java.lang.System  # type: ignore[union-attr]
    for name, value in settings.items():
        system.setProperty(name, value)
    try:
        yield
    finally:
        for name in settings:
            system.clearProperty(name)


@dataclass(frozen=True)
class Night:
    plan: SyncPlan
    bank: Connection
    warehouse: Connection
    outgoing: Path
    store: Any
    spark: SparkSession

    def take(self, number: int, day: date) -> StagedCut:
        """Stage and compare, then publish in both destinations; that of Hive."""
        run_id = f"settlement/nightly/{day}/{number}"
        document = plan_to_json(self.plan)
        self.store.start_run(run_id=run_id, sync="settlement", kind="nightly", plan_json=document, business_date=day)
        staged = cut(Application.of(self.spark), run_id)
        self.store.put_result(run_id, EXPECTATIONS, {"verdict": "MATCH"})
        run = self.store.run(run_id)
        for destination in run.plan.destinations:
            with closing(registry.cuts(destination)) as cuts:
                publish_cut(run, destination.name, publisher=cuts, records=self.store)
        return staged["archive"]

    def delivered(self, day: date, version: int) -> tuple[int, Decimal, Any]:
        """Of the entries in a partner's file, as he adds them up, and what the control file says of them."""
        folder = self.outgoing / "settlement" / day.isoformat() / f"v{version}"
        assert (folder / "_SUCCESS").is_file()
        with (folder / "ledger_entry.csv").open(encoding="utf-8", newline="") as file:
            amounts = [Decimal(row["amount"]) for row in csv.DictReader(file)]
        tables = json.loads((folder / "control.json").read_text(encoding="utf-8"))["tables"]
        (entry,) = [table for table in tables if table["table"] == "ledger_entry"]
        return len(amounts), sum(amounts, Decimal(0)), entry

    def sums(self, day: date) -> list[Any]:
        """Of the date's entries, as PostgreSQL and as Spark adds them up."""
        with postgres(self.warehouse) as session:
            row = session.execute(SUM.format("settlement_cut", "cut_business_date", day).encode()).fetchone()
        query = SUM.format("settlement", "cut_business_date", day)
        return [row, tuple(self.spark.sql(query).collect()[0])]


@pytest.fixture
def night(stack: RunningStack, tmp_path: Path) -> Iterator[Night]:
    with ExitStack() as around:
        bank = around.enter_context(mariadb_database(NAME))
        warehouse, rows = (around.enter_context(postgres_database(name)) for name in (WAREHOUSE, ROWS))
        platform = around.enter_context(postgres_database(f"{NAME}_platform"))
        metastore = around.enter_context(hive_metastore.running(stack.settings, rows, tmp_path / "metastore"))
        service = Connection(METASTORE, "hive_metastore", metastore.host, metastore.port)
        for connection, connection_id, kind in (
            (bank, SOURCE, "mysql"),
            (warehouse, WAREHOUSE, "postgres"),
            (rows, ROWS, "postgres"),
            (service, METASTORE, "hive-metastore"),
            (platform, "seamline_db", "postgres"),
        ):
            around.enter_context(known(connection, connection_id, kind))
        migrate.upgrade()
        with closing(connect(bank)) as session:
            fill(session, SMALL, now=datetime.now(UTC), timezone=TIMEZONE)
        for folder in ("tables", "outgoing"):
            (tmp_path / folder).mkdir()
        plan = plan_of(bank, tmp_path)
        hive = {
            "spark.sql.catalogImplementation": "hive",
            "spark.hadoop.hive.metastore.uris": f"thrift://{metastore.host}:{metastore.port}",
            "spark.sql.warehouse.dir": str(tmp_path / "spark"),
        }
        with submitted(**hive):
            spark = open_session("hive nightly test")
        around.callback(spark.stop)
        spark.sparkContext.pythonExec = sys.executable
        # The JVM may be that of an earlier test: its environment has no connection of this one.
        for name, value in settings.process_environment().items():
            if name.startswith("SEAMLINE_CONNECTION_"):
                spark.sparkContext.environment[name] = value
        store = around.enter_context(closing(registry.platform()))
        yield Night(masked_in_hive(plan, spark), bank, warehouse, tmp_path / "outgoing", store, spark)


def masked_in_hive(plan: SyncPlan, spark: SparkSession) -> SyncPlan:
    """The plan in which the archive alone holds accounts masked."""
    made = analysed(spark.newSession(), plan.table("account").definition, MASKED)
    assert isinstance(made, RowTransform), made
    archive = replace(plan.destination("archive"), transforms=(("account", made),))
    return replace(plan, destinations=(plan.destination("warehouse"), archive, plan.destination("partner")))


def plan_of(bank: Connection, folder: Path) -> SyncPlan:
    source = SourcePlan(
        NAME, "mariadb", bank.database, SOURCE, SOURCE, SOURCE, "log", "connector", snapshot_lock="brief"
    )
    with closing(mariadb(bank)) as session:
        definitions = read_catalogue(session, bank.database, NAMES)
    options = (("metastore", METASTORE), ("warehouse", str(folder / "tables")))
    totals = ({"table": "ledger_entry", "sum": "amount"},)
    partner = FilesDestination(
        destination="partner", kind="files", location=str(folder / "outgoing"), control_totals=totals
    )
    return SyncPlan(
        "settlement",
        source,
        (
            DestinationPlan("warehouse", "postgres", WAREHOUSE, "settlement"),
            DestinationPlan("archive", "hive", ROWS, "settlement", options=options, cuts_only=True),
            destination_plan(partner),
        ),
        tuple(TablePlan(one.name, DATES.get(one.name), one) for one in definitions),
        nightly=NightlyPlan(timezone=TIMEZONE, as_of_max_s=26 * 3600),
    )


def test_spark_and_a_partner_read_of_a_night_what_the_other_destination_has(night: Night) -> None:
    """Of the accounts it has what its own transform makes of them."""
    day = last_ended(datetime.now(UTC), timezone=TIMEZONE)
    first = night.take(1, day)
    assert {table.table: table.verdict for table in first.tables} == dict.fromkeys(NAMES, Verdict.MATCH)
    theirs, ours = night.sums(day)
    assert theirs == ours
    count, total, said = night.delivered(day, 1)
    assert (count, total) == ours
    assert (said["rows"], said["totals"][0]["groups"][0]["amount"]) == (count, str(total))
    assert (ours[0] > 0, ours[1]) == (True, Decimal(0))
    noon = datetime(day.year, day.month, day.day, 4)  # noqa: DTZ001 - UTC noon of Shanghai, naive for the driver
    with closing(mariadb(night.bank)) as session, session.cursor() as cursor:
        cursor.execute("INSERT INTO ledger_entry VALUES (-1, -1, 1, 'CNY', 5, %s, 'late')", (noon,))
    second = night.take(2, day)
    assert {table.table: table.late_rows for table in second.tables}["ledger_entry"] == 1
    night.spark.catalog.refreshTable("settlement.ledger_entry")
    assert night.sums(day)[1] == (ours[0] + 1, Decimal(5))
    assert night.delivered(day, 2)[:2] == (ours[0] + 1, Decimal(5))
    assert night.delivered(day, 1)[:2] == ours, "a partner's earlier version stays as it was"
    found = night.spark.sql("SHOW PARTITIONS settlement.account").collect()
    assert [row[0] for row in found] == [f"cut_business_date={day}"]
    whole = "SELECT id, left(owner, 1), balance FROM settlement_cut.account_current WHERE status = 'open' ORDER BY id"
    with postgres(night.warehouse) as session:
        expected = session.execute(whole.encode()).fetchall()
    masked = night.spark.sql("SELECT * FROM settlement.account ORDER BY id")
    assert masked.columns == ["id", "owner", "balance", "cut_business_date"]
    assert [tuple(row)[:3] for row in masked.collect()] == expected != []
