"""A REST catalogue that takes encrypted calls of known clients alone: the right settings reach it, and no others."""

import socket
import ssl
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import requests
from urllib3.exceptions import MaxRetryError
from urllib3.exceptions import SSLError as UrllibSSLError

from seamline.adapters.connections import parsed
from seamline.domain.errors import ConfigError, TransientError
from seamline.sinks.iceberg.rest_client import RestClient, translated
from seamline.sinks.iceberg.rest_opening import properties_of
from tests.certificates import Authority
from tests.rest_catalogue import Catalogue, serving


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "authority")


@pytest.fixture
def newest() -> ssl.TLSVersion:
    """That the server speaks."""
    return ssl.TLSVersion.MAXIMUM_SUPPORTED


@pytest.fixture
def address(authority: Authority, newest: ssl.TLSVersion) -> Iterator[str]:
    """Of a catalogue with one namespace."""
    pair, asked = authority.server("127.0.0.1"), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    asked.load_cert_chain(pair.certificate, pair.key)
    asked.load_verify_locations(authority.ca)
    asked.verify_mode = ssl.CERT_REQUIRED
    asked.maximum_version = newest
    catalogue = Catalogue()
    catalogue.make_namespace("settlement")
    with serving(catalogue, asked) as address:
        yield address.removeprefix("https://")


def namespaces(address: str, **settings: object) -> list[tuple[str, ...]]:
    said = "&".join(f"{name}={value}" for name, value in settings.items())
    with closing(RestClient("lake", properties_of(parsed(f"iceberg://{address}/?{said}")))) as client:
        return client.namespaces()


def test_the_right_settings_reach_it_and_others_are_a_mistake_that_no_repeat_mends(
    authority: Authority, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = authority.client("seamline")
    right = {"sslrootcert": authority.ca, "sslcert": own.certificate, "sslkey": own.key}
    assert namespaces(address, **right) == [("settlement",)]
    stranger = Authority(tmp_path / "other")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(stranger.ca))
    assert namespaces(address, **right) == [("settlement",)], "the machine's CA goes before that of the connection"
    wrong = {"another CA": right | {"sslrootcert": stranger.ca}, "no CA of its own": {}}
    for what, settings in wrong.items():
        with pytest.raises(ConfigError, match="certificate") as said:
            namespaces(address, **settings)
        assert "sslrootcert" in said.value.hint, what


def unknown_clients(folder: Path) -> list[dict[str, object]]:
    """Without a certificate; with one of another CA; of another CA by the same name."""
    found: list[dict[str, object]] = [{}]
    for name in ("another CA", "test CA"):
        stranger = Authority(folder / name, name=name).client("seamline")
        found.append({"sslcert": stranger.certificate, "sslkey": stranger.key})
    return found


def test_a_client_without_the_certificate_that_is_asked_for_is_not_let_in(
    authority: Authority, address: str, tmp_path: Path
) -> None:
    """By TLS 1.3 the server's word may be lost with the connection, which it closes at once."""
    for more in unknown_clients(tmp_path):
        with pytest.raises((ConfigError, TransientError)):
            namespaces(address, sslrootcert=authority.ca, **more)


@pytest.mark.parametrize("newest", [ssl.TLSVersion.TLSv1_2])
def test_what_a_server_says_of_a_client_s_certificate_in_the_handshake_is_an_error_of_the_connection(
    authority: Authority, address: str, tmp_path: Path
) -> None:
    for more in unknown_clients(tmp_path):
        with pytest.raises(ConfigError) as said:
            namespaces(address, sslrootcert=authority.ca, **more)
        assert "client certificate" in said.value.hint, more


def test_a_refused_connection_is_no_mistake_of_certificates_whatever_the_address_says() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"https://127.0.0.1:{closed.getsockname()[1]}/v1/tables/certificate_of_deposit"
        with pytest.raises(TransientError, match="certificate_of_deposit"), translated("load a table"):
            requests.get(address, timeout=5)


def test_an_encrypted_connection_that_breaks_is_tried_again() -> None:
    broken = requests.exceptions.SSLError(MaxRetryError(None, "/v1", UrllibSSLError(ssl.SSLEOFError(8, "EOF"))))  # type: ignore[arg-type]
    with pytest.raises(TransientError), translated("load a table"):
        raise broken
