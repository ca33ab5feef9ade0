"""A request of Kafka's own protocol that librdkafka does not offer (https://kafka.apache.org/protocol), on a short
connection of its own, encrypted and logged in as librdkafka's settings say."""

import socket
import ssl
import struct
from collections.abc import Mapping
from typing import Any

from seamline.adapters.kafka import sasl
from seamline.adapters.kafka.client import CURE_OF_SETTINGS
from seamline.domain.errors import ConfigError, TransientError

_TIMEOUT_S = 10.0


class HungUp(TransientError):
    """The broker has closed the connection in place of an answer, as one does that does not know the version."""


class _Closed(ConnectionError):
    pass


def ask_broker(
    place: tuple[str, int], request: tuple[int, int, bytes], *, settings: Mapping[str, Any], doing: str
) -> bytes:
    """The answer behind its correlation id. `place`: host and port. `request`: key, version and body; of a version
    whose header has tagged fields both bodies begin with those.

    TransientError: the broker does not answer; `doing` says what was asked of it. HungUp: it has closed the
    connection. ConfigError: it refuses the login, or one of the two the other's certificate.
    """
    protocol = str(settings.get("security.protocol", "plaintext")).lower()
    try:
        tls = tls_context(settings) if protocol.endswith("ssl") else None
        plain = socket.create_connection(place, timeout=_TIMEOUT_S)
        # The encrypted one takes the plain one over, also where the handshake fails.
        with tls.wrap_socket(plain, server_hostname=place[0]) if tls else plain as link:
            ask = sasl.asker(link, _read)
            if protocol.startswith("sasl"):
                sasl.log_in(ask, settings)
            return ask(*request)
    except (ssl.SSLEOFError, ssl.SSLZeroReturnError) as exc:
        raise _not_answered(place, doing, exc) from exc
    except ssl.SSLError as exc:
        raise ConfigError(f"Kafka at {place[0]}:{place[1]} refused to {doing}: {exc}", hint=CURE_OF_SETTINGS) from exc
    except _Closed as exc:
        raise HungUp(_not_answered(place, doing, exc).message, hint="is the broker up?") from exc
    except OSError as exc:
        raise _not_answered(place, doing, exc) from exc


def _not_answered(place: tuple[str, int], doing: str, exc: OSError) -> TransientError:
    return TransientError(f"Kafka at {place[0]}:{place[1]} did not {doing}: {exc}", hint="is the broker up?")


def tls_context(settings: Mapping[str, Any]) -> ssl.SSLContext:
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
            raise _Closed("the broker closed the connection")
        parts += chunk
    return bytes(parts)


def text(value: str) -> bytes:
    """A string as requests hold it."""
    return struct.pack(">h", len(value.encode())) + value.encode()


class Answer:
    """A cursor over the fixed-width fields of one answer."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, layout: str) -> int:
        (value,) = struct.unpack_from(layout, self._data, self._at)
        self._at += struct.calcsize(layout)
        return int(value)

    def text(self) -> str:
        """ "" where it is null."""
        length = max(self.take(">h"), 0)
        return self._text(length)

    def length(self) -> int:
        """Of a compact list; 0 where it is null."""
        return max(self._unsigned() - 1, 0)

    def compact_text(self) -> str:
        """ "" where it is null."""
        return self._text(self.length())

    def tags(self) -> None:
        """Pass over the tagged fields of a structure."""
        for _ in range(self._unsigned()):
            self._unsigned()
            length = self._unsigned()
            self._at += length

    def _unsigned(self) -> int:
        """A number of seven bits a byte."""
        value = shift = 0
        while True:
            byte = self.take(">B")
            value |= (byte & 0x7F) << shift
            if byte <= 0x7F:  # noqa: PLR2004 (the last one)
                return value
            shift += 7

    def _text(self, length: int) -> str:
        value = self._data[self._at : self._at + length].decode()
        self._at += length
        return value
