"""A night from the log whose date ends by the clock, by its DAG and real drivers: it has what was committed before that
minute, although it runs behind it."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from seamline import registry
from seamline.adapters.connect.debezium_capture import capture_endpoint
from seamline.adapters.connections import Connection
from seamline.domain.runs import PUBLISH, RunKind, Scope, SyncState
from seamline.domain.verdict import Verdict
from seamline.plan.compile import compile_plan
from seamline.plan.document import plan_to_json
from seamline.spec.load import load_sync
from tests.conftest import RunningStack
from tests.dags.real_drivers import find_spark
from tests.dags.test_dag_run import dag_of
from tests.integration.captured import Captured, captured
from tests.integration.databases import postgres, postgres_database
from tests.integration.known import destination_known_by_id
from tests.integration.platform_database import Server
from tests.waiting import wait_until

NAME, SYNC = "clock_dag", "clock_night"
WAREHOUSE = f"{NAME}_warehouse"
# Where it is past two o'clock in the afternoon now: a cut-off behind noon is that of the day itself.
ZONE = ZoneInfo(f"Etc/GMT{datetime.now(UTC).hour - 14:+d}")
TABLES = ("account", "audit")
SOURCE = f"""\
source: {NAME}
kind: mariadb
connection: core_bank
capture_connection: core_bank_capture
marker_connection: core_bank_marker
database: {NAME}
snapshot: {{lock: none}}
"""
DESTINATION = f"""\
destination: warehouse
kind: postgres
connection: {WAREHOUSE}
writer_connection: {WAREHOUSE}_writer
schema: night
"""


def declared(cut_off: str) -> str:
    return f"""\
sync: {SYNC}
source: {NAME}
destinations: [warehouse]
tables: [{", ".join(TABLES)}]
nightly: {{timezone: {ZONE.key}, from: log, cut_off: "{cut_off}", as_of_max: 26h}}
"""


@dataclass(frozen=True)
class Night:
    bank: Captured
    warehouse: Connection
    checkout: Path
    declarations: Path

    def declare(self, cut_off: str) -> None:
        texts = {f"sources/{NAME}": SOURCE, "destinations/warehouse": DESTINATION, f"syncs/{SYNC}": declared(cut_off)}
        for name, text in texts.items():
            file = self.declarations / f"{name}.yaml"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")

    def onboarded(self) -> None:
        """As far as nights ask for it: no stream runs."""
        spec = load_sync(self.declarations / "syncs" / f"{SYNC}.yaml")
        plan = compile_plan(spec, SYNC, registry.source(compile_plan(spec, SYNC)).survey(TABLES))
        run_id = f"{SYNC}/onboard/-/1"
        with closing(registry.platform()) as store:
            store.start_run(run_id=run_id, sync=SYNC, kind=RunKind.ONBOARD, plan_json=plan_to_json(plan))
            store.put_result(run_id, PUBLISH, {"warehouse": {}})
            store.set_sync_state(SYNC, SyncState.ENABLED)

    def cut(self, day: date) -> tuple[str, Verdict, bool]:
        """How it was made, its verdict, and whether it lacks a table, once its run has succeeded."""
        dag = dag_of(self.checkout, f"{SYNC}__nightly")
        # `dag.test()` of a DAG with a deadline fails in Airflow's own database.
        dag.deadline = None
        run = dag.test(run_conf={"business_date": day.isoformat()})
        assert str(run.state) == "success", {task.task_id: str(task.state) for task in run.get_task_instances()}
        with closing(registry.platform()) as store:
            (cut,) = store.cuts(SYNC, day)
            found = store.reconciliation(cut.run_id, Scope.CUT, "warehouse")
        assert found is not None
        return found.mode, cut.verdict, cut.partial

    def held(self, day: date) -> dict[str, list[tuple[Any, ...]]]:
        """What readers of a date see."""
        columns = {"account": "id, a, memo", "audit": "a, memo"}
        with closing(postgres(self.warehouse)) as session:
            asked = "SELECT {} FROM night_cut.{}_current WHERE cut_business_date = '{}'"
            return {one: session.execute(asked.format(columns[one], one, day).encode()).fetchall() for one in TABLES}


@pytest.fixture
def night(
    stack: RunningStack,
    checkout: Path,
    airflow_database: Path,
    rows_of_drivers: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Night]:
    find_spark(stack, monkeypatch)
    secrets = str(stack.settings.data / "connect" / "secrets.properties")
    with ExitStack() as around:
        bank = around.enter_context(
            captured(NAME, endpoint_of=lambda source: replace(capture_endpoint(source), secrets_file=secrets))
        )
        bank.ensure()
        warehouse = around.enter_context(postgres_database(WAREHOUSE))
        around.enter_context(destination_known_by_id(warehouse, WAREHOUSE))
        monkeypatch.setenv("SEAMLINE_DECLARATIONS", str(tmp_path / "declared"))
        yield Night(bank, warehouse, checkout, tmp_path / "declared")


def next_minute() -> datetime:
    """There is time to write before it."""
    return (datetime.now(ZONE) + timedelta(seconds=65)).replace(second=0, microsecond=0)


def test_a_date_is_cut_from_the_log_at_its_minute_though_its_night_runs_behind_it(night: Night) -> None:
    bank, today = night.bank, datetime.now(ZONE).date()
    bank.execute(
        "INSERT INTO account VALUES (1, 1, 'one'), (2, 2, 'two'), (3, 3, 'three')",
        "INSERT INTO audit VALUES (1, 'same'), (1, 'same')",
    )
    night.declare("00:00")
    night.onboarded()
    assert night.cut(today - timedelta(days=1)) == ("read", Verdict.MATCH, False)

    end = next_minute()
    night.declare(f"{end:%H:%M}")
    bank.execute(
        "UPDATE account SET memo = 'before' WHERE id = 1",
        "DELETE FROM account WHERE id = 3",
        "INSERT INTO audit VALUES (2, 'before')",
    )
    before = {table: sorted(bank.rows(table)) for table in TABLES}
    assert datetime.now(ZONE) < end, "this test was too slow"
    wait_until(lambda: datetime.now(ZONE) >= end, timeout_s=66, what="the end of the date")
    bank.execute(
        # Of the very second at which the date has ended.
        f"SET STATEMENT timestamp = {end.timestamp():.0f} FOR UPDATE account SET memo = 'behind' WHERE id = 2",
        "INSERT INTO account VALUES (4, 4, 'behind')",
        "DELETE FROM audit WHERE a = 1",
    )
    assert night.cut(today) == ("log", Verdict.MATCH, False)
    assert {table: sorted(rows) for table, rows in night.held(today).items()} == before
