"""Hands connections over to Connect's worker: logins in its secrets file, certificates in files beside it.

A connector's settings only name them. They are written again whenever a capture is opened or its failed task is about
to be restarted, so a login that was rotated and a connection that is new reach the connector with its next start: a
task reads the file each time it starts.
"""

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.hazmat.primitives.serialization.pkcs12 import (
    PKCS12Certificate,
    serialize_java_truststore,
    serialize_key_and_certificates,
)

from seamline.adapters.connections import Connection
from seamline.adapters.private_file import alone_in, write_private
from seamline.adapters.tls import tls_of
from seamline.domain.errors import ConfigError

# Where librdkafka's settings name what `sslrootcert`, `sslcert` and `sslkey` name elsewhere.
_KAFKA_FILES = ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location")
_LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
LOGIN_MECHANISMS = tuple(_LOGIN_MODULES)


def file_beside(secrets_file: str, connection_id: str, name: str) -> str:
    """The path on Connect's machine of a file of this connection: `ca.pem`, `cert.pem`, `key.pk8`, `client.pem` (key
    and certificate), `truststore.p12` or `keystore.p12`."""
    return str(PurePosixPath(secrets_file).parent / f"{connection_id}.{name}")


@dataclass(frozen=True, slots=True)
class _Handed:
    """`files`: PEM files of the CA, the certificate and its key, "" where there is none. `jaas`: a login as Java's
    Kafka clients take it."""

    connection: Connection
    files: tuple[str, str, str]
    jaas: str = ""


def hand_over(secrets_file: Path, *sources: Connection, kafka: Connection | None = None) -> None:
    """Write login and certificates of these connections; what is there of others stays. Safe to repeat."""
    handed = [*map(_of_source, sources), *([_of_kafka(kafka)] if kafka else [])]
    try:
        with alone_in(secrets_file.parent):
            _write(secrets_file, handed)
    except OSError as exc:
        raise ConfigError(
            f"Connect's secrets {secrets_file} cannot be written: {exc}",
            hint="secrets_file_here of the connection `connect` lies where this account may write, or is left out",
        ) from exc


def _of_source(connection: Connection) -> _Handed:
    """A database's, or another cluster's of Kafka."""
    if any(name in connection.extra for name in (*_KAFKA_FILES, "security.protocol")):
        return _of_kafka(connection)
    tls = tls_of(connection)
    return _Handed(connection, (tls.ca, tls.certificate, tls.key))


def _of_kafka(connection: Connection) -> _Handed:
    ca, certificate, key = (str(connection.extra.get(name) or "") for name in _KAFKA_FILES)
    return _Handed(connection, (ca, certificate, key), _jaas(connection))


def _write(secrets_file: Path, handed: Sequence[_Handed]) -> None:
    before = _read(secrets_file)
    lines = dict(before)
    for one in handed:
        connection_id = one.connection.connection_id
        store_password = before.get(f"{connection_id}.store_password") or secrets.token_urlsafe(18)
        files = _files(one, store_password)
        lines |= _secrets(one, store_password if files else "")
        for name, content in files.items():
            write_private(Path(file_beside(str(secrets_file), connection_id, name)), content)
    if lines != before:
        write_private(secrets_file, "".join(f"{name}={_escaped(value)}\n" for name, value in lines.items()))


def _secrets(handed: _Handed, store_password: str) -> dict[str, str]:
    own = {
        "user": handed.connection.login,
        "password": handed.connection.password,
        "store_password": store_password,
        "jaas": handed.jaas,
    }
    return {f"{handed.connection.connection_id}.{name}": value for name, value in own.items() if value}


def _jaas(connection: Connection) -> str:
    login, password, mechanism = kafka_login(connection)
    module = _LOGIN_MODULES.get(mechanism)
    if not login or module is None:
        return ""
    login, password = (text.replace("\\", "\\\\").replace('"', '\\"') for text in (login, password))
    return f'{module} required username="{login}" password="{password}";'


def kafka_login(connection: Connection) -> tuple[str, str, str]:
    """Login, password and SASL mechanism, from librdkafka's names or Airflow's fields."""
    extra = connection.extra
    mechanism = str(extra.get("sasl.mechanism") or extra.get("sasl.mechanisms") or "GSSAPI")
    login = str(extra.get("sasl.username") or connection.login)
    return login, str(extra.get("sasl.password") or connection.password), mechanism


def _files(handed: _Handed, store_password: str) -> dict[str, bytes]:
    try:
        return _converted(*handed.files, store_password=store_password.encode())
    except (OSError, ValueError, TypeError) as exc:
        raise ConfigError(
            f"The certificates of connection `{handed.connection.connection_id}` cannot be given to Connect: {exc}",
            hint="they are PEM files, and the private key has no password",
        ) from exc


