"""A log topic in memory: what a capture would write for the transactions of a test, and a reader of it."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from seamline.domain.catalogue import Column, Kind, Table, fingerprint
from seamline.domain.cutover import Boundary
from seamline.domain.ledger import StreamId
from seamline.domain.log import LogRecord, PrecedingTransaction, RecordKind, RowChange
from seamline.domain.position import Position
from seamline.plan.model import DestinationPlan, SourcePlan, StreamPlan, SyncPlan, TablePlan
from seamline.ports import Orders, Publication, StreamReport
from seamline.sources.mariadb.position import BinlogPosition

TOPIC, TOPIC_ID = "seamline.core_bank.log", "topic-1"
FILE = "mdb-bin.000001"
MARKERS = "seamline_marker"

ACCOUNT = Table(
    "account",
    (
        Column("id", Kind.INTEGER, "int", nullable=False, length=32),
        Column("name", Kind.STRING, "varchar(40)", length=40),
    ),
    ("id",),
)
TRANSFER = Table(
    "transfer",
    (
        Column("tx", Kind.INTEGER, "bigint", nullable=False, length=64),
        Column("leg", Kind.INTEGER, "smallint", nullable=False, length=16),
        Column("amount", Kind.DECIMAL, "decimal(20,4)", precision=20, scale=4),
    ),
    ("tx", "leg"),
)
AUDIT = Table("audit", (Column("actor", Kind.STRING, "varchar(20)", length=20), Column("action", Kind.STRING, "text")))
TABLES = (ACCOUNT, TRANSFER, AUDIT)


def sync_plan(
    tables: Sequence[Table] = TABLES, *, schema: str = "settlement", stream: StreamPlan | None = None
) -> SyncPlan:
    return SyncPlan(
        sync="settlement",
        source=SourcePlan("core_bank", "mariadb", "bank", "r", "c", "m", TOPIC, "seamline-core_bank"),
        destinations=(
            DestinationPlan("warehouse", "postgres", "warehouse", schema, writer_connection="warehouse_writer"),
        ),
        tables=tuple(TablePlan(table.name, table=table) for table in tables),
        stream=stream or StreamPlan(),
    )


STREAM = StreamId("settlement", "warehouse")


def gtid(number: int) -> str:
    return f"0-1-{number}"


def position(number: int) -> BinlogPosition:
    """Where a snapshot stands that covers transactions up to `number`."""
    return BinlogPosition(gtid(number), FILE, number * 1000 + 999)


def publication(
    tables: Sequence[Table] = TABLES, *, run_id: str = "run-1", covered: int = 0, next_offset: int = 0
) -> Publication:
    """A publish at the position after transaction `covered`."""
    at = position(covered)
    return Publication(
        run_id,
        TOPIC,
        TOPIC_ID,
        next_offset,
        at,
        tuple(Boundary(t.name, at, high_marker="high-1", fingerprint=fingerprint(t)) for t in tables),
    )


@dataclass(frozen=True, slots=True)
class Change:
    """One row change as the source made it; `before` and `after` are rows or None."""

    table: str
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None


def insert(table: Table, **row: Any) -> Change:
    return Change(table.name, after=row)


def update(table: Table, before: dict[str, Any], after: dict[str, Any]) -> Change:
    return Change(table.name, before, after)


def delete(table: Table, **row: Any) -> Change:
    return Change(table.name, before=row)


@dataclass(slots=True)
class LogTopic:
    """Records in offset order. Offsets have holes, as transaction markers leave them."""

    tables: Sequence[Table] = TABLES
    records: list[LogRecord] = field(default_factory=list)
    transactions: int = 0
    _offset: int = 0
    _number: int = 0
    _row: int = 0
    # What the next BEGIN says of the transaction sent before it.
    before: PrecedingTransaction | None = None
    # The transaction that has begun and has no END yet, and how many records of it there are.
    begun: Position | None = None
    odd: int = 0
    # When a transaction was committed; without it each is a millisecond later than the one before.
    clock_ms: Callable[[], int] | None = None
    _seen: dict[str, int] = field(default_factory=dict)

    @property
    def end(self) -> int:
        return self._offset

    def now_ms(self) -> int:
        return self.clock_ms() if self.clock_ms is not None else 1_000 + self._number

    def transaction(self, *changes: Change, counts: dict[str, int] | None = None) -> int:
        """BEGIN, rows, END of the next transaction; returns its number. `counts` overrides what END says."""
        number = self.begin()
        for change in changes:
            self.row(change)
        self.finish(counts)
        return number

    def marker(self, marker_id: str, kind: str, payload: dict[str, Any] | None = None) -> int:
        row = {"id": marker_id, "kind": kind, "payload": json.dumps(payload or {}), "at": 0}
        return self.transaction(Change(MARKERS, after=row))

    def begin(self, number: int | None = None) -> int:
        if number is None:
            self.transactions += 1
        self._number = self.transactions if number is None else number
        self._seen = {}
        self._row = 0
        position = BinlogPosition(gtid(self._number))
        if self.begun is not None and self.begun != position:
            self.before = PrecedingTransaction(self.begun, has_end=False, records=self.odd)
        self.begun, self.odd = position, 0
        self._add(RecordKind.BEGIN, transaction_id=gtid(self._number), position=position, follows=self.before)
        return self._number

    def begin_again(self) -> None:
        """As after a restart of the connector in mid-transaction: all of it follows."""
        self.begin(self._number)

    def row(self, change: Change) -> None:
        for op, before, after in self._images(change):
            self._add_row(change.table, op, before, after)
            self._seen[change.table] = self._seen.get(change.table, 0) + 1
        self._row += 1

    def finish(self, counts: dict[str, int] | None = None) -> None:
        found = self._seen if counts is None else counts
        self.before, self.begun = PrecedingTransaction(BinlogPosition(gtid(self._number)), has_end=True), None
        self._add(
            RecordKind.END,
            transaction_id=gtid(self._number),
            position=BinlogPosition(gtid(self._number)),
            total=sum(found.values()),
            counts=dict(found),
            ts_ms=self.now_ms(),
        )

    def truncate(self, table: str) -> None:
        """As MariaDB writes it: BEGIN and the record, no END."""
        self.begin()
        self.odd += 1
        self._add(
            RecordKind.TRUNCATE,
            transaction_id=gtid(self._number),
            table=table,
            tables=(table,),
            position=self._place(),
            ts_ms=self.now_ms(),
        )

    def ddl(self, statement: str, *tables: str) -> None:
        self.begin()
        self.odd += 1
        self._add(
            RecordKind.DDL,
            transaction_id=gtid(self._number),
            statement=statement,
            tables=tables,
            position=self._place(),
            ts_ms=self.now_ms(),
        )

    def heartbeat(self) -> None:
        self._add(RecordKind.HEARTBEAT, ts_ms=1)

    def _images(self, change: Change) -> Iterable[tuple[str, dict[str, Any] | None, dict[str, Any] | None]]:
        if change.before is None:
            yield "c", None, change.after
        elif change.after is None:
            yield "d", change.before, None
        elif self._key(change.table, change.before) != self._key(change.table, change.after):
            # A key change is sent as delete and insert, both under one row id.
            yield "d", change.before, None
            yield "c", None, change.after
        else:
            yield "u", change.before, change.after

    def _key(self, name: str, row: dict[str, Any] | None) -> bytes | None:
        table = next((table for table in self.tables if table.name == name), None)
        if row is None or table is None or not table.is_keyed:
            return None
        return _json({column: row[column] for column in table.key})

    def _add_row(self, table: str, op: str, before: dict[str, Any] | None, after: dict[str, Any] | None) -> None:
        self._write_row(
            RowChange(
                self._next_offset(),
                table,
                op,
                self._key(table, after if after is not None else before),
                None if before is None else _json(before),
                None if after is None else _json(after),
            )
        )

    def _write_row(self, row: RowChange) -> None:
        self.records.append(row_record(row, gtid(self._number), self._place()))

    def _place(self) -> BinlogPosition:
        return BinlogPosition(gtid(self._number), FILE, self._number * 1000)

    def _add(self, kind: RecordKind, **fields: Any) -> None:
        self.records.append(LogRecord(self._next_offset(), kind, **fields, is_whole=kind is RecordKind.BEGIN))

    def _next_offset(self) -> int:
        offset = self._offset
        # Every seventh offset belongs to a transaction marker, which no reader sees.
        self._offset += 2 if offset % 7 == 5 else 1
        return offset


def row_record(row: RowChange, transaction_id: str = "", position: Position | None = None) -> LogRecord:
    return LogRecord(row.offset, RecordKind.ROWS, transaction_id, position, [row])


def in_runs(records: Sequence[LogRecord]) -> list[LogRecord]:
    """Rows of one transaction that follow each other as one record, as a decoder gives them."""
    joined: list[LogRecord] = []
    for record in records:
        last = joined[-1] if joined else record
        if record.rows and last.rows and record is not last and record.transaction_id == last.transaction_id:
            joined[-1] = replace(last, rows=[*last.rows, *record.rows])
        else:
            joined.append(record)
    return joined


def _json(row: dict[str, Any]) -> bytes:
    return json.dumps(row, separators=(",", ":"), ensure_ascii=False).encode()


class TopicReader:
    """ports.LogReader over a LogTopic that may still grow. Hands out at most `at_most` records per poll."""

    topic, topic_id = TOPIC, TOPIC_ID

    def __init__(self, log: LogTopic, *, at_most: int = 1_000_000) -> None:
        self._log = log
        self._at_most = at_most
        self._next = 0
        self.assigned: list[int] = []
        # Polls in a row that would have waited: the stream has nothing left to apply.
        self.idle_polls = 0

    def assign(self, offset: int) -> None:
        assert not self.assigned, "a log reader is assigned once"
        self.assigned.append(offset)
        self._next = next(
            (index for index, record in enumerate(self._log.records) if record.offset >= offset), len(self._log.records)
        )

    def poll(self, timeout_s: float, records_max: int) -> Sequence[LogRecord]:
        taken = self._log.records[self._next : self._next + min(records_max, self._at_most)]
        self._next += len(taken)
        self.idle_polls = self.idle_polls + 1 if timeout_s and not taken else 0
        return in_runs(taken)

    @property
    def is_drained(self) -> bool:
        return self._next >= len(self._log.records)

    def end_offset(self) -> int:
        return self._log.end

    def close(self) -> None:
        return


class ScriptedControl:
    """ports.StreamControl: gives the scripted orders one by one, then stops the stream once it has nothing to do."""

    def __init__(self, reader: TopicReader, *, orders: Sequence[Orders] = ()) -> None:
        self._reader = reader
        self._script = list(orders)
        self.reports: list[StreamReport] = []

    def orders(self) -> Orders:
        return self._script.pop(0) if self._script else Orders(wanted=self._reader.idle_polls < 2)

    def report(self, report: StreamReport) -> None:
        self.reports.append(report)

    @property
    def states(self) -> list[str]:
        """States in the order they were given, each run of equal ones once."""
        found: list[str] = []
        for report in self.reports:
            if not found or found[-1] != report.state:
                found.append(report.state)
        return found


class ManualClock:
    """Time that moves only when somebody sleeps or a test says so."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self.time = now

    def now(self) -> float:
        return self.time

    def wall(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds
