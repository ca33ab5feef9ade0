"""Topics in memory as Kafka has them, under the real code of a destination: offsets by partition, transactions that end
with a marker, aborted records that stay and are read by nobody, producers that fence each other by their id, and
deliveries that fail, arrive without an answer, or end with their process. What it says of Kafka is tried by
`contract/test_kafka_destination.py`.
"""

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from zlib import crc32

import pytest
from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import OffsetSpec

from seamline.adapters.kafka import committed
from seamline.sinks.kafka import control, sink, transaction

# What may happen to a record on its way, or to a commit.
KILLED, FAILED, UNANSWERED = "killed", "failed", "answer lost"
Place = tuple[str, int]


class Killed(BaseException):
    """The process is gone: nothing of its code may catch this."""


@dataclass(slots=True)
class InTransaction:
    is_open: bool = True
    counts: bool = True


@dataclass(slots=True)
class Record:
    """A message as the client gives it. One that has an `at_end` says the end of its partition alone."""

    place: Place
    at: int
    said: tuple[bytes | None, bytes | None, list[tuple[str, bytes]]] = (None, None, [])
    inside: InTransaction | None = None
    at_end: KafkaError | None = None

    def topic(self) -> str:
        return self.place[0]

    def partition(self) -> int:
        return self.place[1]

    def offset(self) -> int:
        return self.at

    def key(self) -> bytes | None:
        return self.said[0]

    def value(self) -> bytes | None:
        return self.said[1]

    def headers(self) -> list[tuple[str, bytes]]:
        return self.said[2]

    def error(self) -> KafkaError | None:
        return self.at_end

    def timestamp(self) -> tuple[int, int]:
        return 1, self.at


class Cluster:
    """`partitions`: of every topic but those whose names end with `.control`. `armed`: how many deliveries and commits
    go well from now on, and what becomes of the next one."""

    def __init__(self, dice: random.Random, *, partitions: int) -> None:
        self.dice = dice
        self.partitions = partitions
        self.armed: tuple[int, str] | None = None
        self.met = Counter[str]()
        # None: a marker.
        self.logs: dict[Place, list[Record | None]] = {}
        self.owners: dict[str, Producing] = {}

    def log(self, place: Place) -> list[Record | None]:
        return self.logs.setdefault(place, [])

    def partitions_of(self, topic: str) -> int:
        return 1 if topic.endswith(".control") else self.partitions

    def append(self, place: Place, said: Any, inside: InTransaction | None) -> Record:
        record = Record(place, len(self.log(place)), said, inside)
        self.log(place).append(record)
        return record

    def trouble(self) -> str:
        """What happens now; "" for nothing."""
        if self.armed is None:
            return ""
        left, what = self.armed
        self.armed = (left - 1, what) if left else None
        if not left:
            self.met[what] += 1
        return "" if left else what

    def stable_end(self, place: Place) -> int:
        """Where the first open transaction begins."""
        log = self.log(place)
        is_open = (one.at for one in log if one is not None and one.inside is not None and one.inside.is_open)
        return next(is_open, len(log))

    def readable(self, place: Place, start: int = 0) -> list[Record]:
        """As a reader with read_committed gets them."""
        some = self.log(place)[start : self.stable_end(place)]
        return [one for one in some if one is not None and (one.inside is None or one.inside.counts)]

    def compact(self, place: Place) -> None:
        """As the broker does once a segment has ended: of each key the newest record stays, and offsets do not move."""
        newest = {one.key(): one.at for one in self.readable(place)}
        for one in self.readable(place):
            if newest[one.key()] != one.at:
                self.log(place)[one.at] = None

    @contextmanager
    def in_place(self) -> Any:
        """Under the code that reads and writes topics of a destination."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(transaction, "Producer", lambda settings: Producing(self, settings))
            patch.setattr(committed, "Consumer", lambda _: Consuming(self))
            patch.setattr(committed, "admin_client", lambda _: Asking(self))
            patch.setattr(sink, "client_settings", lambda _: {})
            # Where a dead owner has left a transaction open, nobody ends it while somebody waits.
            patch.setattr(control, "_MOMENT_S", 0.0)
            yield


class Producing:
    """`confluent_kafka.Producer`: what was produced is on its way until somebody flushes. In which order partitions get
    theirs is the dice's."""

    def __init__(self, cluster: Cluster, settings: Mapping[str, Any]) -> None:
        self._cluster = cluster
        self._id = str(settings.get("transactional.id", ""))
        self._waiting: dict[Place, list[tuple[Any, Callable[..., None]]]] = {}
        self._inside: InTransaction | None = None
        self._written: set[Place] = set()
        self._is_dead = False

    def produce(  # noqa: PLR0917 (as the client has them)
        self, topic: str, value: bytes, key: bytes, partition: int, *, headers: Any, on_delivery: Callable[..., None]
    ) -> None:
        self._require_alive()
        if partition < 0:
            partition = crc32(key or b"") % self._cluster.partitions_of(topic)
        said = key, value, [(name, text if isinstance(text, bytes) else text.encode()) for name, text in headers]
        self._waiting.setdefault((topic, partition), []).append((said, on_delivery))

    def poll(self, _: float) -> None:
        self._require_alive()

    def flush(self, _: float) -> int:
        self._require_alive()
        has_failed = False
        while self._waiting:
            place = self._cluster.dice.choice(sorted(self._waiting))
            said, answer = self._waiting[place].pop(0)
            if not self._waiting[place]:
                del self._waiting[place]
            what = self._happens()
            # Behind one that failed the broker takes no more of this producer.
            has_failed = has_failed or what == FAILED
            record = None if has_failed else self._arrived(place, said)
            answer(_error(KafkaError._MSG_TIMED_OUT) if what or has_failed else None, record or Record(place, -1))  # noqa: SLF001
        return 0

    def purge(self, *, in_flight: bool) -> None:  # noqa: ARG002 (nothing is in flight between two calls)
        self._require_alive()
        self._waiting = {}

    def init_transactions(self, _: float) -> None:
        before = self._cluster.owners.get(self._id)
        if before is not None:
            before._end(counts=False)  # noqa: SLF001 (the broker does)
        self._cluster.owners[self._id] = self

    def begin_transaction(self) -> None:
        self._require_alive()
        self._inside, self._written = InTransaction(), set()

    def commit_transaction(self, _: float) -> None:
        self._require_alive()
        self.flush(0)
        is_applied = self._cluster.dice.random() < 0.5
        try:
            what = self._happens()
        except Killed:
            if is_applied:
                self._end(counts=True)
            raise
        if what != FAILED:
            self._end(counts=True)
        if what:
            raise KafkaException(_error(KafkaError._TIMED_OUT))  # noqa: SLF001

    def abort_transaction(self, _: float) -> None:
        self._require_alive()
        self._end(counts=False)

    def _happens(self) -> str:
        what = self._cluster.trouble()
        if what == KILLED:
            self._is_dead = True
            raise Killed
        return what

    def _arrived(self, place: Place, said: Any) -> Record:
        self._written.add(place)
        return self._cluster.append(place, said, self._inside)

    def _end(self, *, counts: bool) -> None:
        if self._inside is not None and self._inside.is_open:
            self._inside.is_open, self._inside.counts = False, counts
            for place in sorted(self._written):
                self._cluster.log(place).append(None)

    def _require_alive(self) -> None:
        if self._is_dead:
            raise Killed
        if self._id and self._cluster.owners.get(self._id) is not self:
            raise KafkaException(KafkaError(KafkaError._FENCED, "fenced", fatal=True))  # noqa: SLF001


