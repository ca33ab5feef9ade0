"""Both sides of a sync at one position, by the log between them (mode L, ADR 66): nobody holds the stream.

the destination's views open; their position is the ledger's as they see it → the source's views open, at a position
that covers it → commit a marker, so that the log is known to reach beyond both → read the log from the ledger's offset
to the marker: what the source's views see and the destination's do not is what the destination still lacks → the
destination's views answer as if it were applied (`sync.patched_view`).

The source's rows are never patched: whatever the log says is held against them. The marker is the only thing that is
waited for. Too many changes between, or a log that does not say what is needed, end in a reason and never in a MATCH.
"""

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

from seamline.domain.changes import TableChanges
from seamline.domain.cutover import Boundary, BoundaryGate, is_covered
from seamline.domain.errors import PositionLost
from seamline.domain.ledger import LedgerRow, StreamId
from seamline.domain.log import Transaction
from seamline.domain.log_patch import LOG, LOG_BETWEEN, LogBetween, TablePatch, log_between_to_json
from seamline.domain.position import Position
from seamline.plan.model import SyncPlan
from seamline.ports import Failpoints, LogReader, Marker, ReadView, Sink, Unarmed
from seamline.sync.barrier import (
    Aligned,
    ComparedSource,
    NotAligned,
    age_check,
    at_one_position,
    close_views,
    require_comparable,
    require_same_tables,
)
from seamline.sync.clock import Clock, SystemClock
from seamline.sync.compaction import compact
from seamline.sync.log_until_marker import transactions_until
from seamline.sync.patched_view import PatchedTable, patched
from seamline.sync.stop_conditions import stands_alone, stop_condition
from seamline.sync.transaction_buffer import BufferLimits, TransactionBuffer


@dataclass(frozen=True, slots=True)
class LogLimits:
    """How much of the log may lie between both sides, in row changes and in bytes of their images: all of it is in
    memory. `wait_max_s`: how long the log may take to bring the marker. `poll_records_max`: records of one look."""

    changes_max: int = 100_000
    bytes_max: int = 256 * 1024 * 1024
    wait_max_s: float = 600.0
    views_max_age_s: float = 1_800.0
    openings_max: int = 5
    look_every_s: float = 0.5
    poll_records_max: int = 10_000


@dataclass(slots=True)
class _Between:
    """What the destination lacks of the source's position, in the log's order. Only transactions that change something
    are kept. `committed_ms`: of the last one, 0 where none is between."""

    kept: list[Transaction] = field(default_factory=list)
    transactions: int = 0
    changes: int = 0
    row_bytes: int = 0
    committed_ms: int = 0


