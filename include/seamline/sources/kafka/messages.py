"""What the messages of each topic say. Whatever cannot be read stops here, with its place and how to mend it. Pure."""

from collections.abc import Callable, Iterator, Mapping

from seamline.domain.errors import LogCorrupted
from seamline.sources.kafka.formats import canal, debezium, maxwell, plain
from seamline.sources.kafka.formats.shared import SharedTopic
from seamline.sources.kafka.layout import CANAL, DEBEZIUM, MAXWELL, PLAIN, Layout, TopicTable
from seamline.sources.kafka.rows import EMPTIES, Given, Said

_SHOWN_MAX = 120
_Read = Callable[[Given], Iterator[Said]]


class Messages:
    """Of all topics of a source."""

    def __init__(self, layout: Layout, source: str) -> None:
        self._source = source
        topics = {one.topic for one in layout.tables}
        self._read: Mapping[str, _Read] = {topic: _reader(layout, topic) for topic in topics}

    def said(self, given: Given, *, partitions: int) -> list[Said]:
        """What one message says, in its order. `partitions`: of its topic.

        LogCorrupted: it cannot be read, or nobody has declared what it says.
        """
        read = self._read.get(given.topic)
        if read is None:
            raise self._refused(given, "its topic is not declared")
        try:
            found = list(read(given))
        except (ValueError, KeyError, TypeError, AttributeError) as exc:
            raise self._refused(given, str(exc)) from exc
        if partitions > 1 and any(one.op == EMPTIES for one in found):
            raise self._refused(
                given, f"it empties a table whose rows lie in {partitions} partitions, without an order"
            )
        return found

    def _refused(self, given: Given, why: str) -> LogCorrupted:
        shown = "no value" if given.value is None else f"{given.value[:_SHOWN_MAX]!r}"
        return LogCorrupted(
            f"a message cannot be taken: {given.place}: {why} ({shown})",
            hint=f"nothing is passed over. Let sources/{self._source}.yaml say what the message holds (`columns`,"
            " `ignored`, `absent`, `left_out`, `form`) and onboard the sync again; a message that is wrong in itself is"
            " corrected by its writer, who sends the table anew into a topic of another name",
        )


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