class Consuming:
    """`confluent_kafka.Consumer` with read_committed."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._places: Sequence[TopicPartition] = ()

    def assign(self, places: Sequence[TopicPartition]) -> None:
        self._places = places

    def consume(self, *_: Any) -> list[Record]:
        assert self._places, "a reader waits for what nobody will write"
        found = list[Record]()
        for one in self._places:
            place = one.topic, one.partition
            end = Record(place, self._cluster.stable_end(place), at_end=_error(KafkaError._PARTITION_EOF))  # noqa: SLF001
            found += [*self._cluster.readable(place, one.offset), end]
        self._places = ()
        return found

    def close(self) -> None: ...


class Asking:
    """`confluent_kafka.admin.AdminClient`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def list_topics(self, **_: Any) -> Any:
        topics = {topic for topic, _ in self._cluster.logs}
        partitions = {topic: range(self._cluster.partitions_of(topic)) for topic in topics}
        return SimpleNamespace(topics={topic: SimpleNamespace(partitions=some) for topic, some in partitions.items()})

    def describe_topics(self, wanted: TopicCollection, **_: Any) -> Any:
        return {topic: _answered(topic_id=f"id of {topic}") for topic in wanted.topic_names}

    def list_offsets(self, wanted: Mapping[TopicPartition, Any], *, isolation_level: Any, **_: Any) -> Any:
        is_stable = isolation_level is IsolationLevel.READ_COMMITTED
        # Nothing is deleted here.
        begin = OffsetSpec.earliest()
        return {
            one: _answered(offset=0 if which is begin else self._end((one.topic, one.partition), is_stable))
            for one, which in wanted.items()
        }

    def _end(self, place: Place, is_stable: bool) -> int:
        return self._cluster.stable_end(place) if is_stable else len(self._cluster.log(place))


def _answered(**fields: Any) -> Any:
    return SimpleNamespace(result=lambda: SimpleNamespace(**fields))


def _error(code: int) -> KafkaError:
    return KafkaError(code)
