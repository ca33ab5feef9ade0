"""What a connection says of TLS reaches its client as it was meant, or is refused with the cure."""

import json
import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from cryptography.hazmat.primitives.serialization import load_der_private_key, pkcs12
from sqlalchemy import make_url

from seamline import settings
from seamline.adapters.connect.handed_over import hand_over, java_client_settings
from seamline.adapters.connect.trace import cure_of
from seamline.adapters.connections import Connection, resolve
from seamline.adapters.kafka import one_request
from seamline.adapters.kafka.client import client_settings
from seamline.adapters.tls import client_context, libpq_tls, pymysql_tls, tls_of
from seamline.databases.postgres import client as postgres
from seamline.databases.postgres.rows_url import url_of
from seamline.domain.errors import ConfigError, TransientError
from seamline.platform import database as platform
from seamline.sources.postgres import client as postgres_source
from tests.certificates import Authority


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def full(authority: Authority) -> dict[str, str]:
    own = authority.client("writer")
    named = {"sslrootcert": authority.ca, "sslcert": own.certificate, "sslkey": own.key}
    return {"sslmode": "verify-full", **{name: str(path) for name, path in named.items()}}


def connection(folder: Path, kind: str, extra: dict[str, Any], *, login: str = "") -> Connection:
    entry = {"conn_type": kind, "host": "db.example", "port": 1, "login": login, "password": "hunter2", "extra": extra}
    (folder / "connections.json").write_text(json.dumps({"place": entry}))
    return resolve("place", within=settings.load({"SEAMLINE_DATA": str(folder)}))


MISTAKES = (
    ("postgres", {"sslmod": "require"}, "did you mean `sslmode`?"),
    ("mysql", {"sslmod": "require"}, "did you mean `sslmode`?"),
    ("postgres", {"sslmode": "verify_full"}, "verify-full"),
    ("mysql", {"sslmode": "prefer"}, "disable, require, verify-ca, verify-full"),
    ("mysql", {"ssl_mode": "REQUIRED"}, "write `sslmode`"),
    ("mysql", {"ssl": {"ca": "/ca"}}, "write `sslmode`, `sslrootcert`"),
    ("postgres", {"sslrootcert": "/ca"}, "add sslmode: verify-full"),
    ("postgres", {"sslmode": "disable", "sslcert": "/c", "sslkey": "/k"}, "add sslmode: verify-full"),
    ("postgres", {"sslmode": "verify-full"}, "name its PEM file in sslrootcert"),
    ("mysql", {"sslmode": "require", "sslcert": "/c"}, "sslcert and sslkey"),
    ("postgres", {"sslmode": "verify-ca", "sslrootcert": "/no/such/ca"}, "which cannot be read here"),
    ("postgres", {"application_name": "x"}, "known are sslmode"),
    ("postgres", {"port_for_connect": "db.internal"}, "a number"),
    ("ftp", {"sslmode": "require"}, "disable, verify-ca, verify-full"),
    ("ftp", {"sslmode": "verify-ca"}, "name its PEM file in sslrootcert"),
    ("ftp", {"sslrootcert": "/ca"}, "add sslmode: verify-full"),
    ("https", {"sslrootcrt": "/ca"}, "did you mean `sslrootcert`?"),
    ("kafka", {"ssl.ca.location": "/ca"}, "add security.protocol: SSL"),
    ("kafka", {"sasl.username": "x", "security.protocol": "SSL"}, "add security.protocol: SASL_SSL"),
    ("kafka", {"security.protocol": "SSL", "ssl.ca.location": "/no/such/ca"}, "which cannot be read here"),
)


@pytest.mark.parametrize(("kind", "extra", "cure"), MISTAKES)
def test_what_cannot_be_honoured_is_refused_with_the_connection_and_the_cure(
    kind: str, extra: dict[str, Any], cure: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as refused:
        connection(tmp_path, kind, extra)
    assert "Connection `place`" in str(refused.value)
    assert cure in str(refused.value)


def test_a_login_of_kafka_that_would_not_be_sent_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"security\.protocol: SASL_SSL"):
        connection(tmp_path, "kafka", {}, login="seamline")


def test_a_private_key_that_others_may_read_is_refused(tmp_path: Path, full: dict[str, str]) -> None:
    key = tmp_path / "loose.key"
    key.write_bytes(Path(full["sslkey"]).read_bytes())
    key.chmod(0o644)
    with pytest.raises(ConfigError, match=f"chmod 600 {key}"):
        connection(tmp_path, "postgres", {**full, "sslkey": str(key)})
    kafka = {"security.protocol": "SSL", "ssl.certificate.location": full["sslcert"], "ssl.key.location": str(key)}
    with pytest.raises(ConfigError, match=f"chmod 600 {key}"):
        connection(tmp_path, "kafka", kafka)


