"""What the schema of a message of Debezium's says of a table: the columns of a declaration, and how it has changed."""

import json
from typing import Any, NamedTuple

import pytest
import yaml

from seamline.domain.errors import LogCorrupted
from seamline.sources.kafka import draft
from seamline.sources.kafka.draft import FoundTopic, declared_text, found_in, read
from seamline.sources.kafka.layout import layout_of
from seamline.sources.kafka.messages import Messages
from seamline.sources.kafka.rows import Given
from tests.integration.captured_topics import ACCOUNT, envelope, key
from tests.unit.test_kafka_source import declared

ROW = (1, 1007, 20_000, "户名")


def changed(fields: list[dict[str, Any]], value: dict[str, Any]) -> str:
    """The message whose schema has these fields too, in place of those of the same name."""
    document = json.loads(envelope("c", None, ROW))
    names = {one["field"] for one in fields}
    for image in document["schema"]["fields"]:
        image["fields"] = [one for one in image["fields"] if one["field"] not in names] + fields
    document["payload"]["after"] |= value
    return json.dumps(document)


def said(value: str) -> None:
    Messages(layout_of(declared(ACCOUNT)), "others").said(Given(str(ACCOUNT["topic"]), 0, 7, None, value), partitions=1)


def test_a_message_with_its_schema_becomes_a_declaration_by_which_it_is_read() -> None:
    found = found_in("bank.public.account", key(1), envelope("c", None, ROW), "partition 0, offset 7")
    assert found is not None
    source = yaml.safe_load(declared_text("queue", "their_kafka", [found]))
    (table,) = source["tables"]
    assert {name: table[name] for name in ("table", "topic", "format", "key")} == {
        "table": "account", "topic": "bank.public.account", "format": "debezium", "key": ["id"]
    }  # fmt: skip
    assert [(one["name"], one["type"]) for one in table["columns"]] == [
        ("id", "bigint"), ("balance", "decimal(18,2)"), ("opened", "date"), ("memo", "text")
    ]  # fmt: skip
    plan = declared({**table, "topic": ACCOUNT["topic"]})
    given = Given(str(ACCOUNT["topic"]), 0, 7, key(1).decode(), envelope("c", None, ROW).decode())
    (one,) = Messages(layout_of(plan), "queue").said(given, partitions=1)
    assert json.loads(one.after or b"") == {"id": "1", "balance": "10.07", "opened": "2024-10-04", "memo": "户名"}


class Heard(NamedTuple):
    """A message as a consumer gives it."""

    key_bytes: bytes | None
    value_bytes: bytes | None

    def key(self) -> bytes | None:
        return self.key_bytes

    def value(self) -> bytes | None:
        return self.value_bytes

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return 7


WRITTEN, EMPTIED = Heard(key(1), envelope("c", None, ROW)), Heard(None, envelope("t", None, None))


def test_a_table_that_was_emptied_last_has_the_key_of_its_rows() -> None:
    """It was declared without one, and kept as a multiset."""
    found = read("bank.public.account", [EMPTIED, WRITTEN])  # type: ignore[list-item]
    assert isinstance(found, FoundTopic) and found.key == ("id",)
    gone = read("bank.public.account", [Heard(key(1), None), EMPTIED])  # type: ignore[list-item]
    assert isinstance(gone, FoundTopic) and gone.key == ("id",)
    without = read("bank.public.account", [EMPTIED, Heard(None, WRITTEN.value_bytes), WRITTEN])  # type: ignore[list-item]
    assert isinstance(without, FoundTopic) and without.key == ()
    assert read("bank.public.account", [EMPTIED]) == (  # type: ignore[list-item]
        "its newest messages are of TRUNCATE alone, so its key is not known"
    )


OF_ROUTER = Heard(
    json.dumps({"payload": {"id": 1, "__dbz__physicalTableIdentifier": "a"}}).encode(), WRITTEN.value_bytes
)
DOTTED = Heard(key(1), changed([{"type": "string", "field": "a.b"}], {"a.b": None}).encode())


