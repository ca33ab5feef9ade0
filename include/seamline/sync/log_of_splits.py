"""What the log says between the position at which splits were read and that of a later read (ADR 87)."""

import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field

from seamline.domain.changes import TableChanges
from seamline.domain.cutover import Boundary, BoundaryGate, is_covered
from seamline.domain.errors import Diverged, PositionLost, TransientError
from seamline.domain.load_splits import SplitRead
from seamline.domain.log import Transaction
from seamline.domain.made_from import LogPlace
from seamline.domain.position import Position
from seamline.plan.model import SyncPlan
from seamline.ports import LogReader, Marker
from seamline.sync.clock import Clock, SystemClock
from seamline.sync.compaction import compact
from seamline.sync.log_until_marker import transactions_until
from seamline.sync.markers import read_until_marker
from seamline.sync.stop_conditions import stands_alone, stop_condition
from seamline.sync.transaction_buffer import BufferLimits, TransactionBuffer


@dataclass(frozen=True, slots=True)
class SplitLogLimits:
    """How much of the log may lie between both positions, in row changes and in bytes of their images: the newest of
    each key is in memory. `place_within_s`: how long the log may take to show a marker before a read, which can then
    not be resumed. `wait_max_s`: the same behind it, from when all was read that the log had by then; before that, for
    how long it may bring no record."""

    changes_max: int = 1_000_000
    bytes_max: int = 512 << 20
    place_within_s: float = 30.0
    wait_max_s: float = 600.0
    look_every_s: float = 0.5
    poll_records_max: int = 10_000


@dataclass(frozen=True, slots=True)
class SplitLog:
    """The log of a source, for reads by splits. `open_log`: a reader of its own at each call."""

    plan: SyncPlan
    open_log: Callable[[], LogReader]
    commit_marker: Callable[[Marker], None]
    limits: SplitLogLimits = field(default_factory=SplitLogLimits)
    clock: Clock = field(default_factory=SystemClock)

    def place(self, run_id: str) -> LogPlace:
        """Where the log of a read that opens from now on goes on: every transaction before it is in the read.

        TransientError: the capture does not bring the marker in time.
        """
        marker = Marker(f"low-{uuid.uuid4().hex}", "low", {"run": run_id})
        with closing(self.open_log()) as reader:
            reader.assign(reader.end_offset())
            self.commit_marker(marker)
            found = read_until_marker(
                reader,
                marker_table=self.plan.source.marker_table,
                marker_id=marker.id,
                timeout_s=self.limits.place_within_s,
            )
            return LogPlace(reader.topic, reader.topic_id, found.next_offset, found.position, is_exact=False)

    def changes(self, since: SplitRead, upto: Position) -> Mapping[str, TableChanges]:
        """By table what the transactions do that the read at `upto` holds and the read `since` does not.

        Diverged: too much lies between, or a table was emptied: to read again costs less. PositionLost: it is another
        log. SchemaConflict and LogCorrupted as a stream raises them.
        """
        names = [table.name for table in self.plan.tables]
        gate = BoundaryGate({name: Boundary(name, since.position, ended=True) for name in names})
        definitions = {table.name: table.definition for table in self.plan.tables}
        marker = Marker(uuid.uuid4().hex, "barrier")
        with closing(self.open_log()) as reader:
            if reader.topic_id != since.place.topic_id:
                raise PositionLost(f"log topic {reader.topic} was created again since {since.position}")
            reader.assign(since.place.offset)
            self.commit_marker(marker)
            backlog_ends = reader.end_offset()
            buffer = self._buffer(reader, since)
            found = transactions_until(
                buffer,
                marker.id,
                clock=self.clock,
                wait_max_s=self.limits.wait_max_s,
                look_every_s=self.limits.look_every_s,
                too_large=lambda: self._too_much(since),
                too_late=self._too_late,
                backlog_ends=backlog_ends,
            )
            return compact(self._between(found, since, upto, gate), tables=definitions, gate=gate)

    def _between(
        self, found: Iterator[Transaction], since: SplitRead, upto: Position, gate: BoundaryGate
    ) -> Iterator[Transaction]:
        names = [table.name for table in self.plan.tables]
        changes = size = 0
        for transaction in found:
            if is_covered(transaction.position, since.position) or not is_covered(transaction.position, upto):
                continue
            stop = stop_condition(transaction, names, gate, places=self.plan.source.places)
            if stands_alone(transaction) and stop is not None:
                raise stop
            changes += len(transaction.rows) + len(transaction.truncated)
            size += transaction.row_bytes
            if changes > self.limits.changes_max or size > self.limits.bytes_max:
                raise self._too_much(since)
            yield transaction

    def _buffer(self, reader: LogReader, since: SplitRead) -> TransactionBuffer:
        limits = self.limits
        return TransactionBuffer(
            reader,
            [table.name for table in self.plan.tables],
            marker_table=self.plan.source.marker_table,
            after=since.place.after,
            known=since.position,
            limits=BufferLimits(
                limits.changes_max, limits.bytes_max, limits.poll_records_max, limits.changes_max, limits.bytes_max
            ),
        )

    def _too_much(self, since: SplitRead) -> Diverged:
        return Diverged(
            f"since {since.position} the log has more than {self.limits.changes_max:,} row changes, or"
            f" {self.limits.bytes_max >> 20} MiB of them"
        )

    def _too_late(self) -> TransientError:
        return TransientError(
            f"the log did not bring a marker within {self.limits.wait_max_s:g} s",
            hint="see whether the capture runs and keeps up: `seamline status`",
        )
