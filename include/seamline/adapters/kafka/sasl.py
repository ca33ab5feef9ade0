"""A SASL login on a connection that speaks Kafka's protocol itself (RFC 4616 PLAIN, RFC 5802 SCRAM)."""

import base64
import hashlib
import hmac
import secrets
import socket
import struct
from collections.abc import Callable, Mapping
from typing import Any

from seamline.domain.errors import ConfigError

_HANDSHAKE, _HANDSHAKE_VERSION = 17, 1
_AUTHENTICATE, _AUTHENTICATE_VERSION = 36, 0
_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
# A server may ask for more work than is reasonable; Kafka's own most is 16,384.
_ITERATIONS_MAX = 100_000

Ask = Callable[[int, int, bytes], bytes]
"""Sends a request of this key and version; gives the answer behind its correlation id."""


def log_in(ask: Ask, settings: Mapping[str, Any]) -> None:
    """Log in as librdkafka's `settings` say. ConfigError where the broker refuses, or the mechanism is another."""
    mechanism = str(settings.get("sasl.mechanism") or settings.get("sasl.mechanisms") or "GSSAPI")
    login, password = str(settings.get("sasl.username", "")), str(settings.get("sasl.password", ""))
    if mechanism != "PLAIN" and mechanism not in _HASHES:
        raise ConfigError(
            f"sizes and quotas cannot be asked for with sasl.mechanism {mechanism}",
            hint=f"Kafka's connection takes PLAIN, {', '.join(_HASHES)}",
        )
    answer = ask(_HANDSHAKE, _HANDSHAKE_VERSION, _text(mechanism))
    if struct.unpack_from(">h", answer)[0]:
        raise ConfigError(f"the broker does not take sasl.mechanism {mechanism}", hint="correct it in its connection")
    if mechanism == "PLAIN":
        _authenticate(ask, f"\0{login}\0{password}".encode())
    else:
        _scram(ask, _HASHES[mechanism], login, password)


def _scram(ask: Ask, hash_name: str, login: str, password: str) -> None:
    name = login.replace("=", "=3D").replace(",", "=2C")
    nonce = secrets.token_urlsafe(24)
    first = f"n={name},r={nonce}"
    answer = _authenticate(ask, f"n,,{first}".encode()).decode()
    said = dict(part.split("=", 1) for part in answer.split(","))
    iterations = int(said["i"])
    if not said["r"].startswith(nonce) or not 0 < iterations <= _ITERATIONS_MAX:
        raise ConnectionError("the broker's SCRAM answer is not one to this login")
    salted = hashlib.pbkdf2_hmac(hash_name, password.encode(), base64.b64decode(said["s"]), iterations)
    without_proof = f"c=biws,r={said['r']}"
    message = f"{first},{answer},{without_proof}".encode()
    client_key = hmac.digest(salted, b"Client Key", hash_name)
    signature = hmac.digest(hashlib.new(hash_name, client_key).digest(), message, hash_name)
    proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
    last = _authenticate(ask, f"{without_proof},p={base64.b64encode(proof).decode()}".encode()).decode()
    expected = hmac.digest(hmac.digest(salted, b"Server Key", hash_name), message, hash_name)
    if not hmac.compare_digest(last, f"v={base64.b64encode(expected).decode()}"):
        raise ConnectionError("the broker does not know the password itself: it is another server")


def _authenticate(ask: Ask, token: bytes) -> bytes:
    answer = ask(_AUTHENTICATE, _AUTHENTICATE_VERSION, struct.pack(">i", len(token)) + token)
    (error, length) = struct.unpack_from(">hh", answer)
    at = 4 + max(length, 0)
    if error:
        raise ConfigError(
            f"Kafka refused the login: {answer[4:at].decode()}", hint="correct login and password of its connection"
        )
    (size,) = struct.unpack_from(">i", answer, at)
    return answer[at + 4 : at + 4 + size]


def _text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def asker(link: socket.socket, read: Callable[[socket.socket, int], bytes]) -> Ask:
    """Requests on this connection, one after another. `read` gives exactly so many bytes."""

    def ask(key: int, version: int, body: bytes) -> bytes:
        message = struct.pack(">hhih8s", key, version, 1, 8, b"seamline") + body
        link.sendall(struct.pack(">i", len(message)) + message)
        (length,) = struct.unpack(">i", read(link, 4))
        return read(link, length)[4:]

    return ask
