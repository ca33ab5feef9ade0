"""What a source's log has between two places that a destination's ledger stood at: every change, in order.

A ledger moves in the transaction of the rows. So these are the changes that the stream has applied between two
comparisons, no more and no fewer: what they do not explain was not done by it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from seamline.domain.catalogue import Table
from seamline.domain.errors import PositionLost, SchemaConflict, TransientError
from seamline.domain.ledger import LedgerRow
from seamline.domain.log import RowChange, Transaction
from seamline.domain.position import Position
from seamline.ports import LogReader
from seamline.ports.log_images import LogImages, Texts
from seamline.sync.transaction_buffer import BufferLimits, TransactionBuffer

# Rows whose images are decoded together: one by one takes many times longer.
_ROWS_TOGETHER = 2_000
_LIMITS = BufferLimits(
    span_changes_max=_ROWS_TOGETHER,
    span_bytes_max=16 << 20,
    poll_records_max=2_000,
    chunk_rows_max=200_000,
    chunk_bytes_max=64 << 20,
)
# The ledger has passed the end, so it is there; a broker that is away answers nothing for a while.
_WAIT_S = 5.0
_WAITS_MAX = 12


class Operation(StrEnum):
    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"
    TRUNCATE = "truncate"


_OPERATIONS = {"c": Operation.INSERT, "u": Operation.UPDATE, "d": Operation.DELETE}


@dataclass(frozen=True, slots=True)
class LogStretch:
    """Offsets `[start, end)` of one log topic, each the `next_offset` of a ledger. `after`: the ledger's position at
    `start`."""

    topic: str
    topic_id: str
    start: int
    end: int
    after: Position

    @staticmethod
    def since(earlier: LedgerRow, now: LedgerRow) -> "LogStretch":
        """PositionLost where the two ledgers are not of one log, or the later one stands before the earlier one."""
        if earlier.topic_id != now.topic_id:
            raise PositionLost(f"log topic {now.topic} was created again since {earlier.position}")
        if now.next_offset < earlier.next_offset:
            raise PositionLost(f"the ledger went back since {earlier.position}: it stands at {now.position}")
        return LogStretch(now.topic, now.topic_id, earlier.next_offset, now.next_offset, earlier.position)


@dataclass(frozen=True, slots=True)
class LoggedChange:
    """One change of a row of `table`, as a destination holds the table.

    `key`: the key's text by which comparisons name the row (`RowHash.key`); "" of a table without a key, and of a
    TRUNCATE. `position` and `committed_ms` (of the source, milliseconds since the epoch; 0 where it is not known, in a
    transaction larger than memory) are those of its transaction.
    `before` and `after`: canonical texts by column, None for no row; a transformed table has none of a row that its
    condition leaves out. `after` lacks the columns that the log left out because the update had not changed them.
    `is_before_known`: False where the log does not say what the row was, as that of a PostgreSQL without REPLICA
    IDENTITY FULL, and where images were not asked for; `before` is then None.
    """

    table: str
    key: str
    operation: Operation
    position: Position
    committed_ms: int
    before: Texts | None = None
    after: Texts | None = None
    is_before_known: bool = True

    def row_after(self, row: Texts | None) -> Texts | None:
        """The row behind this change, where it was `row` before. Of an insert only what the log has of it: a change of
        key may leave out values of the row that it removes."""
        if self.after is None or row is None or self.operation is Operation.INSERT:
            return self.after
        return {**row, **self.after}


def _every(_table: str, _key: str) -> bool:
    return True


def changes_between(
    reader: LogReader,
    stretch: LogStretch,
    tables: Mapping[str, Table],
    images: LogImages,
    *,
    images_of: Callable[[str, str], bool] = _every,
    check: Callable[[], None] = lambda: None,
) -> Iterator[LoggedChange]:
    """The changes of these tables in log order, none from beyond the stretch.

    `reader` is not assigned yet, and is the caller's to close. `images_of` (table, key): whose images are decoded; the
    other changes have neither `before` nor `after`. `check` is called before each look at the log, and may raise.
    PositionLost: the log no longer reaches down to the start. SchemaConflict: a statement in between has changed a
    table. LogCorrupted as a stream raises it. TransientError: the end does not come.
    """
    if reader.topic_id != stretch.topic_id:
        raise PositionLost(f"log topic {reader.topic} was created again since {stretch.after}")
    if stretch.start == stretch.end:
        return
    for transactions in _transactions(reader, stretch, tables, check):
        yield from _changes(transactions, tables, images, images_of)


def _transactions(
    reader: LogReader, stretch: LogStretch, tables: Mapping[str, Table], check: Callable[[], None]
) -> Iterator[list[Transaction]]:
    """All of the stretch, some at a time, and a transaction larger than memory in chunks."""
    buffer = TransactionBuffer(
        reader, tables, marker_table="", after=stretch.after, known=stretch.after, limits=_LIMITS
    )
    check()
    reader.assign(stretch.start)
    waits, is_read = 0, False
    while not is_read:
        check()
        found, is_read = _look(buffer, stretch)
        if found:
            yield found
        waits = 0 if found or buffer.found_records else waits + 1
        if waits > _WAITS_MAX:
            raise TransientError(f"log topic {stretch.topic} could not be read up to offset {stretch.end}")


def _look(buffer: TransactionBuffer, stretch: LogStretch) -> tuple[list[Transaction], bool]:
    """What the next look at the log gives of the stretch, and whether that is the last of it."""
    buffer.read(_WAIT_S)
    found: list[Transaction] = []
    while buffer and buffer.first.start < stretch.end:
        found.append(buffer.pop())
    if buffer.forget_lost_chunks():
        raise TransientError(f"log topic {stretch.topic}: the capture sent a part of a large transaction twice")
    if found or buffer:
        return found, bool(buffer) or found[-1].end >= stretch.end
    if buffer.trouble is not None:
        raise buffer.trouble
    if buffer.has_large_open_transaction:
        chunk, _ = buffer.take_chunk()
        return ([chunk], False) if chunk.start < stretch.end else ([], True)
    return found, False


@dataclass(slots=True)
class _Logged:
    """A row's change with its transaction, until its images are decoded."""

    row: RowChange
    of: Transaction
    key: str = ""
    before: Texts | None = None
    after: Texts | None = None
    is_before_known: bool = False


