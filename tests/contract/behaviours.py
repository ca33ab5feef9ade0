"""What every sink must do, each behaviour a function over a World. The suite runs all of them over all destinations;
the planted bugs run all of them over sinks that are wrong in one way, and must be caught.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from seamline.adapters.failpoints import ArmedFailpoints
from seamline.domain.changes import KeyedChange, TableChanges
from seamline.domain.cutover import BoundaryGate
from seamline.domain.errors import (
    CommitUnknown,
    Diverged,
    Fenced,
    GateFailed,
    InvariantViolated,
    Refused,
    SchemaConflict,
    TransientError,
)
from seamline.domain.ledger import StreamId
from seamline.domain.log import Span
from seamline.ports import Commit, Lease, Progress, Sink
from seamline.sync.compaction import compact
from seamline.sync.span_loop import run_stream
from seamline.sync.transactions import TransactionAssembler
from tests.bank_history import text_of
from tests.contract.worlds import Row, World, loads_of, publication_of, tables_of
from tests.log_topic import (
    ACCOUNT,
    AUDIT,
    MARKERS,
    STREAM,
    TABLES,
    TRANSFER,
    Change,
    LogTopic,
    ScriptedControl,
    TopicReader,
    delete,
    insert,
    position,
    update,
)
from tests.memory_sink import LostAnswer

Behaviour = Callable[[World], None]
BEHAVIOURS: list[Behaviour] = []


def behaviour(check: Behaviour) -> Behaviour:
    BEHAVIOURS.append(check)
    return check


class Applying:
    """A stream by hand: each call is one span over a growing log."""

    def __init__(self, world: World, *, sink: Sink | None = None, stream: StreamId = STREAM) -> None:
        self.world = world
        self.sink = sink or world.sink()
        self.lease: Lease = self.sink.acquire(stream)
        self.next_offset = self.lease.ledger.next_offset
        self.number = 1000 + self.next_offset

    def span(self, *changes: Change, ended: Sequence[str] = (), marker: str = "", chunks: int = 1) -> Commit:
        batches = self.batches(*changes, chunks=chunks)
        staged = [self.sink.stage(self.lease, batch) for batch in batches]
        commit = self.sink.commit(self.lease, staged, progress=self.progress(ended=ended, marker=marker))
        self.next_offset = commit.ledger.next_offset
        return commit

    def progress(self, *, ended: Sequence[str] = (), marker: str = "") -> Progress:
        self.number += 1
        span = Span(self.next_offset, self.next_offset + 10, 1, position(self.number), 1_700_000_000_000)
        return Progress(span, marker, tuple(ended))

    def batches(self, *changes: Change, chunks: int = 1) -> list[TableChanges]:
        """With `chunks` > 1 the changes come as that many chunks of one transaction, the last one as its rest."""
        found: list[TableChanges] = []
        tables = {table.name: table for table in TABLES}
        for index in range(chunks):
            log = LogTopic()
            log.transaction(*changes[index * len(changes) // chunks : (index + 1) * len(changes) // chunks])
            transactions = TransactionAssembler(tables, marker_table=MARKERS).feed(log.records)
            chunk = index + 1 if index < chunks - 1 else 0
            found += compact(transactions, tables=tables, gate=BoundaryGate({}), chunk=chunk).values()
        return found


def published(world: World) -> Applying:
    world.sink().publish(STREAM, loads_of(world), publication=publication_of(world))
    return Applying(world)


def account(number: int, name: str | None = "a") -> Row:
    return {"id": number, "name": name}


def texts(*rows: Row) -> list[str]:
    return sorted(text_of(row) for row in rows)


# ---- ledger --------------------------------------------------------------------------------------------------------


@behaviour
def a_destination_where_nothing_was_published_has_no_ledger_and_gives_no_lease(world: World) -> None:
    sink = world.sink()
    assert sink.read_ledger(STREAM) is None
    with pytest.raises(Refused, match="onboard"):
        sink.acquire(STREAM)


@behaviour
def who_asks_for_the_epoch_after_its_own_takes_the_stream_from_nobody(world: World) -> None:
    lease = published(world).lease
    assert world.sink().acquire(STREAM, after_epoch=lease.epoch).epoch == lease.epoch + 1
    late = world.sink()
    with pytest.raises(Fenced):
        late.acquire(STREAM, after_epoch=lease.epoch)
    ledger = late.read_ledger(STREAM)
    assert ledger is not None
    assert ledger.epoch == lease.epoch + 1


@behaviour
def rows_and_ledger_are_committed_together(world: World) -> None:
    stream = published(world)
    commit = stream.span(insert(ACCOUNT, **account(1)), insert(AUDIT, actor="x", action="y"), marker="m-7")
    ledger = world.sink().read_ledger(STREAM)
    assert ledger == commit.ledger
    assert ledger is not None
    assert (ledger.next_offset, ledger.applied_transactions, ledger.last_marker) == (10, 1, "m-7")
    assert (ledger.position, ledger.committed_ms) == (position(1001), 1_700_000_000_000)
    assert world.rows(ACCOUNT) == texts(account(1))
    assert world.rows(AUDIT) == texts({"actor": "x", "action": "y"})


@behaviour
def a_span_without_changes_moves_the_ledger_alone(world: World) -> None:
    stream = published(world)
    stream.span(marker="m-1")
    assert stream.span().ledger.last_marker == "m-1", "a span without markers keeps the last one"
    ledger = world.sink().read_ledger(STREAM)
    assert ledger is not None
    assert ledger.next_offset == 20


@behaviour
def boundaries_end_in_the_commit_that_says_so(world: World) -> None:
    stream = published(world)
    stream.span(insert(ACCOUNT, **account(1)), ended=["account", "audit"])
    commit = stream.span(insert(ACCOUNT, **account(2)))
    assert {b.table: b.ended for b in commit.ledger.boundaries} == {"account": True, "audit": True, "transfer": False}
    assert world.sink().read_ledger(STREAM) == commit.ledger


@behaviour
def a_replayed_span_changes_nothing(world: World) -> None:
    stream = published(world)
    batches = stream.batches(*[insert(AUDIT, actor="x", action="y")] * 3, insert(ACCOUNT, **account(1)))
    progress = stream.progress()
    answers = [
        stream.sink.commit(stream.lease, [stream.sink.stage(stream.lease, b) for b in batches], progress=progress)
        for _ in range(3)
    ]
    assert answers[0].ledger == answers[1].ledger == answers[2].ledger
    assert len(world.rows(AUDIT)) == 3
    assert world.findings() == []


@behaviour
def a_span_that_does_not_follow_the_ledger_is_our_own_bug(world: World) -> None:
    stream = published(world)
    stream.span(insert(ACCOUNT, **account(1)))
    stream.next_offset = 500
    with pytest.raises(InvariantViolated):
        stream.span(insert(ACCOUNT, **account(2)))
    assert world.rows(ACCOUNT) == texts(account(1))


@behaviour
def an_older_lease_can_never_commit_again(world: World) -> None:
    old = published(world)
    new = Applying(world)
    assert new.lease.epoch > old.lease.epoch
    with pytest.raises(Fenced):
        old.span(insert(ACCOUNT, **account(1)))
    new.span(insert(ACCOUNT, **account(2)))
    with pytest.raises(Fenced):
        old.span(insert(ACCOUNT, **account(3)))
    assert world.rows(ACCOUNT) == texts(account(2))


@behaviour
def two_leases_of_one_sink_do_not_mix_their_epochs(world: World) -> None:
    stream = published(world)
    stream.sink.acquire(STREAM)
    with pytest.raises(Fenced):
        stream.span(insert(ACCOUNT, **account(1)))
    assert world.rows(ACCOUNT) == []


@behaviour
def a_failure_in_the_middle_leaves_nothing_and_can_be_tried_again(world: World) -> None:
    published(world)
    stream = Applying(world, sink=world.sink(failpoints=ArmedFailpoints("app.dml_half=error@1")))
    changes = [insert(ACCOUNT, **account(1)), insert(AUDIT, actor="x", action="y")]
    with pytest.raises(TransientError):
        stream.span(*changes)
    assert (world.rows(ACCOUNT), world.rows(AUDIT)) == ([], [])
    assert world.sink().read_ledger(STREAM) == stream.lease.ledger
    stream.span(*changes)
    assert len(world.rows(AUDIT)) == 1


@behaviour
def a_lost_answer_of_an_applied_commit_is_found_again(world: World) -> None:
    _lose(world, LostAnswer.APPLIED, is_applied=True)


@behaviour
def a_commit_that_never_arrived_is_found_missing(world: World) -> None:
    _lose(world, LostAnswer.NOT_APPLIED, is_applied=False)


def _lose(world: World, lost: LostAnswer, *, is_applied: bool) -> None:
    published(world)
    stream = Applying(world)
    stream.sink = world.sink_losing_its_answer(lost)
    with pytest.raises(CommitUnknown):
        stream.span(insert(AUDIT, actor="x", action="y"))
    again = Applying(world)
    assert again.lease.ledger.next_offset == (10 if is_applied else 0)
    if not is_applied:
        again.span(insert(AUDIT, actor="x", action="y"))
    assert len(world.rows(AUDIT)) == 1


@behaviour
def my_own_commit_repeated_after_its_answer_was_lost_is_answered_from_the_ledger(world: World) -> None:
    published(world)
    stream = Applying(world)
    stream.sink = world.sink_losing_its_answer(LostAnswer.APPLIED)
    (batch,) = stream.batches(insert(AUDIT, actor="x", action="y"))
    progress = stream.progress()
    with pytest.raises(CommitUnknown):
        stream.sink.commit(stream.lease, [stream.sink.stage(stream.lease, batch)], progress=progress)
    commit = stream.sink.commit(stream.lease, [stream.sink.stage(stream.lease, batch)], progress=progress)
    assert commit.ledger.next_offset == progress.span.end
    assert len(world.rows(AUDIT)) == 1


# ---- publish -------------------------------------------------------------------------------------------------------


@behaviour
def a_publish_puts_whole_tables_in_place_with_boundaries_and_ledger(world: World) -> None:
    rows = {"account": [account(1), account(2, None)], "transfer": [], "audit": [{"actor": "x", "action": ""}] * 3}
    loads = loads_of(world, **rows)
    commit = world.sink().publish(STREAM, loads, publication=publication_of(world, covered=7, next_offset=42))
    assert (commit.ledger.next_offset, commit.ledger.position, commit.ledger.epoch) == (42, position(7), 1)
    assert {(b.table, b.position, b.generation, b.high_marker, b.ended) for b in commit.ledger.boundaries} == {
        (table.name, position(7), 1, "high-1", False) for table in tables_of(world)
    }
    for table in tables_of(world):
        assert world.rows(table) == texts(*rows[table.name])


@behaviour
def a_publish_is_resolved_by_its_run_id(world: World) -> None:
    loads = loads_of(world)
    world.sink().publish(STREAM, loads, publication=publication_of(world))
    stream = Applying(world)
    stream.span(insert(ACCOUNT, **account(1)))
    again = world.sink().publish(STREAM, loads, publication=publication_of(world))
    assert again.ledger.next_offset == 10, "a repeat finds it done and changes nothing"
    assert world.rows(ACCOUNT) == texts(account(1))


@behaviour
def a_publish_whose_answer_was_lost_is_found_done(world: World) -> None:
    loads = loads_of(world, account=[account(1)])
    with pytest.raises(CommitUnknown):
        world.sink_losing_its_answer(LostAnswer.APPLIED).publish(STREAM, loads, publication=publication_of(world))
    commit = world.sink().publish(STREAM, loads, publication=publication_of(world))
    assert commit.ledger.epoch == 1
    assert world.rows(ACCOUNT) == texts(account(1))


@behaviour
def a_publish_that_never_arrived_can_be_repeated(world: World) -> None:
    loads = loads_of(world, account=[account(1)])
    with pytest.raises(CommitUnknown):
        world.sink_losing_its_answer(LostAnswer.NOT_APPLIED).publish(STREAM, loads, publication=publication_of(world))
    assert world.sink().read_ledger(STREAM) is None
    world.sink().publish(STREAM, loads, publication=publication_of(world))
    assert world.rows(ACCOUNT) == texts(account(1))


@behaviour
def a_second_publish_replaces_rows_fences_the_stream_and_begins_a_generation(world: World) -> None:
    stream = published(world)
    stream.span(*[insert(ACCOUNT, **account(n)) for n in range(4)], *[insert(AUDIT, actor="x", action="y")] * 2)
    fresh = {"account": [account(1), account(2, "new"), account(9)], "audit": [{"actor": "x", "action": "y"}] * 5}
    loads = loads_of(world, **fresh)
    again = publication_of(world, run_id="run-2", covered=50, next_offset=70)
    commit = world.sink().publish(STREAM, loads, publication=again)
    assert world.rows(ACCOUNT) == texts(*fresh["account"])
    assert len(world.rows(AUDIT)) == 5
    assert {(b.generation, b.ended) for b in commit.ledger.boundaries} == {(2, False)}
    assert (commit.ledger.next_offset, commit.ledger.position) == (70, position(50))
    with pytest.raises(Fenced):
        stream.span(insert(ACCOUNT, **account(77)))


@behaviour
def a_publish_of_a_staged_table_that_is_gone_changes_nothing(world: World) -> None:
    loads = loads_of(world)
    gone = [*loads[:-1], type(loads[-1])(loads[-1].table, "audit__nowhere", 0)]
    with pytest.raises(Refused, match="gone"):
        world.sink().publish(STREAM, gone, publication=publication_of(world))
    assert world.sink().read_ledger(STREAM) is None


@behaviour
def a_publish_of_a_staged_table_that_lost_a_row_changes_nothing(world: World) -> None:
    loads = loads_of(world, account=[account(1), account(2)])
    short = [replace(load, rows=load.rows + 1) if load.table is ACCOUNT else load for load in loads]
    with pytest.raises(GateFailed):
        world.sink().publish(STREAM, short, publication=publication_of(world))
    assert world.sink().read_ledger(STREAM) is None
    assert world.rows(ACCOUNT) == []
    world.sink().publish(STREAM, loads, publication=publication_of(world))
    assert world.rows(ACCOUNT) == texts(account(1), account(2))


# ---- keyed tables --------------------------------------------------------------------------------------------------


@behaviour
def inserts_updates_and_deletes_reach_their_rows(world: World) -> None:
    stream = published(world)
    stream.span(*[insert(ACCOUNT, **account(n)) for n in range(5)])
    commit = stream.span(
        update(ACCOUNT, account(1), account(1, "ü'\"\\,\n")),
        update(ACCOUNT, account(2), account(2, None)),
        update(ACCOUNT, account(4), account(4, "")),
        delete(ACCOUNT, **account(3)),
    )
    assert world.rows(ACCOUNT) == texts(account(0), account(1, "ü'\"\\,\n"), account(2, None), account(4, ""))
    assert (commit.findings, commit.findings_total) == ((), 0)


@behaviour
def a_key_change_moves_the_row_also_in_a_chain(world: World) -> None:
    stream = published(world)
    stream.span(insert(ACCOUNT, **account(1, "x")), insert(ACCOUNT, **account(2, "y")))
    stream.span(
        update(ACCOUNT, account(2, "y"), account(3, "y")),
        update(ACCOUNT, account(1, "x"), account(2, "x")),
        update(ACCOUNT, account(3, "y"), account(1, "y")),
        update(ACCOUNT, account(1, "y"), account(9, "y")),
    )
    assert world.rows(ACCOUNT) == texts(account(2, "x"), account(9, "y"))
    assert world.findings() == []


@behaviour
def a_key_that_is_deleted_and_inserted_again_keeps_the_new_row(world: World) -> None:
    stream = published(world)
    stream.span(insert(ACCOUNT, **account(1, "x")))
    stream.span(delete(ACCOUNT, **account(1, "x")), insert(ACCOUNT, **account(1, "y")))
    stream.span(insert(ACCOUNT, **account(2)), delete(ACCOUNT, **account(2)))
    assert world.rows(ACCOUNT) == texts(account(1, "y"))
    assert world.findings() == []


@behaviour
def keys_of_several_columns_are_kept_apart(world: World) -> None:
    stream = published(world)
    rows = [{"tx": tx, "leg": leg, "amount": "1.0000"} for tx in (1, 2) for leg in (1, 2)]
    stream.span(*[insert(TRANSFER, **row) for row in rows])
    stream.span(delete(TRANSFER, **rows[1]), update(TRANSFER, rows[2], {**rows[2], "amount": "-7.5000"}))
    assert world.rows(TRANSFER) == texts(rows[0], {**rows[2], "amount": "-7.5000"}, rows[3])


@behaviour
def a_truncate_removes_all_rows_and_keeps_what_comes_after(world: World) -> None:
    stream = published(world)
    stream.span(*[insert(ACCOUNT, **account(n)) for n in range(5)], *[insert(AUDIT, actor="x", action="y")] * 4)
    batches = stream.batches(insert(ACCOUNT, **account(1, "new")), insert(AUDIT, actor="x", action="y"))
    for batch in batches:
        batch.truncate_first = True
    staged = [stream.sink.stage(stream.lease, batch) for batch in batches]
    stream.sink.commit(stream.lease, staged, progress=stream.progress())
    assert world.rows(ACCOUNT) == texts(account(1, "new"))
    assert len(world.rows(AUDIT)) == 1
    assert world.findings() == []


@behaviour
def a_truncate_alone_empties_the_table(world: World) -> None:
    stream = published(world)
    stream.span(insert(ACCOUNT, **account(1)), insert(AUDIT, actor="x", action="y"))
    staged = [stream.sink.stage(stream.lease, TableChanges(t.name, truncate_first=True)) for t in (ACCOUNT, AUDIT)]
    stream.sink.commit(stream.lease, staged, progress=stream.progress())
    assert (world.rows(ACCOUNT), world.rows(AUDIT)) == ([], [])


@behaviour
def what_meets_the_unexpected_is_applied_counted_and_kept(world: World) -> None:
    stream = published(world)
    stream.span(insert(ACCOUNT, **account(1, "x")))
    changes = [
        KeyedChange(b'{"id":1}', False, False, b'{"id":1,"name":"again"}', 11),
        KeyedChange(b'{"id":2}', False, True, b'{"id":2,"name":"update"}', 12),
        KeyedChange(b'{"id":3}', True, True, b'{"id":3,"name":"delete"}', 13),
        KeyedChange(b'{"id":4}', True, False, b'{"id":4,"name":"never"}', 14),
        KeyedChange(b'{"id":5}', False, False, b'{"id":5,"name":"plain"}', 15),
    ]
    staged = stream.sink.stage(stream.lease, TableChanges("account", changes))
    commit = stream.sink.commit(stream.lease, [staged], progress=stream.progress())
    assert world.rows(ACCOUNT) == texts(account(1, "again"), account(2, "update"), account(5, "plain"))
    expected = [
        ("account", "insert met a row", {"id": 1}, 11),
        ("account", "update met no row", {"id": 2}, 12),
        ("account", "delete met no row", {"id": 3}, 13),
    ]
    for findings in (world.findings(), sorted(commit.findings, key=lambda finding: finding.offset)):
        assert [(f.table, f.kind, json.loads(f.key), f.offset) for f in findings] == expected
    assert commit.findings_total == 3


@behaviour
def a_failed_span_keeps_no_findings(world: World) -> None:
    published(world)
    stream = Applying(world, sink=world.sink(failpoints=ArmedFailpoints("app.dml_half=error@1")))
    with pytest.raises(TransientError):
        stream.span(delete(ACCOUNT, **account(1)))
    assert world.findings() == []


@behaviour
def many_changes_end_as_few_changes_do(world: World) -> None:
    stream = published(world)
    name = "ü'\"\\,\n"
    stream.span(*[insert(ACCOUNT, **account(n, name)) for n in range(2_000)])
    stream.span(
        *[update(ACCOUNT, account(n, name), account(n, None)) for n in range(0, 2_000, 2)],
        *[delete(ACCOUNT, **account(n, name)) for n in range(1, 2_000, 4)],
    )
    expected = [account(n, None) for n in range(0, 2_000, 2)] + [account(n, name) for n in range(3, 2_000, 4)]
    assert world.rows(ACCOUNT) == texts(*expected)
    assert world.findings() == []


# ---- keyless tables ------------------------------------------------------------------------------------------------


@behaviour
def thousands_of_identical_rows_are_counted_exactly(world: World) -> None:
    stream = published(world)
    row, other = {"actor": "x", "action": "login"}, {"actor": "x", "action": "logout"}
    stream.span(*[insert(AUDIT, **row)] * 5_000, *[insert(AUDIT, **other)] * 3)
    stream.span(*[delete(AUDIT, **row)] * 1_999, insert(AUDIT, **other))
    stream.span(*[update(AUDIT, row, other)] * 1_000)
    assert world.rows(AUDIT) == texts(*[row] * 2_001, *[other] * 1_004)


@behaviour
def rows_that_a_loose_comparison_would_join_are_kept_apart(world: World) -> None:
    stream = published(world)
    kept = [{"actor": actor, "action": action} for actor in ("a", "A", "a ", "ä") for action in (None, "", " ", "~")]
    gone = {"actor": "a", "action": ""}
    stream.span(*[insert(AUDIT, **row) for row in kept], insert(AUDIT, **gone))
    stream.span(delete(AUDIT, **gone))
    assert world.rows(AUDIT) == texts(*kept)


@behaviour
def equal_rows_written_differently_are_one_row(world: World) -> None:
    stream = published(world)
    stream.span(insert(AUDIT, actor="x", action="y"))
    batch = TableChanges("audit", net={b'{"action":"y","actor":"x"}': 2, b'{"actor":"x","action":"y"}': -2})
    stream.sink.commit(stream.lease, [stream.sink.stage(stream.lease, batch)], progress=stream.progress())
    assert len(world.rows(AUDIT)) == 1
    stream.next_offset += 10
    batch = TableChanges("audit", net={b'{"action": "y", "actor": "x"}': -1})
    stream.sink.commit(stream.lease, [stream.sink.stage(stream.lease, batch)], progress=stream.progress())
    assert world.rows(AUDIT) == []


@behaviour
def a_removal_of_more_rows_than_there_are_stops_and_applies_nothing(world: World) -> None:
    stream = published(world)
    row = {"actor": "x", "action": "y"}
    stream.span(*[insert(AUDIT, **row)] * 3)
    with pytest.raises(Diverged, match="4 rows of audit should go, the destination holds only 3"):
        stream.span(*[delete(AUDIT, **row)] * 4, insert(ACCOUNT, **account(1)))
    assert len(world.rows(AUDIT)) == 3
    assert world.rows(ACCOUNT) == []
    stream.span(*[delete(AUDIT, **row)] * 3)
    assert world.rows(AUDIT) == []


# ---- large transactions
# ---------------------------------------------------------------------------------------------------


@behaviour
def chunks_of_a_large_transaction_are_seen_by_nobody_and_committed_once(world: World) -> None:
    stream = published(world)
    stream.span(*[insert(ACCOUNT, **account(n, "old")) for n in range(3)])
    changes = [insert(ACCOUNT, **account(n, "first")) for n in range(3, 300)]
    changes += [update(ACCOUNT, account(n, "x"), account(n, "second")) for n in range(0, 300, 2)]
    changes += [delete(ACCOUNT, **account(n)) for n in range(0, 300, 3)]
    changes += [insert(AUDIT, actor="x", action=str(n % 2)) for n in range(400)]
    changes += [delete(AUDIT, actor="x", action="0") for n in range(100)]
    batches = stream.batches(*changes, chunks=4)
    staged = [stream.sink.stage(stream.lease, batch) for batch in batches if batch.chunk]
    assert len(world.rows(ACCOUNT)) == 3
    assert world.rows(AUDIT) == []
    staged += [stream.sink.stage(stream.lease, batch) for batch in batches if not batch.chunk]
    stream.sink.commit(stream.lease, staged, progress=stream.progress())
    second = [account(n, "second") for n in range(0, 300, 2) if n % 3]
    first = [account(n, "old" if n < 3 else "first") for n in range(1, 300, 2) if n % 3]
    assert world.rows(ACCOUNT) == texts(*second, *first)
    assert world.rows(AUDIT) == texts(*[{"actor": "x", "action": str(n % 2)} for n in range(400) if n % 2 or n >= 200])
    assert world.findings() == []


@behaviour
def chunks_of_an_older_epoch_are_dropped(world: World) -> None:
    stream = published(world)
    changes = [insert(AUDIT, actor="x", action=str(n)) for n in range(10)]
    for batch in stream.batches(*changes, chunks=2):
        stream.sink.stage(stream.lease, batch)
    again = Applying(world)
    again.span(*changes, chunks=3)
    again.span(*changes[:4], chunks=2)
    assert len(world.rows(AUDIT)) == 14


# ---- schema --------------------------------------------------------------------------------------------------------


@behaviour
def a_row_of_another_schema_stops_before_anything_is_applied(world: World) -> None:
    stream = published(world)
    for count in (1, 600):
        for image in (b'{"id":%d}', b'{"id":%d,"name":"a","extra":1}', b'{"id":%d,"nom":"a"}'):
            keyed = [KeyedChange(b'{"id":%d}' % n, False, False, image % n, n) for n in range(count)]
            with pytest.raises(SchemaConflict, match="account"):
                stream.sink.stage(stream.lease, TableChanges("account", keyed))
    stream.span(insert(ACCOUNT, **account(1)))
    assert world.rows(ACCOUNT) == texts(account(1))


# ---- the whole stream ----------------------------------------------------------------------------------------------


@behaviour
def a_stream_with_crashes_ends_with_the_source_s_tables(world: World) -> None:
    log = LogTopic()
    expected: dict[int, Row] = {}
    for n in range(40):
        row = account(n % 7, f"v{n}")
        known = expected.get(n % 7)
        change = insert(ACCOUNT, **row) if known is None else update(ACCOUNT, known, row)
        expected[n % 7] = row
        log.transaction(change, insert(AUDIT, actor="x", action=str(n % 3)))
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
    assert world.rows(AUDIT) == texts(*[{"actor": "x", "action": str(n % 3)} for n in range(40)])
    ledger = world.sink().read_ledger(STREAM)
    assert ledger is not None
    assert ledger.applied_transactions == 40
    assert world.findings() == []
