"""What every sink must do, said of tables with a key alone, for kinds of destination that keep no other.

`AUDIT` shows in the other behaviours that nothing is applied twice, by the number of its copies. Here findings show it:
a change that comes again meets what it does not expect.
"""

from dataclasses import replace

import pytest

from seamline.adapters.failpoints import ArmedFailpoints
from seamline.domain.errors import CommitUnknown, Fenced, TransientError
from seamline.sync.span_loop import run_stream
from tests.contract.behaviours import BEHAVIOURS, Applying, Behaviour, account, published, texts
from tests.contract.joining_behaviours import JOINING_BEHAVIOURS, LEG, boundaries, carrying, passed
from tests.contract.worlds import Row, World, loads_of, publication_of
from tests.log_topic import (
    ACCOUNT,
    STREAM,
    TRANSFER,
    LogTopic,
    ScriptedControl,
    TopicReader,
    delete,
    insert,
    position,
    publication,
    sync_plan,
    update,
)
from tests.memory_sink import LostAnswer

KEYED_BEHAVIOURS: list[Behaviour] = []
# What a behaviour names that writes into a table without a key.
_KEYLESS = {"AUDIT", "CALL", "_lose"}
# It names that table by its text.
_ONE_MORE = "boundaries_end_in_the_commit_that_says_so"


def needs_no_keyless_table(behaviour: Behaviour) -> bool:
    named = set(behaviour.__code__.co_names)  # type: ignore[attr-defined]
    return not _KEYLESS & named and behaviour.__name__ != _ONE_MORE


def behaviour(check: Behaviour) -> Behaviour:
    KEYED_BEHAVIOURS.append(check)
    return check


def leg(number: int, amount: str = "1.0000") -> Row:
    return {"tx": 7, "leg": number, "amount": amount}


@behaviour
def keyed_rows_of_several_tables_and_the_ledger_are_committed_together(world: World) -> None:
    stream = published(world)
    commit = stream.span(insert(ACCOUNT, **account(1)), insert(TRANSFER, **leg(1)), marker="m-7", ended=["account"])
    ledger = world.sink().read_ledger(STREAM)
    assert ledger == commit.ledger
    assert (ledger.next_offset, ledger.applied_transactions, ledger.last_marker) == (10, 1, "m-7")
    assert (ledger.position, ledger.committed_ms) == (position(1001), 1_700_000_000_000)
    assert {b.table: b.ended for b in ledger.boundaries} == {"account": True, "transfer": False}
    assert (world.rows(ACCOUNT), world.rows(TRANSFER)) == (texts(account(1)), texts(leg(1)))


@behaviour
def a_replayed_span_of_keyed_rows_changes_nothing(world: World) -> None:
    stream = published(world)
    stream.span(insert(ACCOUNT, **account(2)))
    batches = stream.batches(insert(ACCOUNT, **account(1)), delete(ACCOUNT, **account(2)), insert(TRANSFER, **leg(1)))
    progress = stream.progress()
    answers = [
        stream.sink.commit(stream.lease, [stream.sink.stage(stream.lease, b) for b in batches], progress=progress)
        for _ in range(3)
    ]
    assert answers[0].ledger == answers[1].ledger == answers[2].ledger
    assert (world.rows(ACCOUNT), world.rows(TRANSFER)) == (texts(account(1)), texts(leg(1)))
    assert world.findings() == []


@behaviour
def a_failure_amid_keyed_rows_leaves_nothing_and_can_be_tried_again(world: World) -> None:
    published(world)
    stream = Applying(world, sink=world.sink(failpoints=ArmedFailpoints("app.dml_half=error@1")))
    changes = [insert(ACCOUNT, **account(1)), insert(TRANSFER, **leg(1))]
    with pytest.raises(TransientError):
        stream.span(*changes)
    assert (world.rows(ACCOUNT), world.rows(TRANSFER)) == ([], [])
    assert world.sink().read_ledger(STREAM) == stream.lease.ledger
    stream.span(*changes)
    assert (world.rows(TRANSFER), world.findings()) == (texts(leg(1)), [])


@behaviour
def a_lost_answer_of_keyed_rows_is_found_again(world: World) -> None:
    published(world)
    for number, lost in enumerate(LostAnswer):
        stream = Applying(world)
        before = stream.next_offset
        stream.sink = world.sink_losing_its_answer(lost)
        with pytest.raises(CommitUnknown):
            stream.span(insert(TRANSFER, **leg(number)))
        again = Applying(world)
        assert again.lease.ledger.next_offset == before + (10 if lost is LostAnswer.APPLIED else 0)
        if lost is LostAnswer.NOT_APPLIED:
            again.span(insert(TRANSFER, **leg(number)))
        assert len(world.rows(TRANSFER)) == number + 1
    assert world.findings() == []


