"""HBase as a destination: the behaviour suite over a real server, and what is its own."""

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import cast

import pytest

from seamline import settings
from seamline.adapters.failpoints import ArmedFailpoints
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.digest import Segment
from seamline.domain.errors import CommitUnknown, Diverged, Fenced, Refused, TransientError
from seamline.domain.server_found import MAKES
from seamline.kinds.bulk import ArrowRows
from seamline.ports import Commit, Lease, Progress, Staged
from seamline.ports.maintenance import INCREMENTAL_KEPT_DAYS
from seamline.sinks.hbase import ledger, loads, maintenance, preflight, read_back, sink
from seamline.sinks.hbase.command_line import CLIENT
from seamline.sinks.hbase.ledger import State
from seamline.sinks.hbase.loads import load_rows
from seamline.sinks.hbase.reading import fetched
from seamline.sinks.hbase.rows import How, page_of, scanned
from seamline.sinks.hbase.sink import HBaseSink
from seamline.values import digest
from seamline.values.arrow import schema_of
from seamline.values.build import batch_of
from tests import hbase_server
from tests.contract.behaviours import Applying, Behaviour, account, published, texts
from tests.contract.every_kind import VALUES
from tests.contract.filter_behaviours import FILTER_BEHAVIOURS
from tests.contract.going_back_behaviours import GOING_BACK_BEHAVIOURS
from tests.contract.hbase_world import HBaseWorld
from tests.contract.joining_behaviours import carrying, passed
from tests.contract.keyed_behaviours import OF_KEYED_TABLES, leg
from tests.contract.repair_behaviours import REPAIR_BEHAVIOURS
from tests.contract.test_planted_bugs import caught_by
from tests.contract.unavailable_value_behaviours import LEFT_OUT_BEHAVIOURS
from tests.contract.worlds import World
from tests.hbase_server import HBaseServer, compacted
from tests.log_topic import (
    ACCOUNT,
    STREAM,
    TRANSFER,
    Change,
    delete,
    insert,
    position,
    publication,
    sync_plan,
    update,
)
from tests.memory_sink import LostAnswer
from tests.once_more import ONCE_MORE
from tests.opened_sink import decoder_of
from tests.toast_log import NOTE

# Its server takes half a minute to come up, and its jars are 230 MB: asked for by `--every-behaviour`.
pytestmark = ONCE_MORE
SPAWNED = multiprocessing.get_context("spawn")
KEYED = (ACCOUNT, TRANSFER)
BEHAVIOURS = (*OF_KEYED_TABLES, *FILTER_BEHAVIOURS, *REPAIR_BEHAVIOURS, *GOING_BACK_BEHAVIOURS)
# They see nothing of a commit that did not end. Rows of HBase are ahead of their ledger then: below is what holds.
WHOLE_OR_NOTHING = {
    "a_failure_amid_keyed_rows_leaves_nothing_and_can_be_tried_again",
    "a_joining_that_never_arrived_can_be_repeated",
}


@pytest.fixture(scope="module")
def server() -> Iterator[HBaseServer]:
    with hbase_server.running(settings.load()) as running:
        yield running


@contextmanager
def opened(tables: Sequence[Table], server: HBaseServer) -> Iterator[HBaseWorld]:
    world = HBaseWorld(tables, server)
    try:
        yield world
    finally:
        world.close()


@pytest.fixture
def world(server: HBaseServer) -> Iterator[HBaseWorld]:
    with opened(KEYED, server) as made:
        yield made


@pytest.mark.parametrize(
    "behaviour",
    [one for one in BEHAVIOURS if one.__name__ not in WHOLE_OR_NOTHING],
    ids=lambda behaviour: behaviour.__name__,
)
def test_hbase_keeps_the_contract_of_every_sink(behaviour: Behaviour, world: HBaseWorld) -> None:
    behaviour(world)


@pytest.mark.parametrize("behaviour", LEFT_OUT_BEHAVIOURS, ids=lambda behaviour: behaviour.__name__)
def test_hbase_finds_the_values_that_a_log_left_out(behaviour: Behaviour, server: HBaseServer) -> None:
    with opened([NOTE], server) as world:
        behaviour(world)


# ---- rows ahead of their ledger -------------------------------------------------------------------------------------


def killed(port: int, failpoint: str) -> None:
    """A span of another process, which ends amid of it."""
    server = HBaseServer(port)
    plan = sync_plan(KEYED)
    sink = HBaseSink(
        plan,
        hbase_server.destination_of(plan),
        decoder=decoder_of(plan),
        resolve=server.resolve,
        failpoints=ArmedFailpoints(f"{failpoint}=kill9@1"),
    )
    twice_as_far(Applying(cast(World, None), sink=sink), *SPAN, insert(ACCOUNT, **account(9)))


def twice_as_far(stream: Applying, *changes: Change) -> None:
    """A span that has read as much of the log as the next two."""
    staged = [stream.sink.stage(stream.lease, batch) for batch in stream.batches(*changes)]
    progress = stream.progress()
    span = replace(progress.span, end=progress.span.end + 10)
    stream.sink.commit(stream.lease, staged, progress=replace(progress, span=span))


