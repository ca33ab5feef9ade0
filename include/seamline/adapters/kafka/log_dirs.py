"""Bytes that a partition takes on its broker's disk: Kafka's DescribeLogDirs request, which librdkafka does not offer.

Request and answer are version 1 of the public protocol (https://kafka.apache.org/protocol#The_Messages_DescribeLogDirs),
spoken on a short connection of its own, encrypted and logged in as librdkafka's settings say.
"""

import socket
import ssl
import struct
from collections.abc import Iterator, Mapping
from typing import Any

from seamline.adapters.kafka import sasl
from seamline.domain.errors import TransientError

_DESCRIBE_LOG_DIRS = 35
_VERSION = 1
_TIMEOUT_S = 10.0


def partition_bytes(host: str, port: int, topic: str, *, settings: Mapping[str, Any]) -> int:
    """Size of all segments of partition 0 of `topic` on this broker; 0 where the broker holds none of it.

    `settings`: librdkafka's, by which the connection is encrypted and logged in.
    """
    name = topic.encode()
    body = struct.pack(f">ih{len(name)}sii", 1, len(name), name, 1, 0)
    protocol = str(settings.get("security.protocol", "plaintext")).lower()
    try:
        tls = _context(settings) if protocol.endswith("ssl") else None
        plain = socket.create_connection((host, port), timeout=_TIMEOUT_S)
        # The encrypted one takes the plain one over, also where the handshake fails.
        with tls.wrap_socket(plain, server_hostname=host) if tls else plain as link:
            ask = sasl.asker(link, _read)
            if protocol.startswith("sasl"):
                sasl.log_in(ask, settings)
            answer = ask(_DESCRIBE_LOG_DIRS, _VERSION, body)
    except OSError as exc:
        raise TransientError(
            f"Kafka at {host}:{port} did not report the size of topic {topic}: {exc}", hint="is the broker up?"
        ) from exc
    return sum(size for named, index, size in _partitions(answer) if named == topic and index == 0)


def _context(settings: Mapping[str, Any]) -> ssl.SSLContext:
    """As librdkafka reads its settings: by default host name and CA are verified."""
    context = ssl.create_default_context(cafile=settings.get("ssl.ca.location"))
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.check_hostname = settings.get("ssl.endpoint.identification.algorithm") != "none"
    if str(settings.get("enable.ssl.certificate.verification", "true")).lower() == "false":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate := settings.get("ssl.certificate.location"):
        context.load_cert_chain(certificate, settings.get("ssl.key.location"), settings.get("ssl.key.password"))
    return context


def _read(link: socket.socket, length: int) -> bytes:
    parts = bytearray()
    while len(parts) < length:
        chunk = link.recv(length - len(parts))
        if not chunk:
            raise ConnectionError("the broker closed the connection")
        parts += chunk
    return bytes(parts)


class _Answer:
    """A cursor over the fixed-width fields of one answer."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, layout: str) -> int:
        (value,) = struct.unpack_from(layout, self._data, self._at)
        self._at += struct.calcsize(layout)
        return int(value)

    def text(self) -> str:
        length = self.take(">h")
        value = self._data[self._at : self._at + length].decode()
        self._at += length
        return value


def _partitions(data: bytes) -> Iterator[tuple[str, int, int]]:
    """(topic, partition, bytes) for every partition in the answer; a log folder may hold several, or a moving copy."""
    answer = _Answer(data)
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
