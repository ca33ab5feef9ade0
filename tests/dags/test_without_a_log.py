"""A sync whose source has no log, from its declaration to a published night: its DAGs, a driver of Spark's own
`spark-submit`, and a login that may SELECT and no more."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from seamline import registry
from seamline.adapters.connections import Connection
from seamline.domain.runs import Scope
from seamline.domain.verdict import Verdict
from seamline.stack.layout import Layout
from seamline.stack.programs import environment
from tests.conftest import RunningStack
from tests.dags.test_dag_run import dag_of
from tests.integration.databases import postgres, postgres_database
from tests.integration.known import destination_known_by_id
from tests.integration.platform_database import Server
from tests.integration.unlogged import TABLES, TOTAL, Bank, unlogged_bank

NAME = "unlogged_dag"
WAREHOUSE = f"{NAME}_warehouse"
DAY = (datetime.now(UTC) - timedelta(days=1)).date()
DESTINATION = f"destination: warehouse\nkind: postgres\nconnection: {WAREHOUSE}\nschema: night\n"
SYNC = f"""\
sync: {{sync}}
source: {NAME}
destinations: [warehouse]
tables: [account, {{name: entry, business_date: {{column: booked, as: date}}}}, audit]
nightly: {{timezone: UTC, as_of_max: 26h}}
"""


@pytest.fixture(params=["postgres", "mariadb"])
def bank(
    request: pytest.FixtureRequest,
    stack: RunningStack,
    rows_of_drivers: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[tuple[Bank, Connection, str]]:
    """The bank, its destination, and the name of the sync."""
    kind = request.param
    # This layer has data of its own, without the connections of the stack.
    monkeypatch.setenv("SEAMLINE_CONNECTIONS", str(stack.settings.connections))
    with ExitStack() as around:
        made = around.enter_context(unlogged_bank(kind, NAME, DAY))
        warehouse = around.enter_context(postgres_database(WAREHOUSE))
        around.enter_context(destination_known_by_id(warehouse, WAREHOUSE))
        sync = f"night_of_{kind}"
        for name, text in {
            f"sources/{NAME}": made.source,
            "destinations/warehouse": DESTINATION,
            f"syncs/{sync}": SYNC.format(sync=sync),
        }.items():
            file = tmp_path / "declared" / f"{name}.yaml"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        monkeypatch.setenv("SEAMLINE_DECLARATIONS", str(tmp_path / "declared"))
        # As Airflow's processes find `spark-submit` and what it needs.
        of_stack = environment(Layout(stack.settings))
        for name in ("PATH", "JAVA_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_LOCAL_IP"):
            monkeypatch.setenv(name, of_stack[name])
        yield made, warehouse, sync


def test_a_night_without_a_log_runs_from_its_declaration_to_a_version_that_says_for_which_read_it_holds(
    checkout: Path, airflow_database: Path, bank: tuple[Bank, Connection, str]
) -> None:
    made, warehouse, sync = bank
    onboarding = dag_of(checkout, f"{sync}__onboard")
    assert onboarding.task_ids == ["preflight", "enable"]
    assert str(onboarding.test().state) == "success"
    dag = dag_of(checkout, f"{sync}__nightly")
    # `dag.test()` of a DAG with a deadline fails in Airflow's own database.
    dag.deadline = None
    with made.money_moves():
        run = dag.test(run_conf={"business_date": DAY.isoformat()})
    states = {task.task_id: str(task.state) for task in run.get_task_instances()}
    assert str(run.state) == "success", states
    with closing(registry.platform()) as store:
        (cut,) = store.cuts(sync, DAY)
        found = store.reconciliation(cut.run_id, Scope.CUT, "warehouse")
    assert found is not None
    assert (found.verdict, found.mode, [one.table for one in found.tables]) == (Verdict.MATCH, "unlogged", [*TABLES])
    assert found.position.startswith(f"this read alone ({date.today().isoformat()}")  # noqa: DTZ011
    with closing(postgres(warehouse)) as session:
        row = session.execute("SELECT sum(balance) FROM night.account_proven").fetchone()
        assert row == (TOTAL,)
