"""docs/how-to/deliver-files.md from end to end: files are delivered to an SFTP server, and a second sync takes them."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from seamline import registry, settings
from seamline.adapters.connections import Connection
from seamline.demo.bank import SMALL, connect, fill
from seamline.domain.calendar import last_ended
from seamline.domain.errors import GateFailed
from seamline.domain.runs import EXPECTATIONS, REASON, TOOK_NOTHING, Cut, Scope
from seamline.domain.verdict import Verdict
from seamline.plan.compile import compile_plan
from seamline.plan.document import plan_to_json
from seamline.plan.explain import explain
from seamline.plan.model import Run, SyncPlan
from seamline.platform import migrate
from seamline.spec.load import load_declarations
from seamline.sync.cut import publish_cut
from seamline.sync.delivered import kept_in
from seamline_spark.cut.main import cut
from seamline_spark.session import Application, open_session
from tests import ssh_server
from tests.contract.file_places import said
from tests.integration.databases import mariadb, mariadb_database, postgres, postgres_database
from tests.spark.test_nightly_cut import TIMEZONE, known

NAME = "files_nightly"
SOURCE, WAREHOUSE = f"{NAME}_source", f"{NAME}_warehouse"
NIGHTLY = f"nightly: {{timezone: {TIMEZONE}, as_of_max: 26h}}"
DECLARED = {
    "sources/core_bank.yaml": """
source: core_bank
kind: mariadb
connection: {source}
database: {database}
log: none
""",
    "destinations/partner.yaml": """
destination: partner
kind: files
location: sftp://{folder}
connection: partner_sftp
staging: {staging}
csv: {{delimiter: "|", encoding: gb18030, trailer: true}}
control_totals:
  - {{table: ledger_entry, sum: amount, by: [currency]}}
""",
    "syncs/settlement.yaml": f"""
sync: settlement
source: core_bank
destinations: [partner]
tables: [account, {{{{name: ledger_entry, business_date: {{{{column: booked_at, as: instant}}}}}}}}, access_audit]
{NIGHTLY.replace("{", "{{").replace("}", "}}")}
""",
    "sources/bank_files.yaml": """
source: bank_files
kind: files
location: sftp://{folder}
connection: partner_sftp
delivery: settlement/{{date}}/v{{version}}
csv: {{delimiter: "|", encoding: gb18030, trailer: ["T", "{{rows}}"]}}
""",
    "destinations/warehouse.yaml": "destination: warehouse\nkind: postgres\nconnection: {warehouse}\nschema: copy\n",
    "syncs/bank_copy.yaml": f"""
sync: bank_copy
source: bank_files
destinations: [warehouse]
tables: [account, ledger_entry, access_audit]
{NIGHTLY.replace("{", "{{").replace("}", "}}")}
reconcile:
  control_totals:
    - {{{{table: ledger_entry, sum: amount, by: [currency]}}}}
