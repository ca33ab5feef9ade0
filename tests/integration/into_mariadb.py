"""The whole way of a captured database into MariaDB: snapshot, publish, stream, comparison at one position."""

import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace

from seamline import registry
from seamline.adapters.connections import Connection, resolve
from seamline.domain.digest import Segment
from seamline.domain.errors import SeamlineError
from seamline.domain.ledger import LedgerRow
from seamline.domain.position import Position
from seamline.domain.verdict import Verdict
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.ports import Marker, ReadView
from seamline.sinks.mariadb.dialect import MARIADB
from seamline.sinks.relational.read_back import open_views
from seamline.sync.comparison import Work, compare_tables
from seamline.sync.onboard import publish
from seamline.sync.self_test import self_tested
from seamline.sync.snapshot import take_snapshot
from seamline.sync.span_loop import run_stream
from tests.integration.captured import Captured
from tests.integration.databases import mariadb_destination, mariadb_writer_of
from tests.integration.known import known_by_id
from tests.integration.snapshot_run import Records, run_of, tools_of
from tests.integration.streamed import HeldOrders
from tests.waiting import wait_until

OpenLive = Callable[[SyncPlan, DestinationPlan, Position], ReadView]


def plan_of(name: str) -> DestinationPlan:
    """Of the destination `warehouse`, which lies in the database `name`."""
    return DestinationPlan("warehouse", "mariadb", name, name, writer_connection=f"{name}_writer")


@contextmanager
def warehouse_in_mariadb(name: str) -> Iterator[Connection]:
    with (
        mariadb_destination(name) as publisher,
        known_by_id(publisher, name, "mysql"),
        known_by_id(mariadb_writer_of(publisher), f"{name}_writer", "mysql"),
    ):
        yield publisher


def synced(
    bank: Captured, *, before: Sequence[str], after: Sequence[str], there: OpenLive | None = None
) -> dict[str, Verdict]:
    """Every table of the bank's plan: loaded behind `before`, published, and streamed while `after` is executed.

    Returns their verdicts at the end, by the view `there` of the destination, which is MariaDB where nothing is said.
    No statement may follow: the source is read where it is by then.
    """
    (destination,) = bank.plan.destinations
    found = synced_into_all(bank, before=before, after=after, there={destination.name: there or _in_mariadb})
    return found[destination.name]


def synced_into_all(
    bank: Captured, *, before: Sequence[str], after: Sequence[str], there: Mapping[str, OpenLive]
) -> dict[str, dict[str, Verdict]]:
    """The same for every destination of the plan, from one read; verdicts and views by the destination's name."""
    bank.ensure()
    bank.execute(*before)
    run = run_of(bank, [table.name for table in bank.plan.tables])
    for name in there:
        assert [one for one in registry.destination_problems(run.plan, name) if one.is_fatal] == []
    run.result["snapshot"] = take_snapshot(run, tools_of(bank, run, Records()))
    for name in there:
        with closing(registry.sink(run.plan, name)) as sink:
            assert publish(run, name, sink=sink).ledger.epoch == 1
    with ExitStack() as streams:
        for name in there:
            streams.enter_context(_streaming(bank, run.plan, name))
        bank.execute(*after)
        _wait_until_applied(bank, run.plan, list(there))
    work = [Work(table.definition, Segment(table.name), Segment(table.name)) for table in run.plan.tables]
    # All of it is applied, as far as the source is by now; the ledger itself names the marker's place. So `there` is
    # given the source's.
    (source,) = bank.source.open_views(1)
    with closing(source):
        return {name: _compared(work, run.plan, name, source, opened) for name, opened in there.items()}


def _compared(
    work: Sequence[Work], plan: SyncPlan, destination: str, source: ReadView, there: OpenLive
) -> dict[str, Verdict]:
    with closing(there(plan, plan.destination(destination), source.position)) as found:
        verdicts = compare_tables(work, source=[source], destination=[found])
        # Under the self-test: of every type that a test brings there.
        verdicts, _ = self_tested(verdicts, work, source=source, destination=found)
    # A verdict alone would not say why it is one.
    assert not {one.table: one.reason for one in verdicts if one.verdict is not Verdict.MATCH}
    return {one.table: one.verdict for one in verdicts}


def _in_mariadb(plan: SyncPlan, destination: DestinationPlan, at: Position) -> ReadView:
    places = {table.name: (destination.connection, table.name) for table in plan.tables}
    tables = [table.definition for table in plan.tables]
    (found,) = open_views(resolve(destination.connection), tables, places, 1, lambda _: at, dialect=MARIADB)
    return found


@contextmanager
def _streaming(bank: Captured, plan: SyncPlan, destination: str) -> Iterator[None]:
    control, errors = HeldOrders(), list[SeamlineError]()

    def run() -> None:
        try:
            with closing(bank.open_log()) as reader, closing(registry.sink(plan, destination)) as sink:
                run_stream(plan, destination, reader=reader, sink=sink, control=control)
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


def _wait_until_applied(bank: Captured, plan: SyncPlan, destinations: Sequence[str]) -> None:
    marker = Marker(id=f"applied-{uuid.uuid4().hex}", kind="barrier")
    bank.source.commit_marker(marker)

    wait_until(
        lambda: all(_ledger_of(plan, name).last_marker == marker.id for name in destinations),
        timeout_s=120,
        what="the barrier's marker in the ledger",
    )


def _ledger_of(plan: SyncPlan, destination: str) -> LedgerRow:
    with closing(registry.sink(plan, destination)) as sink:
        ledger = sink.read_ledger(plan.stream_id(destination))
    assert ledger is not None
    return ledger
