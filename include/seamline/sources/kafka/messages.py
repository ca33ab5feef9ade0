"""What the messages of each topic say. Whatever cannot be read stops here, with its place and how to mend it. Pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from seamline.adapters.kafka.topics import TopicFacts
from seamline.domain.errors import LogCorrupted
from seamline.sources.kafka.formats import canal, debezium, maxwell, plain
from seamline.sources.kafka.formats.shared import SharedTopic
from seamline.sources.kafka.kept import is_compacted
from seamline.sources.kafka.layout import CANAL, DEBEZIUM, MAXWELL, PLAIN, Layout, TopicTable
from seamline.sources.kafka.rows import ALTERS, CHANGES, EMPTIES, GOES, JSON_ALONE, Given, OtherKey, Said, gone_by_key

_SHOWN_MAX = 120
_Read = Callable[[Given], Iterator[Said]]
_KeyOf = Callable[[Given], bytes | None]
_UNREADABLE = (ValueError, KeyError, TypeError, AttributeError)


class Messages:
    """Of all topics of a source."""

    def __init__(self, layout: Layout, source: str) -> None:
        self._source = source
        topics = layout.topics(one.definition.name for one in layout.tables)
        self._read: Mapping[str, _Read] = {topic: _reader(layout, topic) for topic in topics}
        self._key_of: Mapping[str, _KeyOf] = {topic: _reader_of_keys(layout, topic) for topic in topics}

    def said(self, given: Given, *, partitions: int) -> list[Said]:
        """What one message says, in its order. `partitions`: of its topic.

        LogCorrupted: it cannot be read, or nobody has declared what it says.
        """
        try:
            return self._said(given, partitions)
        except _UNREADABLE as exc:
            raise self._refused(given, exc) from exc

    def reads(self, topic: str) -> bool:
        return topic in self._read

    def require_key(self, given: Given, found: Sequence[Said]) -> None:
        """Of a compacted topic, where the newest message of each key is all that stays.

        LogCorrupted: the key of a message is not the declared key of the row that it is about.
        """
        try:
            self._require_key(given, found)
        except _UNREADABLE as exc:
            raise self._refused(given, exc) from exc

    def departure(self, given: Given, topic: TopicFacts) -> str:
        """Why a stream or a load would stop at it, without its place; "" where it can be taken."""
        try:
            found = self._said(given, topic.partitions)
            if is_compacted(topic):
                self._require_key(given, found)
        except _UNREADABLE as exc:
            return str(exc)
        return ""

    def _said(self, given: Given, partitions: int) -> list[Said]:
        read = self._read.get(given.topic)
        if read is None:
            raise ValueError("its topic is not declared")
        found = list(read(given))
        if partitions > 1 and (what := _without_order(found)):
            raise ValueError(f"it {what} whose rows lie in {partitions} partitions, without an order")
        return found

    def _require_key(self, given: Given, found: Sequence[Said]) -> None:
        rows = [one for one in found if one.op not in (EMPTIES, ALTERS)]
        if not rows:
            return
        try:
            key = self._key_of[given.topic](given)
        except _UNREADABLE as exc:
            raise ValueError(f"its topic is compacted, and of its key: {exc}") from exc
        if any(one.key != key for one in rows):
            raise ValueError("its topic is compacted, and its key is not the declared key of its row")

    def _refused(self, given: Given, why: Exception) -> LogCorrupted:
        shown = "" if isinstance(why, OtherKey) else f" ({_shown(given.value)})"
        return LogCorrupted(f"{not_taken(given, str(why))}{shown}", hint=cure_of(self._source))


def _shown(value: str | None) -> str:
    return "no value" if value is None else f"{value[:_SHOWN_MAX]!r}"


def not_taken(given: Given, why: str) -> str:
    """For people."""
    return f"a message cannot be taken: {given.place}: {why}"


def cure_of(source: str) -> str:
    """What mends a message that cannot be taken."""
    return (
        f"nothing is passed over. Let sources/{source}.yaml say what the message holds (`columns`, `ignored`, `absent`,"
        " `left_out`, `form`, `message_key`) and onboard the sync again; a message that is wrong in itself is corrected"
        " by its writer, who sends the table anew into a topic of another name"
    )


def given_by(message: Any) -> Given:
    """Of a message as Kafka's client has it. LogCorrupted: it is no text."""
    found = Given(message.topic(), message.partition(), message.offset(), None, None)
    try:
        key, value = (None if one is None else one.decode() for one in (message.key(), message.value()))
    except UnicodeDecodeError as exc:
        raise LogCorrupted(not_taken(found, "it is no text of UTF-8"), hint=JSON_ALONE) from exc
    headers = {
        name: None if value is None else value.decode(errors="replace") for name, value in message.headers() or ()
    }
    return Given(found.topic, found.partition, found.offset, key, value, headers=headers)


def _reader(layout: Layout, topic: str) -> _Read:
    tables = layout.of_topic(topic)
    first = tables[0]
    if first.format in (MAXWELL, CANAL):
        shared = SharedTopic(tables, layout.left_out)
        of_shared = maxwell.said if first.format == MAXWELL else canal.said
        return lambda given: of_shared(given, shared)
    of_one: Mapping[str, Callable[[Given, TopicTable], Iterator[Said]]] = {
        DEBEZIUM: debezium.said,
        PLAIN: plain.said,
    }
    return lambda given: of_one[first.format](given, first)


def _reader_of_keys(layout: Layout, topic: str) -> _KeyOf:
    table = layout.of_topic(topic)[0]
    fields_of = debezium.key_of if table.format == DEBEZIUM else plain.key_of

    def key_of(given: Given) -> bytes | None:
        fields, forms = fields_of(given, table)
        if others := sorted(fields.keys() - set(table.definition.key)):
            raise ValueError(f"it has {', '.join(others)} beside the declared key")
        return gone_by_key(table, fields, forms).key

    return key_of


def _without_order(found: Sequence[Said]) -> str:
    """What one message says of rows in several partitions; "" where it is about one row at a time."""
    ops = {one.op for one in found}
    if EMPTIES in ops:
        return "empties a table"
    return "changes the key of a table" if ops >= {GOES, CHANGES} else ""
