"""HBase's commits, publishes and joinings that end anywhere: what the next one finds, and does. Over memory."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from seamline.adapters.failpoints import ArmedFailpoints
from seamline.domain.changes import Finding
from seamline.domain.errors import Diverged, Fenced, TransientError
from seamline.plan.list_change import kept_name
from seamline.ports import Commit, Joining, Lease, Progress, Staged, Unarmed
from seamline.sinks.hbase import placing, read_back, sink
from seamline.sinks.hbase.findings import keep_findings
from seamline.sinks.hbase.places import Place, staged_key, table_key
from seamline.sinks.hbase.placing import require_own
from seamline.sinks.hbase.rows import scanned
from seamline.sinks.hbase.sink import HBaseSink
from seamline.sinks.hbase.undo import keep_rows
from tests.contract.behaviours import Applying, Behaviour, account, published, texts
from tests.contract.hbase_world import HBaseWorld
from tests.contract.joining_behaviours import carrying, passed
from tests.contract.keyed_behaviours import leg
from tests.contract.unavailable_value_behaviours import LEFT_OUT_BEHAVIOURS, numbered, opened
from tests.log_topic import ACCOUNT, STREAM, TRANSFER, delete, insert, publication, update
from tests.memory_hbase import NOWHERE, CellsInMemory, memory_hbase
from tests.opened_sink import decoder_of
from tests.toast_log import NOTE, NoteStream, note

__all__ = ["memory_hbase"]


class EachCommitTwice(HBaseSink):
    """Its first attempt at each commit ends behind the rows, before the ledger has moved."""

    def commit(self, lease: Lease, staged: Sequence[Staged], *, progress: Progress) -> Commit:
        self._failpoints = ArmedFailpoints("app.dml_done=error@1")
        with suppress(TransientError):
            return super().commit(lease, staged, progress=progress)
        self._failpoints = Unarmed()
        return super().commit(lease, staged, progress=progress)


@pytest.fixture
def world(memory_hbase: CellsInMemory) -> HBaseWorld:  # noqa: F811
    return HBaseWorld((ACCOUNT, TRANSFER), NOWHERE)


@pytest.fixture
def notes(memory_hbase: CellsInMemory) -> HBaseWorld:  # noqa: F811
    return HBaseWorld([NOTE], NOWHERE, kind=EachCommitTwice)


def once(world: HBaseWorld, failpoint: str) -> HBaseSink:
    """A sink whose first commit ends there."""
    return HBaseSink(
        world.plan,
        world.destination,
        decoder=decoder_of(world.plan),
        resolve=NOWHERE.resolve,
        failpoints=ArmedFailpoints(f"{failpoint}=error@1"),
    )


# ---- a commit that is repeated --------------------------------------------------------------------------------------


@pytest.mark.parametrize("behaviour", LEFT_OUT_BEHAVIOURS, ids=lambda one: one.__name__)
def test_values_that_a_log_left_out_are_found_by_a_commit_that_is_repeated(
    behaviour: Behaviour, notes: HBaseWorld
) -> None:
    behaviour(notes)


def every_key_takes_the_next_number(notes: HBaseWorld) -> None:
    """UPDATE note SET id = id + 1, whose log leaves the bodies out."""
    rows = numbered(3)
    stream = opened(notes, *rows)
    moved = [{**row, "id": row["id"] + 1} for row in rows]
    stream.span(*reversed(list(zip(rows, moved, strict=True))))
    assert notes.rows(NOTE) == texts(*moved)


def test_keys_that_all_move_have_their_own_values_after_a_repeat(notes: HBaseWorld) -> None:
    every_key_takes_the_next_number(notes)


def test_a_repeat_that_puts_nothing_back_is_caught(notes: HBaseWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink, "put_back", lambda store, ledgers, places, known: known)
    with pytest.raises((AssertionError, Diverged)):
        every_key_takes_the_next_number(notes)


@pytest.mark.parametrize("failpoint", ["app.position_written", "app.dml_half", "app.dml_done"])
def test_a_repeat_that_reads_less_far_finds_the_rows_that_the_interrupted_one_deleted(
    notes: HBaseWorld, failpoint: str
) -> None:
    rows = numbered(2)
    opened(notes, *rows)
    titled, more = {**rows[0], "title": "titled"}, {**rows[1], "title": "more"}
    stream = NoteStream(once(notes, failpoint))
    with pytest.raises(TransientError):
        stream.span((rows[0], titled), (titled, None), (rows[1], None))
    again = NoteStream(notes.sink())
    again.span((rows[0], titled))
    assert notes.rows(NOTE) == texts(titled, rows[1])
    again.span((titled, None), (rows[1], more))
    assert notes.rows(NOTE) == texts(more)


def test_an_interrupted_truncate_is_undone(notes: HBaseWorld) -> None:
    rows = numbered(3)
    stream = opened(notes, *rows)
    stream.transactions(stream.log.transaction(truncated=True))
    assert notes.rows(NOTE) == []
    fresh = note(7)
    stream.span((None, fresh))
    assert notes.rows(NOTE) == texts(fresh)
    assert kept(notes) == []


def kept(world: HBaseWorld) -> list[bytes]:
    return [key for key, _ in scanned(world.store, Place(world.places.beside, b"undo/"))]


def test_a_repeat_that_reads_further_keeps_all_findings_and_takes_no_row_of_its_own_for_one(world: HBaseWorld) -> None:
    published(world).span(insert(ACCOUNT, **account(1)), insert(ACCOUNT, **account(2)))
    first = (insert(ACCOUNT, **account(1)), insert(ACCOUNT, **account(3)))
    stream = Applying(world, sink=once(world, "app.dml_done"))
    with pytest.raises(TransientError):
        stream.span(*first)
    Applying(world).span(*first, insert(ACCOUNT, **account(2)), update(ACCOUNT, account(3), account(3, "on")))
    assert [(one.kind, one.key) for one in world.findings()] == [
        ("insert met a row", '{"id": 1}'),
        ("insert met a row", '{"id": 2}'),
    ]
    assert world.rows(ACCOUNT) == texts(account(1), account(2), account(3, "on"))


def test_nothing_is_compared_while_rows_are_ahead_also_of_a_commit_that_reads_no_further(
    world: HBaseWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_back, "resolve", NOWHERE.resolve)
    published(world)
    with pytest.raises(TransientError):
        Applying(world, sink=once(world, "app.dml_done")).span(insert(ACCOUNT, **account(1)))
    with pytest.raises(TransientError, match="are ahead of its ledger"):
        read_back.open_live(world.plan, world.destination, 1)
    joined = world.sink().join(STREAM, Joining("run-2"))
    assert joined.ledger.next_offset == 0
    assert world.rows(ACCOUNT) == []
    (view,) = read_back.open_live(world.plan, world.destination, 1)
    view.close()
    assert kept(world) == []


# ---- owners that are over -------------------------------------------------------------------------------------------


def test_an_owner_that_is_over_writes_over_no_finding_of_the_new_one(world: HBaseWorld) -> None:
    published(world).span(insert(ACCOUNT, **account(1)))
    old = world.ledgers.read(STREAM)
    Applying(world).span(insert(ACCOUNT, **account(1)))
    assert old is not None
    keep_findings(world.store, world.places, old.state, [Finding("account", "delete met no row", "late", 1)])
    assert [one.kind for one in world.findings()] == ["insert met a row"]


class Meanwhile:
    """`ports.Failpoints` of an owner that has read the ledger, and stands still while something happens."""

    def __init__(self, happens: Callable[[], object]) -> None:
        self._happens = happens

    def reach(self, name: str) -> None:
        if name == "app.dest_begin":
            self._happens()


def test_a_worker_whose_table_was_removed_meanwhile_is_fenced(world: HBaseWorld) -> None:
    published(world)

    def leaves() -> None:
        world.sink().join(STREAM, Joining("run-2", kept_as={"account": "account__removed_1"}))

    with pytest.raises(Fenced):
        Applying(world, sink=world.sink(failpoints=Meanwhile(leaves))).span(insert(ACCOUNT, **account(1)))


# ---- publishes and joinings that end in between ---------------------------------------------------------------------


def failing_once(hbase: CellsInMemory, monkeypatch: pytest.MonkeyPatch, method: str, *, after: int = 0) -> None:
    real, calls = getattr(hbase, method), iter(range(1_000))

    def called(*given: object) -> object:
        if next(calls) == after:
            raise TransientError(f"no answer to {method}")
        return real(*given)

    monkeypatch.setattr(hbase, method, called)


def test_a_repeat_of_a_publish_whose_ledger_has_moved_removes_the_tables_that_left(
    world: HBaseWorld,
    memory_hbase: CellsInMemory,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    published(world)
    load, again = world.load(ACCOUNT, [account(7)]), publication([ACCOUNT], run_id="run-2")
    failing_once(memory_hbase, monkeypatch, "remove")
    with pytest.raises(TransientError):
        world.sink().publish(STREAM, [load], publication=again)
    world.sink().publish(STREAM, [load], publication=again)
    known = world.sink().read_ledger(STREAM)
    assert known is not None
    assert [one.table for one in known.boundaries] == ["account"]
    assert world.rows(ACCOUNT) == texts(account(7))
    assert not world.store.exists(world.places.live("settlement", "transfer").table)
    assert world.store.exists(world.places.live("settlement", kept_name("transfer", "run-2")).table)
    for key in (table_key("transfer"), staged_key(load.staged_as)):
        assert world.store.value(world.places.own, key) is None


def test_a_repeat_of_a_joining_whose_ledger_has_moved_ends_its_snapshot(
    world: HBaseWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    carrying(world, ACCOUNT).span()
    joining = passed(world, TRANSFER, rows=[leg(1)], at=10)
    joining = replace(joining, kept_as={"account": "account__removed_2"})
    with monkeypatch.context() as patch:
        patch.setattr(placing.Placing, "_end_snapshots", _no_answer)
        with pytest.raises(TransientError):
            world.sink().join(STREAM, joining)
    world.sink().join(STREAM, joining)
    assert list(world.ledgers.streams()) == [str(STREAM)]
    assert world.rows(ACCOUNT) == []
    assert world.rows(TRANSFER) == texts(leg(1))


def test_a_run_that_is_repeated_late_removes_no_table_that_others_have_made_and_nothing_that_a_commit_keeps(
    world: HBaseWorld,
) -> None:
    published(world)
    load, again = world.load(ACCOUNT, [account(7)]), publication([ACCOUNT], run_id="run-2")
    world.sink().publish(STREAM, [load], publication=again)
    theirs = world.places.live("settlement", "transfer").table
    require_own(world.store, world.places, "transfer", "loans@warehouse")
    world.store.make(theirs)
    stream = Applying(world)

    def keep_and_repeat(*given: Any) -> str:
        kept_by = keep_rows(*given)
        assert world.sink().publish(STREAM, [load], publication=again).ledger.epoch == stream.lease.epoch
        return kept_by

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sink, "keep_rows", keep_and_repeat)
        stream.sink._failpoints = ArmedFailpoints("app.dml_done=error@1")  # type: ignore[attr-defined]  # noqa: SLF001
        with pytest.raises(TransientError):
            stream.span(delete(ACCOUNT, **account(7)))
    assert world.store.exists(theirs)
    Applying(world).span(update(ACCOUNT, account(7), account(7, "new")))
    assert (world.rows(ACCOUNT), world.findings()) == (texts(account(7, "new")), [])


def _no_answer(*_: object) -> None:
    raise TransientError("no answer")


def test_after_a_publish_that_ended_amid_of_its_rows_nothing_goes_on_until_it_is_repeated(
    world: HBaseWorld,
    memory_hbase: CellsInMemory,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(read_back, "resolve", NOWHERE.resolve)
    published(world).span(insert(ACCOUNT, **account(1)), insert(TRANSFER, **leg(1)))
    loads = [world.load(ACCOUNT, [account(7)]), world.load(TRANSFER, [leg(7)])]
    again = publication([ACCOUNT, TRANSFER], run_id="run-2")
    with monkeypatch.context() as patch:
        failing_once(memory_hbase, patch, "copy", after=1)
        with pytest.raises(TransientError):
            world.sink().publish(STREAM, loads, publication=again)
    ways: list[Callable[[], object]] = [
        lambda: read_back.open_live(world.plan, world.destination, 1),
        lambda: world.sink().acquire(STREAM),
        lambda: world.sink().join(STREAM, Joining("run-3")),
    ]
    for goes_on in ways:
        with pytest.raises(TransientError, match="are being put in place by run run-2, or that was interrupted"):
            goes_on()
    world.sink().publish(STREAM, loads, publication=again)
    assert (world.rows(ACCOUNT), world.rows(TRANSFER)) == (texts(account(7)), texts(leg(7)))
    world.sink().acquire(STREAM)
