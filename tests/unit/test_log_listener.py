"""What of a log wakes a stream that has no worker, and that none is left asleep."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from seamline.domain.errors import PositionLost, SeamlineError, TransientError
from seamline.domain.ledger import StreamId
from seamline.domain.log import WHOLE_DATABASE, LogRecord, RecordKind, RowChange
from seamline.ports import LogReader
from seamline.sync.log_listener import Listened, LogListener, LogListenerThread
from tests.log_topic import ACCOUNT, AUDIT, MARKERS, LogTopic, TopicReader, in_runs, insert
from tests.waiting import wait_until

STREAM = StreamId("settlement", "warehouse")


def idle_at(next_offset: int, *tables: str) -> Listened:
    return Listened(STREAM, frozenset(tables or (ACCOUNT.name,)), next_offset, time.monotonic())


def heard(log: LogTopic, *, begins: int = 0) -> LogListener:
    listener = LogListener(begins, marker_table=MARKERS, now_s=0)
    listener.take_in(in_runs([record for record in log.records if record.offset >= begins]), now_s=0)
    return listener


def wakes(log: LogTopic, idle: Listened) -> bool:
    return heard(log).reason_to_wake(idle, now_s=1) != ""


def test_what_is_no_streams_or_another_streams_business_wakes_nobody() -> None:
    log = LogTopic()
    for kind in ("heartbeat", "high", "barrier"):
        log.marker(kind, kind)
    log.heartbeat()
    log.transaction()
    log.truncate(AUDIT.name)
    log.ddl("ALTER TABLE other ADD x int", "other")
    assert not wakes(log, idle_at(0))


def _missing(log: LogTopic) -> None:
    log.transaction(counts={ACCOUNT.name: 1})


def _begun(log: LogTopic) -> None:
    log.begin()
    log.row(insert(AUDIT, actor="x", action="y"))
    log.row(insert(ACCOUNT, id=1, name="a"))


@pytest.mark.parametrize(
    "happens",
    [
        lambda log: log.transaction(insert(ACCOUNT, id=1, name="a")),
        _begun,
        _missing,
        lambda log: log.truncate(ACCOUNT.name),
        lambda log: log.ddl(f"ALTER TABLE other RENAME TO {ACCOUNT.name}", "other", ACCOUNT.name),
        lambda log: log.ddl("DROP TABLE ACCOUNT", ACCOUNT.name.upper()),
        lambda log: log.ddl("DROP DATABASE bank", *WHOLE_DATABASE),
        lambda log: log.marker("t1", "tables"),
        lambda log: log.marker("l1", "low"),
        lambda log: log.marker("n1", "new"),
    ],
    ids=[
        "a row",
        "rows whose transaction has not ended",
        "rows that are counted and missing",
        "a TRUNCATE",
        "DDL",
        "DDL that writes the table's name in another case",
        "the database dropped",
        "another list of the capture's tables",
        "a place where an incremental snapshot may begin that waits until the stream has come as far",
        "a marker of a kind that a later version writes",
    ],
)
def test_whatever_a_worker_may_have_to_act_on_wakes_a_stream(happens: Callable[[LogTopic], None]) -> None:
    log = LogTopic()
    log.marker("h1", "heartbeat")
    before = log.end
    happens(log)
    assert wakes(log, idle_at(before))
    assert not wakes(log, idle_at(log.end)), "what it has applied is no news"


def test_rows_of_other_tables_wake_only_their_own_stream() -> None:
    log = LogTopic()
    log.transaction(insert(AUDIT, actor="desk", action="look"))
    listener = heard(log)
    assert listener.reason_to_wake(idle_at(0, ACCOUNT.name), now_s=1) == ""
    assert listener.reason_to_wake(idle_at(0, ACCOUNT.name, AUDIT.name), now_s=1) != ""


def test_a_stream_that_stands_before_what_was_listened_to_is_woken() -> None:
    log = LogTopic()
    log.transaction(insert(ACCOUNT, id=1, name="a"))
    begins = log.end
    assert heard(log, begins=begins).reason_to_wake(idle_at(0), now_s=1) != ""
    assert heard(log, begins=begins).reason_to_wake(idle_at(begins), now_s=1) == ""


def test_a_ledger_does_not_keep_the_log_from_being_pruned_for_good() -> None:
    listener = LogListener(0, marker_table=MARKERS, now_s=0)
    log = LogTopic()
    log.heartbeat()
    log.records[0].offset = 40_000
    listener.take_in(log.records, now_s=0)
    assert listener.reason_to_wake(idle_at(0), now_s=0) == ""
    log.records[0].offset = 60_000
    listener.take_in(log.records, now_s=0)
    assert "further" in listener.reason_to_wake(idle_at(0), now_s=0)
    day = replace(idle_at(60_001), since_s=-86_400.0)
    assert "idle for" in listener.reason_to_wake(day, now_s=0)


def test_a_source_without_heartbeats_is_for_its_streams_to_report() -> None:
    log = LogTopic()
    log.marker("h1", "heartbeat")
    listener = heard(log)
    assert listener.reason_to_wake(idle_at(0), now_s=40) == "", "its stream would report no silence yet"
    assert "nothing came" in listener.reason_to_wake(idle_at(0), now_s=70)


class Woken:
    """Who was woken, and why."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def __call__(self, stream: StreamId, reason: str) -> None:
        assert stream == STREAM
        self.reasons.append(reason)


