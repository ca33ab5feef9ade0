"""An idle source has no lag as long as its heartbeats come through the log."""

from typing import cast

import pytest

from seamline.domain.ledger import LedgerRow, StreamId
from seamline.domain.position import BinlogPosition
from seamline.ports import LogReader, StreamReport
from seamline.sync.stream_reports import HEARTBEATS_MISSED_S, StreamReporter

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
    reporter = StreamReporter(STREAM, heard, cast(LogReader, EmptyLog()))  # type: ignore[arg-type]
    ledger = LedgerRow(STREAM, "topic", "id", 7, BinlogPosition("0-1-1"), 1, 1, committed_ms=1_000_000)
    now = 1_000 + silent_s
    reporter.catch_up(ledger, now=now)
    reporter.tell("streaming", ledger, epoch=1, now=now)
    assert heard.reports[-1].lag_s == lag_s
