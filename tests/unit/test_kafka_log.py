"""The log topic of a source of topics: what its records are to a stream, and what stops it."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from seamline.domain.cutover import Boundary, BoundaryGate
from seamline.domain.errors import LogCorrupted
from seamline.domain.log import LogRecord, RecordKind
from seamline.sources.kafka.images import DECODER
from seamline.sources.kafka.layout import layout_of
from seamline.sources.kafka.log import KafkaLogDecoder
from seamline.sync.compaction import compact
from seamline.sync.transactions import TransactionAssembler
from seamline.values.changes import change_batch
from tests.unit.test_kafka_source import NOTE, PRODUCTS, RATE, E, canal, declared, maxwell, place


class LogMessage:
    def __init__(self, offset: int, value: Mapping[str, Any]) -> None:
        self._offset, self._value = offset, json.dumps(value).encode()

    def offset(self) -> int:
        return self._offset

    def key(self) -> None:
        return None

    def value(self) -> bytes:
        return self._value

    def headers(self) -> None:
        return None


def logged(messages: Sequence[Mapping[str, Any]], counts: Mapping[str, int] | None = None) -> list[LogMessage]:
    places = {"rate": "idR:2,0", "seamline.others.markers": "idM:1"}
    found: dict[str, int] = {}
    for one in messages:
        found[one["topic"]] = found.get(one["topic"], 0) + 1
    begin = {"bracket": "BEGIN", "id": "rate/0/0", "before": {"rate": "idR:0,0"}, "after": places, "ts_ms": 5}
    end = {**begin, "bracket": "END", "messages": counts or found}
    return [LogMessage(number, one) for number, one in enumerate([begin, *messages, end])]


def message(topic: str, value: str, **more: Any) -> dict[str, Any]:
    return {"topic": topic, "partition": 0, "offset": 3, "ts_ms": 5, "key": None, "value": value, **more}


def decoded(messages: Sequence[LogMessage]) -> list[LogRecord]:
    found: list[LogRecord] = []
    KafkaLogDecoder(layout_of(declared(RATE)), "others").decode(messages, found)
    return found


def test_one_read_of_all_topics_is_one_transaction_with_its_markers() -> None:
    rows = [message("rate", f'{{"currency":"EUR","rate":{number}}}') for number in range(2)]
    marker = message("seamline.others.markers", '{"id":"m1","kind":"barrier","payload":"{}","at":1}')
    records = decoded(logged([*rows, marker]))
    assert [one.kind for one in records] == [RecordKind.BEGIN, RecordKind.ROWS, RecordKind.END]
    made = TransactionAssembler(("rate",), marker_table="seamline_marker")
    (transaction,) = made.feed(records)
    assert made.trouble is None
    assert len(transaction.rows) == 2 and len(transaction.markers) == 1
    assert transaction.follows is not None and str(transaction.follows) == "offsets rate 0,0"
    assert str(transaction.position) == "offsets rate 2,0; seamline.others.markers 1"
    assert (transaction.start, transaction.end, transaction.committed_ms) == (0, 5, 5)


def test_what_the_log_holds_of_other_syncs_is_counted_and_not_read() -> None:
    """Of a topic that was declared later the plan of this sync knows nothing."""
    layout = layout_of(declared(RATE, NOTE, E, {**E, "table": "f", "named": "test.f"}))
    wrong = maxwell("insert", table="f", data={"id": "no number"})
    others = [
        message("declared-later", "Obj"),
        message("note", "", value_base64="AP8="),
        message("maxwell", json.dumps(wrong)),
    ]
    mine = [message("rate", '{"currency":"EUR","rate":1}'), message("maxwell", json.dumps(maxwell("insert")))]
    found: list[LogRecord] = []
    KafkaLogDecoder(layout.of_sync({"rate", "e"}), "others").decode(logged([*others, *mine]), found)
    (transaction,) = TransactionAssembler(("rate", "e"), marker_table="seamline_marker").feed(found)
    assert [row.table for row in transaction.rows] == ["rate", "e"]
    for table, topic in (("note", "note"), ("f", "maxwell")):
        with pytest.raises(LogCorrupted, match=f"topic {topic}, partition 0, offset 3"):
            KafkaLogDecoder(layout.of_sync({table}), "others").decode(logged(others), [])


def test_an_end_that_counts_other_messages_than_came_stops_the_stream() -> None:
    rows = [message("rate", '{"currency":"EUR","rate":1}')]
    with pytest.raises(LogCorrupted, match="END of rate/0/0 counts"):
        decoded(logged(rows, {"rate": 2}))


def test_a_message_that_is_no_text_is_refused_by_its_place() -> None:
    with pytest.raises(LogCorrupted, match="topic rate, partition 0, offset 3: its value is no text"):
        decoded(logged([message("rate", "", value_base64="AP8=")]))


def test_a_change_of_a_topic_expects_nothing_of_what_was_there_before() -> None:
    rows = [message("rate", '{"currency":"EUR","rate":1}'), message("rate", '{"currency":"USD","rate":2}')]
    definition = layout_of(declared(RATE)).tables[0].definition
    transactions = TransactionAssembler(("rate",), marker_table="seamline_marker").feed(decoded(logged(rows)))
    found = compact(transactions, tables={"rate": definition}, gate=BoundaryGate({"rate": Boundary("rate", place())}))
    batch = change_batch(definition, found["rate"], DECODER)
    assert batch.met is not None and batch.met.null_count == 2
    assert batch.rows.column("rate").to_pylist() == [1, 2]


def test_a_statement_and_an_emptied_table_come_through_the_log_in_their_place() -> None:
    rows = [{"id": str(number), "weight": "1"} for number in range(2)]
    emptied = canal("TRUNCATE", None, isDdl=True, sql="TRUNCATE TABLE products")
    altered = canal("ALTER", None, isDdl=True, sql="ALTER TABLE products ADD a int")
    taken = [message("canal", json.dumps(one)) for one in (canal("INSERT", rows), emptied, canal("INSERT", rows[:1]))]
    for last, statement in ((canal("DELETE", rows[:1]), None), (altered, altered["sql"])):
        found: list[LogRecord] = []
        decoder = KafkaLogDecoder(layout_of(declared(PRODUCTS)), "others")
        decoder.decode(logged([*taken, message("canal", json.dumps(last))]), found)
        assembler = TransactionAssembler(("products",), marker_table="seamline_marker")
        (transaction,) = assembler.feed(found)
        assert assembler.trouble is None
        assert transaction.truncated == ("products",)
        assert [row.op for row in transaction.rows] == (["u", "d"] if statement is None else ["u"])
        assert (transaction.ddl.statement if transaction.ddl else None) == statement
