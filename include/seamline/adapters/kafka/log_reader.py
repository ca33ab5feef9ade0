"""KafkaLogReader: the one consumer of a stream, assigned once, which never jumps over a hole."""

import math
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from seamline.adapters.connections import resolve
from seamline.adapters.debezium.envelope import Decoder
from seamline.adapters.kafka.client import client_settings, translated
from seamline.adapters.kafka.topics import CaptureTopics
from seamline.domain.errors import InvariantViolated, LogCorrupted, PositionLost
from seamline.domain.log import LogRecord
from seamline.kinds.found import logged_kind
from seamline.plan.model import SyncPlan

_Trouble = LogCorrupted | PositionLost
_REONBOARD = "the log no longer holds what this stream needs: onboard the sync again"
# librdkafka says so once and reads on behind the batch; of the last one the broker itself says that it cannot read it.
_DAMAGED = (KafkaError._BAD_MSG, KafkaError._BAD_COMPRESSION, KafkaError.INVALID_MSG)  # noqa: SLF001
_READ_AGAIN = (
    "`seamline stream restart <sync>` reads it again: what was damaged on the way comes whole then. If the stream stops"
    " here again, the topic's file is damaged: let the broker copy it from a whole replica, or onboard the sync again"
)
# A topic that was deleted and made again under the same name would go unnoticed until its offsets differ.
_IDENTITY_EVERY_S = 30.0
_IDENTITY_TIMEOUT_S = 5.0
# After this long without any broker the caller gets an error; librdkafka goes on trying by itself.
_AWAY_AFTER_S = 10.0
# Within this time of a poll the last fetch says where the log ends; nobody fetches for long while nobody polls.
_FETCHED_WITHIN_S = 5.0

CONSUMER_SETTINGS = {
    # A consumer that assigns by itself never joins a group; librdkafka wants a name all the same.
    "group.id": "seamline-log-reader",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "isolation.level": "read_committed",
    # `earliest` would silently jump over records that were deleted.
    "auto.offset.reset": "error",
    # Else a bit that flipped on the broker's disk or on the way is read as what it became.
    "check.crcs": True,
    # A broker answers at once when there is something, also inside transactions: only an idle fetch waits this long.
    # With 10 ms ten idle streams cost 6 % of a core and are not faster (Kafka 4.3.1).
    "fetch.wait.max.ms": 5_000,
    "fetch.queue.backoff.ms": 2,
    "fetch.message.max.bytes": 8 * 1024 * 1024,
    "fetch.max.bytes": 64 * 1024 * 1024,
    "queued.max.messages.kbytes": 64 * 1024,
}


