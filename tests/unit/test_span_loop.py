import gc
import json
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamline.adapters.failpoints import ArmedFailpoints
from seamline.domain.changes import TableChanges
from seamline.domain.errors import Fenced, LogCorrupted, PositionLost, SchemaConflict, TransientError
from seamline.domain.ledger import LedgerRow
from seamline.domain.log import LogRecord
from seamline.plan.model import StreamPlan, SyncPlan
from seamline.ports import Commit, Lease, Orders, Progress, Staged, StreamReport
from seamline.sources.mariadb.position import BinlogPosition
from seamline.sync.pace import Pace
from seamline.sync.span_loop import run_stream
from tests.bank_history import History, canonical, histories
from tests.log_topic import (
    ACCOUNT,
    AUDIT,
    STREAM,
    TABLES,
    LogTopic,
    ManualClock,
    ScriptedControl,
    TopicReader,
    gtid,
    insert,
    position,
    publication,
    sync_plan,
)
from tests.memory_sink import LostAnswer, MemoryDestination, MemorySink


def published(*, covered: int = 0, next_offset: int = 0, ended: bool = False) -> MemoryDestination:
    destination = MemoryDestination()
    sink = MemorySink(sync_plan(), destination)
    sink.publish(STREAM, (), publication=publication(covered=covered, next_offset=next_offset))
    if ended:
        row = destination.ledgers[STREAM]
        destination.ledgers[STREAM] = replace(row, boundaries=tuple(replace(b, ended=True) for b in row.boundaries))
    return destination


def state_of(destination: MemoryDestination) -> dict[str, list[str]]:
    return {table.name: canonical(destination.rows(table)) for table in TABLES}


class WatchedSink(MemorySink):
    """Calls `after_commit` with the ledger after each commit that was answered."""

    after_commit: Callable[[LedgerRow], None] = staticmethod(lambda row: None)

    def commit(self, lease: Lease, staged: Sequence[Staged], *, progress: Progress) -> Commit:
        commit = super().commit(lease, staged, progress=progress)
        self.after_commit(commit.ledger)
        return commit


class Stage:
    """One stream over one log and one destination, with everything a test may want to look at."""

    def __init__(self, log: LogTopic, destination: MemoryDestination, *, plan: SyncPlan | None = None) -> None:
        self.plan = plan or sync_plan()
        self.log = log
        self.destination = destination
        self.reader = TopicReader(log)
        self.sink = WatchedSink(self.plan, destination)
        self.control = ScriptedControl(self.reader)
        self.clock = ManualClock()
        self.commits: list[LedgerRow] = []
        self.sink.after_commit = self.commits.append  # type: ignore[method-assign]

    def run(self, *, pace: Pace | None = None, failpoints: ArmedFailpoints | None = None) -> StreamReport:
        return run_stream(
            self.plan,
            "warehouse",
            reader=self.reader,
            sink=self.sink,
            control=self.control,
            failpoints=failpoints,
            clock=self.clock,
            pace=pace,
        )

    @property
    def ledger(self) -> LedgerRow:
        return self.destination.ledgers[STREAM]


# ---- the promise: whole transactions, each exactly once ------------------------------------------------------------


@given(
    histories(),
    st.integers(1, 9),
    st.integers(1, 12),
    st.lists(st.sampled_from(["app.fetched", "app.dml_half", "app.commit_acked", "applied", "lost"]), max_size=6),
)
def test_any_split_repeat_or_crash_gives_the_same_tables(
    history: History, at_most: int, span_max: int, faults: list[str]
) -> None:
    destination = published()
    plan = sync_plan(stream=StreamPlan(span_changes_max=span_max))
    for fault in [*faults, ""]:
        stage = Stage(history.log, destination, plan=plan)
        stage.reader = TopicReader(history.log, at_most=at_most)
        stage.control = ScriptedControl(stage.reader)
        points = ArmedFailpoints(f"{fault}=error@2") if fault.startswith("app.") else ArmedFailpoints()
        stage.sink._failpoints = points  # noqa: SLF001 (the same points on both sides, as in a process)
        destination.lose_answer = {"applied": LostAnswer.APPLIED, "lost": LostAnswer.NOT_APPLIED}.get(fault)
        with suppress(TransientError):
            stage.run(failpoints=points)
        assert state_of(destination) == history.states[destination.ledgers[STREAM].applied_transactions]
    assert destination.ledgers[STREAM].applied_transactions == len(history.states) - 1
    assert state_of(destination) == history.states[-1]
    assert destination.findings == []


