"""Listening to the log topic of a source for streams that have no worker, because nothing came for them for long.

It decides nothing but "this may concern you": the worker that is started then reads from where the stream stands.
"""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass

from seamline.domain.errors import SeamlineError, TransientError
from seamline.domain.ledger import StreamId
from seamline.domain.log import WHOLE_DATABASE, LogRecord, RecordKind, RowChange
from seamline.ports import LogReader
from seamline.sync.markers import HEARTBEAT
from seamline.sync.stop_conditions import marker_fields
from seamline.sync.stream_reports import HEARTBEATS_MISSED_S

# A log is pruned only where every ledger has passed, and who holds a stream waits until it has read on: so far, and for
# so long, one may stay behind.
_BEHIND_MAX = 50_000
_IDLE_MAX_S = 4 * 3600.0
_RECORDS_MAX = 10_000
_LOOK_S = 1.0
# Longer than a stream tolerates: the stream reports a silent source, and must not be woken only to go idle again.
_SILENT_S = 2 * HEARTBEATS_MISSED_S
_STUCK_S = 30.0
# A wait for one of these markers comes with a hold, or right after a publish: the stream has a worker then. A low
# marker is not among them: an incremental snapshot begins there and waits until the stream has come as far.
_MARKERS_OF_OTHERS = frozenset({HEARTBEAT, "high", "barrier"})
_Wake = Callable[[StreamId, str], None]


@dataclass(frozen=True, slots=True)
class Listened:
    """An idle stream of these tables, which has applied all before `next_offset`, `since_s` by a steady clock."""

    stream: StreamId
    tables: frozenset[str]
    next_offset: int
    since_s: float


class LogListener:
    """Remembers the last place in the log of each table. `now_s` by a steady clock, in seconds."""

    def __init__(self, begins: int, *, marker_table: str, now_s: float) -> None:
        self._begins = self._next = begins
        self._marker_table = marker_table
        self._seen: dict[str, int] = {}
        # Of statements, which may write a table's name in another case (`touched`).
        self._changed: dict[str, int] = {}
        # Where it last held what is every stream's business: which tables the capture carries.
        self._seen_all = -1
        self._heard_s = now_s

    def take_in(self, records: Sequence[LogRecord], *, now_s: float) -> None:
        """The next records of the log."""
        for record in records:
            if record.kind is RecordKind.ROWS:
                self._rows(record.rows)
            elif record.kind is RecordKind.END:
                # Also of rows that are missing: it is the worker that finds this out.
                for table, rows in (record.counts or {}).items():
                    if rows and table != self._marker_table:
                        self._seen[table] = record.offset
            elif record.kind in (RecordKind.DDL, RecordKind.TRUNCATE):
                self._statement(record)
        if records:
            self._next, self._heard_s = records[-1].end, now_s

    def _statement(self, record: LogRecord) -> None:
        if record.tables == WHOLE_DATABASE:
            self._seen_all = record.offset
        else:
            names = (record.table, *record.tables)
            self._changed |= dict.fromkeys((name.casefold() for name in names), record.offset)

    def reason_to_wake(self, idle: Listened, *, now_s: float) -> str:
        """Why this stream needs a worker; "" while it does not."""
        if idle.next_offset < self._begins:
            return f"the log was not listened to before offset {self._begins}"
        seen = [self._seen.get(table, -1) for table in idle.tables]
        changed = [self._changed.get(table.casefold(), -1) for table in idle.tables]
        last = max((self._seen_all, *seen, *changed))
        if last >= idle.next_offset:
            return f"offset {last}"
        if self._next - idle.next_offset > _BEHIND_MAX:
            return f"the log is {self._next - idle.next_offset} records further"
        if now_s - self._heard_s > _SILENT_S:
            return f"nothing came for {now_s - self._heard_s:.0f} s"
        if now_s - idle.since_s > _IDLE_MAX_S:
            return f"idle for {now_s - idle.since_s:.0f} s"
        return ""

    def _rows(self, rows: Sequence[RowChange]) -> None:
        for row in rows:
            if row.table != self._marker_table:
                self._seen[row.table] = row.offset
            elif row.op == "c" and marker_fields(row)["kind"] not in _MARKERS_OF_OTHERS:
                self._seen_all = row.offset


class LogListenerThread:
    """Reads one log topic until it is closed or fails. Its end wakes all streams that it listened for."""

    def __init__(self, open_reader: Callable[[], LogReader], *, marker_table: str, wake: _Wake, name: str) -> None:
        self._open = open_reader
        self._marker_table = marker_table
        self._wake = wake
        self._lock = threading.Lock()
        self._idle: tuple[Listened, ...] = ()
        self._has_ended = False
        self._looked_s = time.monotonic()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._live, name=f"log of {name}", daemon=True)

    def listen(self, idle: Sequence[Listened]) -> bool:
        """From now on for these, and for no other. False: it has ended, and they need another."""
        with self._lock:
            self._idle = tuple(idle)
            if self._has_ended:
                return False
        if self._thread.ident is None:
            self._thread.start()
        return True

    @property
    def is_stuck(self) -> bool:
        """Whether the broker has not let it look for long."""
        return time.monotonic() - self._looked_s > _STUCK_S

    def close(self) -> None:
        """Does not wait."""
        with self._lock:
            self._idle = ()
        self._end.set()

    def _live(self) -> None:
        reason = "its listener has ended"
        try:
            with closing(self._open()) as reader:
                self._listen(reader)
        except SeamlineError as exc:
            reason = str(exc)
        finally:
            with self._lock:
                self._has_ended, left = True, self._idle
            for idle in left:
                self._wake(idle.stream, reason)

    def _listen(self, reader: LogReader) -> None:
        begins = min((idle.next_offset for idle in self._idle), default=0)
        reader.assign(begins)
        listener = LogListener(begins, marker_table=self._marker_table, now_s=time.monotonic())
        while not self._end.is_set():
            # The reader keeps its place while the broker is away. That this lasts is seen as silence.
            with suppress(TransientError):
                listener.take_in(reader.poll(_LOOK_S, _RECORDS_MAX), now_s=time.monotonic())
            self._looked_s = now_s = time.monotonic()
            for idle in self._idle:
                if reason := listener.reason_to_wake(idle, now_s=now_s):
                    self._forget(idle)
                    self._wake(idle.stream, reason)

    def _forget(self, woken: Listened) -> None:
        with self._lock:
            self._idle = tuple(idle for idle in self._idle if idle is not woken)
