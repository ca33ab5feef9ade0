"""A declaration of topics of Debezium's, by the schemas that their newest messages hold. Nothing is changed there."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from confluent_kafka import KafkaException

from seamline.adapters.connections import resolve
from seamline.adapters.kafka.client import REQUEST_TIMEOUT_S, admin_client, client_settings, translated
from seamline.adapters.kafka.committed import begins, committed, committed_ends
from seamline.adapters.kafka.topics import CaptureTopics
from seamline.domain.errors import ConfigError
from seamline.sources.kafka.layout import DEBEZIUM
from seamline.sources.kafka.rows import OF_REGISTRY
from seamline.sources.kafka.schemas import SaidColumn, columns_in, fields_of
from seamline.sources.kafka.texts import parsed
from seamline.spec.fields import SQL_NAME
from seamline.spec.written import text

# So many of the newest records of each partition are looked at: behind a row that goes is one without a value.
_LOOKED_AT = 20
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
    found = [one for one in of_topics.values() if isinstance(one, FoundTopic)]
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
    is_of_registry = False
    for message in _newest(settings, topic):
        value = message.value()
        if value is None:
            continue
        is_of_registry = is_of_registry or value.startswith(OF_REGISTRY.encode())
        place = f"partition {message.partition()}, offset {message.offset()}"
        try:
            found = found_in(topic, message.key(), value, place)
        except (ValueError, KeyError, TypeError) as exc:
            note(why := f"topic {topic} is left out: {exc}, which a person has to declare")
            return why
        if found is not None and SQL_NAME.fullmatch(found.table) is not None:
            return found
    if not is_of_registry:
        return None
    note(why := f"topic {topic} is left out: its messages are no JSON but of a schema registry, as Avro or Protobuf")
    return why


def _newest(settings: Mapping[str, Any], topic: str) -> Sequence[Any]:
    """Of each partition some of the newest, the newest first."""
    facts = CaptureTopics(dict(settings)).facts(topic)
    partitions = facts.partitions if facts else 0
    ends, firsts = (ask(settings, topic, partitions) or () for ask in (committed_ends, begins))
    starts = [max(first, end - _LOOKED_AT) for first, end in zip(firsts, ends, strict=True)]
    with closing(committed(settings, topic, ends, starts=starts)) as reading:  # type: ignore[type-var]
        messages = [message for some in reading for message in some]
    return sorted(messages, key=lambda one: (one.timestamp()[1], one.offset()), reverse=True)


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