def test_the_cas_of_the_system_are_a_file_for_no_client_of_kafka(tmp_path: Path) -> None:
    kafka = connection(tmp_path, "kafka", {"security.protocol": "SSL", "ssl.ca.location": "probe"})
    assert "ssl.truststore.location" not in java_client_settings(kafka, secrets_file="/x")
    hand_over(tmp_path / "connect" / "secrets.properties", kafka=kafka)
    assert one_request.tls_context(client_settings(kafka)).verify_mode is ssl.CERT_REQUIRED


@pytest.mark.parametrize("form", ["uri", "uri with __extra__", "json"])
def test_a_variable_says_tls_in_each_of_airflows_forms(form: str, full: dict[str, str], tmp_path: Path) -> None:
    place = "postgresql://me:p%40ss@db.example:5432/warehouse"
    entry = {"conn_type": "postgres", "host": "db.example", "port": 5432, "login": "me", "password": "p@ss"}
    given = {
        "uri": f"{place}?{urlencode(full)}",
        "uri with __extra__": f"{place}?__extra__={quote(json.dumps(full))}",
        "json": json.dumps({**entry, "schema": "warehouse", "extra": json.dumps(full)}),
    }[form]
    known = settings.load({"SEAMLINE_DATA": str(tmp_path), "SEAMLINE_CONNECTION_PLACE": given})
    found = resolve("place", within=known)
    assert (found.kind, found.password, found.database) == ("postgres", "p@ss", "warehouse")
    assert libpq_tls(found) == full


def test_a_variable_that_is_no_json_is_named_and_not_printed(tmp_path: Path) -> None:
    known = settings.load({"SEAMLINE_DATA": str(tmp_path), "SEAMLINE_CONNECTION_PLACE": '{"password": "hunter2"'})
    with pytest.raises(ConfigError) as refused:
        resolve("place", within=known)
    assert "SEAMLINE_CONNECTION_PLACE" in str(refused.value)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("mode", "has_ca", "checks_host", "checks_ca"),
    [
        ("require", False, False, False),
        # As libpq: a CA that is named is asked.
        ("require", True, False, True),
        ("verify-ca", True, False, True),
        ("verify-full", True, True, True),
    ],
)
def test_python_s_own_tls_verifies_what_the_mode_says(
    mode: str, has_ca: bool, checks_host: bool, checks_ca: bool, full: dict[str, str], tmp_path: Path
) -> None:
    extra = {"sslmode": mode, **({"sslrootcert": full["sslrootcert"]} if has_ca else {})}
    context = pymysql_tls(connection(tmp_path, "mysql", extra))["ssl"]
    assert context.check_hostname is checks_host
    assert (context.verify_mode is ssl.CERT_REQUIRED) is checks_ca


def test_what_is_not_said_stays_the_drivers_own_and_disable_is_in_the_clear(tmp_path: Path) -> None:
    silent = connection(tmp_path, "mysql", {})
    assert (pymysql_tls(silent), libpq_tls(silent)) == ({}, {})
    assert pymysql_tls(connection(tmp_path, "mysql", {"sslmode": "disable"})) == {"ssl_disabled": True}


def test_certificates_that_do_not_belong_together_are_named(
    tmp_path: Path, full: dict[str, str], authority: Authority
) -> None:
    other = authority.client("another")
    with pytest.raises(ConfigError, match="Connection `place`: its certificates cannot be used"):
        client_context(connection(tmp_path, "mysql", {**full, "sslkey": str(other.key)}))


