"""What the records of Debezium's connectors have in common: their brackets, heartbeats and refusals.

Debezium's envelope is read only as far as order, counts and placement need it; row images stay raw JSON.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Protocol, cast

import msgspec

from seamline.domain.errors import LogCorrupted
from seamline.domain.log import LogRecord, PrecedingTransaction, RecordKind, RowChange
from seamline.domain.position import Position

RECAPTURE = "stop the sync and onboard it again; the log topic must be written by its own capture only"
NOTHING = msgspec.Raw(b"null")
OF_ROWS = frozenset("cud")


class Collection(msgspec.Struct):
    data_collection: str
    event_count: int


class TableChange(msgspec.Struct, rename="camel"):
    id: str = ""


class RecordSource(msgspec.Struct):
    name: str
    db: str | None = None
    table: str | None = None
    gtid: str | None = None
    file: str | None = None
    pos: int = 0
    snapshot: str | bool | None = None
    ts_ms: int = 0


class Record(msgspec.Struct):
    """Every record but a row's. Which one it is shows by what is present.

    `seamline` and `seamline_follows` are what our own connectors say of a transaction, at its BEGIN; the latter is the
    last bracket that was sent before it.
    """

    status: str = ""
    id: str = ""
    event_count: int | None = None
    data_collections: list[Collection] | None = None
    ddl: str | None = None
    tableChanges: list[TableChange] | None = None  # noqa: N815 (Debezium's name)
    source: RecordSource | None = None
    ts_ms: int = 0
    op: str = ""
    seamline: str = ""
    seamline_follows: str | None = None


decode_record = msgspec.json.Decoder(Record).decode


class Message(Protocol):
    """One message of the log topic, as Kafka's client has it."""

    def offset(self) -> int | None: ...

    def key(self) -> bytes | None: ...

    def value(self) -> bytes | None: ...

    def headers(self) -> Any:
        """(name, value) pairs, or None."""


class Decoder(Protocol):
    """One belongs to one reader: it remembers the transaction it is in."""

    def decode(self, messages: Iterable[Message], into: list[LogRecord]) -> None:
        """Append what the messages hold, in order. Raises LogCorrupted (with the offset) for the first that a capture
        does not write; what came before it is then there."""


# RowChange's own constructor is a function in Python: twice as slow, and this one runs once per row.
new_row = cast(
    Callable[[tuple[int, str, str, bytes | None, bytes | None, bytes | None, bool, bytes | None]], RowChange],
    partial(tuple.__new__, RowChange),
)


def require_value(offset: int, value: bytes) -> None:
    if not value:
        raise LogCorrupted(f"offset {offset}: a record without value", hint=RECAPTURE)


def bracket(
    offset: int,
    record: Record,
    transaction_id: str,
    position_of: Callable[[str], Position | None],
    table_of: Callable[[int, str], str],
) -> LogRecord:
    """BEGIN or END. `position_of` reads a transaction's id, None where it is none; `table_of` gives the plain name of
    the table of a record, or refuses it."""
    position = _position(offset, record, record.id, position_of)
    if record.status == "BEGIN":
        return LogRecord(
            offset,
            RecordKind.BEGIN,
            transaction_id,
            position,
            ts_ms=record.ts_ms,
            is_whole=record.seamline == "whole",
            follows=_preceding(offset, record, position_of) if record.seamline_follows else None,
        )
    if record.event_count is None:
        raise LogCorrupted(f"offset {offset}: END of {record.id} carries no counts", hint=RECAPTURE)
    counts = {table_of(offset, c.data_collection): c.event_count for c in record.data_collections or ()}
    return LogRecord(
        offset,
        RecordKind.END,
        transaction_id,
        position,
        total=record.event_count,
        counts=counts,
        ts_ms=record.ts_ms,
    )


def _position(offset: int, record: Record, transaction: str, position_of: Callable[[str], Position | None]) -> Position:
    position = position_of(transaction)
    if position is None or record.status not in ("BEGIN", "END"):
        raise LogCorrupted(f"offset {offset}: {record.status} of transaction {transaction!r}", hint=RECAPTURE)
    return position


def _preceding(offset: int, record: Record, position_of: Callable[[str], Position | None]) -> PrecedingTransaction:
    """`END 0-7-12`; or `BEGIN 0-7-12 1`: without END, and with one record."""
    last, _, rest = (record.seamline_follows or "").partition(" ")
    transaction, _, records = rest.partition(" ")
    return PrecedingTransaction(_position(offset, record, transaction, position_of), last == "END", int(records or 0))


def unknown_record(offset: int, value: bytes) -> LogCorrupted:
    return LogCorrupted(f"offset {offset}: an unknown record: {value[:120]!r}", hint=RECAPTURE)


def foreign(offset: int, *, found: str, expected: str) -> LogCorrupted:
    return LogCorrupted(f"offset {offset}: a record of {found}; this topic belongs to {expected}", hint=RECAPTURE)
