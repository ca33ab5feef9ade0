"""Whoever was asked leaves no client open: not a command, not a step of a run, not a job. The servers are real.

CPython ends what nobody refers to any more, so a forgotten client is seen only while somebody still has it. Here every
client is kept, and what is counted are the connections of this process and its children.
"""

import io
import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, redirect_stdout
from dataclasses import dataclass
from functools import wraps
from itertools import islice
from pathlib import Path
from typing import Any

import httpx
import psutil
import psycopg
import psycopg2
import pymysql
import pytest

from seamline import registry, settings
from seamline.adapters.connections import Connection, resolve
from seamline.adapters.kafka import log_reader
from seamline.bulk.read import RunReader
from seamline.bulk.threads import CopyingHere
from seamline.cli.demo import SYNC, Demo
from seamline.cli.main import main
from seamline.domain.errors import ConfigError
from seamline.domain.runs import TABLES
from seamline.domain.verdict import Verdict
from seamline.plan.compile import compile_plan
from seamline.plan.document import plan_to_json
from seamline.plan.list_change import ListChange
from seamline.plan.model import Run, SyncPlan
from seamline.platform import migrate
from seamline.spec.load import load_declarations
from seamline.stack import container_health
from seamline.stack.layout import Layout
from seamline_airflow import onboarding
from seamline_spark.compare.main import compare_run
from seamline_spark.join.main import join_run
from seamline_spark.snapshot import main as snapshot_job
from tests.conftest import RunningStack
from tests.integration.captured import Captured, captured
from tests.integration.captured_postgres import captured_postgres
from tests.integration.databases import postgres_database
from tests.integration.known import destination_known_by_id, known_by_id
from tests.integration.streaming_here import streaming
from tests.waiting import wait_until

NAME = "closed_clients"
SERVERS = {"postgres_root": "PostgreSQL", "core_bank_root": "MariaDB", "kafka": "Kafka", "connect": "Connect"}
SOURCE = """source: {name}
kind: {kind}
connection: {reader}
capture_connection: {capture}
marker_connection: {marker}
database: {name}
"""
DESTINATION = "destination: warehouse\nkind: postgres\nconnection: {0}\nwriter_connection: {0}_writer\nschema: live\n"
DECLARED = f"sync: {SYNC}\nsource: {NAME}\ndestinations: [warehouse]\ntables: [account, audit]\n"
NUMBERS = itertools.count(1)


@dataclass
class Office:
    """A sync that was onboarded, by the steps and the job of a run."""

    bank: Captured
    plan: SyncPlan

    def run(self, kind: str) -> Run:
        run_id = f"{SYNC}/{kind}/-/{next(NUMBERS)}"
        with closing(registry.platform()) as store:
            store.start_run(run_id=run_id, sync=SYNC, kind=kind, plan_json=plan_to_json(self.plan))
            return store.run(run_id)

    def again(self, run: Run) -> Run:
        with closing(registry.platform()) as store:
            return store.run(run.run_id)

    def onboard(self) -> None:
        self.plan, problems = onboarding.preflight(self.plan)
        assert not [problem for problem in problems if problem.is_fatal]
        run = self.run("onboard")
        onboarding.ensure_capture(run)
        snapshot_job.load(None, run.run_id)  # type: ignore[arg-type]
        with closing(registry.platform()) as store:
            onboarding.publish(store.run(run.run_id), store)
        with closing(registry.director()) as director:
            director.want(self.plan.stream_id("warehouse"), plan_json=plan_to_json(self.plan))
        assert all(onboarding.ledgers(self.plan).values())


@pytest.fixture(scope="module", params=["mariadb", "postgres"])
def office(request: pytest.FixtureRequest, stack: RunningStack, tmp_path_factory: Any) -> Iterator[Office]:
    with ExitStack() as around:
        of_kind: dict[str, Callable[[str], AbstractContextManager[Captured]]]
        of_kind = {"mariadb": captured, "postgres": captured_postgres}
        bank = around.enter_context(of_kind[request.param](NAME))
        warehouse = around.enter_context(postgres_database(f"{NAME}_warehouse"))
        around.enter_context(destination_known_by_id(warehouse, warehouse.database))
        platform = around.enter_context(postgres_database(f"{NAME}_platform"))
        around.enter_context(known_by_id(platform, "seamline_db", "postgres"))
        patch = around.enter_context(pytest.MonkeyPatch.context())
        bank.grant(bank.plan)
        bank.execute("INSERT INTO account VALUES (1, 1, 'one')", "INSERT INTO audit VALUES (1, 'one')")
        patch.setenv("SEAMLINE_DECLARATIONS", str(declared(bank, warehouse, tmp_path_factory.mktemp("declared"))))
        # Without Spark; the job and its readers are the product's.
        patch.setattr(snapshot_job, "run_reader", lambda _, run, **__: reader_here(run))
        migrate.upgrade()
        one = Office(bank, compile_plan(load_declarations(settings.load().declarations), SYNC))
        one.onboard()
        yield one


def declared(bank: Captured, warehouse: Connection, folder: Path) -> Path:
    plan = bank.source_plan
    files = {
        f"sources/{NAME}.yaml": SOURCE.format(
            name=NAME, kind=plan.kind, reader=plan.reader, capture=plan.capture, marker=plan.marker
        ),
        "destinations/warehouse.yaml": DESTINATION.format(warehouse.database),
        f"syncs/{SYNC}.yaml": DECLARED,
    }
    for path, text in files.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return folder


