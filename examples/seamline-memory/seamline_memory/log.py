"""The log of a bank in memory: its records as Seamline's, and a reader of it."""

import json
from collections.abc import Iterable, Sequence

import msgspec

from seamline.adapters.debezium.envelope import Message
from seamline.domain.catalogue import Table
from seamline.domain.errors import LogCorrupted
from seamline.domain.log import LogRecord, RecordKind, RowChange
from seamline_memory.bank import Bank
from seamline_memory.position import MemoryPosition

_RECORDS_MAX = 10_000
_HINT = "stop the sync and onboard it again; the log must be written by its own bank only"
_NOTHING = msgspec.Raw(b"null")


class _Record(msgspec.Struct, forbid_unknown_fields=True):
    record: str
    transaction: int
    table: str = ""
    op: str = ""
    before: msgspec.Raw = _NOTHING
    after: msgspec.Raw = _NOTHING
    counts: dict[str, int] = {}
    at_ms: int = 0


_read = msgspec.json.Decoder(_Record).decode


class MemoryLogDecoder:
    """`Decoder` of the log's records. Row images stay the bytes that they are."""

    def __init__(self, tables: dict[str, Table]) -> None:
        self._tables = tables

    def decode(self, messages: Iterable[Message], into: list[LogRecord]) -> None:
        for message in messages:
            into.append(self._decoded(message.offset() or 0, message.value() or b""))

    def _decoded(self, offset: int, value: bytes) -> LogRecord:
        try:
            record = _read(value)
        except msgspec.DecodeError as exc:
            raise _unknown(offset, value) from exc
        number, position = str(record.transaction), MemoryPosition(record.transaction)
        match record.record:
            case "begin":
                return LogRecord(offset, RecordKind.BEGIN, number, position, is_whole=True)
            case "row" if record.op in ("c", "u", "d") and record.table:
                return LogRecord(offset, RecordKind.ROWS, number, position, [self._row(offset, record)])
            case "truncate":
                tables = (record.table,)
                return LogRecord(
                    offset, RecordKind.TRUNCATE, number, position, table=record.table, total=1, tables=tables
                )
            case "end":
                total = sum(record.counts.values())
                return LogRecord(
                    offset, RecordKind.END, number, position, total=total, counts=record.counts, ts_ms=record.at_ms
                )
            case _:
                raise _unknown(offset, value)

    def _row(self, offset: int, record: _Record) -> RowChange:
        before, after = (None if bytes(one) == b"null" else bytes(one) for one in (record.before, record.after))
        image = after or before
        if image is None:
            raise _unknown(offset, f"a row of {record.table} without images".encode())
        return RowChange(offset, record.table, record.op, self._key(record.table, image), before, after)

    def _key(self, table: str, image: bytes) -> bytes | None:
        """None where the table has none, or is of no concern here."""
        known = self._tables.get(table)
        if known is None or not known.is_keyed:
            return None
        fields = json.loads(image)
        return json.dumps({name: fields[name] for name in known.key}).encode()


class MemoryLogReader:
    """`ports.LogReader` over a log that may still grow."""

    topic_id = "memory"

    def __init__(self, bank: Bank, topic: str) -> None:
        self.topic = topic
        self._bank = bank
        self._decoder = MemoryLogDecoder(bank.tables)
        self._next = 0

    def assign(self, offset: int) -> None:
        self._next = offset

    def poll(self, timeout_s: float, records_max: int) -> Sequence[LogRecord]:  # noqa: ARG002
        taken = self._bank.log[self._next : self._next + min(records_max, _RECORDS_MAX)]
        self._next += len(taken)
        found: list[LogRecord] = []
        self._decoder.decode(taken, found)
        return found

    def end_offset(self) -> int:
        return len(self._bank.log)

    def close(self) -> None:
        return


def _unknown(offset: int, value: bytes) -> LogCorrupted:
    return LogCorrupted(f"offset {offset}: an unknown record: {value[:120]!r}", hint=_HINT)