@given(histories(transactions_max=8), st.integers(0, 8))
def test_a_snapshot_at_any_position_and_the_log_after_it_meet_exactly(history: History, covered: int) -> None:
    covered = min(covered, len(history.states) - 1)
    destination = published(covered=covered)
    _fill(destination, history.states[covered])
    stage = Stage(history.log, destination)
    stage.run()
    assert state_of(destination) == history.states[-1]
    assert destination.findings == []


def _fill(destination: MemoryDestination, state: dict[str, list[str]]) -> None:
    for table in TABLES:
        destination.put(table, [json.loads(text) for text in state[table.name]])


def test_a_span_ends_at_an_end_and_the_ledger_says_where() -> None:
    log = LogTopic()
    log.transaction(insert(ACCOUNT, id=1, name="a"))
    end = log.records[-1].offset + 1
    log.begin()
    log.row(insert(ACCOUNT, id=2, name="b"))
    stage = Stage(log, published())
    report = stage.run()
    assert report.state == "stopped"
    assert (stage.ledger.next_offset, stage.ledger.applied_transactions) == (end, 1)
    assert isinstance(stage.ledger.position, BinlogPosition)
    assert stage.ledger.position.gtid == gtid(1)
    assert [row["id"] for row in stage.destination.rows(ACCOUNT)] == [1]


def test_spans_are_what_is_buffered_up_to_their_cap() -> None:
    log = LogTopic()
    for number in range(10):
        log.transaction(*[insert(ACCOUNT, id=number * 2 + n, name="a") for n in range(2)])
    stage = Stage(log, published(), plan=sync_plan(stream=StreamPlan(span_changes_max=5)))
    stage.run()
    assert [row.applied_transactions for row in stage.commits] == [2, 4, 6, 8, 10]


def test_a_span_that_the_sink_cannot_take_stops_the_stream_after_everything_before_it() -> None:
    stage = Stage(history_of_five(), published(), plan=sync_plan(stream=StreamPlan(span_changes_max=2)))
    take = stage.sink.stage

    def refuse_the_second(lease: Lease, changes: TableChanges) -> Staged:
        if stage.commits:
            raise SchemaConflict("another schema", table="account")
        return take(lease, changes)

    stage.sink.stage = refuse_the_second  # type: ignore[method-assign]
    with pytest.raises(SchemaConflict, match="another schema"):
        stage.run()
    assert stage.commits == [stage.ledger]


def test_a_transaction_larger_than_a_span_is_one_span() -> None:
    log = LogTopic()
    log.transaction(*[insert(ACCOUNT, id=n, name="a") for n in range(20)])
    stage = Stage(log, published(), plan=sync_plan(stream=StreamPlan(span_changes_max=5)))
    stage.reader = TopicReader(log, at_most=3)
    stage.control = ScriptedControl(stage.reader)
    stage.run()
    assert len(stage.commits) == 1
    assert len(stage.destination.rows(ACCOUNT)) == 20


# ---- epochs and lost answers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("lost", list(LostAnswer))
def test_after_a_lost_answer_the_ledger_decides_and_the_stream_goes_on(lost: LostAnswer) -> None:
    log = LogTopic()
    log.transaction(insert(AUDIT, actor="x", action="once"))
    log.transaction(insert(AUDIT, actor="x", action="twice"))
    destination = published()
    stage = Stage(log, destination, plan=sync_plan(stream=StreamPlan(span_changes_max=1)))
    destination.lose_answer = lost
    report = stage.run()
    assert sorted(row["action"] for row in destination.rows(AUDIT)) == ["once", "twice"]
    assert report.epoch == 3, "publish took 1, the start 2, the lost answer 3"
    assert stage.reader.assigned == [0]


def test_a_stream_with_an_older_epoch_never_writes_again() -> None:
    log = LogTopic()
    log.transaction(insert(ACCOUNT, id=1, name="a"))
    log.transaction(insert(ACCOUNT, id=2, name="b"))
    destination = published()
    stage = Stage(log, destination, plan=sync_plan(stream=StreamPlan(span_changes_max=1)))
    stage.sink.after_commit = lambda row: MemorySink(stage.plan, destination).acquire(STREAM)  # type: ignore[method-assign,assignment,return-value]
    with pytest.raises(Fenced):
        stage.run()
    assert [row["id"] for row in destination.rows(ACCOUNT)] == [1]


def test_a_log_topic_that_was_made_again_is_refused() -> None:
    stage = Stage(LogTopic(), published())
    stage.reader.topic_id = "topic-2"
    with pytest.raises(PositionLost, match="recreated"):
        stage.run()


