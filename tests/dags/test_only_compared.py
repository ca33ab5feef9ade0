"""A sync that only compares, from its declaration to its verdict: its DAG, a driver that is a process of its
own, two databases of one server, and a lake that another client writes."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from seamline import registry
from seamline.domain.verdict import BreakType, Verdict
from tests.conftest import RunningStack
from tests.dags.real_drivers import find_spark
from tests.dags.test_dag_run import dag_of
from tests.integration.databases import postgres
from tests.integration.known import known_by_id
from tests.integration.platform_database import Server

_BANK, _COPY = "only_bank", "only_copy"
_ROWS = [{"id": number, "memo": f"付款 {number}"} for number in range(1, 501)]
_DECLARED = {
    "sources/bank": f"source: bank\nkind: postgres\nconnection: {_BANK}\ndatabase: {_BANK}\nschema: public\n",
    "destinations/copy": f"destination: copy\nkind: postgres\nconnection: {_COPY}\nschema: public\n",
    "destinations/lake": f"destination: lake\nkind: iceberg\nconnection: {_COPY}\nnamespace: bank\ncatalog: theirs\n",
    "syncs/mirror": "sync: mirror\nsource: bank\ndestinations: [copy, lake]\ntables: [account]\n"
    "reconcile_only: {in_flight_max: 1s}\n",
}


@pytest.fixture
def mirror(
    stack: RunningStack, rows_of_drivers: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """`account` in all three places; the copy has one row of its own."""
    root = stack.connection("postgres_root")
    with ExitStack() as opened:
        server = opened.enter_context(closing(postgres(root)))
        for name in (_BANK, _COPY):
            at = replace(root, database=name)
            server.execute(f"DROP DATABASE IF EXISTS {name}".encode())
            server.execute(f"CREATE DATABASE {name}".encode())
            opened.callback(server.execute, f"DROP DATABASE {name} WITH (FORCE)".encode())
            opened.enter_context(known_by_id(at, name, "postgres"))
            with closing(postgres(at)) as session:
                session.execute("CREATE TABLE account (id bigint PRIMARY KEY, memo text)")
                session.execute("INSERT INTO account SELECT n, '付款 ' || n FROM generate_series(1, 500) n")
                if name == _COPY:
                    session.execute("INSERT INTO account VALUES (1000, 'of nobody')")
        uri = f"postgresql+psycopg2://{root.login}:{root.password}@{root.host}:{root.port}/{_COPY}"
        client = SqlCatalog("theirs", uri=uri, warehouse=f"file://{tmp_path}/warehouse")
        client.create_namespace("bank")
        rows = pa.Table.from_pylist(_ROWS)
        client.create_table("bank.account", rows.schema).append(rows)
        for name, text in _DECLARED.items():
            file = tmp_path / "declared" / f"{name}.yaml"
            file.parent.mkdir(parents=True, exist_ok=True)
            of_lake = f"warehouse: {tmp_path}/warehouse\n" if name.endswith("lake") else ""
            file.write_text(text + of_lake, encoding="utf-8")
        monkeypatch.setenv("SEAMLINE_DECLARATIONS", str(tmp_path / "declared"))
        find_spark(stack, monkeypatch)
        yield


@pytest.mark.usefixtures("mirror")
def test_a_sync_that_only_compares_runs_from_its_declaration_to_a_verdict_per_destination(
    checkout: Path, airflow_database: Path
) -> None:
    run = dag_of(checkout, "mirror__reconcile").test()
    states = {task.task_id: str(task.state) for task in run.get_task_instances()}
    with closing(registry.platform()) as store:
        found = {one.destination: one for one in store.live_reconciliations("mirror", 5)}
    assert {name: one.verdict for name, one in found.items()} == {"copy": Verdict.BREAK, "lake": Verdict.MATCH}, states
    assert {one.mode for one in found.values()} == {"separate"}
    assert [(one.type, one.key) for one in found["copy"].tables[0].breaks] == [(BreakType.UNEXPECTED, '{"id": "1000"}')]
    assert (str(run.state), states["compare"]) == ("failed", "success"), "as green as its verdict"
