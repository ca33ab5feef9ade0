"""What a stream has read from the log and not yet passed: whole units in order, and the one that is still open."""

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from seamline.domain.errors import LogCorrupted, SeamlineError
from seamline.domain.log import LogRecord, Unit
from seamline.domain.position import Position
from seamline.ports import LogReader
from seamline.sync.progress import PositionTracker
from seamline.sync.units import UnitAssembler


@dataclass(frozen=True, slots=True)
class IntakeLimits:
    """How much is read ahead: changes and bytes of a span, records of a poll, rows and bytes of a unit that is still
    open. One more poll may come on top."""

    span_changes_max: int
    span_bytes_max: int
    poll_records_max: int
    piece_rows_max: int
    piece_bytes_max: int


class Intake:
    """`after`: every unit must lie beyond this position, in order; the first that does not is trouble. `known`: what
    the stream has applied or was loaded with, so the transactions up to it need not come."""

    def __init__(
        self,
        reader: LogReader,
        tables: Collection[str],
        *,
        marker_table: str,
        after: Position,
        known: Position,
        limits: IntakeLimits,
    ) -> None:
        self._reader = reader
        self._limits = limits
        self._assembler = UnitAssembler(tables, marker_table=marker_table)
        self._arrived = PositionTracker(after)
        self._known = PositionTracker(known)
        self._units: deque[Unit] = deque()
        self._changes = self._bytes = 0
        # Why nothing can be read on; the units before it are good.
        self.trouble: SeamlineError | None = None
        # Whether the last look at the log found records.
        self.found_records = True

    def __bool__(self) -> bool:
        """Whether a whole unit waits."""
        return bool(self._units)

    @property
    def first(self) -> Unit:
        return self._units[0]

    @property
    def waiting(self) -> Iterator[Unit]:
        """All whole units, in log order."""
        return iter(self._units)

    def first_within_limits(self) -> Iterator[Unit]:
        """The first unit, and those behind it that fill no more than one span with it."""
        yield self.first
        changes, size = _changes_of(self.first), self.first.row_bytes
        for unit in islice(self._units, 1, None):
            changes += _changes_of(unit)
            size += unit.row_bytes
            if changes > self._limits.span_changes_max or size > self._limits.span_bytes_max:
                return
            yield unit

    @property
    def is_full(self) -> bool:
        """Whether nothing more is read before something is applied."""
        has_full_span = self._changes >= self._limits.span_changes_max or self._bytes >= self._limits.span_bytes_max
        return has_full_span or self.has_large_open_unit or self.trouble is not None

    @property
    def has_open_unit(self) -> bool:
        """Whether a transaction has begun in what was read, and not ended."""
        return self._assembler.is_open

    @property
    def has_large_open_unit(self) -> bool:
        """Whether the open unit has to be put aside in pieces before more of it is read."""
        return (
            self._assembler.open_rows >= self._limits.piece_rows_max
            or self._assembler.open_bytes >= self._limits.piece_bytes_max
        )

    def read(self, wait_s: float) -> None:
        """Take in what is there until full. Waits for the first record only."""
        if self.is_full:
            return
        records = self._poll(wait_s)
        self.found_records = bool(records)
        while records:
            self._take_in(self._assembler.feed(records))
            # Less than asked for is all there was: what came is applied before more is waited for.
            is_all = sum(len(record.rows) or 1 for record in records) < self._limits.poll_records_max
            if self.is_full or (self._units and is_all):
                break
            records = self._poll(0.0)

    def pop(self) -> Unit:
        unit = self._units.popleft()
        self._changes -= _changes_of(unit)
        self._bytes -= unit.row_bytes
        return unit

    def put_back(self, units: Sequence[Unit]) -> None:
        """Units that were popped, in log order, before all that wait."""
        self._units.extendleft(reversed(units))
        self._changes += sum(map(_changes_of, units))
        self._bytes += sum(unit.row_bytes for unit in units)

    def take_piece(self) -> tuple[Unit, int]:
        """The rows so far of the open unit and the piece's number, from 1."""
        unit = self._assembler.take_piece()
        return unit, self._assembler.open_pieces

    def forget_lost_pieces(self) -> bool:
        """True, once, where pieces were taken of a unit that is then told anew."""
        lost, self._assembler.lost_pieces = self._assembler.lost_pieces, False
        return lost

    def _poll(self, wait_s: float) -> Sequence[LogRecord]:
        """The reader's trouble waits, as every other, until what came before it is applied."""
        try:
            return self._reader.poll(wait_s, self._limits.poll_records_max)
        except SeamlineError as trouble:
            self.trouble = trouble
            return ()

    def _take_in(self, units: Sequence[Unit]) -> None:
        for unit in units:
            if unit.follows is not None and not self._has_come(unit.follows):
                self.trouble = _one_lost(unit)
                return
            if self._arrived.has_passed(unit.position):
                if unit.is_empty:
                    # Debezium's own MariaDB class tells its last transaction once more at a start, without rows.
                    continue
                self.trouble = _told_twice(unit)
                return
            self._arrived.pass_unit(unit.position)
            self._units.append(unit)
            self._changes += _changes_of(unit)
            self._bytes += unit.row_bytes
        self.trouble = self._assembler.trouble

    def _has_come(self, transaction: Position) -> bool:
        return self._arrived.has_passed(transaction) or self._known.has_passed(transaction)


def _changes_of(unit: Unit) -> int:
    """At least one: a MariaDB tells every transaction of the server, and most may be of other tables."""
    return max(1, len(unit.rows))


def _one_lost(unit: Unit) -> SeamlineError:
    return LogCorrupted(
        f"offset {unit.start}: transaction {unit.unit_id} was told behind {unit.follows}, which the log topic does not"
        " have before it: a transaction is lost or out of order",
        hint="find out who took records out of the log topic, then onboard the sync again",
        position=str(unit.position),
    )


def _told_twice(unit: Unit) -> SeamlineError:
    return LogCorrupted(
        f"offset {unit.start}: transaction {unit.unit_id} comes after a later one or a second time",
        hint="the log topic tells something twice or comes from a restored source; onboard the sync again",
        position=str(unit.position),
    )