class WaitingReader(TopicReader):
    """Waits a moment where there is nothing, and fails once it is asked to."""

    def __init__(self, log: LogTopic) -> None:
        super().__init__(log)
        self.trouble: SeamlineError | None = None
        self.polls = 0
        self._pause = threading.Event()

    def poll(self, timeout_s: float, records_max: int) -> Sequence[LogRecord]:
        self.polls += 1
        if (trouble := self.trouble) is not None:
            self._pause.wait(0.01)
            raise trouble
        taken = super().poll(timeout_s, records_max)
        if not taken:
            self._pause.wait(0.01)
        return taken


def thread_on(reader: LogReader, woken: Woken) -> LogListenerThread:
    return LogListenerThread(lambda: reader, marker_table=MARKERS, wake=woken, name="bank")


def test_a_row_wakes_an_idle_stream_once() -> None:
    log, woken = LogTopic(), Woken()
    log.marker("h1", "heartbeat")
    reader = WaitingReader(log)
    listener = thread_on(reader, woken)
    assert listener.listen([idle_at(log.end)])
    log.transaction(insert(ACCOUNT, id=1, name="a"))
    wait_until(lambda: woken.reasons, timeout_s=10, what="the stream to be woken")
    log.transaction(insert(ACCOUNT, id=2, name="b"))
    looked_on(reader)
    listener.close()
    assert len(woken.reasons) == 1


def test_a_broker_that_is_away_for_a_moment_wakes_nobody() -> None:
    log, woken = LogTopic(), Woken()
    log.marker("h1", "heartbeat")
    reader = WaitingReader(log)
    listener = thread_on(reader, woken)
    assert listener.listen([idle_at(log.end)])
    reader.trouble = TransientError("no broker answers")
    looked_on(reader)
    assert woken.reasons == []
    reader.trouble = None
    log.transaction(insert(ACCOUNT, id=1, name="a"))
    wait_until(lambda: woken.reasons, timeout_s=10, what="the stream to be woken")
    listener.close()


def looked_on(reader: WaitingReader) -> None:
    """Until whatever the log has by now was taken in."""
    before = reader.polls
    wait_until(lambda: reader.polls > before + 2, timeout_s=10, what="the listener to look again")


def test_a_log_that_cannot_be_read_wakes_all_and_takes_nobody_in_any_more() -> None:
    log, woken = LogTopic(), Woken()
    log.marker("h1", "heartbeat")
    reader = WaitingReader(log)
    listener = thread_on(reader, woken)
    assert listener.listen([idle_at(log.end)])
    reader.trouble = PositionLost("the log topic is gone")
    wait_until(lambda: woken.reasons, timeout_s=10, what="the stream to be woken")
    assert "the log topic is gone" in woken.reasons[0]
    assert not listener.listen([idle_at(log.end)])


def test_how_far_the_log_is_counts_to_the_last_row_of_a_run() -> None:
    listener = LogListener(0, marker_table=MARKERS, now_s=0)
    rows = [RowChange(offset, AUDIT.name, "c", after=b"{}") for offset in (10, 60_000)]
    listener.take_in([LogRecord(10, RecordKind.ROWS, "u", rows=rows)], now_s=0)
    assert listener.reason_to_wake(idle_at(0), now_s=1) == "the log is 60001 records further"
