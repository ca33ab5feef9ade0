"""Finding a marker in the log topic: its place there proves that everything committed before it has passed."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from seamline.domain.errors import TransientError
from seamline.domain.log import LogRecord, RecordKind, RowChange
from seamline.domain.position import Position
from seamline.ports import LogReader

# A stream host commits one so often in each captured source.
HEARTBEAT_S = 10.0
HEARTBEAT = "heartbeat"
_POLL_S = 1.0
_RECORDS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class MarkerPlace:
    """`offset` is the marker's row, `next_offset` the one after its transaction's END."""

    marker_id: str
    offset: int
    next_offset: int
    position: Position


def read_until_marker(
    reader: LogReader,
    *,
    marker_table: str,
    marker_id: str,
    timeout_s: float,
    while_silent: Callable[[], None] = lambda: None,
) -> MarkerPlace:
    """Read on (the reader is assigned) until the transaction of this marker has ended.

    `while_silent` is called about once a second while nothing comes, and may raise. Raises TransientError after
    `timeout_s`: the capture does not run, or it lags further than that.
    """
    found: RowChange | None = None
    for record in _records(reader, time.monotonic() + timeout_s, while_silent):
        if found is None:
            found = next((row for row in record.rows if is_marker(row, marker_table, marker_id)), None)
        elif record.kind is RecordKind.END and record.position is not None:
            return MarkerPlace(marker_id, found.offset, record.offset + 1, record.position)
    raise TransientError(
        f"marker {marker_id} was committed in the source but not read from {reader.topic} within {timeout_s:g} s",
        hint="is the capture running, and how far is it behind? `seamline status` shows it",
    )


def is_marker(row: RowChange, marker_table: str, marker_id: str) -> bool:
    """Whether a row of the log is this marker."""
    return row.table == marker_table and json.loads(row.after or b"{}").get("id") == marker_id


def is_heartbeat(marker: RowChange) -> bool:
    """Whether a row of the marker table is the heartbeat of a stream host."""
    return bool(json.loads(marker.after or b"{}").get("kind") == HEARTBEAT)


def _records(reader: LogReader, deadline: float, while_silent: Callable[[], None]) -> Iterator[LogRecord]:
    while time.monotonic() < deadline:
        records = reader.poll(_POLL_S, _RECORDS_MAX)
        if not records:
            while_silent()
        yield from records
