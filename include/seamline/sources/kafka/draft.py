"""A declaration of topics of Debezium's, by the schemas that their newest messages hold. Nothing is changed there."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from confluent_kafka import KafkaException, Message

from seamline.adapters.connections import resolve
from seamline.adapters.kafka.client import REQUEST_TIMEOUT_S, admin_client, client_settings, translated
from seamline.adapters.kafka.topics import CaptureTopics
from seamline.domain.errors import ConfigError
from seamline.domain.exact_json import parsed
from seamline.sources.kafka.layout import DEBEZIUM
from seamline.sources.kafka.newest import newest
from seamline.sources.kafka.rows import OF_REGISTRY
from seamline.sources.kafka.schemas import SaidColumn, columns_in, fields_of
from seamline.spec.fields import is_sql_name
from seamline.spec.written import text

_SHOWN_MAX = 5
Note = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class FoundTopic:
    """`place`: of the message whose schema it is, for people."""

    topic: str
    table: str
    columns: tuple[SaidColumn, ...]
    key: tuple[str, ...]
    place: str


def drafted(source: str, connection: str, *, patterns: str, namespace: str, note: Note) -> str:
    """The text of the source's file. `patterns`: of topics or tables, which commas divide; `namespace`: what the names
    of topics begin with, before the table's, "" for any. ConfigError: no topic matches, or none holds schemas."""
    settings = client_settings(resolve(connection))
    wanted = [one.strip() for one in patterns.split(",") if one.strip()]
    topics = [one for one in _topics(settings) if _is_wanted(one, wanted, namespace)]
    of_topics = {topic: _found(settings, topic, note) for topic in topics}
    found = _named([one for one in of_topics.values() if isinstance(one, FoundTopic)], note)
    if without := [topic for topic, one in of_topics.items() if one is None]:
        more = f" and {len(without) - _SHOWN_MAX} more" if len(without) > _SHOWN_MAX else ""
        shown = ", ".join(without[:_SHOWN_MAX])
        note(f"left out, as their newest messages are none of Debezium with a schema: {shown}{more}")
    if not found:
        raise ConfigError(
            f"no topic of connection `{connection}` that matches `{patterns}` holds messages of Debezium with their"
            " schema",
            hint="declare its columns by hand: docs/reference/kafka-source.md",
        )
    return declared_text(source, connection, found)


def declared_text(source: str, connection: str, found: Sequence[FoundTopic]) -> str:
    """The text of a source's file."""
    return "\n".join([*_head(source, connection), *(line for one in _named_apart(found) for line in _lines(one)), ""])


def found_in(topic: str, key: bytes | None, value: bytes, place: str) -> FoundTopic | None:
    """None: the message is not one of Debezium's with its schema. ValueError: no column can hold what it says."""
    envelope = _document(value)
    if envelope is None or envelope.keys() != {"schema", "payload"} or not isinstance(envelope["schema"], dict):
        return None
    fields = fields_of(envelope["schema"], "after")
    return FoundTopic(topic, topic.rpartition(".")[2], columns_in(fields), _key(key), place) if fields else None


def _topics(settings: Mapping[str, Any]) -> Sequence[str]:
    """Without those of Kafka itself."""
    try:
        found = admin_client(settings).list_topics(timeout=REQUEST_TIMEOUT_S).topics
    except KafkaException as exc:
        raise translated(exc, doing="list topics", settings=settings) from exc
    return sorted(name for name in found if not name.startswith("__"))


def _is_wanted(topic: str, patterns: Sequence[str], namespace: str) -> bool:
    before, _, table = topic.rpartition(".")
    if namespace and before != namespace:
        return False
    return any(fnmatchcase(name, pattern) for name in (topic, table) for pattern in patterns)


def _found(settings: Mapping[str, Any], topic: str, note: Note) -> FoundTopic | str | None:
    """A text where it was said already why not; None where it holds nothing of Debezium's."""
    found = read(topic, _newest(settings, topic))
    if isinstance(found, str):
        note(f"topic {topic} is left out: {found}")
    return found


