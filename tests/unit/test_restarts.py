"""What a stream knows after a restart: the ledger, also while the boundaries of its tables are still open."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from seamline.adapters.failpoints import ArmedFailpoints
from seamline.domain.catalogue import Column, Kind
from seamline.domain.errors import Fenced, LogCorrupted, SchemaConflict, TransientError, WentBack
from seamline.domain.ledger import LedgerRow, StreamId
from seamline.plan.model import StreamPlan
from seamline.ports import Lease, Orders
from seamline.sources.mariadb.position import BinlogPosition
from tests.log_topic import (
    ACCOUNT,
    AUDIT,
    FILE,
    STREAM,
    TRANSFER,
    LogTopic,
    ScriptedControl,
    gtid,
    insert,
    sync_plan,
    update,
)
from tests.memory_sink import LostAnswer, MemorySink
from tests.unit.test_span_loop import Stage, WatchedSink, published


def reordered(log: LogTopic) -> None:
    log.begin(2)
    log.row(update(ACCOUNT, {"id": 1, "name": "a"}, {"id": 1, "name": "b"}))
    log.finish()
    log.begin(1)
    log.row(update(ACCOUNT, {"id": 1, "name": "x"}, {"id": 1, "name": "a"}))
    log.finish()


def repeated(log: LogTopic) -> None:
    for _ in range(2):
        log.begin(1)
        log.row(insert(AUDIT, actor="x", action="once"))
        log.finish()


@pytest.mark.parametrize("disturb", [reordered, repeated])
def test_disorder_is_seen_across_a_restart_before_the_high_marker_too(disturb: Callable[[LogTopic], None]) -> None:
    log, destination = LogTopic(), published()
    destination.put(ACCOUNT, [{"id": 1, "name": "a"}])
    disturb(log)
    one_by_one = sync_plan(stream=StreamPlan(span_changes_max=1))
    with pytest.raises(TransientError):
        Stage(log, destination, plan=one_by_one).run(failpoints=ArmedFailpoints("app.commit_acked=error@1"))
    first = destination.state.tables
    again = Stage(log, destination, plan=one_by_one)
    with pytest.raises(LogCorrupted, match="a second time"):
        again.run()
    assert again.ledger.is_catching_up
    assert destination.state.tables == first


def test_a_lost_answer_does_not_take_the_stream_back_from_a_new_owner() -> None:
    log = LogTopic()
    log.transaction(insert(ACCOUNT, id=1, name="a"))
    destination = published()
    stage = Stage(log, destination)

    class Stolen(WatchedSink):
        def acquire(self, stream: StreamId, *, after_epoch: int | None = None) -> Lease:
            if after_epoch == 2:
                MemorySink(stage.plan, destination).acquire(STREAM)
            return super().acquire(stream, after_epoch=after_epoch)

    stage.sink = Stolen(stage.plan, destination)
    destination.lose_answer = LostAnswer.APPLIED
    with pytest.raises(Fenced):
        stage.run()
    assert stage.ledger.epoch == 3, "publish took 1, the start 2, the new owner 3, and it keeps it"


@pytest.mark.parametrize("epoch", [1, 2], ids=["restored", "failed over"])
def test_a_destination_that_went_back_while_an_answer_was_lost_is_named_and_the_next_worker_goes_on_from_its_ledger(
    epoch: int,
) -> None:
    log, destination = LogTopic(), published()
    for number in range(3):
        log.transaction(insert(AUDIT, actor="x", action=str(number)))
    one_by_one = sync_plan(stream=StreamPlan(span_changes_max=1))
    stage = Stage(log, destination, plan=one_by_one)
    backup = replace(destination.ledgers[STREAM], epoch=epoch)

    def lose_the_next_answer(ledger: LedgerRow) -> None:
        destination.lose_answer = LostAnswer.NOT_APPLIED

    class PutBack(WatchedSink):
        def acquire(self, stream: StreamId, *, after_epoch: int | None = None) -> Lease:
            if after_epoch == 2:
                destination.ledgers[STREAM] = backup
                destination.put(AUDIT, [])
            return super().acquire(stream, after_epoch=after_epoch)

    stage.sink = PutBack(one_by_one, destination)
    stage.sink.after_commit = lose_the_next_answer  # type: ignore[method-assign]
    with pytest.raises(WentBack, match=f"under epoch {epoch}, and it had confirmed"):
        stage.run()
    assert Stage(log, destination, plan=one_by_one).run().epoch == epoch + 1
    assert sorted(row["action"] for row in destination.rows(AUDIT)) == ["0", "1", "2"]
    assert destination.findings == []


def test_a_worker_that_is_not_wanted_any_more_takes_the_stream_from_nobody() -> None:
    """It may have slept since it was started; an epoch of its own would end the wanted one's for good."""
    log = LogTopic()
    log.transaction(insert(ACCOUNT, id=1, name="a"))
    stage = Stage(log, published())
    stage.control = ScriptedControl(stage.reader, orders=[Orders(wanted=False)])
    before = stage.ledger
    assert stage.run().state == "stopped"
    assert stage.ledger == before
    assert stage.control.states == ["starting"], "the word of the wanted one is the one that counts"