SPAN = (
    update(ACCOUNT, account(1), account(1, None)),
    delete(ACCOUNT, **account(2)),
    insert(ACCOUNT, **account(3)),
    insert(TRANSFER, **leg(1)),
)


def rows_of_an_interrupted_commit_are_written_over_by_the_next_owner(world: World) -> None:
    """Whose spans end elsewhere, so it has other newest rows for the same numbers of the log."""
    published(world).span(insert(ACCOUNT, **account(1)), insert(ACCOUNT, **account(2)))
    for failpoint in ("app.position_written", "app.dml_half", "app.dml_done"):
        stream = Applying(world, sink=world.sink(failpoints=ArmedFailpoints(f"{failpoint}=error@1")))
        with pytest.raises(TransientError):
            twice_as_far(stream, *SPAN, insert(ACCOUNT, **account(9)), delete(ACCOUNT, **account(3)))
        again = Applying(world)
        assert again.next_offset == stream.next_offset
        again.span(*SPAN)
        assert world.rows(ACCOUNT) == texts(account(1, None), account(3))
        again.span(insert(ACCOUNT, **account(9)), delete(ACCOUNT, **account(3)))
        assert world.rows(ACCOUNT) == texts(account(1, None), account(9))
        assert (world.rows(TRANSFER), world.findings()) == (texts(leg(1)), [])
        back = (delete(ACCOUNT, **account(9)), insert(ACCOUNT, **account(2)), delete(TRANSFER, **leg(1)))
        again.span(update(ACCOUNT, account(1, None), account(1)), *back)


ENDS_RIGHT = rows_of_an_interrupted_commit_are_written_over_by_the_next_owner


def test_rows_that_are_ahead_of_the_ledger_end_as_the_source_s(world: HBaseWorld) -> None:
    rows_of_an_interrupted_commit_are_written_over_by_the_next_owner(world)


def test_after_a_kill_between_rows_and_ledger_nothing_is_compared_until_the_next_owner_has_passed_it(
    world: HBaseWorld, server: HBaseServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_back, "resolve", server.resolve)
    published(world).span(insert(ACCOUNT, **account(1)), insert(ACCOUNT, **account(2)))
    worker = SPAWNED.Process(target=killed, args=(server.port, "app.dml_done"))
    worker.start()
    worker.join(120)
    assert worker.exitcode == -signal.SIGKILL
    again = Applying(world)
    assert again.next_offset == 10
    with pytest.raises(TransientError, match="are ahead of its ledger, up to offset 30"):
        read_back.open_live(world.plan, world.destination, 1)
    again.span(*SPAN)
    again.span(insert(ACCOUNT, **account(9)))
    (view,) = read_back.open_live(world.plan, world.destination, 1)
    assert view.digests(Segment("account"), run_key="k")[0].rows == 3
    view.close()
    assert world.rows(ACCOUNT) == texts(account(1, None), account(3), account(9))
    assert (world.rows(TRANSFER), world.findings()) == (texts(leg(1)), [])


class Suspended:
    """`ports.Failpoints` of an owner that stands still before its first row, while `meanwhile` happens."""

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        self._meanwhile = meanwhile

    def reach(self, name: str) -> None:
        if name == "app.position_written":
            self._meanwhile()


def test_rows_that_an_older_owner_writes_late_stay_hidden_also_after_a_compaction(
    world: HBaseWorld, server: HBaseServer
) -> None:
    published(world).span(insert(ACCOUNT, **account(1)), insert(ACCOUNT, **account(2)))

    def next_owner() -> None:
        new = Applying(world)
        new.span(*SPAN)
        new.span(update(ACCOUNT, account(1, None), account(1, "newest")), delete(ACCOUNT, **account(3)))
        compacted(server, f"{hbase_server.NAMESPACE}:account")

    old = Applying(world, sink=world.sink(failpoints=Suspended(next_owner)))
    with pytest.raises(Fenced):
        old.span(*SPAN, update(ACCOUNT, account(2), account(2, "late")))
    assert (world.rows(ACCOUNT), world.rows(TRANSFER)) == (texts(account(1, "newest")), texts(leg(1)))


def test_a_row_of_a_publish_has_nothing_of_what_an_older_owner_writes_late(world: HBaseWorld) -> None:
    """Into a table that was empty its rows came without a marker: a NULL had the value of the older row."""
    published(world)

    def loaded_again() -> None:
        load = world.load(ACCOUNT, [account(1, None)])
        world.sink().publish(STREAM, [load], publication=publication([ACCOUNT], run_id="run-2"))

    old = Applying(world, sink=world.sink(failpoints=Suspended(loaded_again)))
    with pytest.raises(Fenced):
        old.span(insert(ACCOUNT, **account(1, "late")))
    assert world.rows(ACCOUNT) == texts(account(1, None))


def test_a_joining_that_never_arrived_is_repeated_over_the_rows_it_has_left(world: HBaseWorld) -> None:
    carrying(world, ACCOUNT).span()
    joining = passed(world, TRANSFER, rows=[leg(1)], at=10)
    with pytest.raises(CommitUnknown):
        world.sink_losing_its_answer(LostAnswer.NOT_APPLIED).join(STREAM, joining)
    assert "transfer" not in {one.table for one in Applying(world).lease.ledger.boundaries}
    world.sink().join(STREAM, joining)
    assert world.rows(TRANSFER) == texts(leg(1))


