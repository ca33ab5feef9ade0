"""The loop of one stream: read the log, close a span at an END, apply it in one commit, report, obey, again.

Plain Python over ports, so the whole of it runs in tests in milliseconds. It keeps nothing that matters: after any
trouble the next loop starts from what the destination's ledger says. The caller is the one owner of retries
(TransientError ends the loop); `Fenced` is final.
"""

import json
import time
from collections import deque
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Protocol

from seamline.domain.changes import TableChanges
from seamline.domain.cutover import BoundaryGate, is_covered
from seamline.domain.errors import (
    CommitUnknown,
    Fenced,
    InvariantViolated,
    LogCorrupted,
    PositionLost,
    SchemaConflict,
    SeamlineError,
    TransientError,
)
from seamline.domain.ledger import LedgerRow
from seamline.domain.log import LogRecord, Span, Unit
from seamline.domain.position import BinlogPosition, Position, PostgresPosition
from seamline.plan.model import SyncPlan
from seamline.ports import (
    Failpoints,
    Lease,
    LogReader,
    Orders,
    Progress,
    Sink,
    Staged,
    StreamControl,
    StreamReport,
)
from seamline.sync.compaction import compact
from seamline.sync.progress import PositionTracker
from seamline.sync.units import UnitAssembler


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since the epoch."""

    def sleep(self, seconds: float) -> None: ...


class SystemClock:
    def now(self) -> float:
        return time.time()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class Unarmed:
    """Failpoints that never fail."""

    def reach(self, name: str) -> None:
        return


@dataclass(frozen=True, slots=True)
class Pace:
    """How the loop spends time and memory. Seconds, records, bytes."""

    idle_wait_s: float = 0.25
    standing_wait_s: float = 0.05
    empty_commit_every_s: float = 1.0
    report_every_s: float = 1.0
    idle_report_every_s: float = 5.0
    poll_records_max: int = 5_000
    # Above either of these an open unit is handed to the sink in pieces.
    piece_rows_max: int = 200_000
    piece_bytes_max: int = 64 << 20


def run_stream(
    plan: SyncPlan,
    destination: str,
    *,
    reader: LogReader,
    sink: Sink,
    control: StreamControl,
    failpoints: Failpoints | None = None,
    clock: Clock | None = None,
    pace: Pace | None = None,
) -> StreamReport:
    """Stream a sync into one destination until it is no longer wanted; returns the last report (state `stopped`).

    Takes a new epoch at once. Raises Fenced (another owner: never start this again by yourself), TransientError (the
    caller may start it again after a while), TerminalError (a person must look; everything before it is applied).
    The caller opens and closes reader and sink.
    """
    loop = _SpanLoop(
        plan,
        destination,
        reader=reader,
        sink=sink,
        control=control,
        failpoints=failpoints or Unarmed(),
        clock=clock or SystemClock(),
        pace=pace or Pace(),
    )
    return loop.run()


@dataclass(slots=True)
class _Draft:
    """What was passed since the last commit, beyond the ledger: foreign and empty units may wait here for a while."""

    end: int
    units: int = 0
    committed_ms: int = 0
    last_marker: str = ""
    ended: list[str] = field(default_factory=list)
    changes: int = 0
    # A marker or an order wants the ledger to say so now.
    is_urgent: bool = False


class _SpanLoop:
    def __init__(
        self,
        plan: SyncPlan,
        destination: str,
        *,
        reader: LogReader,
        sink: Sink,
        control: StreamControl,
        failpoints: Failpoints,
        clock: Clock,
        pace: Pace,
    ) -> None:
        self._plan = plan
        self._stream = plan.stream_id(destination)
        self._tables = {entry.name: entry.shape for entry in plan.tables}
        self._reader = reader
        self._sink = sink
        self._control = control
        self._failpoints = failpoints
        self._clock = clock
        self._pace = pace
        self._report = StreamReport(self._stream, "starting")
        self._reported_at = 0.0
        self._committed_at = 0.0
        self._reached_hold = ""
        self._is_behind = True
        self._commit_lag_s = 0.0

    # ---- life -----------------------------------------------------------------------------------------------------

    def run(self) -> StreamReport:
        self._send_report("starting")
        self._acquire()
        while True:
            orders = self._control.orders()
            try:
                if not orders.wanted:
                    self._commit_draft()
                    self._send_report("stopped")
                    return self._report
                self._obey(orders)
            except CommitUnknown as unknown:
                self._recover(unknown)

    def _recover(self, unknown: CommitUnknown) -> None:
        """The answer is lost, not the commit: a new epoch waits for it or fences it, then the ledger is final."""
        ledger = self._sink.read_ledger(self._stream)
        if ledger is None or ledger.epoch != self._lease.epoch:
            raise Fenced(f"another owner took {self._stream} meanwhile", sync=self._plan.sync) from unknown
        start, end = self._ledger.next_offset, self._sent_end
        passed, had_pieces = self._passed, bool(self._pieces)
        self._take_lease()
        if self._ledger.next_offset not in (start, end):
            raise InvariantViolated(
                f"{self._stream}: the ledger stands at {self._ledger.next_offset}, neither before nor after the span "
                f"[{start}, {end}) whose answer was lost",
                sync=self._plan.sync,
            ) from unknown
        if had_pieces:
            # The new epoch dropped them. Reading the unit again needs a reader that begins at its start.
            raise TransientError(
                f"{self._stream}: a large transaction has to be read again from offset {self._ledger.next_offset}",
                sync=self._plan.sync,
            ) from unknown
        if self._ledger.next_offset != end:
            self._pending.extendleft(reversed(passed))
            self._pending_changes += sum(len(unit.rows) for unit in passed)

    def _acquire(self) -> None:
        """Take the right to write and start from what the ledger says."""
        self._take_lease()
        # While boundaries are open, units before the ledger's position are expected; later none may come twice.
        position = self._ledger.position
        self._arrivals = PositionTracker(_nowhere(position) if self._gate.is_open else position)
        self._assembler = UnitAssembler(self._tables, marker_table=self._plan.source.marker_table)
        self._trouble: SeamlineError | None = None
        self._pending: deque[Unit] = deque()
        self._pending_changes = 0
        self._reader.assign(self._ledger.next_offset)

    def _take_lease(self) -> None:
        lease = self._sink.acquire(self._stream)
        self._failpoints.reach("app.epoch_taken")
        ledger = lease.ledger
        if ledger.topic_id != self._reader.topic_id:
            raise PositionLost(
                f"the ledger of {self._stream} belongs to topic {ledger.topic} with id {ledger.topic_id}, but "
                f"{self._reader.topic} now has id {self._reader.topic_id}: the log topic was recreated",
                hint="onboard the sync again",
                sync=self._plan.sync,
                position=str(ledger.position),
            )
        self._lease: Lease = lease
        self._ledger: LedgerRow = ledger
        self._gate = self._gate_of(ledger)
        self._tracker = PositionTracker(ledger.position)
        self._pieces: list[Staged] = []
        self._passed: list[Unit] = []
        self._draft = _Draft(ledger.next_offset)
        self._sent_end = ledger.next_offset

    def _gate_of(self, ledger: LedgerRow) -> BoundaryGate:
        boundaries = {boundary.table: boundary for boundary in ledger.boundaries}
        missing = sorted(self._tables.keys() - boundaries.keys())
        if missing:
            raise SchemaConflict(
                f"the ledger of {self._stream} has no boundary for {', '.join(missing)}: never onboarded there",
                hint="onboard the sync so that the table is loaded and its boundary written",
                sync=self._plan.sync,
                table=missing[0],
            )
        return BoundaryGate({name: boundaries[name] for name in self._tables})

    # ---- orders ---------------------------------------------------------------------------------------------------

    def _obey(self, orders: Orders) -> None:
        if orders.paused:
            self._stand_still("paused", "")
        elif orders.hold_id:
            # The control tells a hold only while its lease lasts, by the database's clock.
            if orders.apply_to is None or self._reached_hold == orders.hold_id:
                self._stand_still("held", orders.hold_id)
            else:
                self._apply_up_to(orders.hold_id, orders.apply_to)
        else:
            self._reached_hold = ""
            self._stream_on()

    def _stand_still(self, state: str, hold_id: str) -> None:
        """Between spans the stream is at an END by itself; it only has to say where, and not to move."""
        if (self._report.state, self._report.hold_id) != (state, hold_id):
            self._commit_draft()
            self._failpoints.reach("app.hold")
            self._send_report(state, hold_id=hold_id)
        self._report_if_due(state, self._pace.idle_report_every_s, hold_id=hold_id)
        self._clock.sleep(self._pace.standing_wait_s)

    def _apply_up_to(self, hold_id: str, position: Position) -> None:
        """Apply every unit that `position` covers and stop before the first that it does not."""
        self._read(0.0 if self._pending else self._pace.standing_wait_s)
        while self._pending and is_covered(self._pending[0].position, position):
            self._apply([unit for unit in self._take_span() if is_covered(unit.position, position)])
        if self._pending:
            # A unit beyond the position was seen, so everything covered is applied: the state *is* that position.
            self._commit_draft(at=position)
            self._reached_hold = hold_id
            self._send_report("held", hold_id=hold_id)
        else:
            self._raise_trouble()
            self._report_if_due(self._report.state, self._pace.idle_report_every_s, hold_id=self._report.hold_id)

    def _stream_on(self) -> None:
        self._read(self._wait_s())
        if self._pending and self._wait_for_interval_s() <= 0:
            self._apply(self._take_span())
        elif not self._pending:
            self._raise_trouble()
        if self._draft.end > self._ledger.next_offset and self._is_draft_due():
            self._commit_draft()
        every = self._pace.report_every_s if self._is_behind else self._pace.idle_report_every_s
        self._report_if_due(self._streaming_state(), every)

    # ---- reading --------------------------------------------------------------------------------------------------

    def _wait_s(self) -> float:
        """How long the next poll may wait for a record: a record that comes wakes it at once."""
        wait_s = self._pace.idle_wait_s
        if self._pending:
            wait_s = self._wait_for_interval_s()
        elif self._draft.end > self._ledger.next_offset:
            wait_s = self._wait_for_draft_s()
        # Not less than a clock surely moves on by.
        return min(self._pace.idle_wait_s, max(0.001, wait_s)) if wait_s > 0 else 0.0

    def _wait_for_interval_s(self) -> float:
        """Seconds until `commit_every_ms` allows the next commit; a full span does not wait."""
        every_s = self._plan.stream.commit_every_ms / 1000
        if not every_s or self._pending_changes >= self._plan.stream.span_changes_max:
            return 0.0
        return self._committed_at + every_s - self._clock.now()

    def _read(self, wait_s: float) -> None:
        """Take in what is there, up to a full span; an open unit that outgrows memory is put aside in pieces."""
        self._put_piece_aside()
        if self._is_full():
            return
        records = self._reader.poll(wait_s, self._pace.poll_records_max)
        self._is_behind = bool(records)
        while records:
            self._take_in(self._assembler.feed(records))
            self._put_piece_aside()
            if self._is_full():
                break
            records = self._reader.poll(0.0, self._pace.poll_records_max)

    def _take_in(self, units: list[Unit]) -> None:
        for unit in units:
            if self._arrivals.has_passed(unit.position):
                if unit.is_empty and not self._pieces:
                    # A connector that starts again tells its last transaction once more, without rows.
                    continue
                self._trouble = self._told_twice(unit)
                return
            self._arrivals.pass_unit(unit.position)
            self._pending.append(unit)
            self._pending_changes += len(unit.rows)
        self._trouble = self._assembler.trouble

    def _told_twice(self, unit: Unit) -> SeamlineError:
        return LogCorrupted(
            f"offset {unit.start}: transaction {unit.unit_id} comes after a later one or a second time",
            hint="the log topic tells something twice or comes from a restored source; onboard the sync again",
            position=str(unit.position),
        )

    def _is_full(self) -> bool:
        is_span_full = self._pending_changes >= self._plan.stream.span_changes_max
        return is_span_full or self._is_open_unit_large() or self._trouble is not None

    def _is_open_unit_large(self) -> bool:
        return (
            self._assembler.open_rows >= self._pace.piece_rows_max
            or self._assembler.open_bytes >= self._pace.piece_bytes_max
        )

    def _put_piece_aside(self) -> None:
        # What is complete goes first, so that the unit of the pieces is the next one.
        if self._pending or self._trouble or not self._is_open_unit_large():
            return
        unit = self._assembler.take_piece()
        changes = compact([unit], tables=self._tables, gate=self._gate, piece=self._assembler.open_pieces)
        self._pieces.extend(self._stage(changes))

    # ---- spans ----------------------------------------------------------------------------------------------------

    def _take_span(self) -> list[Unit]:
        """The next units that make one span: whole, capped, odd ones alone. Never empty, still pending.

        Raises what stops the stream when that is what comes next.
        """
        first = self._pending[0]
        obstacle = self._obstacle(first)
        if obstacle is not None:
            self._commit_draft()
            raise obstacle
        taken = [first]
        changes = len(first.rows)
        if _is_alone(first) or self._pieces:
            return taken
        for unit in islice(self._pending, 1, None):
            changes += len(unit.rows)
            if changes > self._plan.stream.span_changes_max or _is_alone(unit):
                break
            taken.append(unit)
        return taken

    def _obstacle(self, unit: Unit) -> SeamlineError | None:
        """Why this unit must not be passed, if so. Only units that stand alone can be obstacles."""
        if unit.ddl is not None:
            return self._changed_structure(unit, unit.ddl)
        for marker in unit.markers:
            row = _marker_row(marker)
            if row["kind"] == "tables":
                return self._lost_tables(marker, json.loads(row["payload"] or "{}"))
        return None

    def _changed_structure(self, unit: Unit, ddl: LogRecord) -> SeamlineError | None:
        touched = [name for name in ddl.tables if name in self._tables and self._gate.keeps(name, unit.position)]
        if not touched:
            return None
        return SchemaConflict(
            f"offset {ddl.offset}: the source changed the structure of {', '.join(touched)}: {ddl.statement}",
            hint="everything before it is applied. Onboard the sync again: it loads the tables in their new shape",
            sync=self._plan.sync,
            table=touched[0],
            position=str(unit.position),
        )

    def _lost_tables(self, marker: LogRecord, payload: dict[str, object]) -> SeamlineError | None:
        listed = payload.get("tables")
        missing = sorted(name for name in self._tables if name not in listed) if isinstance(listed, list) else []
        if not missing:
            return None
        return PositionLost(
            f"offset {marker.offset}: from here on the capture of {self._plan.source.name} no longer carries "
            f"{', '.join(missing)} (table list {payload.get('generation')})",
            hint="its later changes are not in the log: add the table to the capture and onboard the sync again",
            sync=self._plan.sync,
            table=missing[0],
            position=str(marker.position),
        )

    def _apply(self, units: list[Unit]) -> None:
        """Pass these units (the head of the pending ones) and commit what they change."""
        changes = compact(units, tables=self._tables, gate=self._gate)
        for unit in units:
            self._pass(unit)
        staged = [*self._pieces, *self._stage(changes)]
        self._draft.changes += sum(changes_of.changes_in for changes_of in changes.values())
        self._failpoints.reach("app.fetched")
        if staged or self._draft.is_urgent or self._is_draft_due():
            self._commit(staged)
            self._pieces = []

    def _pass(self, unit: Unit) -> None:
        self._passed.append(self._pending.popleft())
        self._pending_changes -= len(unit.rows)
        draft = self._draft
        for marker in unit.markers:
            self._read_marker(marker)
        self._tracker.pass_unit(unit.position)
        draft.end = unit.end
        draft.units += 1
        draft.committed_ms = unit.committed_ms or draft.committed_ms

    def _read_marker(self, marker: LogRecord) -> None:
        row = _marker_row(marker)
        if row["kind"] == "heartbeat":
            return
        self._draft.last_marker = row["id"]
        self._draft.ended.extend(self._gate.end_at_marker(row["id"]))
        self._draft.is_urgent = True

    def _stage(self, changes: dict[str, TableChanges]) -> list[Staged]:
        return [self._sink.stage(self._lease, found) for found in changes.values() if not found.is_empty]

    # ---- commit ---------------------------------------------------------------------------------------------------

    def _is_draft_due(self) -> bool:
        return self._draft.is_urgent or self._wait_for_draft_s() <= 0

    def _wait_for_draft_s(self) -> float:
        """Seconds until units without changes may cost a commit of their own."""
        return self._committed_at + self._pace.empty_commit_every_s - self._clock.now()

    def _commit_draft(self, *, at: Position | None = None) -> None:
        """Write passed units without changes into the ledger; `at` names the position that the state is known to be."""
        if at is not None or self._draft.end > self._ledger.next_offset:
            self._commit([], at=at)

    def _commit(self, staged: list[Staged], *, at: Position | None = None) -> None:
        draft = self._draft
        span = Span(
            self._ledger.next_offset,
            draft.end,
            draft.units,
            at or self._tracker.position,
            draft.committed_ms or self._ledger.committed_ms,
        )
        progress = Progress(span, draft.last_marker, tuple(draft.ended))
        self._sent_end = span.end
        commit = self._sink.commit(self._lease, staged, progress=progress)
        self._failpoints.reach("app.commit_acked")
        if commit.ledger.next_offset != span.end:
            raise InvariantViolated(
                f"the ledger of {self._stream} stands at {commit.ledger.next_offset}, not {span.end}"
            )
        self._ledger = commit.ledger
        if at is not None:
            self._tracker = PositionTracker(at)
        self._passed = []
        self._draft = _Draft(span.end)
        self._committed_at = self._clock.now()
        self._commit_lag_s = max(0.0, self._committed_at - span.committed_ms / 1000)
        self._report = replace(
            self._report,
            units=self._report.units + draft.units,
            changes=self._report.changes + draft.changes,
            findings=self._report.findings + commit.findings_total,
        )

    # ---- reports --------------------------------------------------------------------------------------------------

    def _streaming_state(self) -> str:
        return "catching_up" if self._gate.is_open else "streaming"

    def _raise_trouble(self) -> None:
        """Once everything before it is applied, what was wrong in the log stops the stream."""
        if self._trouble is not None:
            self._commit_draft()
            self._trouble.sync = self._trouble.sync or self._plan.sync
            raise self._trouble

    def _report_if_due(self, state: str, every_s: float, *, hold_id: str = "") -> None:
        if self._report.state != state or self._clock.now() - self._reported_at >= every_s:
            self._send_report(state, hold_id=hold_id)

    def _send_report(self, state: str, *, hold_id: str = "") -> None:
        if state == "starting":
            self._control.report(self._report)
            return
        now = self._clock.now()
        self._report = replace(
            self._report,
            state=state,
            epoch=self._lease.epoch,
            next_offset=self._ledger.next_offset,
            log_end_offset=self._reader.end_offset(),
            position=self._ledger.position,
            lag_s=self._lag_s(state, now),
            hold_id=hold_id,
        )
        self._reported_at = now
        self._control.report(self._report)

    def _lag_s(self, state: str, now: float) -> float:
        """How long ago the source committed what became visible last; 0 when nothing newer waits."""
        if state in ("paused", "held"):
            return max(0.0, now - self._ledger.committed_ms / 1000) if self._ledger.committed_ms else 0.0
        return self._commit_lag_s if self._is_behind or self._pending else 0.0


def _is_alone(unit: Unit) -> bool:
    """TRUNCATE and DDL are spans of their own; so is a unit with markers, which may stop the stream."""
    return bool(unit.truncated or unit.ddl or unit.markers)


def _marker_row(marker: LogRecord) -> dict[str, str]:
    row = json.loads(marker.after or b"{}")
    return {name: str(row.get(name) or "") for name in ("id", "kind", "payload")}


def _nowhere(position: Position) -> Position:
    return BinlogPosition("") if isinstance(position, BinlogPosition) else PostgresPosition(0)
