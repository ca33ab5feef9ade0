"""What a message says: rows as images, which are JSON objects of plain texts with every column of the table. Pure."""

import json
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from seamline.domain.catalogue import Column
from seamline.domain.exact_json import parsed
from seamline.sources.kafka.layout import TopicTable
from seamline.sources.kafka.texts import text_of

Fields = Mapping[str, Any]
JSON_ALONE = "topics are read as JSON alone: a topic of Avro or Protobuf needs a copy that is JSON"
# How a message of Avro or Protobuf begins, whose schema lies in a registry.
OF_REGISTRY = "\0"
# What Debezium writes in the place of a value that PostgreSQL's log does not have, also as bytes.
_LEFT_OUT = "__debezium_unavailable_value"
STAND_INS = (_LEFT_OUT, b64encode(_LEFT_OUT.encode()).decode())
# A row that comes, changes or goes; a table that is emptied; a statement that alters a table.
COMES, CHANGES, GOES, EMPTIES, ALTERS = "c", "u", "d", "t", "ddl"


@dataclass(frozen=True, slots=True)
class Given:
    """A message as the log has it. `ts_ms`: Kafka's timestamp, milliseconds since the epoch."""

    topic: str
    partition: int
    offset: int
    key: str | None
    value: str | None
    ts_ms: int = 0
    headers: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def place(self) -> str:
        return f"topic {self.topic}, partition {self.partition}, offset {self.offset}"


class Said(NamedTuple):
    """One thing that a message says. The images are there as `domain.log.RowChange` wants them; `key` is None of a
    table without one."""

    op: str
    table: str
    key: bytes | None = None
    before: bytes | None = None
    after: bytes | None = None
    statement: str = ""


class OtherKey(ValueError):
    """The message's key is not its row's. It is about values that may be sensitive: nothing of the message is shown."""


def stands(table: TopicTable, row: Fields, forms: Mapping[str, str]) -> Said:
    """The row is so from now on; of a table without a key there is one more."""
    texts = _texts(table, row, forms)
    key = _key(table, texts)
    return Said(COMES if key is None else CHANGES, table.definition.name, key, None, _image(texts))


def changed(table: TopicTable, before: Fields, after: Fields, forms: Mapping[str, str]) -> list[Said]:
    """The row was so and is so from now on. One that changes its key goes and comes. With a key, `before` needs no more
    than that."""
    if not table.definition.is_keyed:
        was, now = (_image(_texts(table, row, forms)) for row in (before, after))
        return [Said(CHANGES, table.definition.name, None, was, now)]
    stays, went = stands(table, after, forms), gone_by_key(table, before, forms)
    return [stays] if went.key == stays.key else [went, stays]


def gone(table: TopicTable, row: Fields, forms: Mapping[str, str]) -> Said:
    texts = _texts(table, row, forms)
    return Said(GOES, table.definition.name, _key(table, texts), _image(texts), None)


def gone_by_key(table: TopicTable, key: Fields, forms: Mapping[str, str]) -> Said:
    """The row of this key goes. `key` has the columns of the key, and may have others."""
    if not table.definition.is_keyed:
        raise ValueError(f"a row of {table.definition.name} goes, which has no key to know it by")
    texts: dict[str, str | None] = {column.name: None for column in table.definition.columns}
    texts.update(_key_texts(table, key, forms))
    return Said(GOES, table.definition.name, _key(table, texts), _image(texts), None)


def key_image(table: TopicTable, key: Fields, forms: Mapping[str, str]) -> bytes:
    """As `Said.key` has it. `key` may have more than the columns of the key. ValueError: it is no key of the table."""
    return _image(_key_texts(table, key, forms))


def refuse_left_out(table: TopicTable, row: Fields) -> None:
    """ValueError: Debezium did not know all of the values of its columns."""
    if left_out := sorted(one.name for one in table.definition.columns if row.get(one.name) in STAND_INS):
        raise ValueError(
            f"its writer left the value of {', '.join(left_out)} out: PostgreSQL's log has it with REPLICA IDENTITY"
            " FULL"
        )


def object_in(text: str | None, what: str) -> Fields:
    """ValueError: it is no JSON. TypeError: it is no object."""
    if text is not None and text.startswith(OF_REGISTRY):
        raise ValueError(f"its {what} begins as one of a schema registry; {JSON_ALONE}")
    found = None if text is None else parsed(text)
    if not isinstance(found, dict):
        raise TypeError(f"its {what} is no JSON object")
    return found


def required(document: Fields, name: str, kind: type | tuple[type, ...]) -> Any:
    """ValueError: the field is not there. TypeError: it is another thing."""
    if name not in document:
        raise ValueError(f"it has no field `{name}`")
    if not isinstance(document[name], kind):
        raise TypeError(f"its field `{name}` is {json.dumps(document[name], default=str)[:80]}")
    return document[name]


def refuse_others(document: Fields, known: frozenset[str]) -> None:
    if others := sorted(document.keys() - known):
        raise ValueError(f"it has fields that this format does not: {', '.join(others)}")


def _texts(table: TopicTable, row: Fields, forms: Mapping[str, str]) -> dict[str, str | None]:
    if not row.keys() <= table.known:
        unknown = sorted(row.keys() - table.known)
        raise ValueError(f"table {table.definition.name} has no column {', '.join(unknown)}")
    found: dict[str, str | None] = {}
    for column in table.definition.columns:
        if column.name not in row and not table.is_absent_null:
            raise ValueError(f"a row of {table.definition.name} has no field {column.name}")
        found[column.name] = _text(column, row.get(column.name), forms)
    return found


def _text(column: Column, value: Any, forms: Mapping[str, str]) -> str | None:
    try:
        return text_of(column, value, forms.get(column.name, ""))
    except (ValueError, TypeError, ArithmeticError) as exc:
        raise ValueError(f"column {column.name} {exc}") from exc


def _key_texts(table: TopicTable, key: Fields, forms: Mapping[str, str]) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for column in table.definition.key_columns:
        if column.name not in key:
            raise ValueError(f"its key has no field {column.name}")
        found[column.name] = _text(column, key[column.name], forms)
    return found


def _key(table: TopicTable, texts: Mapping[str, str | None]) -> bytes | None:
    if not table.definition.is_keyed:
        return None
    return _image({name: texts[name] for name in table.definition.key})


def _image(texts: Mapping[str, str | None]) -> bytes:
    return orjson.dumps(texts)