def read(topic: str, messages: Sequence[Message]) -> FoundTopic | str | None:
    """What some messages, the newest first, say of their topic's table. A text says why a person has to declare it;
    None: they are none of Debezium's with a schema."""
    is_of_registry = False
    for message in messages:
        value = message.value()
        if value is None:
            continue
        is_of_registry = is_of_registry or value.startswith(OF_REGISTRY.encode())
        place = f"partition {message.partition()}, offset {message.offset()}"
        try:
            found = found_in(topic, message.key(), value, place)
        except (ValueError, KeyError, TypeError) as exc:
            return f"{exc}, which a person has to declare"
        if found is not None:
            return _with_its_key(found, messages)
    return "its messages are no JSON but of a schema registry, as Avro or Protobuf" if is_of_registry else None


def _with_its_key(found: FoundTopic, messages: Sequence[Message]) -> FoundTopic | str:
    """That of the newest message about a row: one about a TRUNCATE has none, whatever the table's key is."""
    of_rows = [message.key() for message in messages if not _is_of_truncate(message.value())]
    if not of_rows:
        return "its newest messages are of TRUNCATE alone, so its key is not known"
    keyed = replace(found, key=_key(of_rows[0]))
    return _fault(keyed) or keyed


def _is_of_truncate(value: bytes | None) -> bool:
    payload = (_document(value) or {}).get("payload")
    return isinstance(payload, dict) and payload.get("op") == "t"


def _fault(found: FoundTopic) -> str:
    """Why a file that declares it would be wrong; "" where it would not."""
    if not is_sql_name(found.table):
        return f"`{found.table}` is no name of a table"
    names = [one.name for one in found.columns]
    if wrong := [name for name in names if not is_sql_name(name)]:
        return f"`{wrong[0]}` is no name of a column"
    if strange := [name for name in found.key if name not in names]:
        return f"its key has {', '.join(strange)}, which is no column of its rows"
    return ""


def _newest(settings: Mapping[str, Any], topic: str) -> Sequence[Message]:
    facts = CaptureTopics(dict(settings)).facts(topic)
    return newest(settings, topic, facts.partitions if facts else 0)


def _key(key: bytes | None) -> tuple[str, ...]:
    """The columns of the message's key, as Debezium takes them from the table's; none of a message without one."""
    document = _document(key)
    payload = document.get("payload", document) if document else None
    return tuple(payload) if isinstance(payload, dict) else ()


def _document(content: bytes | None) -> dict[str, Any] | None:
    try:
        found = None if content is None else parsed(content.decode())
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _named_apart(found: Sequence[FoundTopic]) -> Iterator[tuple[str, FoundTopic]]:
    """Each with a table's name; that of its whole topic where two would have one name."""
    names = [one.table for one in found]
    for one in found:
        yield (one.table if names.count(one.table) == 1 else one.topic.replace(".", "_").replace("-", "_")), one


def _named(found: Sequence[FoundTopic], note: Note) -> Sequence[FoundTopic]:
    """Without those whose name, put together from that of their topic, is none."""
    for name, one in _named_apart(found):
        if not is_sql_name(name):
            note(f"topic {one.topic} is left out: `{name}` is no name of a table, and another topic has `{one.table}`")
    return [one for name, one in _named_apart(found) if is_sql_name(name)]


def _head(source: str, connection: str) -> Iterator[str]:
    yield "# yaml-language-server: $schema=../../schemas/source.schema.json"
    yield "# Columns and keys are those of the schemas in the newest messages. One that comes later stops the stream."
    yield f"source: {source}"
    yield "kind: kafka"
    yield f"connection: {connection}  # who reads the topics"
    yield "log: {max_gb: 20, keep_days: 7}  # how much of our log is kept, and how long"
    yield "tables:"


def _lines(named: tuple[str, FoundTopic]) -> Iterator[str]:
    table, found = named
    yield f"  # {found.place}{'' if found.key else ': its key says no column, so rows are kept as a multiset'}"
    yield f"  - table: {text(table)}"
    yield f"    topic: {json.dumps(found.topic)}"
    yield f"    format: {DEBEZIUM}"
    if found.key:
        yield f"    key: [{', '.join(map(text, found.key))}]"
    yield "    columns:"
    for column in found.columns:
        null = "" if column.is_nullable else ", nullable: false"
        yield f"      - {{name: {text(column.name)}, type: {text(column.type)}{null}}}"