# ---- planted bugs ---------------------------------------------------------------------------------------------------


class LedgerBeforeRows(HBaseSink):
    def commit(self, lease: Lease, staged: Sequence[Staged], *, progress: Progress) -> Commit:
        super().commit(lease, [], progress=progress)
        there = replace(progress.span, start=progress.span.end, transactions=0)
        return super().commit(lease, staged, progress=replace(progress, span=there))


def same_number_for_every_write(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(State, "reserving", lambda state, count: replace(state, number=10))


def nothing_is_put_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sink, "put_back", lambda store, ledgers, places, known: known)


@pytest.mark.parametrize("plant", [same_number_for_every_write, nothing_is_put_back])
def test_a_wrong_commit_is_caught(
    plant: Callable[[pytest.MonkeyPatch], None], server: HBaseServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    assert caught_by([ENDS_RIGHT], lambda: HBaseWorld(KEYED, server))


def test_a_ledger_that_moves_before_the_rows_is_caught(server: HBaseServer) -> None:
    assert caught_by([ENDS_RIGHT], lambda: HBaseWorld(KEYED, server, kind=LedgerBeforeRows))


# ---- reading back, loads, maintenance, preflight --------------------------------------------------------------------


def test_every_value_comes_back_as_the_source_has_it(world: HBaseWorld) -> None:
    number = Column("number", Kind.INTEGER, "int", nullable=False, length=32)
    for column, values in VALUES.items():
        table = Table("kept", (number, replace(column, nullable=True)), ("number",))
        rows = batch_of(table, list(enumerate([*values, None])))
        place = world.place(table)
        load_rows(world.store, world.destination, place, ArrowRows(schema_of(table), iter([rows])))
        with closing(fetched(world.store, {table: world.places.staged(place.name)}, position(1))) as view:
            found = view.digests(Segment(table.name), run_key="k")[0]
        assert found == digest.segment_digest(table, rows, run_key="k"), column.name


def test_a_row_that_has_no_cell_of_its_key_is_named(world: HBaseWorld) -> None:
    """Its comparison ended with a fault of our own, `a key column holds NULL`, and nobody was shown the row."""
    carrying(world, ACCOUNT)
    where = world.places.live(hbase_server.NAMESPACE, "account")
    world.store.write(where.table, 1, page_of(["note"], [(How.FRESH, b"theirs", ["x"])]))
    with pytest.raises(Diverged, match="row theirs of account has no cell of id") as named:
        fetched(world.store, {ACCOUNT: where}, position(1))
    assert "deleteall" in named.value.hint


def test_a_table_that_another_sync_has_made_is_left_alone(
    world: HBaseWorld, server: HBaseServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preflight, "resolve", server.resolve)
    carrying(world, ACCOUNT)
    assert preflight.problems(world.plan, world.destination) == ()
    (theirs,) = preflight.problems(replace(world.plan, sync="loans"), world.destination)
    said = "table account is there already, made by settlement@warehouse"
    assert (theirs.what, theirs.is_fatal) == (f"destination warehouse: {said}", True)
    with pytest.raises(Refused, match=said):
        other = replace(STREAM, sync="loans")
        world.sink().publish(other, [world.load(ACCOUNT, [])], publication=publication([ACCOUNT], run_id="run-9"))
    assert world.rows(ACCOUNT) == texts(account(1))


def test_connect_asks_the_server_by_the_client_of_the_destination(server: HBaseServer) -> None:
    found = CLIENT.examined(server.connection)
    assert found.product.startswith("HBase 2.")
    assert [(one.role, one.is_possible) for one in found.uses] == [(MAKES, True)]


def test_maintenance_lets_go_what_dead_runs_have_left(
    world: HBaseWorld, server: HBaseServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "resolve", server.resolve)
    carrying(world, ACCOUNT).span()
    joining = passed(world, TRANSFER, rows=[leg(1)], at=5)
    load = world.load(ACCOUNT, [account(8)])
    with closing(maintenance.open_maintenance(world.destination)) as living:
        assert {one.stream for one in living.ledgers()} == {str(STREAM), str(joining.incremental_stream)}
        assert (living.let_go().incremental_snapshots, living.let_go().staged) == ((), 0)
        later = ledger.now_ms() + (INCREMENTAL_KEPT_DAYS + 8) * 86_400_000
        for module in (maintenance, loads):
            monkeypatch.setattr(module, "now_ms", lambda: later)
        let_go = living.let_go()
        assert (let_go.incremental_snapshots, let_go.staged) == ((str(joining.incremental_stream),), 1)
        assert [one.stream for one in living.ledgers()] == [str(STREAM)]
    for place in (world.places.staged(load.staged_as), world.places.of_snapshot(joining.incremental_namespace)):
        assert list(scanned(world.store, place)) == []
    assert world.rows(ACCOUNT) == texts(account(1))
