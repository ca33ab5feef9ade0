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