def _converted(ca: str, certificate: str, key: str, *, store_password: bytes) -> dict[str, bytes]:
    """Java's PostgreSQL driver and Kafka clients take PEM, those of MariaDB a store."""
    made: dict[str, bytes] = {}
    locked = BestAvailableEncryption(store_password)
    if ca:
        found = x509.load_pem_x509_certificates(Path(ca).read_bytes())
        trusted = [PKCS12Certificate(one, f"ca-{number}".encode()) for number, one in enumerate(found)]
        made["ca.pem"] = b"".join(one.public_bytes(Encoding.PEM) for one in found)
        made["truststore.p12"] = serialize_java_truststore(trusted, locked)
    if certificate and key:
        own, *chain = x509.load_pem_x509_certificates(Path(certificate).read_bytes())
        private = load_pem_private_key(Path(key).read_bytes(), None)
        made["cert.pem"] = b"".join(one.public_bytes(Encoding.PEM) for one in (own, *chain))
        # pgjdbc takes a key in PEM for one of RSA (42.7.13); of PKCS#8 in DER it learns the kind from the certificate.
        made["key.pk8"] = private.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
        key_pem = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        made["client.pem"] = key_pem + made["cert.pem"]
        made["keystore.p12"] = serialize_key_and_certificates(b"client", private, own, chain, locked)  # type: ignore[arg-type]
    return made


# Java's properties format, of a value.
_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}
_ESCAPED = {escape[1]: letter for letter, escape in _ESCAPES.items()}


def _read(path: Path) -> dict[str, str]:
    """Lines of a name, an equals sign and a value. As Java, it passes over blanks before the value."""
    if not path.exists():
        return {}
    pairs = (line.partition("=") for line in path.read_text(encoding="utf-8").split("\n") if "=" in line)
    return {name: _unescaped(value.lstrip(" \t\f")) for name, _, value in pairs}


def _unescaped(value: str) -> str:
    return re.sub(r"\\(.)", lambda found: _ESCAPED.get(found[1], found[1]), value)


def _escaped(value: str) -> str:
    text = "".join(_ESCAPES.get(letter, letter) for letter in value)
    return f"\\{text}" if text.startswith(" ") else text


def java_client_settings(kafka: Connection, *, secrets_file: str) -> Mapping[str, str]:
    """The security of connection `kafka` in the words of a Java client that a connector opens itself; {} in the clear.

    ConfigError for what librdkafka can and this cannot.
    """
    protocol = str(kafka.extra.get("security.protocol", "plaintext")).upper()
    if protocol == "PLAINTEXT":
        return {}
    _refuse_what_java_lacks(kafka)
    made = {"security.protocol": protocol}
    if protocol.startswith("SASL"):
        made["sasl.mechanism"] = kafka_login(kafka)[2]
        made["sasl.jaas.config"] = f"${{file:{secrets_file}:{kafka.connection_id}.jaas}}"
    for setting, named, name in (
        ("ssl.truststore", "ssl.ca.location", "ca.pem"),
        ("ssl.keystore", "ssl.certificate.location", "client.pem"),
    ):
        if kafka.extra.get(named):
            made[f"{setting}.type"] = "PEM"
            made[f"{setting}.location"] = file_beside(secrets_file, kafka.connection_id, name)
    if kafka.extra.get("ssl.endpoint.identification.algorithm") == "none":
        made["ssl.endpoint.identification.algorithm"] = ""
    return made


_TRANSLATED = (*_KAFKA_FILES, "ssl.endpoint.identification.algorithm", "sasl.mechanism", "sasl.mechanisms")
_LOGIN_NAMES = ("sasl.username", "sasl.password")


def _refuse_what_java_lacks(kafka: Connection) -> None:
    odd = [
        name for name in kafka.extra if name.startswith(("ssl.", "sasl.")) and name not in (*_TRANSLATED, *_LOGIN_NAMES)
    ]
    mechanism = kafka_login(kafka)[2]
    if str(kafka.extra.get("security.protocol", "")).lower().startswith("sasl") and mechanism not in _LOGIN_MODULES:
        odd.append(f"sasl.mechanism {mechanism}")
    if odd:
        raise ConfigError(
            f"Connection `{kafka.connection_id}`: the connector's own Kafka clients cannot be given {', '.join(odd)}",
            hint=f"mechanisms are {', '.join(LOGIN_MECHANISMS)}; certificates are PEM files named by"
            f" {', '.join(_KAFKA_FILES)} (docs/reference/connections.md)",
        )