""",
}


@dataclass(frozen=True)
class Both:
    """The two syncs, and the place between them."""

    declared: Path
    place: Path
    bank: Connection
    warehouse: Connection
    store: Any
    spark: SparkSession

    def onboarded(self, sync: str) -> SyncPlan:
        declarations = load_declarations(self.declared)
        plan = compile_plan(declarations, sync)
        source = registry.source(plan)
        found = source.survey([table.name for table in plan.tables])
        assert [one for one in (*found.problems, *source.preflight(found.tables)) if one.is_fatal] == []
        return compile_plan(declarations, sync, found)

    def take(self, sync: str, day: date, number: int = 1, *, reason: str = "") -> Cut:
        """The night of a date, published."""
        run = self.run(sync, day, number, reason=reason)
        self.store.put_result(run.run_id, EXPECTATIONS, {"verdict": "MATCH", "checked": 1, "failed": []})
        run = self.store.run(run.run_id)
        (destination,) = run.plan.destinations
        with closing(registry.cuts(destination)) as cuts:
            return publish_cut(run, destination.name, publisher=cuts, records=self.store)

    def run(self, sync: str, day: date, number: int, *, reason: str = "") -> Run:
        """The night of a date, as its job has left it."""
        run_id = f"{sync}/nightly/{day}/{number}"
        document = plan_to_json(self.onboarded(sync))
        self.store.start_run(run_id=run_id, sync=sync, kind="nightly", plan_json=document, business_date=day)
        self.store.put_result(run_id, REASON, reason)
        cut(Application.of(self.spark), run_id)
        run: Run = self.store.run(run_id)
        return run

    def declare_beside(self, name: str) -> None:
        """A second destination of the copy."""
        copy = (self.declared / "destinations" / "warehouse.yaml").read_text()
        other = copy.replace("destination: warehouse", f"destination: {name}").replace(
            "schema: copy", f"schema: {name}"
        )
        (self.declared / "destinations" / f"{name}.yaml").write_text(other)
        sync = self.declared / "syncs" / "bank_copy.yaml"
        sync.write_text(sync.read_text().replace("[warehouse]", f"[warehouse, {name}]"))

    def sums(self, day: date) -> tuple[Any, Any]:
        """Of the entries of the date, at the bank and in the copy."""
        asked = "SELECT count(*), sum(amount) FROM {}"
        with postgres(self.warehouse) as session:
            there = session.execute(asked.format("copy_cut.ledger_entry_current").encode()).fetchone()
        zone = "CONVERT_TZ(booked_at, '+00:00', '+08:00')"
        with closing(mariadb(self.bank)) as session, session.cursor() as cursor:
            cursor.execute(f"{asked.format('ledger_entry')} WHERE date({zone}) = %s", (day,))
            return cursor.fetchone(), there


@pytest.fixture
def both(tmp_path: Path) -> Iterator[Both]:
    with ExitStack() as around:
        bank = around.enter_context(mariadb_database(NAME))
        warehouse = around.enter_context(postgres_database(WAREHOUSE))
        platform = around.enter_context(postgres_database(f"{NAME}_platform"))
        server = around.enter_context(ssh_server.running(settings.load()))
        patch = around.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("SEAMLINE_CONNECTION_PARTNER_SFTP", said(server.connection))
        for connection, connection_id, kind in (
            (bank, SOURCE, "mysql"),
            (warehouse, WAREHOUSE, "postgres"),
            (platform, "seamline_db", "postgres"),
        ):
            around.enter_context(known(connection, connection_id, kind))
        migrate.upgrade()
        with closing(connect(bank)) as session:
            fill(session, SMALL, now=datetime.now(UTC), timezone=TIMEZONE)
        (tmp_path / "staging").mkdir()
        for file, text in DECLARED.items():
            path = tmp_path / "declared" / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(
                text.format(
                    source=SOURCE,
                    database=bank.database,
                    warehouse=WAREHOUSE,
                    folder=server.folder,
                    staging=tmp_path / "staging",
                ).lstrip()
            )
        patch.setenv("PYSPARK_SUBMIT_ARGS", "--master local[2] --driver-memory 512m pyspark-shell")
        spark = open_session("files nightly test")
        around.callback(spark.stop)
        spark.sparkContext.pythonExec = sys.executable
        # The JVM may be that of an earlier test: its environment has no connection of this one.
        for name, value in settings.process_environment().items():
            if name.startswith("SEAMLINE_CONNECTION_"):
                spark.sparkContext.environment[name] = value
        store = around.enter_context(closing(registry.platform()))
        yield Both(tmp_path / "declared", server.folder, bank, warehouse, store, spark)


def test_what_one_sync_delivers_another_one_loads_and_proves(both: Both) -> None:
    day = last_ended(datetime.now(UTC), timezone=TIMEZONE)
    waits = registry.delivery(compile_plan(load_declarations(both.declared), "bank_copy"), day)
    assert (waits.is_closed, waits.seen) == (False, f"settlement/{day}/v1/_SUCCESS is not there")
    both.take("settlement", day)
    plan = both.onboarded("bank_copy")
    assert registry.delivery(plan, day).is_closed
    assert "settlement/{date}/v{version}/_SUCCESS" in explain(plan)
    first = both.take("bank_copy", day)
    assert (first.verdict, first.version, set(first.tables)) == (Verdict.MATCH, 1, plan.table_names)
    assert str(first.position).startswith(f"delivery of {day} version 1, sha256 ")
    found = both.store.reconciliation(first.run_id, Scope.CUT, "warehouse")
    assert found.mode == "delivered"
    assert {table.table: table.verdict for table in found.tables} == dict.fromkeys(plan.table_names, Verdict.MATCH)
    theirs, ours = both.sums(day)
    assert theirs == ours
    assert theirs[0] > 0
    again = both.run("bank_copy", day, 2)
    assert (again.result[TOOK_NOTHING], again.result.get("cut"), again.taking.plan.destinations) == (True, None, ())
    why = kept_in(again)["warehouse"].why
    assert f"{day} version 1, sha256 " in why
    assert why.endswith(f"is taken already: version 1 of {day} in warehouse stays in force, and is MATCH")
    assert [one.run_id for one in both.store.takes("bank_copy", day)] == [first.run_id]
    sync = both.declared / "syncs" / "bank_copy.yaml"
    sync.write_text(sync.read_text().replace("sum: amount, by: [currency]", "sum: amount"))
    by_another = both.run("bank_copy", day, 6)
    assert by_another.result[TOOK_NOTHING]
    assert kept_in(by_another)["warehouse"].changed == ("the control totals",)
    once_more = both.take("bank_copy", day, 4, reason="the copy was put back")
    assert (once_more.verdict, once_more.version, once_more.position) == (Verdict.MATCH, 2, first.position)
    with closing(mariadb(both.bank)) as session, session.cursor() as cursor:
        noon = datetime(day.year, day.month, day.day, 4)  # noqa: DTZ001 - UTC noon of Shanghai, naive for the driver
        cursor.execute("INSERT INTO ledger_entry VALUES (-1, -1, 1, 'CNY', 5, %s, 'late')", (noon,))
    both.take("settlement", day, 2)
    second = both.take("bank_copy", day, 3)
    assert (second.verdict, second.version) == (Verdict.MATCH, 3)
    assert both.sums(day)[0] == both.sums(day)[1] != theirs
    both.declare_beside("archive")
    for_one = both.run("bank_copy", day, 5)
    assert (kept_in(for_one).keys(), for_one.result["cut"].keys()) == ({"warehouse"}, {"archive"})
    assert both.store.reconciliation(for_one.run_id, Scope.CUT, "archive").verdict is Verdict.MATCH
    assert both.store.reconciliation(for_one.run_id, Scope.CUT, "warehouse") is None


def test_half_a_file_is_named_and_nothing_of_it_is_loaded(both: Both) -> None:
    day = last_ended(datetime.now(UTC), timezone=TIMEZONE)
    both.take("settlement", day)
    file = both.place / "settlement" / str(day) / "v1" / "ledger_entry.csv"
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(GateFailed, match=r"ledger_entry.csv has \d+ bytes, and \d+ are promised"):
        both.take("bank_copy", day)
    file.write_bytes(whole)
    assert both.take("bank_copy", day, 2).verdict is Verdict.MATCH