def _changes(
    transactions: Sequence[Transaction],
    tables: Mapping[str, Table],
    images: LogImages,
    images_of: Callable[[str, str], bool],
) -> Iterator[LoggedChange]:
    entries: list[_Logged | LoggedChange] = []
    by_table: dict[str, list[_Logged]] = {}
    for transaction in transactions:
        if transaction.ddl is not None:
            raise SchemaConflict(
                f"a statement in the log has changed tables: {transaction.ddl.statement[:200]}",
                position=str(transaction.position),
            )
        entries += [
            LoggedChange(name, "", Operation.TRUNCATE, transaction.position, transaction.committed_ms)
            for name in transaction.truncated
        ]
        for row in transaction.rows:
            entry = _Logged(row, transaction)
            entries.append(entry)
            by_table.setdefault(row.table, []).append(entry)
    for name, of_table in by_table.items():
        _decode(tables[name], of_table, images, images_of)
    for one in entries:
        yield one if isinstance(one, LoggedChange) else _change(one, tables[one.row.table])


def _decode(table: Table, entries: Sequence[_Logged], images: LogImages, images_of: Callable[[str, str], bool]) -> None:
    if table.is_keyed:
        for entry, key in zip(entries, images.keys(table, [entry.row.key or b"" for entry in entries]), strict=True):
            entry.key = key
    wanted = [entry for entry in entries if images_of(table.name, entry.key)]
    for entry in wanted:
        entry.is_before_known = _says_before(entry, table)
    before = [entry for entry in wanted if entry.is_before_known and entry.row.before is not None]
    after = [entry for entry in wanted if entry.row.op != "d" and entry.row.after is not None]
    found = iter(images.rows(table, list(_images_of(before, after))))
    for entry in before:
        entry.before = next(found)
    for entry in after:
        entry.after = next(found)


def _images_of(before: Sequence[_Logged], after: Sequence[_Logged]) -> Iterator[bytes]:
    for entry in before:
        yield entry.row.before or b""
    for entry in after:
        yield entry.row.after or b""


def _says_before(entry: _Logged, table: Table) -> bool:
    """Whether the log says what the row was. A WAL may have the key alone of a row that is deleted, with stand-ins in
    its other columns: whether it has, its records do not show."""
    if entry.row.op == "c":
        return True
    if entry.row.before is None:
        return False
    return entry.row.op != "d" or not table.is_keyed or not entry.of.position.LOG.at_commit


def _change(entry: _Logged, table: Table) -> LoggedChange:
    return LoggedChange(
        table.name,
        entry.key,
        _OPERATIONS[entry.row.op],
        entry.of.position,
        entry.of.committed_ms,
        entry.before,
        entry.after,
        entry.is_before_known,
    )
