"""Assembles log records to transactions: whole, counted, in order.

The rules for odd records, as TRUNCATE and DDL, are those of the protocol, section 4. The assembler orders, counts and
separates; it never looks at a row's values.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

from seamline.domain.errors import LogCorrupted, SeamlineError
from seamline.domain.log import LogRecord, RecordKind, RowChange, Transaction, touched
from seamline.domain.position import Position

_TABLE_OF, _BEFORE_OF, _AFTER_OF = (itemgetter(RowChange._fields.index(name)) for name in ("table", "before", "after"))
_ONBOARD_AGAIN = "the log topic cannot be trusted beyond this offset: find the cause, then onboard the sync again"


@dataclass(slots=True)
class _OpenTransaction:
    """A transaction between its BEGIN and its END.

    `counts` is over all tables, also foreign ones. `row_bytes` is the size of the first `rows_measured` rows. `rows`
    and `truncated` are what no chunk has yet. `odd`: how many TRUNCATE and DDL records it has, of any table.
    """

    id: str
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
    chunks: int = 0
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


class TransactionAssembler:
    """Takes records in offset order, returns whole transactions.

    `trouble` is set when a record breaks the rules. The transactions before it were returned and are good, so the
    stream stops at the last good END. Nothing more is returned after it.
    """

    def __init__(self, tables: Collection[str], *, marker_table: str) -> None:
        self._tables = frozenset(tables)
        self._marker_table = marker_table
        self._open: _OpenTransaction | None = None
        # Whether chunks were taken of a transaction that was then sent again: they are of no use.
        self.lost_chunks = False
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
    def open_chunks(self) -> int:
        """How many chunks were taken from the transaction that is still open."""
        return self._open.chunks if self._open else 0

    def take_chunk(self) -> Transaction:
        """Take the rows so far out of the open transaction, for one that is larger than memory.

        The chunk names the tables that were emptied before its rows; that also undoes what earlier chunks have of
        them. Counts go on over all rows, so END is verified as always.
        """
        transaction = self._open
        position = (transaction.position or transaction.begin.position) if transaction else None
        if transaction is None or position is None:
            raise LogCorrupted("there is no open transaction with rows to take a chunk of", hint=_ONBOARD_AGAIN)
        transaction.chunks += 1
        # The last delete may be half of a change of key. Both halves belong to one chunk: the other takes values that
        # the log left out from the row as it was before.
        held_back = transaction.rows[-1:] if len(transaction.rows) > 1 and transaction.rows[-1].op == "d" else []
        rows, transaction.rows = transaction.rows[: len(transaction.rows) - len(held_back)], held_back
        truncated, transaction.truncated = _names(transaction.truncated), []
        transaction.row_bytes = transaction.rows_measured = 0
        return Transaction(
            transaction.id,
            transaction.start,
            transaction.last_offset + 1,
            position,
            rows,
            truncated=truncated,
        )

    def feed(self, records: Sequence[LogRecord]) -> list[Transaction]:
        """The transactions that these records complete, in log order."""
        transactions: list[Transaction] = []
        if self.trouble is not None:
            return transactions
        try:
            for record in records:
                if record.kind is RecordKind.ROWS:
                    self._rows(record)
                else:
                    self._other(record, transactions)
        except LogCorrupted as trouble:
            self.trouble = trouble
        if self._open is not None:
            self._open.measure()
        return transactions

    def _rows(self, record: LogRecord) -> None:
        """The hot path: what runs here once per row runs in C."""
        transaction = self._open
        if transaction is None or (record.transaction_id and record.transaction_id != transaction.id):
            raise _rows_outside(record, transaction)
        if transaction.position is None:
            transaction.position = record.position
        found = Counter(map(_TABLE_OF, record.rows))
        for table, rows in found.items():
            transaction.counts[table] = transaction.counts.get(table, 0) + rows
        transaction.last_offset = record.end - 1
        if found.keys() <= self._tables:
            transaction.rows += record.rows
            return
        transaction.rows += [row for row in record.rows if row.table in self._tables]
        if self._marker_table in found:
            transaction.markers += [row for row in record.rows if row.table == self._marker_table and row.op == "c"]

    def _other(self, record: LogRecord, transactions: list[Transaction]) -> None:
        match record.kind:
            case RecordKind.BEGIN:
                self._begin(record, transactions)
            case RecordKind.END:
                transactions.append(self._end(record))
            case RecordKind.TRUNCATE:
                self._truncate(record, transactions)
            case RecordKind.DDL:
                self._ddl(record, transactions)
            case _:
                # Heartbeats lie anywhere, also inside transactions, and mean nothing for the tables.
                return

    def _begin(self, record: LogRecord, transactions: list[Transaction]) -> None:
        transaction = self._open
        if transaction is not None and transaction.id == record.transaction_id:
            self._begin_again(transaction, record)
            return
        if transaction is not None:
            transactions.append(self._close_without_end(transaction, record))
        self._open = _OpenTransaction(record.transaction_id, record.offset, record, last_offset=record.offset)

    def _begin_again(self, transaction: _OpenTransaction, record: LogRecord) -> None:
        # Our own connectors go on behind the last END: they send the whole transaction again (ADR 14, 16).
        if not record.is_whole and transaction.last_offset > transaction.begin.offset:
            raise LogCorrupted(
                f"offset {record.offset}: transaction {transaction.id} begins again, and whether all of"
                f" it follows or it"
                " goes on in the middle is unknown: Debezium's own connector class wrote this",
                hint=_ONBOARD_AGAIN,
            )
        self.lost_chunks = self.lost_chunks or bool(transaction.chunks)
        self._open = _OpenTransaction(transaction.id, transaction.start, record, last_offset=record.offset)

    def _close_without_end(self, transaction: _OpenTransaction, record: LogRecord) -> Transaction:
        if transaction.total:
            raise LogCorrupted(
                f"transaction {transaction.id} has {transaction.total} rows but no END before offset"
                f" {record.offset}, where "
                f"{record.transaction_id} begins",
                hint="its tail is lost, or it is an XA transaction, which the capture cannot carry. " + _ONBOARD_AGAIN,
                position=str(transaction.begin.position or transaction.id),
            )
        begin = transaction.begin.position
        if (begin is not None and begin.LOG.always_ended) or not _is_all(transaction, record):
            raise LogCorrupted(
                f"transaction {transaction.id} has no END before offset {record.offset}, where"
                f" {record.transaction_id} begins",
                hint="its records and its END are lost. " + _ONBOARD_AGAIN,
                position=str(transaction.begin.position),
            )
        # TRUNCATE and DDL come after a BEGIN that no END closes (MariaDB 3.5.0.Final), and statements of tables that
        # the capture does not carry leave a BEGIN alone. The next BEGIN then speaks of no END.
        return self._whole(transaction, end=transaction.last_offset + 1, committed_ms=_time_of(transaction))

    def _end(self, record: LogRecord) -> Transaction:
        transaction = self._open
        if transaction is None or transaction.id != record.transaction_id:
            inside = f"inside transaction {transaction.id}" if transaction else "without a BEGIN"
            raise LogCorrupted(
                f"offset {record.offset}: END of transaction {record.transaction_id} {inside}", hint=_ONBOARD_AGAIN
            )
        _verify_counts(transaction, record)
        self._open = None
        if transaction.position is None or (record.position is not None and record.position.LOG.at_commit):
            # In a WAL a transaction stands where its commit ends, in a binlog where its first row begins.
            transaction.position = record.position
        return self._whole(transaction, end=record.offset + 1, committed_ms=record.ts_ms)

    def _truncate(self, record: LogRecord, transactions: list[Transaction]) -> None:
        if _is_of_either_case(record, self._tables):
            self._ddl(record, transactions)
            return
        transaction = self._open
        kept = record if record.table in self._tables else None
        if transaction is None or (record.transaction_id and record.transaction_id != transaction.id):
            self._standalone(record, transactions, truncated=(kept,) if kept else ())
            return
        if transaction.total and not record.total:
            raise LogCorrupted(
                f"offset {record.offset}: TRUNCATE of {record.table} inside transaction {transaction.id} with rows",
                hint=_ONBOARD_AGAIN,
                table=record.table,
            )
        if record.total:
            transaction.counts[record.table] = transaction.counts.get(record.table, 0) + record.total
        transaction.odd += 1
        transaction.last_offset = record.offset
        transaction.position = transaction.position or record.position
        if kept:
            self._empty(transaction, kept)

    @staticmethod
    def _empty(transaction: _OpenTransaction, truncate: LogRecord) -> None:
        """What the transaction did to the table before this is undone by it."""
        transaction.rows = [row for row in transaction.rows if row.table != truncate.table]
        transaction.row_bytes = transaction.rows_measured = 0
        transaction.truncated.append(truncate)

    def _ddl(self, record: LogRecord, transactions: list[Transaction]) -> None:
        transaction = self._open
        kept = record if touched(record, self._tables) else None
        if transaction is None or (record.transaction_id and record.transaction_id != transaction.id):
            self._standalone(record, transactions, ddl=kept)
            return
        transaction.odd += 1
        transaction.last_offset = record.offset
        transaction.ddl = transaction.ddl or kept
        transaction.position = transaction.position or record.position

    def _standalone(
        self,
        record: LogRecord,
        transactions: list[Transaction],
        *,
        truncated: Sequence[LogRecord] = (),
        ddl: LogRecord | None = None,
    ) -> None:
        if self._open is not None:
            transactions.append(self._close_without_end(self._open, record))
            self._open = None
        transaction = _OpenTransaction(record.transaction_id, record.offset, record, position=record.position)
        transaction.truncated, transaction.ddl = list(truncated), ddl
        transactions.append(self._whole(transaction, end=record.offset + 1, committed_ms=record.ts_ms))

    @staticmethod
    def _whole(transaction: _OpenTransaction, *, end: int, committed_ms: int) -> Transaction:
        position = transaction.position or transaction.begin.position
        if position is None:
            raise LogCorrupted(
                f"transaction {transaction.id} at offset {transaction.start} has no position",
                hint=_ONBOARD_AGAIN,
            )
        return Transaction(
            transaction.id,
            transaction.start,
            end,
            position,
            transaction.rows,
            committed_ms,
            _names(transaction.truncated),
            transaction.ddl,
            tuple(transaction.markers),
            transaction.chunks,
            transaction.begin.follows.position if transaction.begin.follows else None,
            transaction.measure(),
        )


def _is_all(transaction: _OpenTransaction, behind: LogRecord) -> bool:
    """True if the open transaction ends where the next BEGIN says that its predecessor ended, or says nothing."""
    before = behind.follows
    return before is None or (before.position, before.has_end, before.records) == (
        transaction.begin.position,
        False,
        transaction.odd,
    )


def _bytes_of(images: Iterable[bytes | None]) -> int:
    return sum(map(len, filter(None, images)))


def _names(truncated: Sequence[LogRecord]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(record.table for record in truncated))


def _time_of(transaction: _OpenTransaction) -> int:
    odd = transaction.truncated[0] if transaction.truncated else transaction.ddl or transaction.begin
    return odd.ts_ms


def _is_of_either_case(truncate: LogRecord, tables: Collection[str]) -> bool:
    """Whether only the server knows if it has emptied one of these tables: a binlog has the name as it was typed."""
    is_typed = truncate.position is None or truncate.position.LOG.names_as_typed
    return is_typed and truncate.table not in tables and bool(touched(truncate, tables))


def _rows_outside(record: LogRecord, transaction: _OpenTransaction | None) -> LogCorrupted:
    where = f"inside transaction {transaction.id}" if transaction else "outside BEGIN and END"
    return LogCorrupted(
        f"offset {record.offset}: a row of transaction {record.transaction_id or 'unknown'} {where}",
        hint="an XA transaction leaves its rows like this, and the capture cannot carry XA. " + _ONBOARD_AGAIN,
        table=record.rows[0].table,
        position=str(record.position or record.offset),
    )


def _verify_counts(transaction: _OpenTransaction, end: LogRecord) -> None:
    """END's counts over all tables, before anything is filtered: a transaction torn in the topic stops the stream."""
    expected = end.counts or {}
    if transaction.counts == expected and transaction.total == end.total:
        return
    wrong = [f"{transaction.total} rows of {end.total}"] if transaction.total != end.total else []
    for table in expected.keys() | transaction.counts.keys():
        # `…LogicalDecodingMessage@f92adec`: Debezium counts messages under a name that says nothing.
        if "@" not in table and transaction.counts.get(table, 0) != expected.get(table, 0):
            wrong.append(f"{table}: {transaction.counts.get(table, 0)} of {expected.get(table, 0)}")
    if wrong:
        raise LogCorrupted(
            f"transaction {transaction.id} is not whole in the log topic, offsets {transaction.start} to"
            f" {end.offset}: " + ", ".join(wrong),
            hint=_ONBOARD_AGAIN,
            position=str(transaction.position or end.position or transaction.id),
        )
