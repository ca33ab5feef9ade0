"""A sync whose source has no log, from its declaration to a published night: its DAGs, a driver that is a process of
its own, and a login that may SELECT and no more."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from seamline import registry
from seamline.adapters.connections import Connection
from seamline.domain.runs import Scope
from seamline.domain.verdict import Verdict
from tests import jdbc_server
from tests.conftest import RunningStack
from tests.dags.real_drivers import find_spark
from tests.dags.test_dag_run import dag_of
from tests.integration.databases import postgres, postgres_database
from tests.integration.known import destination_known_by_id
from tests.integration.platform_database import Server
from tests.integration.unlogged import TABLES, TOTAL, unlogged_bank
from tests.once_more import ONCE_MORE

NAME = "unlogged_dag"
WAREHOUSE = f"{NAME}_warehouse"
DAY = (datetime.now(UTC) - timedelta(days=1)).date()
DESTINATION = f"""\
destination: warehouse
kind: postgres
connection: {WAREHOUSE}
writer_connection: {WAREHOUSE}_writer
schema: night
"""
BY_JDBC = f"source: {NAME}\nkind: jdbc\nconnection: {NAME}\ndatabase: bank\nschema: PUBLIC\n"
IN_H2 = (
    "CREATE TABLE account (id INT PRIMARY KEY, owner VARCHAR(40), balance DECIMAL(18,2))",
    "INSERT INTO account SELECT x, 'owner', 1000 FROM system_range(1, 200)",
    "CREATE TABLE audit (who VARCHAR(40), said VARCHAR(200))",
    "CREATE TABLE entry (id INT PRIMARY KEY, booked DATE)",
    f"INSERT INTO entry VALUES (1, DATE '{DAY}'), (2, DATE '2020-01-01')",
    f"CREATE USER reader PASSWORD '{jdbc_server.PASSWORD}'",
    *(f"GRANT SELECT ON public.{table} TO reader" for table in TABLES),
)


@dataclass(frozen=True)
class Night:
    """`tables`: named as the source names them; `moves`: money does while it is entered."""

    sync: str
    tables: tuple[str, ...]
    moves: AbstractContextManager[None]
    warehouse: Connection


def sync_text(sync: str, tables: tuple[str, ...]) -> str:
    account, entry, audit = tables
    booked = "BOOKED" if entry.isupper() else "booked"
    return f"""\
sync: {sync}
source: {NAME}
destinations: [warehouse]
tables: [{account}, {{name: {entry}, business_date: {{column: {booked}, as: date}}}}, {audit}]
nightly: {{timezone: UTC, as_of_max: 26h}}
"""


def bank(
    around: ExitStack, kind: str, stack: RunningStack, folder: Path
) -> tuple[str, tuple[str, ...], AbstractContextManager[None]]:
    if kind == "postgres":
        made = around.enter_context(unlogged_bank(kind, NAME, DAY))
        return made.source, TABLES, made.money_moves()
    server = around.enter_context(jdbc_server.running(stack.settings, kind, folder, login="READER"))
    patch = around.enter_context(pytest.MonkeyPatch.context())
    patch.setenv(f"SEAMLINE_CONNECTION_{NAME.upper()}", server.connection)
    for statement in IN_H2:
        server.execute(statement)
    return BY_JDBC, tuple(table.upper() for table in TABLES), server.money_moves()


# What reads a night from PostgreSQL has tests of its own; the DAG is the same.
@pytest.fixture(params=[pytest.param("postgres", marks=ONCE_MORE), "h2"])
def night(
    request: pytest.FixtureRequest,
    stack: RunningStack,
    rows_of_drivers: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Night]:
    kind = request.param
    find_spark(stack, monkeypatch)
    with ExitStack() as around:
        source, tables, moves = bank(around, kind, stack, tmp_path)
        warehouse = around.enter_context(postgres_database(WAREHOUSE))
        around.enter_context(destination_known_by_id(warehouse, WAREHOUSE))
        sync = f"night_of_{kind}"
        for name, text in {
            f"sources/{NAME}": source,
            "destinations/warehouse": DESTINATION,
            f"syncs/{sync}": sync_text(sync, tables),
        }.items():
            file = tmp_path / "declared" / f"{name}.yaml"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        monkeypatch.setenv("SEAMLINE_DECLARATIONS", str(tmp_path / "declared"))
        yield Night(sync, tables, moves, warehouse)


def test_a_night_without_a_log_runs_from_its_declaration_to_a_version_that_says_for_which_read_it_holds(
    checkout: Path, airflow_database: Path, night: Night
) -> None:
    onboarding = dag_of(checkout, f"{night.sync}__onboard")
    assert onboarding.task_ids == ["preflight", "enable"]
    assert str(onboarding.test().state) == "success"
    dag = dag_of(checkout, f"{night.sync}__nightly")
    # `dag.test()` of a DAG with a deadline fails in Airflow's own database.
    dag.deadline = None
    with night.moves:
        run = dag.test(run_conf={"business_date": DAY.isoformat()})
    states = {task.task_id: str(task.state) for task in run.get_task_instances()}
    assert str(run.state) == "success", states
    with closing(registry.platform()) as store:
        (cut,) = store.cuts(night.sync, DAY)
        found = store.reconciliation(cut.run_id, Scope.CUT, "warehouse")
    assert found is not None
    assert (found.verdict, found.mode) == (Verdict.MATCH, "unlogged")
    assert [one.table for one in found.tables] == [*night.tables]
    assert str(found.position).startswith("this read alone (20")
    account, balance = ('"ACCOUNT_proven"', '"BALANCE"') if night.tables[0].isupper() else ("account_proven", "balance")
    with closing(postgres(night.warehouse)) as session:
        row = session.execute(f"SELECT sum({balance}) FROM night.{account}".encode()).fetchone()
        assert row == (TOTAL,)
