"""Records of Debezium's PostgreSQL connector → LogRecord. The hot path of every stream from a WAL."""

import re

import msgspec

from seamline.adapters.debezium.envelope import (
    NOTHING,
    RECAPTURE,
    bracket,
    decode_record,
    foreign,
    unknown_shape,
)
from seamline.domain.errors import LogCorrupted
from seamline.domain.left_out import may_lack_values
from seamline.domain.log import LogRecord, RecordKind
from seamline.domain.position import PostgresPosition

# `<xid>:<lsn>`; END's LSN is the end of the commit record.
_TRANSACTION = re.compile(r"(\d+):(\d+)")
# Messages (pg_logical_emit_message) are counted by END under a name that says nothing and holds an @.
_MESSAGES = "@messages"
_ROW = RecordKind.ROW
_NULL = b"null"


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


_decode_row = msgspec.json.Decoder(_Row).decode


def _position_of(transaction: str) -> PostgresPosition | None:
    match = _TRANSACTION.fullmatch(transaction)
    return PostgresPosition(int(match[2]), int(match[1])) if match else None


class WalDecoder:
    """Records of Debezium's PostgreSQL connector 3.7.0.Final, JSON converter without schemas.

    One decoder belongs to one reader: it remembers the transaction it is in.
    """

    def __init__(self, source_name: str, database: str, schema: str) -> None:
        self._source_name = source_name
        self._database = database
        self._schema = schema
        self._prefix = f"{schema}."
        self._xid = -1
        self._unit_id = ""
        self._position = PostgresPosition(0)

    def decode(self, offset: int, key: bytes | None, value: bytes | None) -> LogRecord:
        """As `Decoder` says."""
        if value is None:
            raise LogCorrupted(f"offset {offset}: a record without value", hint=RECAPTURE)
        try:
            # A slice costs a third of `startswith`, and this line runs once per record.
            if value[2:8] == b"before":
                return self._row(offset, key, value)
            return self._other(offset, value)
        except (msgspec.DecodeError, UnicodeDecodeError) as exc:
            raise LogCorrupted(
                f"offset {offset}: not a record of Debezium's PostgreSQL connector ({exc}): {value[:120]!r}",
                hint=RECAPTURE,
            ) from exc

    def _row(self, offset: int, key: bytes | None, value: bytes) -> LogRecord:
        row = _decode_row(value)
        source = row.source
        op = row.op
        if source.name != self._source_name or source.db != self._database or source.schema != self._schema:
            raise self._foreign(offset, source.name, f"{source.db}.{source.schema}")
        if source.txId != self._xid:
            # A row's own LSN is no order between transactions: only its transaction places it.
            self._position = PostgresPosition(source.lsn, source.txId)
            self._unit_id = str(source.txId)
            self._xid = source.txId
        if op == "t":
            return self._truncate(offset, source)
        if op not in ("c", "u", "d"):
            raise LogCorrupted(f"offset {offset}: a change of kind {op!r} in table {source.table}", hint=RECAPTURE)
        before, after = bytes(row.before), bytes(row.after)
        # Positional, in the field order of LogRecord: keywords cost another quarter of a microsecond.
        return LogRecord(
            offset,
            _ROW,
            self._unit_id,
            source.table,
            op,
            key,
            None if before == _NULL else before,
            None if after == _NULL else after,
            self._position,
            may_lack_values(after),
        )

    def _other(self, offset: int, value: bytes) -> LogRecord:
        record = decode_record(value)
        if record.status:
            return bracket(offset, record, record.id.partition(":")[0], _position_of, self._plain)
        if record.source is None:
            if record.op or record.ddl is not None or not record.ts_ms:
                raise unknown_shape(offset, value)
            return LogRecord(offset, RecordKind.HEARTBEAT, ts_ms=record.ts_ms)
        if record.source.name != self._source_name or record.source.db != self._database:
            raise self._foreign(offset, record.source.name, record.source.db or "")
        if record.op == "m":
            return LogRecord(offset, _ROW, table=_MESSAGES, op="m", ts_ms=record.ts_ms)
        raise unknown_shape(offset, value)

    def _truncate(self, offset: int, source: _RowSource) -> LogRecord:
        return LogRecord(
            offset,
            RecordKind.TRUNCATE,
            self._unit_id,
            source.table,
            "t",
            position=self._position,
            # END counts it among the rows.
            total=1,
            tables=(source.table,),
            ts_ms=source.ts_ms,
        )

    def _plain(self, offset: int, collection: str) -> str:
        if collection.startswith(self._prefix):
            return collection[len(self._prefix) :]
        if "@" in collection:
            return collection
        raise self._foreign(offset, self._source_name, collection)

    def _foreign(self, offset: int, name: str, place: str) -> LogCorrupted:
        return foreign(
            offset,
            found=f"source {name!r}, {place!r}",
            expected=f"{self._source_name!r}, {self._database}.{self._schema}",
        )
