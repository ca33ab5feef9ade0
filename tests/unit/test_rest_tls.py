"""A REST catalogue that takes encrypted calls of known clients alone: the right settings reach it, and no others."""

import ssl
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from seamline.adapters.connections import parsed
from seamline.domain.errors import ConfigError, TransientError
from seamline.sinks.iceberg.rest_client import RestClient
from seamline.sinks.iceberg.rest_opening import properties_of
from tests.certificates import Authority
from tests.rest_catalogue import Catalogue, serving


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "authority")


@pytest.fixture
def address(authority: Authority) -> Iterator[str]:
    """Of a catalogue with one namespace."""
    pair, asked = authority.server("127.0.0.1"), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    asked.load_cert_chain(pair.certificate, pair.key)
    asked.load_verify_locations(authority.ca)
    asked.verify_mode = ssl.CERT_REQUIRED
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


def test_a_client_without_the_certificate_that_is_asked_for_is_not_let_in(
    authority: Authority, address: str, tmp_path: Path
) -> None:
    """The server's word may be lost with the connection, which it closes at once."""
    of_another = Authority(tmp_path / "other").client("seamline")
    for more in ({}, {"sslcert": of_another.certificate, "sslkey": of_another.key}):
        with pytest.raises((ConfigError, TransientError)):
            namespaces(address, sslrootcert=authority.ca, **more)