def test_a_table_that_was_never_onboarded_is_refused() -> None:
    destination = published()
    row = destination.ledgers[STREAM]
    destination.ledgers[STREAM] = replace(row, boundaries=row.boundaries[1:])
    with pytest.raises(SchemaConflict, match="account"):
        Stage(LogTopic(), destination).run()


# ---- markers and boundaries ----------------------------------------------------------------------------------------


def test_the_commit_that_applies_the_high_marker_ends_the_boundaries() -> None:
    log = LogTopic()
    log.transaction(insert(ACCOUNT, id=1, name="a"))
    log.marker("high-1", "high")
    log.transaction(insert(ACCOUNT, id=2, name="b"))
    stage = Stage(log, published(covered=1))
    stage.run()
    assert all(boundary.ended for boundary in stage.ledger.boundaries)
    assert stage.ledger.last_marker == "high-1"
    by_transactions = {row.applied_transactions: row for row in stage.commits}
    assert all(boundary.ended for boundary in by_transactions[2].boundaries)
    assert [row["id"] for row in stage.destination.rows(ACCOUNT)] == [2]


def test_the_stream_says_that_it_is_catching_up_until_then() -> None:
    log = LogTopic()
    log.transaction(insert(ACCOUNT, id=1, name="a"))
    stage = Stage(log, published())
    stage.run()
    assert stage.control.states == ["starting", "catching_up", "stopped"]
    log.marker("high-1", "high")
    log.transaction(insert(ACCOUNT, id=2, name="a"))
    stage = Stage(log, stage.destination)
    stage.run()
    assert stage.control.states[-2:] == ["streaming", "stopped"]


def test_the_position_of_covered_transactions_does_not_move_the_ledger_back() -> None:
    log = LogTopic()
    log.transaction(insert(ACCOUNT, id=1, name="a"))
    log.transaction(insert(ACCOUNT, id=2, name="a"))
    stage = Stage(log, published(covered=5))
    stage.run()
    assert stage.ledger.position == position(5)
    assert stage.ledger.applied_transactions == 2


def test_a_heartbeat_marker_moves_the_ledger_but_is_no_milestone() -> None:
    log = LogTopic()
    log.marker("m-1", "barrier")
    log.marker("beat-7", "heartbeat")
    stage = Stage(log, published())
    stage.run()
    assert (stage.ledger.last_marker, stage.ledger.applied_transactions) == ("m-1", 2)


def test_a_marker_that_no_longer_lists_a_table_stops_the_stream_before_it() -> None:
    log = LogTopic()
    log.marker("t1", "tables", {"generation": 3, "tables": ["account", "transfer", "audit", "other"]})
    log.transaction(insert(ACCOUNT, id=1, name="a"))
    log.marker("t2", "tables", {"generation": 4, "tables": ["account", "transfer"]})
    log.transaction(insert(ACCOUNT, id=2, name="b"))
    stage = Stage(log, published())
    with pytest.raises(PositionLost, match="audit"):
        stage.run()
    assert [row["id"] for row in stage.destination.rows(ACCOUNT)] == [1]
    assert (stage.ledger.last_marker, stage.ledger.applied_transactions) == ("t1", 2)


# ---- what stops a stream, stops it whole ---------------------------------------------------------------------------


def test_ddl_of_a_table_of_the_sync_stops_after_everything_before_it() -> None:
    log = LogTopic()
    log.transaction(insert(ACCOUNT, id=1, name="a"))
    log.ddl("ALTER TABLE account ADD x INT", "account")
    log.transaction(insert(ACCOUNT, id=2, name="b"))
    stage = Stage(log, published())
    with pytest.raises(SchemaConflict, match="ALTER TABLE account ADD x INT") as caught:
        stage.run()
    assert caught.value.table == "account"
    assert "__tables" in caught.value.hint
    assert [row["id"] for row in stage.destination.rows(ACCOUNT)] == [1]
    assert stage.ledger.applied_transactions == 1


def test_ddl_that_the_snapshot_already_covers_is_passed() -> None:
    log = LogTopic()
    log.ddl("ALTER TABLE account ADD x INT", "account")
    log.transaction(insert(ACCOUNT, id=2, name="b"))
    stage = Stage(log, published(covered=1))
    stage.run()
    assert stage.ledger.applied_transactions == 2