@behaviour
def my_own_commit_of_keyed_rows_is_answered_from_the_ledger(world: World) -> None:
    published(world)
    stream = Applying(world)
    stream.sink = world.sink_losing_its_answer(LostAnswer.APPLIED)
    (batch,) = stream.batches(insert(TRANSFER, **leg(1)))
    progress = stream.progress()
    with pytest.raises(CommitUnknown):
        stream.sink.commit(stream.lease, [stream.sink.stage(stream.lease, batch)], progress=progress)
    commit = stream.sink.commit(stream.lease, [stream.sink.stage(stream.lease, batch)], progress=progress)
    assert commit.ledger.next_offset == progress.span.end
    assert (world.rows(TRANSFER), world.findings()) == (texts(leg(1)), [])


@behaviour
def a_second_publish_of_keyed_tables_replaces_all_their_rows(world: World) -> None:
    stream = published(world)
    stream.span(*[insert(ACCOUNT, **account(n)) for n in range(4)], insert(TRANSFER, **leg(1)))
    fresh = {"account": [account(1), account(2, "new"), account(9)], "transfer": []}
    again = publication_of(world, run_id="run-2", covered=50, next_offset=70)
    commit = world.sink().publish(STREAM, loads_of(world, **fresh), publication=again)
    assert (world.rows(ACCOUNT), world.rows(TRANSFER)) == (texts(*fresh["account"]), [])
    assert {(b.generation, b.ended) for b in commit.ledger.boundaries} == {(2, False)}
    assert (commit.ledger.next_offset, commit.ledger.position, commit.ledger.last_marker) == (70, position(50), "")
    with pytest.raises(Fenced):
        stream.span(insert(ACCOUNT, **account(77)))


@behaviour
def a_truncate_of_keyed_tables_removes_all_rows_and_keeps_what_comes_after(world: World) -> None:
    stream = published(world)
    stream.span(*[insert(ACCOUNT, **account(n)) for n in range(5)], insert(TRANSFER, **leg(1)))
    batches = stream.batches(insert(ACCOUNT, **account(1, "new")), insert(TRANSFER, **leg(1, "2.0000")))
    staged = [stream.sink.stage(stream.lease, replace(batch, truncate_first=True)) for batch in batches]
    stream.sink.commit(stream.lease, staged, progress=stream.progress())
    assert (world.rows(ACCOUNT), world.rows(TRANSFER)) == (texts(account(1, "new")), texts(leg(1, "2.0000")))
    assert world.findings() == []


@behaviour
def chunks_of_keyed_rows_are_seen_by_nobody_and_committed_once(world: World) -> None:
    stream = published(world)
    stream.span(*[insert(ACCOUNT, **account(n, "old")) for n in range(3)])
    changes = [insert(ACCOUNT, **account(n, "first")) for n in range(3, 300)]
    changes += [update(ACCOUNT, account(n, "x"), account(n, "second")) for n in range(0, 300, 2)]
    changes += [delete(ACCOUNT, **account(n)) for n in range(0, 300, 3)]
    batches = stream.batches(*changes, chunks=4)
    staged = [stream.sink.stage(stream.lease, batch) for batch in batches if batch.chunk]
    assert len(world.rows(ACCOUNT)) == 3
    staged += [stream.sink.stage(stream.lease, batch) for batch in batches if not batch.chunk]
    stream.sink.commit(stream.lease, staged, progress=stream.progress())
    second = [account(n, "second") for n in range(0, 300, 2) if n % 3]
    first = [account(n, "old" if n < 3 else "first") for n in range(1, 300, 2) if n % 3]
    assert world.rows(ACCOUNT) == texts(*second, *first)
    assert world.findings() == []


@behaviour
def chunks_of_keyed_rows_of_an_older_epoch_are_dropped(world: World) -> None:
    stream = published(world)
    changes = [insert(TRANSFER, **leg(n)) for n in range(10)]
    for batch in stream.batches(*changes, chunks=2):
        stream.sink.stage(stream.lease, batch)
    again = Applying(world)
    again.span(*changes, chunks=3)
    again.span(*[delete(TRANSFER, **leg(n)) for n in range(4)], chunks=2)
    assert len(world.rows(TRANSFER)) == 6
    assert world.findings() == []


