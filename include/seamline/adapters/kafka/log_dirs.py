"""Bytes that a partition takes on its broker's disk: Kafka's DescribeLogDirs request, version 1."""

import struct
from collections.abc import Iterator, Mapping
from typing import Any

from seamline.adapters.kafka.one_request import Answer, ask_broker, text
from seamline.domain.errors import ConfigError

_DESCRIBE_LOG_DIRS, _VERSION = 35, 1


def partition_bytes(host: str, port: int, topic: str, *, settings: Mapping[str, Any]) -> int:
    """Size of all segments of partition 0 of `topic` on this broker; 0 where the broker holds none of it.

    `settings`: librdkafka's, by which the connection is encrypted and logged in. ConfigError: the login may not ask
    for sizes; Kafka then answers as if it had no folder at all (KafkaApis.handleDescribeLogDirsRequest).
    """
    body = struct.pack(">i", 1) + text(topic) + struct.pack(">ii", 1, 0)
    doing = f"report the size of topic {topic}"
    answer = ask_broker((host, port), (_DESCRIBE_LOG_DIRS, _VERSION, body), settings=settings, doing=doing)
    if not _folders(answer):
        raise ConfigError(
            f"the login of Kafka's connection may not {doing}: the broker at {host}:{port} names none of its folders",
            hint="grant it DESCRIBE on the cluster: kafka-acls --add --allow-principal User:<login>"
            " --operation Describe --cluster",
        )
    return sum(size for named, index, size in _partitions(answer) if named == topic and index == 0)


def _folders(data: bytes) -> int:
    answer = Answer(data)
    answer.take(">i")  # throttle time
    return answer.take(">i")


def _partitions(data: bytes) -> Iterator[tuple[str, int, int]]:
    """(topic, partition, bytes) for every partition in the answer; a log folder may hold several, or a moving copy."""
    answer = Answer(data)
    answer.take(">i")  # throttle time
    for _ in range(answer.take(">i")):
        answer.take(">h")  # error code of the folder: an offline folder lists nothing
        answer.text()
        for _ in range(answer.take(">i")):
            topic = answer.text()
            for _ in range(answer.take(">i")):
                index, size = answer.take(">i"), answer.take(">q")
                answer.take(">q")  # how far a moving copy lags behind
                is_moving_copy = answer.take(">b")
                if not is_moving_copy:
                    yield topic, index, size