@pytest.mark.parametrize(
    ("topic", "message", "why"),
    [
        ("bank.account", OF_ROUTER, "its key has __dbz__physicalTableIdentifier, which is no column of its rows"),
        (f"bank.{'a' * 65}", WRITTEN, f"`{'a' * 65}` is no name of a table"),
        ("bank.", WRITTEN, "`` is no name of a table"),
        ("bank.account", DOTTED, "`a.b` is no name of a column"),
    ],
)
def test_a_topic_that_no_right_file_declares_is_left_out_by_name_and_the_others_stay(
    topic: str, message: Heard, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One such column of a key ended `init` for all topics."""
    of_topics = {topic: [message], "bank.client": [WRITTEN]}
    monkeypatch.setattr(draft, "client_settings", lambda _: {})
    monkeypatch.setattr(draft, "resolve", lambda _: None)
    monkeypatch.setattr(draft, "_topics", lambda _: list(of_topics))
    monkeypatch.setattr(draft, "_newest", lambda _, one: of_topics[one])
    notes: list[str] = []
    source = yaml.safe_load(draft.drafted("queue", "theirs", patterns="*", namespace="", note=notes.append))
    assert [one["topic"] for one in source["tables"]] == ["bank.client"]
    assert notes == [f"topic {topic} is left out: {why}"]


def test_a_name_that_is_put_together_and_too_long_is_left_out_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    long = f"{'a' * 60}.account"
    monkeypatch.setattr(draft, "client_settings", lambda _: {})
    monkeypatch.setattr(draft, "resolve", lambda _: None)
    monkeypatch.setattr(draft, "_topics", lambda _: [long, "c.account"])
    monkeypatch.setattr(draft, "_newest", lambda *_: [WRITTEN])
    notes: list[str] = []
    source = yaml.safe_load(draft.drafted("queue", "theirs", patterns="*", namespace="", note=notes.append))
    assert [one["topic"] for one in source["tables"]] == ["c.account"]
    (note,) = notes
    assert note.startswith(f"topic {long} is left out: ") and "is no name of a table" in note


def test_tables_of_two_topics_with_one_name_are_named_apart() -> None:
    both = [found_in(f"{name}.account", key(1), envelope("c", None, ROW), "offset 7") for name in ("a.b", "c")]
    source = yaml.safe_load(declared_text("queue", "their_kafka", [one for one in both if one is not None]))
    assert [one["table"] for one in source["tables"]] == ["a_b_account", "c_account"]


def test_a_column_that_no_declared_type_holds_is_named_and_other_messages_are_not_taken_for_debeziums() -> None:
    point = {"field": "at", "type": "struct", "name": "io.debezium.data.geometry.Point"}
    with pytest.raises(ValueError, match=r"column at is of type struct \(io\.debezium\.data\.geometry\.Point\)"):
        found_in("t", None, changed([point], {"at": None}).encode(), "offset 7")
    for value in (b'{"id":1}', b"\0\0\0\0\1", b'{"before":null,"after":{"id":1},"op":"c","source":{}}'):
        assert found_in("t", None, value, "offset 7") is None


@pytest.mark.parametrize(
    ("fields", "value", "why"),
    [
        ([{"type": "string", "field": "by"}], {"by": None}, "it has column by"),
        (
            [
                {
                    "type": "bytes",
                    "name": "org.apache.kafka.connect.data.Decimal",
                    "parameters": {"scale": "4"},
                    "field": "balance",
                }
            ],
            {},
            "column balance has 4 decimals, declared 2",
        ),
        ([{"type": "string", "field": "id"}], {"id": "a1"}, "column id is bigint and holds"),
    ],
)
def test_a_schema_that_was_changed_stops_the_stream_at_the_first_message_that_has_it(
    fields: list[dict[str, Any]], value: dict[str, Any], why: str
) -> None:
    said(changed([], {}))
    with pytest.raises(LogCorrupted, match=why):
        said(changed(fields, value))


def test_a_schema_that_has_lost_a_column_stops_the_stream_by_its_name() -> None:
    document = json.loads(envelope("c", None, ROW))
    for image in document["schema"]["fields"]:
        image["fields"] = [one for one in image["fields"] if one["field"] != "memo"]
    del document["payload"]["after"]["memo"]
    with pytest.raises(
        LogCorrupted, match="its schema is not the declared one of table account: it has no column memo"
    ):
        said(json.dumps(document))


def test_a_message_of_avro_is_refused_by_name() -> None:
    with pytest.raises(LogCorrupted, match=r"begins as one of a schema registry; .*Avro or Protobuf needs a copy"):
        said("\0\0\0\0\1\2anna")
