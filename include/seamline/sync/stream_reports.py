"""What a stream reports: at once when its state changes, else now and then."""

import math
from dataclasses import replace

from seamline.domain.ledger import LedgerRow, StreamId
from seamline.ports import Commit, LogReader, StreamControl, StreamReport
from seamline.sync.clock import Clock

# The host commits a heartbeat marker every 10 s: two of them missing is no chance any more.
HEARTBEATS_MISSED_S = 30.0
# With each commit what was measured before counts for so much less: a large span outweighs many small ones.
_RATE_KEPT = 0.9


class StreamReporter:
    """Keeps the last report and the counts since the start."""

    def __init__(self, stream: StreamId, control: StreamControl, reader: LogReader, clock: Clock) -> None:
        self._control = control
        self._reader = reader
        self._clock = clock
        self._reported_at = -math.inf
        # None: nothing was counted since the stream began.
        self._lag_s: float | None = None
        self._silent_s = 0.0
        self._records = self._busy_s = 0.0
        self.last = StreamReport(stream, "starting")
        control.report(self.last)

    def count(self, commit: Commit, *, transactions: int, changes: int, records: int = 0, busy_s: float = 0.0) -> None:
        """Add a commit. Lag is measured here: how long after the source's commit its last transaction became visible.

        `busy_s`: for so long the stream worked on these records, without waiting for any.
        """
        last = self.last
        self._records = _RATE_KEPT * self._records + records
        self._busy_s = _RATE_KEPT * self._busy_s + busy_s
        self._lag_s = max(0.0, self._clock.wall() - commit.ledger.committed_ms / 1000)
        self._silent_s = 0.0
        self.last = replace(
            last,
            transactions=last.transactions + transactions,
            changes=last.changes + changes,
            findings=last.findings + commit.findings_total,
            records_per_s=self._records / self._busy_s if self._busy_s else 0.0,
        )

    def catch_up(self, ledger: LedgerRow) -> None:
        """Nothing newer waits in the log. No lag, as long as the source's heartbeats come through it."""
        silent_s = self._clock.wall() - ledger.committed_ms / 1000 if ledger.committed_ms else 0.0
        self._lag_s = self._silent_s = silent_s if silent_s > HEARTBEATS_MISSED_S else 0.0

    def report(self, state: str, ledger: LedgerRow, *, epoch: int, hold_id: str = "", waits_for: str = "") -> None:
        """`waits_for`: what the source said last that a stream waits for."""
        ends = self._reader.end_offset()
        if self._lag_s is None or state in ("paused", "held", "waiting"):
            # Until something is counted again, also when it goes on.
            self._lag_s, self._silent_s = self._standing_lag_s(ledger), 0.0
        self.last = replace(
            self.last,
            state=state,
            epoch=epoch,
            topic_id=ledger.topic_id,
            next_offset=ledger.next_offset,
            log_end_offset=ends,
            position=ledger.position,
            lag_s=self._lag_s,
            silent_s=self._silent_s,
            hold_id=hold_id,
            error=_waiting(ledger, ends, waits_for) if waits_for else "",
        )
        self._reported_at = self._clock.now()
        self._control.report(self.last)

    def is_due(self, state: str, *, every_s: float, hold_id: str = "") -> bool:
        return self.is_news(state, hold_id) or self._clock.now() - self._reported_at >= every_s

    def is_news(self, state: str, hold_id: str) -> bool:
        return (self.last.state, self.last.hold_id) != (state, hold_id)

    def _standing_lag_s(self, ledger: LedgerRow) -> float:
        # A stream that stands does not look at the log: this is the most that it can be behind.
        return max(0.0, self._clock.wall() - ledger.committed_ms / 1000) if ledger.committed_ms else 0.0


def _waiting(ledger: LedgerRow, ends: int, waits_for: str) -> str:
    return (
        f"{ends - ledger.next_offset:,} records behind position {ledger.position} cannot be verified without it:"
        f" {waits_for}"
    )