@dataclass(frozen=True, slots=True)
class LogPatched:
    """`sync.barrier.Aligns`. `plan`: what the destination holds. `open_destination(n)`: as of the barrier. `open_log`:
    a reader of the stream's log of its own. `patch_of` gives a table's changes their texts."""

    mode: ClassVar[str] = LOG

    plan: SyncPlan
    stream: StreamId
    source: ComparedSource
    sink: Sink
    open_destination: Callable[[int], Sequence[ReadView]]
    open_log: Callable[[], LogReader]
    patch_of: Callable[[TableChanges], TablePatch]
    clock: Clock = field(default_factory=SystemClock)
    limits: LogLimits = field(default_factory=LogLimits)
    failpoints: Failpoints = field(default_factory=Unarmed)

    @contextmanager
    def aligned(self, views: int) -> Iterator[Aligned]:
        with ExitStack() as stack:
            yield self._aligned(views, stack)

    def _aligned(self, views: int, stack: ExitStack) -> Aligned:
        ledger = require_comparable(self.sink, self.stream)
        gate = self._gate(ledger)
        opened_at = self.clock.now()
        # The destination first: whatever it holds was committed in the source before the source's views open.
        destination = at_one_position("destination", self.open_destination(views))
        stack.callback(close_views, destination)
        require_same_tables(ledger, require_comparable(self.sink, self.stream))
        source = self._open_source(views, destination[0].position, stack)
        check = age_check(self.clock, opened_at, self.limits.views_max_age_s)
        marker = Marker(uuid.uuid4().hex, "barrier")
        self.source.commit_marker(marker)
        position = source[0].position
        between = self._read(ledger, gate, destination[0].position, position, marker, check)
        tables = self._patched(between, gate)
        return Aligned(
            position,
            between.committed_ms or ledger.committed_ms,
            source,
            [patched(view, tables, position) for view in destination],
            0.0,
            check,
            {
                LOG_BETWEEN: log_between_to_json(
                    LogBetween(str(position), str(destination[0].position), between.transactions, between.changes)
                )
            },
        )

    def _gate(self, ledger: LedgerRow) -> BoundaryGate:
        """All boundaries have ended: every change of the log counts."""
        planned = [entry.name for entry in self.plan.tables]
        return BoundaryGate({name: Boundary(name, ledger.position, ended=True) for name in planned})

    def _open_source(self, views: int, seen: Position, stack: ExitStack) -> Sequence[ReadView]:
        """Views that see all that the destination holds."""
        for _ in range(self.limits.openings_max):
            opened = at_one_position("source", self.source.open_views(views))
            if opened[0].position.covers(seen):
                stack.callback(close_views, opened)
                return opened
            close_views(opened)
            self.clock.sleep(self.limits.look_every_s)
        raise NotAligned(f"no read view of the source covered {seen}, at which the destination was read")

    def _read(
        self,
        ledger: LedgerRow,
        gate: BoundaryGate,
        seen: Position,
        upto: Position,
        marker: Marker,
        check: Callable[[], None],
    ) -> _Between:
        """The log from where the ledger stood before the destination's views were open, up to the marker."""
        passed, between = seen.tracker(), _Between()
        with closing(self.open_log()) as reader:
            found = transactions_until(
                self._buffer(reader, ledger),
                marker.id,
                clock=self.clock,
                wait_max_s=self.limits.wait_max_s,
                look_every_s=self.limits.look_every_s,
                too_large=lambda: self._too_much("a transaction that has not ended, of more"),
                too_late=self._too_late,
                check=check,
            )
            for transaction in found:
                if is_covered(transaction.position, upto) and not passed.has_passed(transaction.position):
                    self._keep(transaction, between, gate)
        return between

    def _too_late(self) -> NotAligned:
        return NotAligned(
            f"the log did not bring the marker of this comparison within {self.limits.wait_max_s:g} s",
            hint="see whether the capture runs and keeps up: `seamline status`",
        )

    def _buffer(self, reader: LogReader, ledger: LedgerRow) -> TransactionBuffer:
        """What a stream that begins at this ledger would read, with all that it checks."""
        if reader.topic_id != ledger.topic_id:
            raise PositionLost(
                f"the ledger of {self.stream} belongs to topic {ledger.topic} with id {ledger.topic_id}, but"
                f" {reader.topic} now has id {reader.topic_id}: the log topic was recreated",
                hint="onboard the sync again",
            )
        limits = self.limits
        reader.assign(ledger.next_offset)
        return TransactionBuffer(
            reader,
            {entry.name: entry.definition for entry in self.plan.tables},
            marker_table=self.plan.source.marker_table,
            after=ledger.position,
            known=ledger.position,
            limits=BufferLimits(
                limits.changes_max, limits.bytes_max, limits.poll_records_max, limits.changes_max, limits.bytes_max
            ),
        )

    def _keep(self, transaction: Transaction, between: _Between, gate: BoundaryGate) -> None:
        if stands_alone(transaction):
            tables = [entry.name for entry in self.plan.tables]
            stop = stop_condition(transaction, tables, gate, places=self.plan.source.places)
            if stop is not None:
                raise stop
        between.transactions += 1
        between.committed_ms = transaction.committed_ms or between.committed_ms
        if not (transaction.rows or transaction.truncated):
            return
        between.kept.append(transaction)
        between.changes += len(transaction.rows) + len(transaction.truncated)
        between.row_bytes += transaction.row_bytes
        if between.changes > self.limits.changes_max or between.row_bytes > self.limits.bytes_max:
            raise self._too_much("more")

    def _too_much(self, what: str) -> NotAligned:
        return NotAligned(
            f"between both positions lies {what} than {self.limits.changes_max:,} row changes, or"
            f" {self.limits.bytes_max >> 20} MiB of them: the stream is too far behind to be compared by the log",
            hint="compare when it has caught up, or let it be waited for: `reconcile.mode: barrier`",
        )

    def _patched(self, between: _Between, gate: BoundaryGate) -> Mapping[str, PatchedTable]:
        planned = {entry.name: entry for entry in self.plan.tables}
        definitions = {name: entry.definition for name, entry in planned.items()}
        changes = compact(between.kept, tables=definitions, gate=gate)
        return {name: PatchedTable(planned[name].target, partial(self.patch_of, one)) for name, one in changes.items()}
