"""How much time and memory a stream takes between two looks at the world."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pace:
    """How the loop spends time and memory. Seconds, records, bytes."""

    idle_wait_s: float = 0.25
    # Without changes a wait grows up to this; a record ends it at once, an order is seen behind it.
    quiet_wait_s: float = 1.0
    standing_wait_s: float = 0.05
    empty_commit_every_s: float = 1.0
    # Commits without changes that follow each other wait up to this: each may be in the source's log too, as a
    # transaction of the same server. As long as from one heartbeat to the next, which moves every ledger anyway.
    empty_commit_wait_max_s: float = 10.0
    report_every_s: float = 1.0
    idle_report_every_s: float = 5.0
    poll_records_max: int = 2_000
    # Of the images of whole transactions that wait. As much may be on its way, and as much in an open transaction.
    span_bytes_max: int = 64 << 20
    # Above either of these an open transaction is handed to the sink in chunks.
    chunk_rows_max: int = 200_000
    chunk_bytes_max: int = 64 << 20
    # After so long without a change the loop ends, where somebody else listens to the log meanwhile.
    idle_after_s: float = math.inf


class EmptyCommits:
    """When transactions without changes may cost a commit of their own: each waits twice as long as the one before it.

    A stream into its source's own server reads each of its commits as one more such transaction.
    """

    def __init__(self, pace: Pace) -> None:
        self._least_s = pace.empty_commit_every_s
        self._most_s = pace.empty_commit_wait_max_s
        self.wait_s = self._least_s

    def slow_down(self) -> None:
        """After a commit without changes."""
        self.wait_s = min(self._most_s, 2 * self.wait_s)

    def start_over(self) -> None:
        """After changes, and after a marker that somebody waits for."""
        self.wait_s = self._least_s
