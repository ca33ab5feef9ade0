"""Log records → units: every transaction whole, counted and in order, every odd record dealt with by rule.

The rules for records that are not plain units are those of the protocol, section 4. Nothing here looks at a row's
values: the assembler orders, counts and separates.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

from seamline.domain.errors import LogCorrupted, SeamlineError
from seamline.domain.log import LogRecord, RecordKind, RowChange, Unit, touched
from seamline.domain.position import Position, PostgresPosition

_TABLE_OF, _BEFORE_OF, _AFTER_OF = (itemgetter(RowChange._fields.index(name)) for name in ("table", "before", "after"))
_ONBOARD_AGAIN = "the log topic cannot be trusted beyond this offset: find the cause, then onboard the sync again"


@dataclass(slots=True)
class _OpenUnit:
    """A transaction between its BEGIN and its END.

    `counts` is over all tables, also foreign ones. `row_bytes` is the size of the first `rows_measured` rows. `rows`
    and `truncated` are what no piece has yet. `odd`: how many TRUNCATE and DDL records it has, of any table.
    """

    unit_id: str
    start: int
    begin: LogRecord
    rows: list[RowChange] = field(default_factory=list)
    markers: list[RowChange] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    row_bytes: int = 0
    rows_measured: int = 0
    position: Position | None = None
    truncated: list[LogRecord] = field(default_factory=list)
    ddl: LogRecord | None = None
    last_offset: int = 0
    pieces: int = 0
    odd: int = 0

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def measure(self) -> int:
        """Bring `row_bytes` up to date."""
        new = self.rows[self.rows_measured :]
        self.row_bytes += _bytes_of(map(_AFTER_OF, new)) + _bytes_of(map(_BEFORE_OF, new))
        self.rows_measured = len(self.rows)
        return self.row_bytes


class UnitAssembler:
    """Feeds on records in offset order, gives whole units back.

    `trouble` is set when a record breaks the rules: the units before it were given out and are good, so a stream that
    stops, stops at the last good END; after it nothing more is given out.
    """

    def __init__(self, tables: Collection[str], *, marker_table: str) -> None:
        self._tables = frozenset(tables)
        self._marker_table = marker_table
        self._open: _OpenUnit | None = None
        # Whether pieces were taken of a unit that was then told anew: they are of no use.
        self.lost_pieces = False
        self.trouble: SeamlineError | None = None

    @property
    def is_open(self) -> bool:
        """Whether a transaction has begun and not ended."""
        return self._open is not None

    @property
    def open_rows(self) -> int:
        """Rows of the sync's tables that wait for their END."""
        return len(self._open.rows) if self._open else 0

    @property
    def open_bytes(self) -> int:
        return self._open.row_bytes if self._open else 0

    @property
    def open_pieces(self) -> int:
        """How many pieces were taken from the unit that is still open."""
        return self._open.pieces if self._open else 0

    def take_piece(self) -> Unit:
        """The rows so far of the open unit, in order, and the tables emptied before them, which undoes also what
        earlier pieces have of these. The unit is then continued without them.

        For units larger than memory. Counts go on over all rows, so END is verified as ever.
        """
        unit = self._open
        position = (unit.position or unit.begin.position) if unit else None
        if unit is None or position is None:
            raise LogCorrupted("there is no open unit with rows to take a piece of", hint=_ONBOARD_AGAIN)
        unit.pieces += 1
        # The last delete may be half of a change of key. Both halves belong to one piece: the other takes values that
        # the log left out from the row as it was before.
        held_back = unit.rows[-1:] if len(unit.rows) > 1 and unit.rows[-1].op == "d" else []
        rows, unit.rows = unit.rows[: len(unit.rows) - len(held_back)], held_back
        truncated, unit.truncated = _names(unit.truncated), []
        unit.row_bytes = unit.rows_measured = 0
        return Unit(unit.unit_id, unit.start, unit.last_offset + 1, position, rows, truncated=truncated)

    def feed(self, records: Sequence[LogRecord]) -> list[Unit]:
        """The units that these records complete, in log order."""
        units: list[Unit] = []
        if self.trouble is not None:
            return units
        try:
            for record in records:
                if record.kind is RecordKind.ROWS:
                    self._rows(record)
                else:
                    self._other(record, units)
        except LogCorrupted as trouble:
            self.trouble = trouble
        if self._open is not None:
            self._open.measure()
        return units

    def _rows(self, record: LogRecord) -> None:
        """The hot path: what runs here once per row runs in C."""
        unit = self._open
        if unit is None or (record.unit_id and record.unit_id != unit.unit_id):
            raise _rows_outside(record, unit)
        if unit.position is None:
            unit.position = record.position
        found = Counter(map(_TABLE_OF, record.rows))
        for table, rows in found.items():
            unit.counts[table] = unit.counts.get(table, 0) + rows
        unit.last_offset = record.end - 1
        if found.keys() <= self._tables:
            unit.rows += record.rows
            return
        unit.rows += [row for row in record.rows if row.table in self._tables]
        if self._marker_table in found:
            unit.markers += [row for row in record.rows if row.table == self._marker_table and row.op == "c"]

    def _other(self, record: LogRecord, units: list[Unit]) -> None:
        match record.kind:
            case RecordKind.BEGIN:
                self._begin(record, units)
            case RecordKind.END:
                units.append(self._end(record))
            case RecordKind.TRUNCATE:
                self._truncate(record, units)
            case RecordKind.DDL:
                self._ddl(record, units)
            case _:
                # Heartbeats lie anywhere, also inside transactions, and mean nothing for the tables.
                return

    def _begin(self, record: LogRecord, units: list[Unit]) -> None:
        unit = self._open
        if unit is not None and unit.unit_id == record.unit_id:
            self._begin_anew(unit, record)
            return
        if unit is not None:
            units.append(self._close_without_end(unit, record))
        self._open = _OpenUnit(record.unit_id, record.offset, record, last_offset=record.offset)

    def _begin_anew(self, unit: _OpenUnit, record: LogRecord) -> None:
        # Our own connectors go on behind the last END: they tell the whole transaction again (ADR 14, 16).
        if not record.is_whole and unit.last_offset > unit.begin.offset:
            raise LogCorrupted(
                f"offset {record.offset}: transaction {unit.unit_id} begins again, and whether all of it follows or it"
                " goes on in the middle is unknown: Debezium's own connector class wrote this",
                hint=_ONBOARD_AGAIN,
            )
        self.lost_pieces = self.lost_pieces or bool(unit.pieces)
        self._open = _OpenUnit(unit.unit_id, unit.start, record, last_offset=record.offset)

    def _close_without_end(self, unit: _OpenUnit, record: LogRecord) -> Unit:
        if unit.total:
            raise LogCorrupted(
                f"transaction {unit.unit_id} has {unit.total} rows but no END before offset {record.offset}, where "
                f"{record.unit_id} begins",
                hint="its tail is lost, or it is an XA transaction, which the capture cannot carry. " + _ONBOARD_AGAIN,
                position=str(unit.begin.position or unit.unit_id),
            )
        if isinstance(unit.begin.position, PostgresPosition) or not _is_all(unit, record):
            raise LogCorrupted(
                f"transaction {unit.unit_id} has no END before offset {record.offset}, where {record.unit_id} begins",
                hint="its records and its END are lost. " + _ONBOARD_AGAIN,
                position=str(unit.begin.position),
            )
        # TRUNCATE and DDL come after a BEGIN that no END closes (MariaDB 3.5.0.Final), and statements of tables that
        # the capture does not tell of leave a BEGIN alone. The next BEGIN then speaks of no END.
        return self._whole(unit, end=unit.last_offset + 1, committed_ms=_time_of(unit))

    def _end(self, record: LogRecord) -> Unit:
        unit = self._open
        if unit is None or unit.unit_id != record.unit_id:
            inside = f"inside transaction {unit.unit_id}" if unit else "without a BEGIN"
            raise LogCorrupted(
                f"offset {record.offset}: END of transaction {record.unit_id} {inside}", hint=_ONBOARD_AGAIN
            )
        _verify_counts(unit, record)
        self._open = None
        if unit.position is None or isinstance(record.position, PostgresPosition):
            # In a WAL a transaction stands where its commit ends, in a binlog where its first row begins.
            unit.position = record.position
        return self._whole(unit, end=record.offset + 1, committed_ms=record.ts_ms)

    def _truncate(self, record: LogRecord, units: list[Unit]) -> None:
        if _is_of_either_case(record, self._tables):
            self._ddl(record, units)
            return
        unit = self._open
        kept = record if record.table in self._tables else None
        if unit is None or (record.unit_id and record.unit_id != unit.unit_id):
            self._standalone(record, units, truncated=(kept,) if kept else ())
            return
        if unit.total and not record.total:
            raise LogCorrupted(
                f"offset {record.offset}: TRUNCATE of {record.table} inside transaction {unit.unit_id} with rows",
                hint=_ONBOARD_AGAIN,
                table=record.table,
            )
        if record.total:
            unit.counts[record.table] = unit.counts.get(record.table, 0) + record.total
        unit.odd += 1
        unit.last_offset = record.offset
        unit.position = unit.position or record.position
        if kept:
            self._empty(unit, kept)

    @staticmethod
    def _empty(unit: _OpenUnit, truncate: LogRecord) -> None:
        """What the transaction did to the table before this is undone by it."""
        unit.rows = [row for row in unit.rows if row.table != truncate.table]
        unit.row_bytes = unit.rows_measured = 0
        unit.truncated.append(truncate)

    def _ddl(self, record: LogRecord, units: list[Unit]) -> None:
        unit = self._open
        kept = record if touched(record, self._tables) else None
        if unit is None or (record.unit_id and record.unit_id != unit.unit_id):
            self._standalone(record, units, ddl=kept)
            return
        unit.odd += 1
        unit.last_offset = record.offset
        unit.ddl = unit.ddl or kept
        unit.position = unit.position or record.position

    def _standalone(
        self,
        record: LogRecord,
        units: list[Unit],
        *,
        truncated: Sequence[LogRecord] = (),
        ddl: LogRecord | None = None,
    ) -> None:
        if self._open is not None:
            units.append(self._close_without_end(self._open, record))
            self._open = None
        unit = _OpenUnit(record.unit_id, record.offset, record, position=record.position)
        unit.truncated, unit.ddl = list(truncated), ddl
        units.append(self._whole(unit, end=record.offset + 1, committed_ms=record.ts_ms))

    @staticmethod
    def _whole(unit: _OpenUnit, *, end: int, committed_ms: int) -> Unit:
        position = unit.position or unit.begin.position
        if position is None:
            raise LogCorrupted(
                f"transaction {unit.unit_id} at offset {unit.start} has no position", hint=_ONBOARD_AGAIN
            )
        return Unit(
            unit.unit_id,
            unit.start,
            end,
            position,
            unit.rows,
            committed_ms,
            _names(unit.truncated),
            unit.ddl,
            tuple(unit.markers),
            unit.pieces,
            unit.begin.follows.position if unit.begin.follows else None,
            unit.measure(),
        )


