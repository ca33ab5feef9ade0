"""The topics of a capture: created with the settings that exactness needs, and checked each time.

Nothing here ever deletes what a stream may still need: `prune` gets the offset from the one who holds all ledgers.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from seamline.adapters.connections import resolve
from seamline.adapters.kafka import log_dirs, quotas
from seamline.adapters.kafka.client import REQUEST_TIMEOUT_S, admin_client, asked, client_settings
from seamline.domain.errors import ConfigError, PositionLost, TransientError

# The active segment is never freed by pruning: a small one frees space in time.
SEGMENT_BYTES = 64 * 1024 * 1024
MESSAGE_BYTES_MAX = 32 * 1024 * 1024
_SEGMENT_MS = "segment.ms"
_PAUSE_S = 0.05


@dataclass(frozen=True, slots=True)
class TopicRule:
    """What a topic must be. `exact` settings must be equal, `at_least` and `at_most` bound a number. `wished`: as
    `at_least`, of a topic that is made; one that is there may have less."""

    purpose: str
    exact: Mapping[str, str]
    at_least: Mapping[str, int] = field(default_factory=dict)
    at_most: Mapping[str, int] = field(default_factory=dict)
    partitions: int = 1
    wished: Mapping[str, int] = field(default_factory=dict)

    def settings(self) -> dict[str, str]:
        """The settings to create the topic with."""
        numbers = {**self.at_least, **self.at_most, **self.wished}
        return {**self.exact, **{name: str(value) for name, value in numbers.items()}}


_KEPT = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
LOG = TopicRule(
    "log topic",
    {**_KEPT, "segment.bytes": str(SEGMENT_BYTES)},
    at_least={"max.message.bytes": MESSAGE_BYTES_MAX},
)
SCHEMA_HISTORY = TopicRule("schema history", _KEPT, at_least={"max.message.bytes": MESSAGE_BYTES_MAX})
LINES = TopicRule("lines that are kept", _KEPT)
# Connect reads the newest offset per key, so this one is compacted.
CONNECTOR_OFFSETS = TopicRule("connector's offsets", {"cleanup.policy": "compact"})


@dataclass(frozen=True, slots=True)
class TopicFacts:
    name: str
    topic_id: str
    partitions: int
    settings: Mapping[str, str]


def faults(facts: TopicFacts, rule: TopicRule) -> tuple[str, ...]:
    """What is wrong with a topic, each with setting, value and the value wanted."""
    found = []
    if facts.partitions != rule.partitions:
        found.append(f"it has {facts.partitions} partitions, {_partitions_wanted(rule)}")
    for name, wanted in rule.exact.items():
        value = facts.settings.get(name)
        if value != wanted:
            found.append(f"{name} is {value}, wanted {wanted}")
    for name, least in rule.at_least.items():
        value = facts.settings.get(name, "0")
        if int(value) < least:
            found.append(f"{name} is {value}, wanted at least {least}")
    for name, most in rule.at_most.items():
        value = facts.settings.get(name, "0")
        if int(value) > most:
            found.append(f"{name} is {value}, wanted at most {most}")
    return tuple(found)


def set_by(topic: str, settings: Mapping[str, str | int]) -> str:
    """The command that sets them."""
    added = ",".join(f"{name}={value}" for name, value in settings.items())
    where = "--bootstrap-server <servers>"
    return f"kafka-configs {where} --alter --entity-type topics --entity-name {topic} --add-config {added}"


def _partitions_wanted(rule: TopicRule) -> str:
    if rule.partitions == 1:
        return "one is wanted: what it holds has one order"
    return f"{rule.partitions} are wanted: a key stays where its rows are"


class CaptureTopics:
    """Topics of captures on one Kafka cluster. `settings` as from `client_settings`. `replication`: copies of a topic
    that is made; -1: as many as the broker's default says."""

    def __init__(
        self, settings: dict[str, Any], *, request_timeout_s: float = REQUEST_TIMEOUT_S, replication: int = -1
    ) -> None:
        self._settings = settings
        self._replication = replication
        self._timeout_s = request_timeout_s
        self._admin = admin_client(settings)

    def ensure_log(self, topic: str) -> str:
        """Create or check a log topic; returns its topic id."""
        return self.ensure(topic, LOG)

    def ensure_schema_history(self, topic: str) -> str:
        return self.ensure(topic, SCHEMA_HISTORY)

    def ensure_connector_offsets(self, topic: str) -> str:
        return self.ensure(topic, CONNECTOR_OFFSETS)

    def ensure_lines(self, topic: str) -> str:
        return self.ensure(topic, LINES)

    def topic_id(self, topic: str) -> str:
        """The topic's id; "" where it does not exist."""
        description = self._describe(topic)
        return str(description.topic_id) if description else ""

    def offsets(self, topic: str) -> tuple[int, int]:
        """(lowest kept offset, offset after the last stable record) of the one partition."""
        place = TopicPartition(topic, 0)
        low = self._listed({place: OffsetSpec.earliest()})  # type: ignore[no-untyped-call]
        high = self._listed({place: OffsetSpec.latest()})  # type: ignore[no-untyped-call]
        return int(low.offset), int(high.offset)

    def written_end(self, topic: str) -> int:
        """The offset after the newest record, whether its transaction has ended or not."""
        newest = self._listed(
            {TopicPartition(topic, 0): OffsetSpec.latest()},  # type: ignore[no-untyped-call]
            isolation=IsolationLevel.READ_UNCOMMITTED,
        )
        return int(newest.offset)

    def size_bytes(self, topic: str) -> int:
        """Bytes on the leader's disk."""
        return self.space(topic).size_bytes

    def space(self, topic: str) -> log_dirs.Space:
        """Bytes on the leader's disk, and what is free there."""
        leader = self._leader(topic)
        return log_dirs.partition_space(*leader, topic, settings=self._settings) if leader else log_dirs.Space(0)

    def limit_producer(self, client_id: str, bytes_per_s: int | None, *, topic: str) -> None:
        """Let the producer of this topic write so many bytes a second; None: as many as it can. Repeat-safe."""
        leader = self._leader(topic)
        if leader is None:
            raise TransientError(f"topic {topic} is not there", hint="onboard a sync of its source")
        quotas.set_producer_quota(leader, client_id, bytes_per_s, settings=self._settings)

    def _leader(self, topic: str) -> tuple[str, int] | None:
        """Host and port; None where there is no such topic."""
        description = self._describe(topic)
        if description is None:
            return None
        leader = description.partitions[0].leader
        if leader is None:
            raise TransientError(f"topic {topic} has no leader for now", hint="is every broker up?")
        return leader.host, leader.port

    def prune(self, topic: str, *, below: int) -> int:
        """Delete records below the offset (exclusive); returns the new lowest offset. A repeat is a no-op."""
        future = self._admin.delete_records([TopicPartition(topic, 0, below)])
        answer = asked(
            next(iter(future.values())).result, doing=f"delete records of topic {topic}", settings=self._settings
        )
        return int(answer.low_watermark)

    def young_from(self, topic: str, *, keep_s: float) -> int:
        """An offset before which every record is older than `keep_s`; 0 where that is not known.

        Counted back from this clock or from the newest timestamp in the log, whichever says the earlier time: if one of
        the two clocks runs ahead, or stands, more is kept. Of records whose times go back, as after a clock was put
        back, the broker gives the first one that is young enough: what lies before it is older throughout.
        """
        place = TopicPartition(topic, 0)
        # Also what is not yet committed has a time.
        newest = self._listed({place: OffsetSpec.max_timestamp()}, IsolationLevel.READ_UNCOMMITTED)  # type: ignore[no-untyped-call]
        if newest.offset < 0:
            return 0
        since_ms = min(int(time.time() * 1000), int(newest.timestamp)) - int(keep_s * 1000)
        if since_ms < 0:
            return 0
        first = self._listed({place: OffsetSpec.for_timestamp(since_ms)}, IsolationLevel.READ_UNCOMMITTED)
        # -1 would be that no record is as young, though the newest is: then nothing is known.
        return max(0, int(first.offset))

    def end_segments(self, topic: str, *, within_s: float) -> None:
        """Let a segment of the topic end after so long, however slowly it fills: only ended ones can be freed."""
        facts, wanted = self.facts(topic), str(int(within_s * 1000))
        if facts is None or facts.settings.get(_SEGMENT_MS) == wanted:
            return
        entry = ConfigEntry(_SEGMENT_MS, wanted, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        future = self._admin.incremental_alter_configs([resource], request_timeout=self._timeout_s)[resource]
        asked(future.result, doing=f"set {_SEGMENT_MS} of topic {topic}", settings=self._settings)

    def delete(self, topic: str) -> None:
        """Delete a whole topic, for a source that is given up. A topic that is not there is a no-op."""
        try:
            self._admin.delete_topics([topic], operation_timeout=self._timeout_s)[topic].result()
        except KafkaException as exc:
            if exc.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise

    def facts(self, topic: str) -> TopicFacts | None:
        """What the topic is now; None where it does not exist."""
        description = self._describe(topic)
        if description is None:
            return None
        resource = ConfigResource(ResourceType.TOPIC, topic)
        future = self._admin.describe_configs([resource], request_timeout=self._timeout_s)[resource]
        entries = asked(future.result, doing=f"read the settings of topic {topic}", settings=self._settings)
        return TopicFacts(
            topic,
            str(description.topic_id),
            len(description.partitions),
            {name: str(entry.value) for name, entry in entries.items()},
        )

    def ensure(self, topic: str, rule: TopicRule) -> str:
        """Create the topic, or check it; returns its id. ConfigError: it is not what the rule says."""
        facts = self.facts(topic)
        if facts is None:
            self._create(topic, rule)
            facts = self._created(topic)
        wrong = faults(facts, rule)
        if wrong:
            raise ConfigError(
                f"Topic {topic} ({rule.purpose}) has settings that could lose or tear its records: {'; '.join(wrong)}",
                hint=f"set them with Kafka's own tool: {set_by(topic, rule.settings())};"
                " a topic with other partitions must be deleted and what it serves onboarded again",
            )
        return facts.topic_id

    def refusal(self, topic: str, rule: TopicRule) -> str:
        """Why this topic, which is not there, could not be made; "" where it could. Nothing is made."""
        try:
            self._making(topic, rule, validate_only=True).result()
        except KafkaException as exc:
            return str(exc.args[0].str())
        return ""

    def _making(self, topic: str, rule: TopicRule, *, validate_only: bool) -> Any:
        new = NewTopic(
            topic, num_partitions=rule.partitions, replication_factor=self._replication, config=rule.settings()
        )
        return self._admin.create_topics([new], operation_timeout=self._timeout_s, validate_only=validate_only)[topic]

    def _create(self, topic: str, rule: TopicRule) -> None:
        future = self._making(topic, rule, validate_only=False)
        try:
            future.result()
        except KafkaException as exc:
            if exc.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                asked(future.result, doing=f"create topic {topic}", settings=self._settings)

    def _created(self, topic: str) -> TopicFacts:
        """A broker knows a topic that was just created a moment later than its controller."""
        deadline = time.monotonic() + self._timeout_s
        while True:
            facts = self.facts(topic)
            if facts is not None:
                return facts
            if time.monotonic() > deadline:
                raise TransientError(f"topic {topic} was created but is not there yet", hint="is every broker up?")
            time.sleep(_PAUSE_S)

    def _describe(self, topic: str) -> Any:
        futures = self._admin.describe_topics(TopicCollection([topic]), request_timeout=self._timeout_s)
        try:
            return futures[topic].result()
        except KafkaException as exc:
            if exc.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                return None
            return asked(futures[topic].result, doing=f"describe topic {topic}", settings=self._settings)

    def _listed(
        self, wanted: dict[TopicPartition, OffsetSpec], isolation: IsolationLevel = IsolationLevel.READ_COMMITTED
    ) -> Any:
        futures = self._admin.list_offsets(wanted, isolation_level=isolation, request_timeout=self._timeout_s)
        future = next(iter(futures.values()))
        try:
            return future.result()
        except KafkaException as exc:
            if exc.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                name = next(iter(wanted)).topic
                raise PositionLost(
                    f"log topic {name} does not exist", hint="onboard the syncs of this source again"
                ) from exc
            return asked(future.result, doing="report offsets", settings=self._settings)


def open_log_topics() -> CaptureTopics:
    """The topics of the connection `kafka`."""
    return CaptureTopics(client_settings(resolve("kafka")))