def test_a_torn_transaction_stops_after_everything_before_it() -> None:
    log = LogTopic()
    log.transaction(insert(ACCOUNT, id=1, name="a"))
    log.transaction(insert(ACCOUNT, id=2, name="b"), counts={"account": 2})
    stage = Stage(log, published())
    with pytest.raises(LogCorrupted) as caught:
        stage.run()
    assert caught.value.sync == "settlement"
    assert [row["id"] for row in stage.destination.rows(ACCOUNT)] == [1]


def test_a_reader_s_trouble_waits_until_everything_before_it_is_applied() -> None:
    stage = Stage(history_of_five(), published())
    taking = stage.reader.poll

    def poll(timeout_s: float, records_max: int) -> Sequence[LogRecord]:
        if stage.reader.is_drained:
            raise LogCorrupted("offset 99: not a record")
        return taking(timeout_s, records_max)

    stage.reader.poll = poll  # type: ignore[method-assign]
    with pytest.raises(LogCorrupted, match="offset 99"):
        stage.run(pace=Pace(poll_records_max=15))
    assert len(stage.destination.rows(ACCOUNT)) == 5


@pytest.mark.parametrize("repeated", [1, 2])
def test_a_transaction_that_was_applied_before_stops_the_stream(repeated: int) -> None:
    log = LogTopic()
    for number in (1, 2):
        log.transaction(insert(AUDIT, actor="x", action=str(number)))
    log.begin(repeated)
    log.row(insert(AUDIT, actor="x", action="again"))
    log.finish()
    stage = Stage(log, published(ended=True))
    with pytest.raises(LogCorrupted, match="second time"):
        stage.run()
    assert len(stage.destination.rows(AUDIT)) == 2


def test_a_truncate_is_a_span_of_its_own() -> None:
    log = LogTopic()
    log.transaction(insert(AUDIT, actor="x", action="a"))
    log.truncate("audit")
    log.transaction(insert(AUDIT, actor="x", action="b"))
    stage = Stage(log, published())
    stage.run()
    assert [row.applied_transactions for row in stage.commits] == [1, 2, 3]
    assert [row["action"] for row in stage.destination.rows(AUDIT)] == ["b"]


# ---- orders --------------------------------------------------------------------------------------------------------


def history_of_five() -> LogTopic:
    log = LogTopic()
    for number in range(1, 6):
        log.transaction(insert(ACCOUNT, id=number, name="a"))
    return log


def test_a_paused_stream_applies_nothing_until_it_goes_on() -> None:
    stage = Stage(history_of_five(), published())
    seen: list[int] = []

    class Watching(ScriptedControl):
        def orders(self) -> Orders:
            seen.append(len(stage.destination.rows(ACCOUNT)))
            return super().orders()

    stage.control = Watching(stage.reader, orders=[Orders(paused=True)] * 3)
    stage.run()
    assert seen[:4] == [0, 0, 0, 0]
    assert len(stage.destination.rows(ACCOUNT)) == 5
    assert "paused" in stage.control.states


def test_a_stream_measures_what_it_applies_while_it_works_and_not_while_it_stands() -> None:
    log = history_of_five()
    stage = Stage(log, published(), plan=sync_plan(stream=StreamPlan(span_changes_max=1)))

    def take_long(row: LedgerRow) -> None:
        stage.clock.time += 2

    stage.sink.after_commit = take_long  # type: ignore[method-assign]
    stage.control = ScriptedControl(stage.reader, orders=[Orders(), *[Orders(paused=True)] * 50])
    rate = stage.run().records_per_s
    assert rate == pytest.approx(log.end / 5 / 2, rel=0.05), (
        "as many records as a transaction has, in the time of a commit"
    )


def test_a_held_stream_stands_still_and_says_where() -> None:
    stage = Stage(history_of_five(), published(), plan=sync_plan(stream=StreamPlan(span_changes_max=2)))
    hold = Orders(hold_id="h1", hold_until_s=2e9)
    stage.control = ScriptedControl(stage.reader, orders=[Orders(), hold, hold, hold])
    stage.run()
    held = [report for report in stage.control.reports if report.state == "held"]
    assert {(report.hold_id, report.next_offset) for report in held} == {("h1", stage.commits[0].next_offset)}
    assert held[0].position == stage.commits[0].position
    assert len(stage.destination.rows(ACCOUNT)) == 5, "the hold ended and the stream went on"


def test_a_stop_between_spans_leaves_the_ledger_at_an_end() -> None:
    stage = Stage(history_of_five(), published(), plan=sync_plan(stream=StreamPlan(span_changes_max=2)))
    stage.control = ScriptedControl(stage.reader, orders=[Orders(), Orders(wanted=False)])
    report = stage.run()
    assert report.state == "stopped"
    assert (report.transactions, report.changes, report.next_offset) == (2, 2, stage.commits[0].next_offset)


