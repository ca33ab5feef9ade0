"""The transaction buffer: what a stream has read and not yet applied. Whole transactions in order, and the open one."""

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from seamline.domain.errors import LogCorrupted, SeamlineError
from seamline.domain.log import LogRecord, Transaction
from seamline.domain.position import Position
from seamline.ports import LogReader
from seamline.sync.transactions import TransactionAssembler


@dataclass(frozen=True, slots=True)
class BufferLimits:
    """How much is read ahead: changes and bytes of a span, records of a poll, rows and bytes of a transaction that is
    still open. One more poll may come on top."""

    span_changes_max: int
    span_bytes_max: int
    poll_records_max: int
    chunk_rows_max: int
    chunk_bytes_max: int


class TransactionBuffer:
    """`after`: every transaction must lie beyond this position, in order; the first that does not is trouble. `known`:
    what the stream has applied or was loaded with: transactions up to it need not come."""

    def __init__(
        self,
        reader: LogReader,
        tables: Collection[str],
        *,
        marker_table: str,
        after: Position,
        known: Position,
        limits: BufferLimits,
    ) -> None:
        self._reader = reader
        self._limits = limits
        self._assembler = TransactionAssembler(tables, marker_table=marker_table)
        self._arrived = after.tracker()
        self._known = known.tracker()
        self._transactions: deque[Transaction] = deque()
        self._changes = self._bytes = 0
        # Why nothing can be read on; the transactions before it are good.
        self.trouble: SeamlineError | None = None
        # Whether the last look at the log found records.
        self.found_records = True

    def __bool__(self) -> bool:
        """Whether a whole transaction waits."""
        return bool(self._transactions)

    @property
    def first(self) -> Transaction:
        return self._transactions[0]

    @property
    def last(self) -> Transaction:
        return self._transactions[-1]

    @property
    def waiting(self) -> Iterator[Transaction]:
        """All whole transactions, in log order."""
        return iter(self._transactions)

    def first_within_limits(self) -> Iterator[Transaction]:
        """The first transaction, and those behind it that fill no more than one span with it."""
        yield self.first
        changes, size = _changes_of(self.first), self.first.row_bytes
        for transaction in islice(self._transactions, 1, None):
            changes += _changes_of(transaction)
            size += transaction.row_bytes
            if changes > self._limits.span_changes_max or size > self._limits.span_bytes_max:
                return
            yield transaction

    @property
    def is_full(self) -> bool:
        """Whether nothing more is read before something is applied."""
        has_full_span = self._changes >= self._limits.span_changes_max or self._bytes >= self._limits.span_bytes_max
        return has_full_span or self.has_large_open_transaction or self.trouble is not None

    @property
    def has_open_transaction(self) -> bool:
        """Whether a transaction has begun in what was read, and not ended."""
        return self._assembler.is_open

    @property
    def has_large_open_transaction(self) -> bool:
        """Whether the open transaction has to be spilled in chunks before more of it is read."""
        return (
            self._assembler.open_rows >= self._limits.chunk_rows_max
            or self._assembler.open_bytes >= self._limits.chunk_bytes_max
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
            if self.is_full or (self._transactions and is_all):
                break
            records = self._poll(0.0)

    def pop(self) -> Transaction:
        transaction = self._transactions.popleft()
        self._changes -= _changes_of(transaction)
        self._bytes -= transaction.row_bytes
        return transaction

    def put_back(self, transactions: Sequence[Transaction]) -> None:
        """Transactions that were popped, in log order, before all that wait."""
        self._transactions.extendleft(reversed(transactions))
        self._changes += sum(map(_changes_of, transactions))
        self._bytes += sum(transaction.row_bytes for transaction in transactions)

    def take_chunk(self) -> tuple[Transaction, int]:
        """The rows so far of the open transaction and the chunk's number, from 1."""
        transaction = self._assembler.take_chunk()
        return transaction, self._assembler.open_chunks

    def forget_lost_chunks(self) -> bool:
        """True, once, where chunks were taken of a transaction that is then sent again."""
        lost, self._assembler.lost_chunks = self._assembler.lost_chunks, False
        return lost

    def _poll(self, wait_s: float) -> Sequence[LogRecord]:
        """The reader's trouble waits, as every other, until what came before it is applied."""
        try:
            return self._reader.poll(wait_s, self._limits.poll_records_max)
        except SeamlineError as trouble:
            self.trouble = trouble
            return ()

    def _take_in(self, transactions: Sequence[Transaction]) -> None:
        for transaction in transactions:
            if transaction.follows is not None and not self._has_come(transaction.follows):
                self.trouble = _one_lost(transaction)
                return
            if self._arrived.has_passed(transaction.position):
                if transaction.is_empty:
                    # Debezium's own MariaDB class sends its last transaction once more at a start, without rows.
                    continue
                self.trouble = _repeated(transaction)
                return
            self._arrived.advance_to(transaction.position)
            self._transactions.append(transaction)
            self._changes += _changes_of(transaction)
            self._bytes += transaction.row_bytes
        self.trouble = self._assembler.trouble

    def _has_come(self, transaction: Position) -> bool:
        return self._arrived.has_passed(transaction) or self._known.has_passed(transaction)


def _changes_of(transaction: Transaction) -> int:
    """At least one: a MariaDB logs every transaction of the server, and most may be of other tables."""
    return max(1, len(transaction.rows))


def _one_lost(transaction: Transaction) -> SeamlineError:
    return LogCorrupted(
        f"offset {transaction.start}: transaction {transaction.id} was sent behind {transaction.follows},"
        f" which the log topic does not"
        " have before it: a transaction is lost or out of order",
        hint="find out who took records out of the log topic, then onboard the sync again",
        position=str(transaction.position),
    )


def _repeated(transaction: Transaction) -> SeamlineError:
    return LogCorrupted(
        f"offset {transaction.start}: transaction {transaction.id} comes after a later one or a second time",
        hint="the log topic holds something twice or comes from a restored source; onboard the sync again",
        position=str(transaction.position),
    )
