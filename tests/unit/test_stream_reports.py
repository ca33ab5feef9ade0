"""An idle source has no lag as long as its heartbeats come through the log."""

from dataclasses import replace
from typing import cast

import pytest

from seamline.domain.ledger import LedgerRow, StreamId
from seamline.ports import Commit, LogReader, StreamReport
from seamline.sources.mariadb.position import BinlogPosition
from seamline.sync.clock import SystemClock
from seamline.sync.stream_reports import HEARTBEATS_MISSED_S, StreamReporter
from tests.log_topic import ManualClock

STREAM = StreamId("settlement", "warehouse")


class Heard:
    def __init__(self) -> None:
        self.reports: list[StreamReport] = []

    def orders(self) -> None: ...

    def report(self, report: StreamReport) -> None:
        self.reports.append(report)


class EmptyLog:
    def end_offset(self) -> int:
        return 7


@pytest.mark.parametrize(
    ("silent_s", "lag_s"),
    [(0.5, 0.0), (HEARTBEATS_MISSED_S, 0.0), (HEARTBEATS_MISSED_S + 60, HEARTBEATS_MISSED_S + 60)],
)
def test_silence_counts_as_lag_once_heartbeats_are_missing(silent_s: float, lag_s: float) -> None:
    heard = Heard()
    reporter = StreamReporter(STREAM, heard, cast(LogReader, EmptyLog()), ManualClock(1_000 + silent_s))  # type: ignore[arg-type]
    ledger = LedgerRow(STREAM, "topic", "id", 7, BinlogPosition("0-1-1"), 1, 1, committed_ms=1_000_000)
    reporter.catch_up(ledger)
    reporter.report("streaming", ledger, epoch=1)
    assert (heard.reports[-1].lag_s, heard.reports[-1].silent_s) == (lag_s, lag_s)
    reporter.count(Commit(replace(ledger, committed_ms=int(1000 * (1_000 + silent_s)))), transactions=1, changes=0)
    reporter.report("streaming", ledger, epoch=1)
    assert heard.reports[-1].silent_s == 0, "a heartbeat came"


def test_the_first_lag_is_that_of_the_ledger_and_after_a_pause_it_is_not_the_one_from_before() -> None:
    """The first span of a long way back is on its way when a stream says that it streams."""
    heard, clock = Heard(), ManualClock(4_600)
    reporter = StreamReporter(STREAM, heard, cast(LogReader, EmptyLog()), clock)  # type: ignore[arg-type]
    ledger = LedgerRow(STREAM, "topic", "id", 7, BinlogPosition("0-1-1"), 1, 1, committed_ms=1_000_000)
    reporter.report("streaming", ledger, epoch=1)
    assert heard.reports[-1].lag_s == 3_600
    reporter.count(Commit(replace(ledger, committed_ms=4_600_000)), transactions=1, changes=1)
    reporter.report("streaming", ledger, epoch=1)
    assert heard.reports[-1].lag_s == 0
    clock.time += 600
    for state in ("paused", "streaming"):
        reporter.report(state, replace(ledger, committed_ms=4_600_000), epoch=1)
        assert (heard.reports[-1].lag_s, heard.reports[-1].silent_s) == (600, 0)


class PutBack(ManualClock):
    """Its wall clock is put back by an hour at once; time goes on."""

    def wall(self) -> float:
        return self.time - 3_600


def test_a_clock_that_is_put_back_keeps_no_report_waiting() -> None:
    heard = Heard()
    clock = PutBack(10_000.0)
    reporter = StreamReporter(STREAM, heard, cast(LogReader, EmptyLog()), clock)  # type: ignore[arg-type]
    ledger = LedgerRow(STREAM, "topic", "id", 7, BinlogPosition("0-1-1"), 1, 1, committed_ms=1_000_000)
    reporter.report("held", ledger, epoch=1)
    assert heard.reports[-1].lag_s == 10_000 - 3_600 - 1_000
    assert not reporter.is_due("held", every_s=1)
    clock.time += 1
    assert reporter.is_due("held", every_s=1)


def test_the_clock_that_streams_wait_by_is_not_the_one_that_people_set(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SystemClock()
    before = clock.now()
    monkeypatch.setattr("time.time", lambda: 0.0)
    assert clock.wall() == 0.0
    assert clock.now() >= before


def test_the_rate_is_that_of_work_and_a_large_span_outweighs_many_small_ones() -> None:
    heard = Heard()
    reporter = StreamReporter(STREAM, heard, cast(LogReader, EmptyLog()), ManualClock(1_000))  # type: ignore[arg-type]
    commit = Commit(LedgerRow(STREAM, "topic", "id", 7, BinlogPosition("0-1-1"), 1, 1, committed_ms=1_000_000))
    assert reporter.last.records_per_s == 0
    for _ in range(50):
        reporter.count(commit, transactions=1, changes=1, records=2, busy_s=0.02)
    assert reporter.last.records_per_s == pytest.approx(100)
    reporter.count(commit, transactions=1, changes=1, records=50_000, busy_s=10)
    assert reporter.last.records_per_s == pytest.approx(5_000, rel=0.05)
