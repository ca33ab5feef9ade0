"""The log topic of such a source: BEGIN, the messages of one read as they are, END (connect/kafka, ADR 90)."""

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from seamline.adapters.debezium.envelope import RECAPTURE, Message
from seamline.domain.errors import LogCorrupted
from seamline.domain.log import LogRecord, PrecedingTransaction, RecordKind, RowChange
from seamline.sources.kafka.layout import Layout
from seamline.sources.kafka.messages import Messages
from seamline.sources.kafka.position import KafkaPosition
from seamline.sources.kafka.rows import ALTERS, EMPTIES, JSON_ALONE, Given, Said


class Record(msgspec.Struct, gc=False):
    """A bracket where `bracket` says so, with the places after the last transaction and after this one; else a message.
    What is no text has `_base64` behind its name.
    """

    bracket: str = ""
    id: str = ""
    before: dict[str, str] = {}
    after: dict[str, str] = {}
    messages: dict[str, int] = {}
    topic: str = ""
    partition: int = 0
    offset: int = 0
    ts_ms: int = 0
    key: str | None = None
    value: str | None = None
    key_base64: str | None = None
    value_base64: str | None = None
    headers: dict[str, str | None] = {}


read_record = msgspec.json.Decoder(Record).decode


class KafkaLogDecoder:
    """`adapters.debezium.envelope.Decoder`. Counts rows itself: END counts messages. `layout`: of its sync's tables.
    Other syncs of the source share the log, with topics that this one may not even know: they are counted, not read."""

    def __init__(self, layout: Layout, source: str) -> None:
        self._layout = layout
        self._messages = Messages(layout, source)
        self._id = ""
        self._position: KafkaPosition | None = None
        self._rows = Counter[str]()
        self._counts = Counter[str]()

    def decode(self, messages: Iterable[Message], into: list[LogRecord]) -> None:
        for message in messages:
            offset, value = message.offset() or 0, message.value() or b""
            try:
                record = read_record(value)
            except msgspec.DecodeError as exc:
                raise _unknown(offset, value) from exc
            if record.bracket:
                into.append(self._bracket(offset, record, value))
            elif record.topic:
                for one in self._message(offset, record):
                    _add(one, into)
            else:
                raise _unknown(offset, value)

    def _bracket(self, offset: int, record: Record, value: bytes) -> LogRecord:
        try:
            position, before = KafkaPosition.of_texts(record.after), KafkaPosition.of_texts(record.before)
        except ValueError as exc:
            raise _unknown(offset, value) from exc
        if record.bracket == "BEGIN":
            self._id, self._position = record.id, position
            self._rows, self._counts = Counter(), Counter()
            return LogRecord(
                offset, RecordKind.BEGIN, record.id, position, ts_ms=record.ts_ms, is_whole=True,
                follows=PrecedingTransaction(before, has_end=True),
            )  # fmt: skip
        if record.bracket != "END":
            raise _unknown(offset, value)
        if record.id == self._id and record.messages != dict(self._counts):
            raise LogCorrupted(
                f"offset {offset}: END of {record.id} counts {record.messages}, and there are {dict(self._counts)}",
                hint=RECAPTURE,
            )
        counts = dict(self._rows)
        return LogRecord(
            offset, RecordKind.END, record.id, position, total=sum(counts.values()), counts=counts, ts_ms=record.ts_ms
        )

    def _message(self, offset: int, record: Record) -> Sequence[LogRecord]:
        self._counts[record.topic] += 1
        if record.topic == self._layout.markers:
            row = RowChange(offset, self._layout.marker_table, "c", None, None, (record.value or "").encode())
            self._rows[row.table] += 1
            return [LogRecord(offset, RecordKind.ROWS, self._id, self._position, [row])]
        if not self._messages.reads(record.topic):
            return []
        place = self._position.topics.get(record.topic) if self._position else None
        found = self._messages.said(given_of(record), partitions=len(place.ends) if place else 1)
        return [self._record(offset, record, one) for one in found]

    def _record(self, offset: int, record: Record, one: Said) -> LogRecord:
        if one.op == ALTERS:
            return LogRecord(
                offset, RecordKind.DDL, self._id, self._position, table=one.table, tables=(one.table,),
                statement=one.statement, ts_ms=record.ts_ms,
            )  # fmt: skip
        self._rows[one.table] += 1
        if one.op == EMPTIES:
            return LogRecord(
                offset, RecordKind.TRUNCATE, self._id, self._position, table=one.table, tables=(one.table,), total=1,
                ts_ms=record.ts_ms,
            )  # fmt: skip
        row = RowChange(offset, one.table, one.op, one.key, one.before, one.after)
        return LogRecord(offset, RecordKind.ROWS, self._id, self._position, [row])


def _add(record: LogRecord, into: list[LogRecord]) -> None:
    """Rows of one transaction that follow each other are one record."""
    last = into[-1] if into and into[-1].kind is record.kind is RecordKind.ROWS else None
    if last is not None and last.transaction_id == record.transaction_id and isinstance(last.rows, list):
        last.rows += record.rows
    else:
        into.append(record)


def given_of(record: Record) -> Given:
    """LogCorrupted: the message is no text."""
    given = Given(record.topic, record.partition, record.offset, record.key, record.value, record.ts_ms, record.headers)
    if record.value_base64 is not None or record.key_base64 is not None:
        what = "value" if record.value_base64 is not None else "key"
        raise LogCorrupted(
            f"a message cannot be taken: {given.place}: its {what} is no text of UTF-8",
            hint=JSON_ALONE,
        )
    return given


def _unknown(offset: int, value: bytes) -> LogCorrupted:
    return LogCorrupted(f"offset {offset}: not a record of the capture: {value[:120]!r}", hint=RECAPTURE)