def _is_all(unit: _OpenUnit, behind: LogRecord) -> bool:
    """True if the open transaction ends where the next BEGIN says that its predecessor ended, or says nothing."""
    before = behind.follows
    return before is None or (before.position, before.has_end, before.records) == (unit.begin.position, False, unit.odd)


def _bytes_of(images: Iterable[bytes | None]) -> int:
    return sum(map(len, filter(None, images)))


def _names(truncated: Sequence[LogRecord]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(record.table for record in truncated))


def _time_of(unit: _OpenUnit) -> int:
    odd = unit.truncated[0] if unit.truncated else unit.ddl or unit.begin
    return odd.ts_ms


def _is_of_either_case(truncate: LogRecord, tables: Collection[str]) -> bool:
    """Whether only the server knows if it has emptied one of these tables: a binlog has the name as it was typed."""
    is_typed = not isinstance(truncate.position, PostgresPosition)
    return is_typed and truncate.table not in tables and bool(touched(truncate, tables))


def _rows_outside(record: LogRecord, unit: _OpenUnit | None) -> LogCorrupted:
    where = f"inside transaction {unit.unit_id}" if unit else "outside BEGIN and END"
    return LogCorrupted(
        f"offset {record.offset}: a row of transaction {record.unit_id or 'unknown'} {where}",
        hint="an XA transaction leaves its rows like this, and the capture cannot carry XA. " + _ONBOARD_AGAIN,
        table=record.rows[0].table,
        position=str(record.position or record.offset),
    )


def _verify_counts(unit: _OpenUnit, end: LogRecord) -> None:
    """END's counts over all tables, before anything is filtered: a transaction torn in the topic stops the stream."""
    expected = end.counts or {}
    if unit.counts == expected and unit.total == end.total:
        return
    wrong = [f"{unit.total} rows of {end.total}"] if unit.total != end.total else []
    for table in expected.keys() | unit.counts.keys():
        # `…LogicalDecodingMessage@f92adec`: Debezium counts messages under a name that says nothing.
        if "@" not in table and unit.counts.get(table, 0) != expected.get(table, 0):
            wrong.append(f"{table}: {unit.counts.get(table, 0)} of {expected.get(table, 0)}")
    if wrong:
        raise LogCorrupted(
            f"transaction {unit.unit_id} is not whole in the log topic, offsets {unit.start} to {end.offset}: "
            + ", ".join(wrong),
            hint=_ONBOARD_AGAIN,
            position=str(unit.position or end.position or unit.unit_id),
        )
