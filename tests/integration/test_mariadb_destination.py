"""The whole way into MariaDB on real servers: snapshot amid writers, publish, stream, comparison at one position."""

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import replace

import pytest

from seamline import registry
from seamline.adapters.connections import Connection, resolve
from seamline.domain.digest import Segment
from seamline.domain.errors import SeamlineError
from seamline.domain.verdict import Verdict
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.ports import Marker
from seamline.sinks.mariadb.dialect import MARIADB
from seamline.sinks.relational.read_back import open_views
from seamline.sync.comparison import Work, compare_tables
from seamline.sync.onboard import publish
from seamline.sync.snapshot import take_snapshot
from seamline.sync.span_loop import run_stream
from tests.conftest import RunningStack
from tests.integration.captured import Captured, captured
from tests.integration.captured_postgres import captured_postgres
from tests.integration.databases import mariadb, mariadb_destination, mariadb_writer_of
from tests.integration.known import known_by_id
from tests.integration.snapshot_run import Records, run_of, tools_of
from tests.integration.streamed import HeldOrders
from tests.waiting import wait_until

NAME = "md_warehouse"
WAREHOUSE = DestinationPlan("warehouse", "mariadb", NAME, NAME, writer_connection=f"{NAME}_writer")
SOURCES: dict[str, Callable[[str], AbstractContextManager[Captured]]] = {
    "mariadb": captured,
    "postgres": captured_postgres,
}
BEFORE = (
    "INSERT INTO account VALUES (1, 1, 'one'), (2, NULL, 'tail '), (3, 3, '')",
    "INSERT INTO audit VALUES (1, 'same'), (1, 'same'), (NULL, NULL)",
)
AFTER = (
    "UPDATE account SET memo = 'ü€😀' WHERE id = 1",
    "UPDATE account SET id = 20 WHERE id = 2",
    "DELETE FROM account WHERE id = 3",
    "INSERT INTO account VALUES (4, 4, NULL)",
    "INSERT INTO audit VALUES (1, 'same'), (1, 'same '), (1, 'gone')",
    "DELETE FROM audit WHERE memo = 'gone'",
)


@pytest.fixture
def warehouse(stack: RunningStack) -> Iterator[Connection]:
    with (
        mariadb_destination(NAME) as publisher,
        known_by_id(publisher, NAME, "mysql"),
        known_by_id(mariadb_writer_of(publisher), f"{NAME}_writer", "mysql"),
    ):
        yield publisher


@contextmanager
def streaming(bank: Captured, plan: SyncPlan) -> Iterator[None]:
    control, errors = HeldOrders(), list[SeamlineError]()

    def run() -> None:
        try:
            with closing(bank.open_log()) as reader, closing(registry.sink(plan, "warehouse")) as sink:
                run_stream(plan, "warehouse", reader=reader, sink=sink, control=control)
        except SeamlineError as exc:
            errors.append(exc)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        control.given = replace(control.given, wanted=False)
        thread.join(timeout=60)
    assert not errors
    assert not thread.is_alive()


def wait_until_applied(bank: Captured, plan: SyncPlan) -> None:
    marker = Marker(id=f"applied-{uuid.uuid4().hex}", kind="barrier")
    bank.source.commit_marker(marker)

    def is_applied() -> bool:
        with closing(registry.sink(plan, "warehouse")) as sink:
            ledger = sink.read_ledger(plan.stream_id("warehouse"))
        return ledger is not None and ledger.last_marker == marker.id

    wait_until(is_applied, timeout_s=120, what="the barrier's marker in the ledger")


@pytest.mark.parametrize("kind", SOURCES)
def test_a_sync_into_mariadb_is_loaded_published_streamed_and_agrees_with_its_source(
    kind: str, warehouse: Connection
) -> None:
    with SOURCES[kind](f"md_{kind}") as bank:
        bank.plan = replace(bank.plan, destinations=(WAREHOUSE,))
        bank.ensure()
        bank.execute(*BEFORE)
        run = run_of(bank, ("account", "audit"))
        assert registry.destination_problems(run.plan, "warehouse") == ()
        run.result["snapshot"] = take_snapshot(run, tools_of(bank, run, Records()))
        with closing(registry.sink(run.plan, "warehouse")) as sink:
            assert publish(run, "warehouse", sink=sink).ledger.epoch == 1
        with streaming(bank, run.plan):
            bank.execute(*AFTER)
            wait_until_applied(bank, run.plan)
        work = [Work(table.definition, Segment(table.name), Segment(table.name)) for table in run.plan.tables]
        (source,) = bank.source.open_views(1)
        # All of it is applied, as far as the source is by now; the ledger itself names the marker's place.
        places = {table.name: (NAME, table.name) for table in run.plan.tables}
        tables = [table.definition for table in run.plan.tables]
        (destination,) = open_views(resolve(NAME), tables, places, 1, lambda _: source.position, dialect=MARIADB)
        with closing(source), closing(destination):
            verdicts = compare_tables(work, source=[source], destination=[destination])
        assert {one.table: one.verdict for one in verdicts} == dict.fromkeys(("account", "audit"), Verdict.MATCH)
        with closing(mariadb(warehouse)) as session, session.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {NAME}.account ORDER BY id")
            assert cursor.fetchall() == ((1, 1, "ü€😀"), (4, 4, None), (20, None, "tail "))
            cursor.execute(f"SELECT * FROM {NAME}.audit ORDER BY memo")
            assert cursor.fetchall() == ((None, None), *[(1, "same")] * 3, (1, "same "))
            cursor.execute(f"SELECT COUNT(*) FROM {NAME}_seamline.finding")
            assert cursor.fetchall() == ((0,),)
