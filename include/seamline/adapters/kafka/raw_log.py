"""The messages of a log topic between two offsets, as they stand there: `ports.log_archive.RawLog`."""

import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from seamline.adapters.kafka.client import translated
from seamline.adapters.kafka.log_reader import CONSUMER_SETTINGS, damage, lost
from seamline.domain.errors import LogCorrupted, PositionLost, TransientError
from seamline.domain.log_archive import LogMessage

_NOTHING_FOR_S = 60.0
_POLL_S = 1.0
_AT_ONCE = 10_000


class KafkaRawLog:
    def __init__(self, settings: dict[str, Any], topic: str) -> None:
        self._settings = settings
        self._topic = topic

    def read(self, begins: int, ends: int) -> Iterator[Sequence[LogMessage]]:
        try:
            # At the end of what can be read the client says where that is, holes included.
            consumer = Consumer({**self._settings, **CONSUMER_SETTINGS, "enable.partition.eof": True})
        except KafkaException as exc:
            raise translated(exc, doing="open a consumer", settings=self._settings) from exc
        with closing(consumer):
            consumer.assign([TopicPartition(self._topic, 0, begins)])
            yield from self._read(consumer, ends)

    def _read(self, consumer: Consumer, ends: int) -> Iterator[Sequence[LogMessage]]:
        heard_s = time.monotonic()
        while True:
            messages = consumer.consume(1, _POLL_S)
            if messages:
                messages += consumer.consume(_AT_ONCE - 1, 0)
                heard_s = time.monotonic()
            elif time.monotonic() - heard_s > _NOTHING_FOR_S:
                raise TransientError(
                    f"log topic {self._topic} has brought nothing for {_NOTHING_FOR_S:g} s, though offset {ends} is not"
                    " reached",
                    hint="is every broker up?",
                )
            found, is_over = self._sorted(messages, ends)
            if found:
                yield found
            if is_over:
                return

    def _sorted(self, messages: Sequence[Message], ends: int) -> tuple[list[LogMessage], bool]:
        """Those before the end, and whether it was reached."""
        found: list[LogMessage] = []
        for message in messages:
            error, offset = message.error(), message.offset() or 0
            if error is None and offset < ends:
                found.append(message)
            elif error is None:
                return found, True
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
                if offset >= ends:
                    return found, True
            elif trouble := self._trouble(error):
                raise trouble
        return found, False

    def _trouble(self, error: KafkaError) -> LogCorrupted | PositionLost | None:
        return damage(self._topic, error) or lost(self._topic, error)
