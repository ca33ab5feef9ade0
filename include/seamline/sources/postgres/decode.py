"""Records of Debezium's PostgreSQL connector → LogRecord. The hot path of every stream from a WAL."""

import re
from collections.abc import Iterable

import msgspec

from seamline.adapters.debezium.envelope import (
    NOTHING,
    OF_ROWS,
    RECAPTURE,
    Message,
    bracket,
    decode_record,
    foreign,
    new_row,
    require_value,
    unknown_record,
)
from seamline.domain.errors import LogCorrupted
from seamline.domain.log import LogRecord, RecordKind, RowChange
from seamline.domain.table_places import SEPARATOR, TablePlaces
from seamline.domain.unavailable_values import may_lack_values
from seamline.sources.postgres.position import PostgresPosition

# `<xid>:<lsn>`; END's LSN is the end of the commit record.
_TRANSACTION = re.compile(r"(\d+):(\d+)")
# Messages (pg_logical_emit_message) are counted by END under a name that says nothing and holds an @.
_MESSAGES = "@messages"
# Debezium sends it with a new row, in a header.
_OLD_KEY = "__debezium.oldkey"


class _RowSource(msgspec.Struct, gc=False):
    name: str
    db: str
    schema: str
    table: str
    txId: int  # noqa: N815 (Debezium's name)
    lsn: int
    ts_ms: int


class _Row(msgspec.Struct, gc=False):
    """A change of one row, the record that comes by the million."""

    op: str
    source: _RowSource
    before: msgspec.Raw = NOTHING
    after: msgspec.Raw = NOTHING


_NO_SOURCE = _RowSource("", "", "", "", -1, 0, 0)
_decode_row = msgspec.json.Decoder(_Row).decode


def _position_of(transaction: str) -> PostgresPosition | None:
    match = _TRANSACTION.fullmatch(transaction)
    return PostgresPosition(int(match[2]), int(match[1])) if match else None


class WalDecoder:
    """Records of Debezium's PostgreSQL connector 3.7.0.Final, JSON converter without schemas.

    A row may lack large values that its update left as they were; after a change of key a header holds the old one.
    """

    def __init__(self, source_name: str, database: str, places: TablePlaces) -> None:
        self._source_name = source_name
        self._database = database
        self._places = places
        self._xid = -1
        self._transaction_id = ""
        self._position = PostgresPosition(0)

    def decode(self, messages: Iterable[Message], into: list[LogRecord]) -> None:
        offset, value = 0, b""
        # Of the last row, and what the sync calls its table.
        last, table = _NO_SOURCE, ""
        # The rows that the next one follows, if it is of their transaction.
        rows: list[RowChange] | None = None
        try:
            for message in messages:
                offset, value = message.offset() or 0, message.value() or b""
                # A slice costs a third of `startswith`, and this loop runs once per record.
                if value[2:8] != b"before":
                    rows = None
                    into.append(self._other(offset, value))
                    continue
                row = _decode_row(value)
                source, op = row.source, row.op
                if (
                    source.table != last.table
                    or source.schema != last.schema
                    or source.name != last.name
                    or source.db != last.db
                ):
                    last, table = source, self._table(offset, source)
                if source.txId != self._xid:
                    rows = None
                    self._enter(source)
                if op not in OF_ROWS:
                    rows = None
                    into.append(self._no_row(offset, op, source, table))
                    continue
                before = None if row.before == NOTHING else bytes(row.before)
                after = None if row.after == NOTHING else bytes(row.after)
                is_partial = after is not None and may_lack_values(after)
                old_key = _old_key(message) if is_partial else None
                if rows is None:
                    rows = []
                    into.append(LogRecord(offset, RecordKind.ROWS, self._transaction_id, self._position, rows))
                rows.append(new_row((offset, table, op, message.key(), before, after, is_partial, old_key)))
        except (msgspec.DecodeError, UnicodeDecodeError) as exc:
            raise LogCorrupted(
                f"offset {offset}: not a record of Debezium's PostgreSQL connector ({exc}): {value[:120]!r}",
                hint=RECAPTURE,
            ) from exc

    def _table(self, offset: int, source: _RowSource) -> str:
        if source.name != self._source_name or source.db != self._database:
            raise self._foreign(offset, source.name, source.db)
        return self._places.name(source.schema, source.table)

    def _enter(self, source: _RowSource) -> None:
        """A row's own LSN is no order between transactions: only its transaction places it."""
        self._position = PostgresPosition(source.lsn, source.txId)
        self._transaction_id = str(source.txId)
        self._xid = source.txId

    def _other(self, offset: int, value: bytes) -> LogRecord:
        require_value(offset, value)
        record = decode_record(value)
        if record.status:
            return bracket(offset, record, record.id.partition(":")[0], _position_of, self._plain)
        if record.source is None:
            if record.op or record.ddl is not None or not record.ts_ms:
                raise unknown_record(offset, value)
            return LogRecord(offset, RecordKind.HEARTBEAT, ts_ms=record.ts_ms)
        if record.source.name != self._source_name or record.source.db != self._database:
            raise self._foreign(offset, record.source.name, record.source.db or "")
        if record.op == "m":
            return LogRecord(offset, RecordKind.ROWS, rows=(RowChange(offset, _MESSAGES, "m"),))
        raise unknown_record(offset, value)

    def _no_row(self, offset: int, op: str, source: _RowSource, table: str) -> LogRecord:
        """A TRUNCATE looks like a row but for its `op`; there is nothing else."""
        if op != "t":
            raise LogCorrupted(f"offset {offset}: a change of kind {op!r} in table {table}", hint=RECAPTURE)
        return LogRecord(
            offset,
            RecordKind.TRUNCATE,
            self._transaction_id,
            self._position,
            table=table,
            # END counts it among the rows.
            total=1,
            tables=(table,),
            ts_ms=source.ts_ms,
        )

    def _plain(self, offset: int, collection: str) -> str:
        schema, is_place, table = collection.partition(SEPARATOR)
        if is_place and "@" not in schema:
            return self._places.name(schema, table)
        if "@" in collection:
            return collection
        raise self._foreign(offset, self._source_name, collection)

    def _foreign(self, offset: int, name: str, place: str) -> LogCorrupted:
        return foreign(
            offset,
            found=f"source {name!r}, {place!r}",
            expected=f"{self._source_name!r}, {self._database!r}",
        )


def _old_key(message: Message) -> bytes | None:
    """The key that the row had before its key was changed."""
    headers: dict[str, bytes | None] = dict(message.headers() or ())
    return headers.get(_OLD_KEY)
