"""A stream whose commits keep an interval stays near a log that gets heartbeats as often as that."""

from collections.abc import Sequence

from seamline.domain.ledger import LedgerRow
from seamline.domain.log import LogRecord
from seamline.plan.model import StreamPlan
from seamline.ports import Orders
from tests.log_topic import ACCOUNT, LogTopic, ScriptedControl, insert, sync_plan
from tests.unit.test_span_loop import Stage, published

EVERY_S = HEARTBEAT_S = 10


class Written(Stage):
    """Each second brings a transaction, and each tenth a heartbeat too. `lags`: of each commit, in seconds."""

    def __init__(self, *, seconds: int) -> None:
        super().__init__(LogTopic(), published(), plan=sync_plan(stream=StreamPlan(commit_every_ms=EVERY_S * 1000)))
        self.clock.time = 1.0
        self.lags: list[float] = []
        self.log.clock_ms = lambda: int(1000 * self.clock.time)
        self.sink.after_commit = self._committed  # type: ignore[method-assign]
        self.control = ScriptedControl(self.reader, orders=[Orders()] * 100 * seconds)
        self._seconds = seconds
        self._written = 0
        self._taking = self.reader.poll
        self.reader.poll = self._poll  # type: ignore[method-assign]

    def _committed(self, ledger: LedgerRow) -> None:
        self.lags.append(self.clock.time - ledger.committed_ms / 1000)

    def _poll(self, timeout_s: float, records_max: int) -> Sequence[LogRecord]:
        if self.reader.is_drained:
            self.clock.time += timeout_s
        while self._written < min(int(self.clock.time), self._seconds):
            self._written += 1
            self.log.transaction(insert(ACCOUNT, id=self._written, name="a"))
            if self._written % HEARTBEAT_S == 0:
                self.log.marker(f"beat-{self._written}", "heartbeat")
        if self.clock.time >= self._seconds:
            self.control._script = [Orders(wanted=False)]  # noqa: SLF001
        return self._taking(timeout_s, records_max)


def test_heartbeats_do_not_each_cost_an_interval() -> None:
    """Found by a demo: each heartbeat stands alone, so the stream took 20 s for 10 s of its log."""
    stage = Written(seconds=120)
    stage.run()
    assert max(stage.lags) <= EVERY_S + 1
    # What stands before and behind a heartbeat, and the heartbeat.
    assert len(stage.lags) <= 3 * 120 / EVERY_S + 1