def reader_here(run: Run) -> RunReader:
    return RunReader(run, tasks=lambda _: 2, copying_of=lambda groups, _: CopyingHere(groups))


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Every client that is opened from now on; those that are still open are closed behind the test."""
    clients: list[Any] = []

    def keeping(opener: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(opener)
        def opened(*positional: Any, **named: Any) -> Any:
            clients.append(opener(*positional, **named))
            return clients[-1]

        return opened

    for owner, name in ((psycopg2, "connect"), (httpx, "Client"), (log_reader, "Consumer")):
        monkeypatch.setattr(owner, name, keeping(getattr(owner, name)))
    # Of these two the product has classes of its own.
    monkeypatch.setattr(psycopg.Connection, "connect", classmethod(keeping(psycopg.Connection.connect.__func__)))
    connect = pymysql.connections.Connection.connect

    def connected(session: Any, *positional: Any) -> None:
        connect(session, *positional)
        clients.append(session)

    monkeypatch.setattr(pymysql.connections.Connection, "connect", connected)
    yield clients


def connections() -> Counter[str]:
    """Those of this process and its children to each server."""
    ports = {resolve(connection_id).port: server for connection_id, server in SERVERS.items()}
    here = psutil.Process()
    found = [one for process in (here, *here.children(recursive=True)) for one in process.net_connections("tcp")]
    return Counter(ports[one.raddr.port] for one in found if one.raddr and one.raddr.port in ports)


def assert_leaves_none_open(use_case: Callable[[Office], None], office: Office) -> None:
    """What a process keeps on purpose, its one client of Kafka's administration, is there behind the first time."""
    use_case(office)
    before = connections()
    use_case(office)
    assert connections() == before


def status(office: Office) -> None:
    with redirect_stdout(io.StringIO()) as said:
        main(["status", SYNC])
    assert f"stream {office.plan.stream_id('warehouse')}" in said.getvalue()


def orders_to_streams(office: Office) -> None:
    for order in ("pause", "resume", "restart"):
        assert main(["stream", order, SYNC]) == 0


def an_order_that_is_refused(office: Office) -> None:
    assert main(["stream", "pause", "nobody"]) == ConfigError.exit_code


def the_look_of_a_container(office: Office) -> None:
    _, *others = islice(container_health.servers(), 3)
    assert [wrong for _, wrong in others] == ["", ""]


def the_end_of_the_demo(office: Office) -> None:
    demo = Demo(Layout(settings.load()))
    assert not demo.onboarded_into(office.plan)
    assert demo.show([]) == 1


def checking_the_source(office: Office) -> None:
    assert not [problem for problem in onboarding.check_source(office.plan) if problem.is_fatal]


def joining(office: Office) -> None:
    """Of no table: that needs no stream, and goes through all of the job's clients."""
    run = office.run("tables")
    with closing(registry.platform()) as store:
        store.put_result(run.run_id, TABLES, ListChange().as_json())
        store.put_result(run.run_id, "snapshot", {"topic": office.plan.source.log_topic, "next_offset": 0})
    join_run(run.run_id)


def starting_the_capture(office: Office) -> None:
    assert main(["capture", "start", NAME]) == 0


def verdict(office: Office) -> Verdict:
    (found,) = compare_run(office.run("reconcile").run_id)
    return found.verdict


def comparing(office: Office) -> None:
    assert verdict(office) is Verdict.MATCH


def giving_the_capture_up(office: Office) -> None:
    assert main(["capture", "reset", NAME, "--yes"]) == 0


@pytest.mark.parametrize(
    "use_case",
    [
        Office.onboard,
        status,
        orders_to_streams,
        an_order_that_is_refused,
        the_look_of_a_container,
        the_end_of_the_demo,
        checking_the_source,
        joining,
        starting_the_capture,
    ],
    ids=lambda use_case: use_case.__name__,
)
def test_no_client_is_left_open_by(use_case: Callable[[Office], None], office: Office, kept: list[Any]) -> None:
    assert_leaves_none_open(use_case, office)
    assert kept, "nothing was asked"


def test_no_client_is_left_open_by_a_comparison(office: Office, kept: list[Any]) -> None:
    with streaming(office.plan):
        wait_until(lambda: verdict(office) is Verdict.MATCH, timeout_s=60, what="the stream to pass its boundaries")
        assert_leaves_none_open(comparing, office)


FORGOTTEN: dict[str, tuple[str, Callable[[Office], object]]] = {
    "platform": ("PostgreSQL", lambda _: registry.platform().sync_state(SYNC)),
    "director": ("PostgreSQL", lambda _: registry.director().known()),
    "capture registry": ("PostgreSQL", lambda _: registry.capture_registry().tables(NAME)),
    "pruning holds": ("PostgreSQL", lambda _: registry.pruning_holds().lowest_held("none")),
    "read view": ("the source", lambda office: registry.source(office.plan).open_views(1)),
    "log reader": ("Kafka", lambda office: read_log(office)),
    "Connect": ("Connect", lambda office: httpx.Client().get(office.bank.client.url)),
}


def read_log(office: Office) -> None:
    reader = registry.log_reader(office.plan)
    reader.assign(0)
    wait_until(lambda: reader.poll(1.0, 1), timeout_s=20, what="a record")


@pytest.mark.parametrize("what", FORGOTTEN)
def test_a_client_that_was_forgotten_is_seen(what: str, office: Office, kept: list[Any]) -> None:
    server, forget = FORGOTTEN[what]
    before = connections()
    forget(office)
    source = {"mariadb": "MariaDB", "postgres": "PostgreSQL"}[office.plan.source.kind]
    assert set(connections() - before) == {source if server == "the source" else server}
    for client in kept:
        client.close()


def test_no_client_is_left_open_by_a_reset_which_ends_the_log_of_these_tests(office: Office, kept: list[Any]) -> None:
    assert_leaves_none_open(giving_the_capture_up, office)
    assert kept, "nothing was asked"
