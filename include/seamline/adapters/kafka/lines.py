"""A topic of short lines that only grows: each is acknowledged by all replicas in sync before a call returns."""

import time
from collections.abc import Iterator
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from seamline.adapters.connections import resolve
from seamline.adapters.kafka.client import REQUEST_TIMEOUT_S, client_settings, translated
from seamline.adapters.kafka.topics import CaptureTopics
from seamline.domain.errors import TransientError

_CONSUMER = {
    "group.id": "seamline-lines",
    "enable.auto.commit": False,
    "auto.offset.reset": "error",
    "check.crcs": True,
    "enable.partition.eof": False,
}
_AT_ONCE = 1_000


class KafkaLines:
    """The lines of `topic`, which is made where it is missing. ConfigError where it would lose some of them."""

    def __init__(self, topic: str, settings: dict[str, Any] | None = None) -> None:
        self.topic = topic
        self._settings = client_settings(resolve("kafka")) if settings is None else settings
        self._topics = CaptureTopics(self._settings)
        self._topics.ensure_lines(topic)

    def end(self) -> int:
        """The offset after the last line."""
        return self._topics.offsets(self.topic)[1]

    def last(self) -> str:
        """The newest line; "" where none is kept."""
        low, end = self._topics.offsets(self.topic)
        return next((text for _, text in self.read(end, since=end - 1)), "") if end > low else ""

    def append(self, text: str) -> int:
        """Write one line; its offset. TransientError: nobody knows whether it was written, and it may be repeated."""
        answers: list[tuple[Any, Message]] = []
        producer = Producer({**self._settings, "acks": "all", "enable.idempotence": True})
        producer.produce(self.topic, value=text.encode(), on_delivery=lambda error, sent: answers.append((error, sent)))
        producer.flush(REQUEST_TIMEOUT_S)
        if not answers or answers[0][0] is not None:
            said = answers[0][0].str() if answers else f"no answer within {REQUEST_TIMEOUT_S:.0f} s"
            raise TransientError(f"a line was not written into topic {self.topic}: {said}", hint="is the broker up?")
        return int(answers[0][1].offset() or 0)

    def read(self, end: int, *, since: int = 0) -> Iterator[tuple[int, str]]:
        """Offset and text of the lines from `since` (or the oldest that is kept) to `end`, exclusive."""
        low, _ = self._topics.offsets(self.topic)
        place = max(low, since)
        consumer = Consumer({**self._settings, **_CONSUMER})
        try:
            consumer.assign([TopicPartition(self.topic, 0, place)])
            yield from self._lines(consumer, place, end)
        except KafkaException as exc:
            raise translated(exc, doing=f"read topic {self.topic}", settings=self._settings) from exc
        finally:
            consumer.close()

    def _lines(self, consumer: Consumer, place: int, end: int) -> Iterator[tuple[int, str]]:
        heard = time.monotonic()
        while place < end:
            for message in consumer.consume(_AT_ONCE, 1.0):
                if (error := message.error()) is not None:
                    raise KafkaException(error)
                heard, offset = time.monotonic(), message.offset() or 0
                if offset >= end:
                    return
                place = offset + 1
                yield offset, (message.value() or b"").decode(errors="replace")
            if time.monotonic() - heard > REQUEST_TIMEOUT_S:
                raise TransientError(f"topic {self.topic} gave no line for {REQUEST_TIMEOUT_S:.0f} s")
