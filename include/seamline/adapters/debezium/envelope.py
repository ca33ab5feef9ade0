"""What the records of Debezium's connectors have in common: their brackets, heartbeats and refusals.

Debezium's envelope is read only as far as order, counts and placement need it; row images stay raw JSON.
"""

from typing import Protocol

import msgspec

from seamline.domain.errors import LogCorrupted
from seamline.domain.log import LogRecord

RECAPTURE = "stop the sync and onboard it again; the log topic must be written by its own capture only"
NOTHING = msgspec.Raw(b"null")


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
    """Every shape but a row's. Which one it is shows by what is present."""

    status: str = ""
    id: str = ""
    event_count: int | None = None
    data_collections: list[Collection] | None = None
    ddl: str | None = None
    tableChanges: list[TableChange] | None = None  # noqa: N815 (Debezium's name)
    source: RecordSource | None = None
    ts_ms: int = 0
    op: str = ""


decode_record = msgspec.json.Decoder(Record).decode


class Decoder(Protocol):
    """One record's bytes → LogRecord; LogCorrupted (with the offset) for anything a capture does not write."""

    def __call__(self, offset: int, key: bytes | None, value: bytes | None) -> LogRecord: ...


def unknown_shape(offset: int, value: bytes) -> LogCorrupted:
    return LogCorrupted(f"offset {offset}: a record of unknown shape: {value[:120]!r}", hint=RECAPTURE)


def foreign(offset: int, *, found: str, expected: str) -> LogCorrupted:
    return LogCorrupted(f"offset {offset}: a record of {found}; this topic belongs to {expected}", hint=RECAPTURE)
