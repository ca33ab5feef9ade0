"""What the columns of the archive say of a message, beside the message itself."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from seamline.adapters.debezium.envelope import Decoder
from seamline.domain.errors import LogCorrupted
from seamline.domain.log import LogRecord, RecordKind, RowChange
from seamline.domain.log_archive import LogMessage

# Of a message that the capture's decoder refuses: its content is kept all the same.
UNREADABLE = "UNREADABLE"


@dataclass(slots=True)
class Described:
    """One message. `committed_ms` is known once the END of its transaction is; 0 until then."""

    message: LogMessage
    kind: str
    transaction_id: str = ""
    position: str = ""
    table: str = ""
    op: str = ""
    before: bytes | None = None
    after: bytes | None = None
    statement: str = ""
    committed_ms: int = 0

    @property
    def ends_transaction(self) -> bool:
        return self.kind == RecordKind.END.name

    @property
    def size_bytes(self) -> int:
        return len(self.message.key() or b"") + len(self.message.value() or b"")


class Describer:
    """Describes the messages of one topic in their order."""

    def __init__(self, open_decoder: Callable[[], Decoder]) -> None:
        self._decoder = open_decoder()

    def describe(self, message: LogMessage) -> Described:
        found: list[LogRecord] = []
        try:
            self._decoder.decode([message], found)
        except LogCorrupted:
            return Described(message, UNREADABLE)
        return _of_record(message, found[0]) if found else Described(message, UNREADABLE)


def _of_record(message: LogMessage, record: LogRecord) -> Described:
    made = Described(
        message,
        record.kind.name,
        record.transaction_id,
        "" if record.position is None else str(record.position),
        record.table,
        statement=record.statement,
    )
    if record.rows:
        _add_row(made, record.rows[0])
    elif record.kind is RecordKind.END or record.kind is RecordKind.DDL or record.kind is RecordKind.TRUNCATE:
        made.committed_ms = record.ts_ms
    return made


def _add_row(made: Described, row: RowChange) -> None:
    made.table, made.op, made.before, made.after = row.table, row.op, row.before, row.after


def fill_in_commits(messages: Sequence[Described]) -> None:
    """Give each message the commit time of its transaction, where the END is among them."""
    waiting: dict[str, list[Described]] = {}
    for one in messages:
        if one.ends_transaction:
            for earlier in waiting.pop(one.transaction_id, ()):
                earlier.committed_ms = one.committed_ms
        elif one.transaction_id and not one.committed_ms:
            waiting.setdefault(one.transaction_id, []).append(one)