# ---- cost ----------------------------------------------------------------------------------------------------------


def test_empty_transactions_are_committed_together_ever_less_often() -> None:
    log = LogTopic()
    for _ in range(100):
        log.transaction()
    stage = Stage(log, published())
    stage.reader = TopicReader(log, at_most=2)
    stage.control = ScriptedControl(stage.reader)
    taking = stage.reader.poll

    def poll(timeout_s: float, records_max: int) -> Sequence[LogRecord]:
        # Each transaction comes by itself, 50 ms after the one before.
        if not timeout_s:
            return ()
        stage.clock.time += 0.05
        return taking(timeout_s, records_max)

    stage.reader.poll = poll  # type: ignore[method-assign]
    stage.run()
    assert stage.ledger.applied_transactions == 100
    # After 1, 3 and at the end of 5 seconds.
    assert len(stage.commits) == 3


@pytest.mark.parametrize(("of_the_sync", "of_the_destination"), [(1000, 0), (10, 1000)])
def test_commits_keep_the_longer_interval_of_sync_and_destination(of_the_sync: int, of_the_destination: int) -> None:
    log = LogTopic()
    for number in range(100):
        log.transaction(insert(ACCOUNT, id=number, name="a"))
    plan = sync_plan(stream=StreamPlan(commit_every_ms=of_the_sync))
    (destination,) = plan.destinations
    plan = replace(plan, destinations=(replace(destination, commit_every_ms=of_the_destination),))
    stage = Stage(log, published(), plan=plan)
    stage.reader = TopicReader(log, at_most=3)
    stage.control = ScriptedControl(stage.reader)
    taking = stage.reader.poll

    def poll(timeout_s: float, records_max: int) -> Sequence[LogRecord]:
        if not timeout_s:
            return ()
        stage.clock.time += timeout_s if stage.reader.is_drained else 0.05
        return taking(timeout_s, records_max)

    stage.reader.poll = poll  # type: ignore[method-assign]
    stage.control._script = [Orders()] * 200  # noqa: SLF001
    stage.run()
    assert stage.ledger.applied_transactions == 100
    assert len(stage.commits) <= 8


def test_an_idle_stream_waits_for_records_and_writes_nothing() -> None:
    log = LogTopic()
    log.transaction(insert(ACCOUNT, id=1, name="a"))
    stage = Stage(log, published())
    waits: list[float] = []
    taking = stage.reader.poll

    def poll(timeout_s: float, records_max: int) -> Sequence[LogRecord]:
        waits.append(timeout_s)
        stage.clock.time += timeout_s
        return taking(timeout_s, records_max)

    stage.reader.poll = poll  # type: ignore[method-assign]
    stage.control = ScriptedControl(stage.reader, orders=[Orders()] * 100)
    stage.run()
    assert len(stage.commits) == 1
    assert min(waits[5:]) >= 0.1, "each look at an idle log blocks in the reader"
    assert waits[-1] == Pace().quiet_wait_s, "the longer nothing changes, the longer it waits"
    assert len(stage.control.reports) < 100


def test_a_stream_that_was_quiet_looks_for_orders_more_often_again_behind_a_change() -> None:
    log = LogTopic()
    stage = Stage(log, published())
    waits: list[float] = []
    taking = stage.reader.poll

    def poll(timeout_s: float, records_max: int) -> Sequence[LogRecord]:
        stage.clock.time += timeout_s
        if len(waits) == 100:
            log.transaction(insert(ACCOUNT, id=1, name="a"))
        waits.append(timeout_s)
        return taking(timeout_s, records_max)

    stage.reader.poll = poll  # type: ignore[method-assign]
    stage.control = ScriptedControl(stage.reader, orders=[Orders()] * 110)
    stage.run()
    assert waits[100] == Pace().quiet_wait_s
    assert set(waits[102:]) == {Pace().idle_wait_s}


def test_python_serves_a_stream_while_it_runs_and_is_left_as_it_was() -> None:
    stage = Stage(history_of_five(), published())
    seen: list[tuple[bool, float]] = []
    stage.sink.after_commit = lambda row: seen.append((gc.isenabled(), sys.getswitchinterval()))  # type: ignore[method-assign]
    before = gc.isenabled(), sys.getswitchinterval()
    stage.run()
    assert seen
    assert not any(collects for collects, _ in seen)
    assert max(turn_s for _, turn_s in seen) <= 0.001 < before[1]
    assert (gc.isenabled(), sys.getswitchinterval()) == before