class KafkaLogReader:
    """ports.LogReader on one log topic.

    A broker that is away raises TransientError from `poll` now and then; the place is kept, calling again goes on. A
    broken record, or a batch of them, is reported only after the records before it were handed over: the stream ends at
    its last good END.
    """

    def __init__(self, settings: dict[str, Any], *, topic: str, decoder: Decoder) -> None:
        self.topic = topic
        self._settings = settings
        self.decoder = decoder
        self._topics = CaptureTopics(settings, request_timeout_s=_IDENTITY_TIMEOUT_S)
        self.topic_id = self._topics.topic_id(topic)
        if not self.topic_id:
            raise PositionLost(f"log topic {topic} does not exist", hint=_REONBOARD)
        self._identity_checked_s = time.monotonic()
        self._away_since_s = 0.0
        self._polled_s = -math.inf
        self._pending: _Trouble | None = None
        self._is_assigned = False
        try:
            self._consumer = Consumer({**settings, **CONSUMER_SETTINGS, "error_cb": self._on_error})
        except KafkaException as exc:
            raise translated(exc, doing="open a consumer", settings=settings) from exc

    def assign(self, offset: int) -> None:
        """Start reading at `offset` (inclusive). Raises PositionLost when the log does not reach down or up to it."""
        if self._is_assigned:
            raise InvariantViolated("a log reader is assigned once: open another to read from elsewhere")
        self._check_identity()
        low, high = self._topics.offsets(self.topic)
        if offset < low:
            raise PositionLost(
                f"log topic {self.topic} begins at offset {low}, wanted {offset}: {low - offset} offsets were deleted",
                hint=f"{_REONBOARD}. A destination may be put back as far as `log.keep_days` of its source reaches",
            )
        if offset > high:
            raise PositionLost(
                f"log topic {self.topic} ends at offset {high}, wanted {offset}: its end was cut off", hint=_REONBOARD
            )
        self._consumer.assign([TopicPartition(self.topic, 0, offset)])
        self._is_assigned = True

    def poll(self, timeout_s: float, records_max: int) -> Sequence[LogRecord]:
        if self._pending is not None:
            raise self._pending
        # Before anything is taken from the client: an error raised after that would lose records.
        self._check_now_and_then()
        messages = self._taken(timeout_s, records_max)
        self._polled_s = time.monotonic()
        records = self._decoded(messages)
        if records:
            self._away_since_s = 0.0
        elif self._pending is not None:
            raise self._pending
        return records

    def begins(self) -> int:
        """The first offset that the log still has."""
        return self._topics.offsets(self.topic)[0]

    def end_offset(self) -> int:
        if time.monotonic() - self._polled_s < _FETCHED_WITHIN_S:
            _, fetched = self._consumer.get_watermark_offsets(TopicPartition(self.topic, 0), cached=True)
            if fetched >= 0:
                return int(fetched)
        return self._topics.offsets(self.topic)[1]

    def close(self) -> None:
        self._consumer.close()

    def _taken(self, timeout_s: float, records_max: int) -> list[Message]:
        """`consume` with a time-out waits until it is full: so one is waited for, and what is there comes along."""
        messages = self._consumer.consume(1, timeout_s)
        if messages and records_max > 1:
            messages += self._consumer.consume(records_max - 1, 0)
        return messages

    def _decoded(self, messages: Sequence[Message]) -> list[LogRecord]:
        records: list[LogRecord] = []
        good, self._pending = without_errors(messages, self._trouble)
        try:
            self.decoder.decode(good, records)
        except LogCorrupted as exc:
            # It comes before the error that the client reported, if any.
            self._pending = exc
        return records

    def _trouble(self, error: KafkaError) -> _Trouble | None:
        """A consumer error that ends reading; None where librdkafka mends it by itself and keeps the place."""
        if error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION):  # noqa: SLF001
            # Also said for a moment by a broker that has just started: only the topic's id decides.
            self._identity_checked_s = 0.0
            return None
        return damage(self.topic, error) or lost(self.topic, error)

    def _on_error(self, error: KafkaError) -> None:
        if error.code() == KafkaError._ALL_BROKERS_DOWN and not self._away_since_s:  # noqa: SLF001
            self._away_since_s = time.monotonic()

    def _check_now_and_then(self) -> None:
        now = time.monotonic()
        if self._away_since_s and now - self._away_since_s > _AWAY_AFTER_S:
            self._away_since_s = now
            self._check_identity()
            self._away_since_s = 0.0
        elif now - self._identity_checked_s > _IDENTITY_EVERY_S:
            self._check_identity()

    def _check_identity(self) -> None:
        """Raises PositionLost for another topic id, TransientError while no broker answers."""
        self._identity_checked_s = time.monotonic()
        topic_id = self._topics.topic_id(self.topic)
        if topic_id == self.topic_id:
            return
        what = f"was created again (id {topic_id}, was {self.topic_id})" if topic_id else "was deleted"
        self._pending = PositionLost(f"log topic {self.topic} {what}", hint=_REONBOARD)
        raise self._pending


def damage(topic: str, error: KafkaError) -> LogCorrupted | None:
    """Whether a record cannot be read."""
    return LogCorrupted(f"log topic {topic}: {error.str()}", hint=_READ_AGAIN) if error.code() in _DAMAGED else None


def lost(topic: str, error: KafkaError) -> PositionLost | None:
    """Whether the log does not have what was wanted."""
    if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE) or error.fatal():  # noqa: SLF001
        return PositionLost(f"log topic {topic}: {error.str()}", hint=_REONBOARD)
    return None


def without_errors(
    messages: Iterable[Message], trouble_of: Callable[[KafkaError], _Trouble | None]
) -> tuple[list[Message], _Trouble | None]:
    """The messages up to the first error that ends reading, and that error. Other errors of the client are dropped."""
    good: list[Message] = []
    for message in messages:
        error = message.error()
        if error is None:
            good.append(message)
        elif (trouble := trouble_of(error)) is not None:
            return good, trouble
    return good, None


def open_log_reader(plan: SyncPlan) -> KafkaLogReader:
    """A reader of the log topic of the plan's source, not yet assigned."""
    source = plan.source
    decoder = logged_kind(source.kind).decoder(source, plan.table_names)
    return KafkaLogReader(client_settings(resolve("kafka")), topic=source.log_topic, decoder=decoder)