@behaviour
def a_truncate_between_chunks_of_keyed_rows_undoes_those_before_it(world: World) -> None:
    published(world)
    for emptied, first in (({1, 2, 3, 4}, 4), ({2, 3}, 3), ({4}, 4)):
        stream = Applying(world)
        staged = []
        for number in (1, 2, 3, 4):
            for batch in stream.batches(insert(ACCOUNT, **account(number, "own")), insert(ACCOUNT, **account(50))):
                batch = replace(batch, chunk=number % 4, truncate_first=number in emptied)
                staged.append(stream.sink.stage(stream.lease, batch))
        stream.sink.commit(stream.lease, staged, progress=stream.progress())
        assert world.rows(ACCOUNT) == texts(*(account(n, "own") for n in range(first, 5)), account(50))


@behaviour
def a_keyed_stream_with_crashes_ends_with_the_source_s_tables(world: World) -> None:
    log = LogTopic()
    expected: dict[int, Row] = {}
    for n in range(40):
        row, known = account(n % 7, f"v{n}"), expected.get(n % 7)
        change = insert(ACCOUNT, **row) if known is None else update(ACCOUNT, known, row)
        expected[n % 7] = row
        log.transaction(change, insert(TRANSFER, **leg(n)))
    published(world)
    for name in ("app.dml_half", "app.fetched", "app.commit_sent", "app.commit_acked", "app.epoch_taken", ""):
        points = ArmedFailpoints(f"{name}=error@2" if name else "")
        reader = TopicReader(log, at_most=7)
        try:
            run_stream(
                world.plan,
                "warehouse",
                reader=reader,
                sink=world.sink(failpoints=points),
                control=ScriptedControl(reader),
                failpoints=points,
            )
        except TransientError:
            assert name
    assert world.rows(ACCOUNT) == texts(*expected.values())
    assert world.rows(TRANSFER) == texts(*(leg(n) for n in range(40)))
    ledger = world.sink().read_ledger(STREAM)
    assert ledger is not None
    assert ledger.applied_transactions == 40
    assert world.findings() == []


@behaviour
def a_keyed_table_enters_a_stream_and_the_others_are_untouched(world: World) -> None:
    stream = carrying(world, ACCOUNT)
    before = stream.span(insert(ACCOUNT, **account(2))).ledger
    joining = passed(world, TRANSFER, rows=[LEG], at=10)
    assert world.rows(TRANSFER) == [], "nobody sees the tables of an incremental snapshot"
    after = world.sink().join(STREAM, joining).ledger
    assert (after.next_offset, after.epoch, after.applied_transactions) == (
        10,
        before.epoch + 1,
        before.applied_transactions,
    )
    assert boundaries(after.boundaries) == {("account", 1), ("transfer", 1)}
    assert {b.high_marker for b in after.boundaries} == {"high-1"}
    world.plan = sync_plan((ACCOUNT, TRANSFER))
    Applying(world).span(update(TRANSFER, LEG, {**LEG, "amount": "6.0000"}))
    assert world.rows(ACCOUNT) == texts(account(1), account(2))
    assert world.rows(TRANSFER) == texts({**LEG, "amount": "6.0000"})
    assert world.findings() == []


@behaviour
def a_keyed_table_that_is_loaded_again_begins_a_generation_without_its_findings(world: World) -> None:
    stream = carrying(world, ACCOUNT, TRANSFER)
    stream.span(delete(ACCOUNT, **account(7)), delete(TRANSFER, **LEG))
    assert len(world.findings()) == 2
    fresh = [account(1, "mended"), account(9)]
    after = world.sink().join(STREAM, passed(world, ACCOUNT, rows=fresh, at=10))
    assert world.rows(ACCOUNT) == texts(*fresh)
    assert boundaries(after.ledger.boundaries) == {("account", 2), ("transfer", 1)}
    assert [one.table for one in world.findings()] == ["transfer"]


@behaviour
def a_publish_of_fewer_keyed_tables_lets_the_others_leave(world: World) -> None:
    stream = carrying(world, ACCOUNT, TRANSFER)
    stream.span(insert(TRANSFER, **LEG))
    world.plan = sync_plan((ACCOUNT,))
    again = publication((ACCOUNT,), run_id="run-2", covered=50, next_offset=70)
    after = world.sink().publish(STREAM, [world.load(ACCOUNT, [account(3)])], publication=again)
    assert boundaries(after.ledger.boundaries) == {("account", 2)}
    assert world.rows(TRANSFER) == []
    Applying(world).span(insert(ACCOUNT, **account(4)))
    back = world.sink().join(STREAM, passed(world, TRANSFER, rows=[], at=80))
    assert boundaries(back.ledger.boundaries) == {("account", 2), ("transfer", 2)}


# Of all behaviours those that a kind without keyless tables can be asked for.
OF_KEYED_TABLES = [
    *KEYED_BEHAVIOURS,
    *(one for one in (*BEHAVIOURS, *JOINING_BEHAVIOURS) if needs_no_keyless_table(one)),
]