@contextmanager
def ends_every_session(authority: Authority) -> Iterator[int]:
    """The port of a PostgreSQL that is killed once a session is encrypted: the kernel closes its socket."""
    pair = authority.server("localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)

    def serve(listening: socket.socket) -> None:
        session, _ = listening.accept()
        session.recv(8)
        session.sendall(b"S")
        with context.wrap_socket(session, server_side=True) as encrypted:
            encrypted.recv(1024)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        serving = threading.Thread(target=serve, args=(listening,))
        serving.start()
        yield listening.getsockname()[1]
        serving.join()


@pytest.mark.parametrize(
    "open_session",
    [
        lambda known: postgres.open_session(known, application_name="test"),
        postgres_source.open_session,
        lambda _: platform.open_session(),
    ],
    ids=["destination", "source", "platform"],
)
def test_an_encrypted_session_that_is_lost_is_no_wrong_setting(
    open_session: Callable[[Connection], object],
    authority: Authority,
    full: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with ends_every_session(authority) as port:
        ca = full["sslrootcert"]
        uri = f"postgres://me:hunter2@localhost:{port}/db?sslmode=verify-full&sslrootcert={quote(ca)}"
        monkeypatch.setenv("SEAMLINE_CONNECTION_SEAMLINE_DB", uri)
        with pytest.raises(TransientError, match="unexpected eof"):
            open_session(resolve("seamline_db"))


def test_great_expectations_opens_the_staged_cut_by_the_same_settings(tmp_path: Path, full: dict[str, str]) -> None:
    url = make_url(url_of(connection(tmp_path, "postgres", full, login="me"), "stage"))
    assert {name: url.query[name] for name in full} == full
    secret = Connection("place", "postgres", "h", 1, "me too", "a +%$b")
    text = url_of(secret, "stage")
    assert (make_url(text).username, make_url(text).password) == (secret.login, secret.password)


def test_connect_is_given_logins_and_certificates_in_the_forms_of_java(tmp_path: Path, full: dict[str, str]) -> None:
    file = tmp_path / "connect" / "secrets.properties"
    login = 'a\\b"c'
    kafka_extra = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "ssl.ca.location": full["sslrootcert"],
        "ssl.certificate.location": full["sslcert"],
        "ssl.key.location": full["sslkey"],
    }
    kafka = Connection("kafka", "kafka", "k", 1, login, "hunter3", extra=kafka_extra)
    bank = connection(tmp_path, "mysql", full, login=login)
    file.parent.mkdir()
    file.write_text("other.user=stays\n")
    hand_over(file, bank, kafka=kafka)
    hand_over(file, bank, kafka=kafka)
    lines = dict(line.split("=", 1) for line in file.read_text().splitlines())
    assert lines["other.user"] == "stays"
    assert lines["place.user"] == 'a\\\\b"c'
    assert lines["place.password"] == "hunter2"
    # Escaped for JAAS, and then for the file.
    assert r'username="a\\\\b\\"c" password="hunter3";' in lines["kafka.jaas"]
    for path in file.parent.iterdir():
        assert path.stat().st_mode & 0o077 == 0, path
    password = lines["place.store_password"].encode()
    held = pkcs12.load_pkcs12((file.parent / "place.keystore.p12").read_bytes(), password)
    assert held.cert is not None
    assert held.key is not None
    trusted = pkcs12.load_pkcs12((file.parent / "place.truststore.p12").read_bytes(), password)
    assert len(trusted.additional_certs) == 1
    load_der_private_key((file.parent / "place.key.pk8").read_bytes(), None)
    both = (file.parent / "kafka.client.pem").read_bytes()
    assert [both.count(f"-----BEGIN {what}-----".encode()) for what in ("PRIVATE KEY", "CERTIFICATE")] == [1, 1]
    java = java_client_settings(kafka, secrets_file="/there/secrets.properties")
    assert java["sasl.jaas.config"] == "${file:/there/secrets.properties:kafka.jaas}"
    assert java["ssl.truststore.location"] == "/there/kafka.ca.pem"
    assert java["ssl.keystore.location"] == "/there/kafka.client.pem"
    assert tls_of(bank).is_encrypted


@pytest.mark.parametrize(
    "password", [" first", "\tfirst", "last ", "a\\b", "a\nb=c", "a\rb", "a\x0cb", "a\u2028b", "#=:!ä"]
)
def test_any_password_reaches_connect_as_it_is(password: str, tmp_path: Path) -> None:
    file = tmp_path / "secrets.properties"
    for login in ("before", "me"):
        for kind, name in (("mysql", "bank"), ("postgres", "other")):
            hand_over(file, Connection(name, kind, "h", 1, login, password))
    expected = {
        f"{name}.{what}": text for name in ("bank", "other") for what, text in (("user", "me"), ("password", password))
    }
    assert properties(file.read_bytes().decode()) == expected


def test_secrets_that_cannot_be_written_are_named(tmp_path: Path) -> None:
    """As one of our own errors: a capture that has failed is started again all the same."""
    folder = tmp_path / "no_folder"
    folder.touch()
    with pytest.raises(ConfigError, match=f"{folder}/secrets.properties cannot be written") as refused:
        hand_over(folder / "secrets.properties", Connection("bank_capture", "mysql", "h", 1, "me", "hunter2"))
    assert "hunter2" not in str(refused.value)


def properties(text: str) -> dict[str, str]:
    """As Java's Properties.load reads what is written here: names without escapes, no comments, no continued lines."""
    found = {}
    for line in re.split(r"\r\n|\r|\n", text):
        if line:
            name, _, value = line.partition("=")
            value = value.lstrip(" \t\f")
            found[name] = re.sub(
                r"\\(.)", lambda one: {"n": "\n", "r": "\r", "t": "\t", "f": "\f"}.get(one[1], one[1]), value
            )
    return found


def test_kafka_security_that_a_connector_cannot_have_is_refused() -> None:
    kafka = Connection("kafka", "kafka", "k", 1, extra={"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"})
    with pytest.raises(ConfigError, match=r"cannot be given sasl\.mechanism GSSAPI"):
        java_client_settings(kafka, secrets_file="/x")
    store = Connection("kafka", "kafka", "k", 1, extra={"security.protocol": "SSL", "ssl.keystore.location": "/x.p12"})
    with pytest.raises(ConfigError, match=r"ssl\.keystore\.location"):
        java_client_settings(store, secrets_file="/x")


def test_a_login_that_connect_did_not_find_is_not_called_a_wrong_password() -> None:
    said = "Access denied for user '${file:/x/secrets.properties:mine_capture.user}'@'localhost'"
    assert "secrets_file_here" in cure_of(said)
    assert "grants" not in cure_of(said)
