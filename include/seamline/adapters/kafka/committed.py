"""Reading of a topic's committed records up to an offset of each partition."""

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

from seamline.adapters.kafka.client import REQUEST_TIMEOUT_S, admin_client, translated
from seamline.adapters.kafka.topics import CaptureTopics
from seamline.domain.errors import TransientError

_CONSUMER = {
    "group.id": "seamline-destination",
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    "isolation.level": "read_committed",
    "check.crcs": True,
    "enable.partition.eof": True,
    "fetch.wait.max.ms": 100,
}
_AT_ONCE = 10_000
# It waits for so long unless as many have come.
_WAIT_S = 0.02
# So long a transaction of somebody else may be open before what it holds.
_SILENCE_S = 30.0


def written_ends(settings: Mapping[str, Any], topic: str, partitions: int = 1) -> tuple[int, ...] | None:
    """Per partition the offset after the newest record, whether its transaction has ended or not; None: no topic."""
    return _ends(settings, topic, partitions, IsolationLevel.READ_UNCOMMITTED)


def committed_end(settings: Mapping[str, Any], topic: str) -> int:
    """Of a topic with one partition the offset of the first record of an open transaction, or after the newest one."""
    ends = _ends(settings, topic, 1, IsolationLevel.READ_COMMITTED)
    return ends[0] if ends else 0


def committed_ends(settings: Mapping[str, Any], topic: str, partitions: int) -> tuple[int, ...] | None:
    """Per partition as `committed_end`; None: no topic."""
    return _ends(settings, topic, partitions, IsolationLevel.READ_COMMITTED)


def begins(settings: Mapping[str, Any], topic: str, partitions: int) -> tuple[int, ...] | None:
    """Per partition the lowest offset that is kept; None: no topic."""
    return _ends(settings, topic, partitions, IsolationLevel.READ_COMMITTED, OffsetSpec.earliest())  # type: ignore[no-untyped-call]


def partitions_of(settings: Mapping[str, Any]) -> dict[str, int]:
    """How many each topic has that is there and that this login may see."""
    try:
        found = admin_client(settings).list_topics(timeout=REQUEST_TIMEOUT_S).topics
    except KafkaException as exc:
        raise translated(exc, doing="list topics", settings=settings) from exc
    return {name: len(topic.partitions) for name, topic in found.items()}


def ids_of(settings: Mapping[str, Any], topics: Collection[str]) -> dict[str, str]:
    """The broker's ids of those that are there, asked by one request."""
    if not topics:
        return {}
    futures = admin_client(settings).describe_topics(TopicCollection([*topics]), request_timeout=REQUEST_TIMEOUT_S)
    found: dict[str, str] = {}
    for topic, future in futures.items():
        try:
            found[topic] = str(future.result().topic_id)
        except KafkaException as exc:
            if exc.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise translated(exc, doing=f"describe topic {topic}", settings=settings) from exc
    return found


def newest_offsets(settings: Mapping[str, Any], topics: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """As `written_ends` of several topics at once, each with so many partitions; all of them are there."""
    places = [TopicPartition(topic, number) for topic, count in topics.items() for number in range(count)]
    if not places:
        return {}
    wanted = {place: OffsetSpec.latest() for place in places}  # type: ignore[no-untyped-call]
    futures = admin_client(settings).list_offsets(
        wanted, isolation_level=IsolationLevel.READ_UNCOMMITTED, request_timeout=REQUEST_TIMEOUT_S
    )
    found: dict[str, tuple[int, ...]] = {}
    try:
        for place in places:
            found[place.topic] = (*found.get(place.topic, ()), int(futures[place].result().offset))
    except KafkaException as exc:
        raise translated(exc, doing="report offsets of topics", settings=settings) from exc
    return found


def _ends(
    settings: Mapping[str, Any], topic: str, partitions: int, isolation: IsolationLevel, which: OffsetSpec | None = None
) -> tuple[int, ...] | None:
    spec = which or OffsetSpec.latest()  # type: ignore[no-untyped-call]
    wanted = {TopicPartition(topic, number): spec for number in range(partitions)}
    futures = admin_client(settings).list_offsets(wanted, isolation_level=isolation, request_timeout=REQUEST_TIMEOUT_S)
    try:
        return tuple(int(futures[place].result().offset) for place in wanted)
    except KafkaException as exc:
        # The client has an error of its own for a topic that no broker leads, and the same one for a broker's trouble.
        if not CaptureTopics(dict(settings)).topic_id(topic):
            return None
        raise translated(exc, doing=f"report offsets of topic {topic}", settings=settings) from exc


def committed(
    settings: Mapping[str, Any], topic: str, ends: Sequence[int], *, starts: Sequence[int] = ()
) -> Iterator[list[Message]]:
    """The committed records below `ends`, per partition in their order, some at a time.

    Waits for a transaction that is still open below an end: TransientError after a while.
    """
    begin = starts or [0] * len(ends)
    reading = {number for number, end in enumerate(ends) if end > begin[number]}
    if not reading:
        return
    consumer = Consumer({**settings, **_CONSUMER})
    try:
        consumer.assign([TopicPartition(topic, number, begin[number]) for number in sorted(reading)])
        heard = time.monotonic()
        while reading:
            found = _taken(consumer.consume(_AT_ONCE, _WAIT_S), ends, reading)
            if found:
                heard = time.monotonic()
                yield found
            elif time.monotonic() - heard > _SILENCE_S:
                raise _silent(topic, ends)
    except KafkaException as exc:
        raise translated(exc, doing=f"read topic {topic}", settings=settings) from exc
    finally:
        consumer.close()


def _taken(messages: Sequence[Message], ends: Sequence[int], reading: set[int]) -> list[Message]:
    """Those below the ends; a partition that has come to its end is read no more."""
    found = []
    for message in messages:
        number, offset, error = message.partition() or 0, message.offset() or 0, message.error()
        # Behind the last record may be markers alone: then the end of the partition is heard of.
        is_end = error is not None and error.code() == KafkaError._PARTITION_EOF  # noqa: SLF001
        if error is not None and not is_end:
            raise KafkaException(error)
        if number not in reading:
            continue
        if not is_end and offset < ends[number]:
            found.append(message)
        if offset >= ends[number] - (not is_end):
            reading.discard(number)
    return found


def _silent(topic: str, ends: Sequence[int]) -> TransientError:
    return TransientError(
        f"topic {topic} gave nothing below {list(ends)} for {_SILENCE_S:.0f} s",
        hint="a transaction there is still open: it ends with its owner, or by its time limit",
    )