def test_a_worker_that_sleeps_behind_its_orders_takes_the_stream_from_nobody_and_may_try_again() -> None:
    log, destination = LogTopic(), published()
    log.transaction(insert(ACCOUNT, id=1, name="a"))
    late = Stage(log, destination)

    class Slept(ScriptedControl):
        def orders(self) -> Orders:
            orders = super().orders()
            MemorySink(late.plan, destination).acquire(STREAM)
            return orders

    late.control = Slept(late.reader)
    with pytest.raises(TransientError, match="taken by another owner"):
        late.run()
    assert late.ledger.epoch == 2, "publish took 1, the other one 2, and it keeps it"
    assert Stage(log, destination).run().epoch == 3


ADDED = Column("note", Kind.STRING, "varchar(9)", length=9)
OTHER_SHAPES = {
    "a column more": replace(ACCOUNT, columns=(*ACCOUNT.columns, ADDED)),
    "another type": replace(ACCOUNT, columns=(*ACCOUNT.columns[:-1], replace(ACCOUNT.columns[-1], length=7))),
    "columns in another order": replace(ACCOUNT, columns=ACCOUNT.columns[::-1]),
    "another key": replace(ACCOUNT, key=("name",)),
}


@pytest.mark.parametrize("name", OTHER_SHAPES)
def test_a_plan_with_another_schema_than_a_table_was_loaded_with_takes_the_stream_from_nobody(name: str) -> None:
    """A table that left, was altered and joined again: an older plan has the same names."""
    log = LogTopic()
    log.transaction(insert(ACCOUNT, id=1, name="a"))
    older = Stage(log, published(), plan=sync_plan((OTHER_SHAPES[name], TRANSFER, AUDIT)))
    before = older.ledger
    with pytest.raises(SchemaConflict, match="account of settlement@warehouse was loaded with other columns") as raised:
        older.run()
    assert (raised.value.table, older.ledger) == ("account", before)


def test_a_table_that_an_earlier_version_has_loaded_has_no_schema_to_be_held_against() -> None:
    log, destination = LogTopic(), published()
    log.transaction(insert(ACCOUNT, id=1, name="a"))
    row = destination.ledgers[STREAM]
    unmarked = tuple(replace(one, fingerprint="") for one in row.boundaries)
    destination.ledgers[STREAM] = replace(row, boundaries=unmarked)
    assert Stage(log, destination).run().changes == 1


def lose_transaction(log: LogTopic, number: int, *, but_begin: bool = False) -> None:
    """Take its records out of the topic."""
    mine = [record for record in log.records if record.transaction_id == gtid(number)]
    for record in mine[1:] if but_begin else mine:
        log.records.remove(record)


@pytest.mark.parametrize("but_begin", [False, True], ids=["whole", "all behind its BEGIN"])
@pytest.mark.parametrize("applied_before", [0, 1], ids=["at once", "at a restart"])
def test_a_transaction_that_the_topic_lost_stops_the_stream_at_the_one_before_it(
    applied_before: int, but_begin: bool
) -> None:
    log, destination = LogTopic(), published()
    for number in range(1, applied_before + 1):
        log.transaction(insert(ACCOUNT, id=number, name="first"))
    Stage(log, destination).run()
    for number in range(applied_before + 1, 4):
        log.transaction(insert(ACCOUNT, id=number, name="first"))
    lose_transaction(log, 2, but_begin=but_begin)
    again = Stage(log, destination)
    with pytest.raises(LogCorrupted, match="has no END|does not have before it"):
        again.run()
    assert [row["id"] for row in destination.rows(ACCOUNT)] == [1]


def test_a_truncate_that_the_topic_lost_with_its_begin_stops_the_stream() -> None:
    log, destination = LogTopic(), published()
    log.transaction(insert(ACCOUNT, id=1, name="a"))
    log.truncate(ACCOUNT)
    log.transaction(insert(ACCOUNT, id=2, name="b"))
    lose_transaction(log, 2)
    with pytest.raises(LogCorrupted, match="does not have before it"):
        Stage(log, destination).run()
    assert [row["id"] for row in destination.rows(ACCOUNT)] == [1]


def test_a_truncate_whose_record_the_topic_lost_behind_its_begin_stops_the_stream() -> None:
    log, destination = LogTopic(), published()
    log.transaction(insert(ACCOUNT, id=1, name="a"))
    log.truncate(ACCOUNT)
    log.transaction(insert(ACCOUNT, id=2, name="b"))
    lose_transaction(log, 2, but_begin=True)
    with pytest.raises(LogCorrupted, match="has no END"):
        Stage(log, destination).run()
    assert [row["id"] for row in destination.rows(ACCOUNT)] == [1]


def test_what_is_left_of_a_transaction_before_another_lost_one_is_not_taken_for_a_whole_one() -> None:
    log, destination = LogTopic(), published()
    for number in range(1, 5):
        log.transaction(insert(ACCOUNT, id=number, name="a"))
    lose_transaction(log, 2, but_begin=True)
    lose_transaction(log, 3)
    stage = Stage(log, destination)
    with pytest.raises(LogCorrupted, match="has no END"):
        stage.run()
    assert stage.ledger.position == BinlogPosition(gtid(1), FILE, 1_000)


def test_a_transaction_that_came_with_the_snapshot_need_not_be_in_the_topic() -> None:
    log = LogTopic()
    log.transaction(insert(ACCOUNT, id=1, name="loaded"))
    log.transaction(insert(ACCOUNT, id=2, name="streamed"))
    lose_transaction(log, 1)
    destination = published(covered=1)
    Stage(log, destination).run()
    assert [row["id"] for row in destination.rows(ACCOUNT)] == [2]
