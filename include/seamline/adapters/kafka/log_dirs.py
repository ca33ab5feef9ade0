"""Bytes that a partition takes on its broker's disk, and how many are free there: Kafka's DescribeLogDirs request.

Version 4 (Kafka 3.3) has the free ones; an older broker is asked by version 1.
"""

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from seamline.adapters.kafka.one_request import Answer, HungUp, ask_broker, text
from seamline.domain.errors import ConfigError

_DESCRIBE_LOG_DIRS, _WITHOUT_SPACE, _WITH_SPACE = 35, 1, 4


@dataclass(frozen=True, slots=True)
class Space:
    """`size_bytes`: of all segments of the partition; 0 where the broker holds none of it. `free_bytes`: what the
    folder that holds it has left; None where the broker does not say."""

    size_bytes: int
    free_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class _Folder:
    partitions: tuple[tuple[str, int, int], ...]
    free_bytes: int | None = None


def partition_bytes(host: str, port: int, topic: str, *, settings: Mapping[str, Any]) -> int:
    """As `partition_space`, without what is free."""
    return partition_space(host, port, topic, settings=settings).size_bytes


def partition_space(host: str, port: int, topic: str, *, settings: Mapping[str, Any]) -> Space:
    """Of partition 0 of `topic` on this broker.

    `settings`: librdkafka's, by which the connection is encrypted and logged in. ConfigError: the login may not ask
    for sizes; Kafka then answers as if it had no folder at all (KafkaApis.handleDescribeLogDirsRequest).
    """
    doing = f"report the size of topic {topic}"
    folders = _asked((host, port), topic, settings, doing)
    if not folders:
        raise ConfigError(
            f"the login of Kafka's connection may not {doing}: the broker at {host}:{port} names none of its folders",
            hint="grant it DESCRIBE on the cluster: kafka-acls --add --allow-principal User:<login>"
            " --operation Describe --cluster",
        )
    found = [(folder.free_bytes, sum(_sizes(folder, topic))) for folder in folders if [*_sizes(folder, topic)]]
    free = [one for one, _ in found if one is not None]
    return Space(sum(size for _, size in found), min(free, default=None))


def _sizes(folder: _Folder, topic: str) -> Iterator[int]:
    return (size for named, index, size in folder.partitions if named == topic and index == 0)


def _asked(place: tuple[str, int], topic: str, settings: Mapping[str, Any], doing: str) -> list[_Folder]:
    # Of a version with tagged fields the header ends with a list of them, and so does every structure.
    name = topic.encode()
    partitions = b"\x02" + struct.pack(">i", 0) + b"\x00"
    with_space = b"\x00\x02" + _length(len(name) + 1) + name + partitions + b"\x00"
    try:
        request = (_DESCRIBE_LOG_DIRS, _WITH_SPACE, with_space)
        return [*_folders_with_space(ask_broker(place, request, settings=settings, doing=doing))]
    except HungUp:
        body = struct.pack(">i", 1) + text(topic) + struct.pack(">ii", 1, 0)
        request = (_DESCRIBE_LOG_DIRS, _WITHOUT_SPACE, body)
        return [*_folders(ask_broker(place, request, settings=settings, doing=doing))]


def _length(value: int) -> bytes:
    """As an unsigned number of seven bits a byte."""
    found = bytearray()
    while value > 0x7F:  # noqa: PLR2004 (what one byte holds)
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def _folders(data: bytes) -> Iterator[_Folder]:
    """Of version 1. A log folder may hold several partitions, or a copy that moves."""
    answer = Answer(data)
    answer.take(">i")  # throttle time
    for _ in range(answer.take(">i")):
        answer.take(">h")  # error code of the folder: an offline folder lists nothing
        answer.text()
        partitions = []
        for _ in range(answer.take(">i")):
            topic = answer.text()
            partitions += [(topic, *_partition(answer)) for _ in range(answer.take(">i"))]
        yield _Folder(_without_copies(partitions))


def _folders_with_space(data: bytes) -> Iterator[_Folder]:
    """Of version 4."""
    answer = Answer(data)
    answer.tags()
    answer.take(">i")  # throttle time
    answer.take(">h")  # error code of a login that may not ask: it then names no folder
    for _ in range(answer.length()):
        answer.take(">h")
        answer.compact_text()
        partitions = []
        for _ in range(answer.length()):
            topic = answer.compact_text()
            for _ in range(answer.length()):
                partitions.append((topic, *_partition(answer)))
                answer.tags()
            answer.tags()
        answer.take(">q")  # all bytes of the folder's disk
        free = answer.take(">q")
        answer.tags()
        yield _Folder(_without_copies(partitions), free if free >= 0 else None)


def _partition(answer: Answer) -> tuple[int, int, int]:
    """Number, bytes, and whether it is a copy that moves."""
    index, size = answer.take(">i"), answer.take(">q")
    answer.take(">q")  # how far a moving copy lags behind
    return index, size, answer.take(">b")


def _without_copies(partitions: list[tuple[str, int, int, int]]) -> tuple[tuple[str, int, int], ...]:
    return tuple((topic, index, size) for topic, index, size, is_moving_copy in partitions if not is_moving_copy)
