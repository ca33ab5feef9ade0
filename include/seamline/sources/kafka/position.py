"""Places in topics that others write: of each topic which one it is, and per partition up to where it was read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from seamline.domain.errors import InvariantViolated
from seamline.domain.position import LogRules, Position, PositionTracker, as_kind

_SHOWN_MAX = 4
# librdkafka writes a topic's id by the other alphabet of Base64 than Kafka itself and its tools.
_AS_KAFKA_WRITES = str.maketrans("/+", "_-")


def written_by_kafka(topic_id: str) -> str:
    """A topic's id from our client, as Kafka's own tools and connectors write it."""
    return topic_id.translate(_AS_KAFKA_WRITES)


@dataclass(frozen=True, slots=True)
class TopicPlace:
    """`topic_id` is Kafka's; `ends`: per partition the offset after the last record, exclusive."""

    topic_id: str
    ends: tuple[int, ...]

    @classmethod
    def parsed(cls, text: str) -> "TopicPlace":
        """As the connector stores it: `id:12,7`. ValueError for another text."""
        topic_id, _, numbers = text.rpartition(":")
        if not topic_id:
            raise ValueError(f"{text!r} is no place in a topic")
        return cls(topic_id, tuple(int(one) for one in numbers.split(",")))

    def covers(self, other: "TopicPlace") -> bool:
        if self.topic_id != other.topic_id or len(self.ends) != len(other.ends):
            raise InvariantViolated(f"places of two topics: {self} and {other}")
        return all(mine >= theirs for mine, theirs in zip(self.ends, other.ends, strict=True))

    def __str__(self) -> str:
        return f"{self.topic_id}:{','.join(map(str, self.ends))}"


@dataclass(frozen=True, slots=True)
class KafkaPosition:
    """By topic, in the order of names. Topics come to a capture with the tables that join it, and none ever leaves."""

    KIND: ClassVar[str] = "kafka"
    # What a topic says of a row may come twice, and whether the row was there before it does not say.
    LOG: ClassVar[LogRules] = LogRules(always_ended=True, at_commit=True, names_as_typed=False, is_of_rows_alone=True)

    topics: Mapping[str, TopicPlace] = field(default_factory=dict)

    @classmethod
    def of_texts(cls, places: Mapping[str, str]) -> "KafkaPosition":
        """ValueError for what no place is."""
        return cls({topic: TopicPlace.parsed(places[topic]) for topic in sorted(places)})

    def texts(self) -> dict[str, str]:
        return {topic: str(place) for topic, place in self.topics.items()}

    def to_json(self) -> dict[str, Any]:
        return {"topics": self.texts()}

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> "KafkaPosition":
        return cls.of_texts(fields["topics"])

    def covers(self, other: Position) -> bool:
        topics = as_kind(other, KafkaPosition, beside=self).topics
        return all(topic in self.topics and self.topics[topic].covers(place) for topic, place in topics.items())

    def sees(self, transaction: Position) -> bool:
        """Every view stands where a transaction of the log ends, so it has all of one or nothing."""
        return self.covers(transaction)

    def reaches(self, place: Position) -> bool:
        return self.covers(place)

    def start_of_log(self) -> "KafkaPosition":
        return KafkaPosition()

    def tracker(self) -> PositionTracker:
        return KafkaTracker(self)

    def __str__(self) -> str:
        shown = [f"{topic} {','.join(map(str, place.ends))}" for topic, place in self.topics.items()]
        more = f" and {len(shown) - _SHOWN_MAX} topics more" if len(shown) > _SHOWN_MAX else ""
        return f"offsets {'; '.join(shown[:_SHOWN_MAX])}{more}" if shown else "the start of all topics"


class KafkaTracker:
    """`PositionTracker`."""

    def __init__(self, position: KafkaPosition) -> None:
        self._position = position

    @property
    def position(self) -> KafkaPosition:
        return self._position

    def has_passed(self, transaction: Position) -> bool:
        return self._position.covers(transaction)

    def advance_to(self, transaction: Position) -> None:
        if not self.has_passed(transaction):
            self._position = as_kind(transaction, KafkaPosition, beside=self._position)
