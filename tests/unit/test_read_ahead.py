"""How much of the log waits in memory: bounded by the size of its rows, and not by their number alone; and where no
transaction has any, by the number of transactions.
"""

from collections.abc import Sequence

from seamline.domain.log import LogRecord
from seamline.plan.model import StreamPlan
from seamline.sync.pace import Pace
from seamline.sync.transaction_buffer import BufferLimits, TransactionBuffer
from tests.log_topic import ACCOUNT, MARKERS, LogTopic, ScriptedControl, TopicReader, insert, position, sync_plan
from tests.unit.test_incremental_snapshot import RunningClock
from tests.unit.test_span_loop import Stage, published

LARGE = 10_000


class Measured(TopicReader):
    """Knows how many bytes of rows it has given."""

    given = 0

    def poll(self, timeout_s: float, records_max: int) -> Sequence[LogRecord]:
        records = super().poll(timeout_s, records_max)
        self.given += sum(len(row.after or b"") for record in records for row in record.rows)
        return records


def large_rows(count: int, *, each: int = 1) -> LogTopic:
    log = LogTopic()
    for number in range(count):
        log.transaction(*[insert(ACCOUNT, id=number * each + n, name="x" * LARGE) for n in range(each)])
    return log


def stage_of(log: LogTopic, *, commit_every_ms: int = 0, at_most: int = 1_000_000) -> Stage:
    stage = Stage(log, published(), plan=sync_plan(stream=StreamPlan(commit_every_ms=commit_every_ms)))
    stage.reader = Measured(log, at_most=at_most)
    stage.control = ScriptedControl(stage.reader)
    return stage


def test_a_span_holds_no_more_bytes_than_its_cap() -> None:
    stage = stage_of(large_rows(10))
    stage.run(pace=Pace(span_bytes_max=int(3.5 * LARGE)))
    assert [row.applied_transactions for row in stage.commits] == [3, 6, 9, 10]


def test_what_is_there_is_read_on_while_polls_come_full_of_records() -> None:
    stage = stage_of(large_rows(5, each=2))
    stage.run(pace=Pace(poll_records_max=4))
    assert [row.applied_transactions for row in stage.commits] == [5]


def test_no_more_is_read_ahead_of_the_commit_on_its_way_than_another_span_and_a_poll() -> None:
    stage = stage_of(large_rows(40), at_most=3)
    applied: list[int] = []
    stage.sink.after_commit = lambda row: applied.append(stage.reader.given - row.applied_transactions * LARGE)
    stage.run(pace=Pace(span_bytes_max=4 * LARGE))
    assert max(applied) <= 6 * LARGE
    assert len(stage.destination.rows(ACCOUNT)) == 40


def test_a_transaction_larger_than_the_cap_is_applied_alone_and_whole() -> None:
    stage = stage_of(large_rows(3, each=5))
    stage.run(pace=Pace(span_bytes_max=2 * LARGE))
    assert [row.applied_transactions for row in stage.commits] == [1, 2, 3]
    assert len(stage.destination.rows(ACCOUNT)) == 15


def test_a_span_that_is_full_by_its_bytes_waits_for_no_interval() -> None:
    stage = stage_of(large_rows(10), commit_every_ms=60_000, at_most=6)
    stage.clock = RunningClock(0.0)
    times: list[float] = []
    stage.sink.after_commit = lambda _: times.append(stage.clock.time)
    stage.run(pace=Pace(span_bytes_max=int(3.5 * LARGE)))
    assert times[1] < 60


def test_transactions_that_touch_none_of_the_tables_fill_what_is_read_ahead_too() -> None:
    log = LogTopic()
    for _ in range(500):
        log.transaction()
    reader = TopicReader(log)
    reader.assign(0)
    start = position(0)
    limits = BufferLimits(50, 1_000_000, 10, 1_000, 1_000_000)
    buffer = TransactionBuffer(reader, [ACCOUNT.name], marker_table=MARKERS, after=start, known=start, limits=limits)
    passed: list[int] = []
    while not reader.is_drained:
        buffer.read(0.0)
        passed.append(0)
        while buffer:
            buffer.pop()
            passed[-1] += 1
    assert max(passed) <= 60
    assert sum(passed) == 500


def test_what_came_before_a_large_open_transaction_waits_for_no_interval() -> None:
    log = large_rows(2)
    log.transaction(*[insert(ACCOUNT, id=100 + n, name="x") for n in range(30)])
    stage = stage_of(log, commit_every_ms=60_000, at_most=3)
    stage.clock = RunningClock(0.0)
    times: list[float] = []
    stage.sink.after_commit = lambda _: times.append(stage.clock.time)
    stage.run(pace=Pace(chunk_rows_max=10))
    assert times[1] < 60
