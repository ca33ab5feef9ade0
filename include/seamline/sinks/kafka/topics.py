"""What the topics of a destination must be, so that nothing of them is lost and readers see whole transactions."""

from collections.abc import Iterable
from typing import Any

from seamline.adapters.kafka.committed import begins, partitions_of, written_ends
from seamline.adapters.kafka.topics import MESSAGE_BYTES_MAX, CaptureTopics, TopicRule
from seamline.domain.catalogue import Table
from seamline.sinks.kafka.options import KafkaOptions, topic_of

# A record stays for so long at least although a newer one has its key: a comparison reads the state of an hour ago.
COMPACTION_LAG_S = 24 * 3600
# How long a message without a value stays in a compacted topic. Who reads it after a longer pause does not see that the
# row went: so long a capture of these topics may stand still (`sources/kafka/kept.py` warns of less).
_TOMBSTONES = "delete.retention.ms"
_TOMBSTONES_S = 7 * 86_400
_BY_THE_BROKER = {"message.timestamp.type": "LogAppendTime"}
_LARGE = {"max.message.bytes": MESSAGE_BYTES_MAX}
_KEPT = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}


def rule_of(table: Table, options: KafkaOptions) -> TopicRule:
    """The newest record of each key stays for ever; of a table without a key, every record."""
    if not table.is_keyed:
        return TopicRule("rows without a key", {**_KEPT, **_BY_THE_BROKER}, _LARGE, {}, options.partitions)
    compacted = {"cleanup.policy": "compact", **_BY_THE_BROKER}
    least = {**_LARGE, "min.compaction.lag.ms": COMPACTION_LAG_S * 1000}
    return TopicRule("rows by key", compacted, least, {}, options.partitions, {_TOMBSTONES: _TOMBSTONES_S * 1000})


# A stream writes one record per commit, and who takes the stream over reads them all: segments end soon.
CONTROL_RULE = TopicRule(
    "control records",
    {"cleanup.policy": "compact", **_BY_THE_BROKER},
    at_least=_LARGE,
    at_most={"segment.ms": 3_600_000, "segment.bytes": 16 * 1024 * 1024},
)
STAGING_RULE = TopicRule("staged rows", _KEPT, _LARGE)


class DestinationTopics:
    """Those of one destination. `settings` as from `client_settings`."""

    def __init__(self, settings: dict[str, Any], options: KafkaOptions) -> None:
        self._settings = settings
        self._options = options
        self._topics = CaptureTopics(settings, replication=options.replication)

    def ensure_control(self) -> None:
        self._topics.ensure(self._options.control_topic, CONTROL_RULE)

    def ensure(self, namespace: str, tables: Iterable[Table]) -> None:
        """Make the tables' topics, or check them. ConfigError: one is not what it must be."""
        for table in tables:
            self._topics.ensure(topic_of(namespace, table.name), rule_of(table, self._options))

    def ensure_staging(self, topic: str) -> None:
        self._topics.ensure(topic, STAGING_RULE)

    def is_there(self, topic: str) -> bool:
        return bool(self._topics.topic_id(topic))

    def records(self, topic: str) -> int:
        """Of a topic with one partition, whether their transactions have ended or not; 0 where it is not there.

        Not its size: a login needs a right on the whole cluster to ask for that.
        """
        first, end = begins(self._settings, topic, 1), written_ends(self._settings, topic)
        return end[0] - first[0] if first and end else 0

    def empty(self, topic: str) -> None:
        """Of a topic with one partition."""
        low, _ = self._topics.offsets(topic)
        end = self._topics.written_end(topic)
        if end > low:
            self._topics.prune(topic, below=end)

    def names(self, beginning: str) -> list[str]:
        return sorted(name for name in partitions_of(self._settings) if name.startswith(beginning))

    def delete(self, topics: Iterable[str]) -> None:
        """Those that are there."""
        for topic in topics:
            self._topics.delete(topic)
