"""FTP by TLS against a real server: who is taken, who is refused and why, and which session files travel by."""

import ftplib
import io
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from seamline.adapters.connections import Connection
from seamline.domain.errors import ConfigError, TransientError
from seamline.files.stores import ftp_session
from seamline.files.stores.ftp import FtpStore
from tests import ftp_server
from tests.certificates import Authority
from tests.ftp_server import Ftp


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def server(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ftp]:
    """Good for 127.0.0.1 and no other name."""
    folder = tmp_path_factory.mktemp("ftps")
    with ftp_server.running(folder, encrypted_by=authority.server("127.0.0.1")) as running:
        yield running


def full(authority: Authority) -> dict[str, str]:
    return {"sslmode": "verify-full", "sslrootcert": str(authority.ca)}


def store(server: Ftp, extra: Mapping[str, str], *, host: str = "127.0.0.1") -> FtpStore:
    return FtpStore(replace(server.connection, host=host, extra=extra), "/")


def test_commands_and_files_go_by_one_tls_session(server: Ftp, authority: Authority) -> None:
    with closing(store(server, full(authority))) as opened:
        opened.write("in/a.csv", io.BytesIO(b"1|x\n" * 100_000))
        assert opened.names("in") == ["a.csv"]
        opened.read("in/a.csv", found := io.BytesIO())
        assert found.getvalue() == b"1|x\n" * 100_000
        assert [opened.put_if_absent("log/1", content) for content in (b"mine", b"theirs")] == [True, False]


def test_a_certificate_of_the_ca_for_another_name_is_taken_by_verify_ca_alone(
    server: Ftp, authority: Authority
) -> None:
    with closing(store(server, {**full(authority), "sslmode": "verify-ca"}, host="localhost")) as opened:
        assert opened.size("nothing") is None
    with pytest.raises(ConfigError, match="do not agree on TLS: .*not valid for 'localhost'"):
        store(server, full(authority), host="localhost").names("")


def test_a_certificate_of_nobody_that_is_known_is_refused(server: Ftp, tmp_path: Path) -> None:
    for extra in (full(Authority(tmp_path, name="another CA")), {"sslmode": "verify-full"}):
        with pytest.raises(ConfigError, match="CERTIFICATE_VERIFY_FAILED") as refused:
            store(server, extra).names("")
        assert "check sslmode, sslrootcert" in refused.value.hint


def test_a_server_without_tls_gets_no_password(authority: Authority, tmp_path: Path) -> None:
    with (
        ftp_server.running(tmp_path) as clear,
        pytest.raises(ConfigError, match="has no TLS: 500"),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(ftplib.FTP, "login", lambda *_: pytest.fail("it logs in in the clear"))
        store(clear, full(authority)).names("")


def test_a_server_that_serves_nobody_in_the_clear_says_so_with_the_cure(server: Ftp) -> None:
    with pytest.raises(ConfigError, match="SSL/TLS required") as refused:
        store(server, {}).names("")
    assert "sslmode: verify-full" in refused.value.hint


def test_a_data_connection_of_a_session_of_its_own_is_refused_and_never_read_as_an_empty_folder(
    server: Ftp, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: ftplib's own way."""
    with closing(store(server, full(authority))) as opened:
        opened.write("there/a.csv", io.BytesIO(b"1"))
    encrypted = ftp_session._Encrypted  # noqa: SLF001 (the bug is planted where the code hides what it does)
    monkeypatch.setattr(encrypted, "ntransfercmd", ftplib.FTP_TLS.ntransfercmd)
    with closing(store(server, full(authority))) as opened:
        with pytest.raises(TransientError, match="there") as refused:
            opened.names("there")
        assert "encrypted connection of a transfer" in refused.value.hint


def test_a_server_that_ends_transfers_without_the_end_of_tls_is_named_for_that(
    server: Ftp, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: whether OpenSSL reports it depends on which side is the first."""
    with closing(store(server, full(authority))) as opened:
        opened.write("ended/a.csv", io.BytesIO(b"1"))
        monkeypatch.setattr(ssl.SSLSocket, "unwrap", _ended)
        with pytest.raises(TransientError) as failed:
            opened.read("ended/a.csv", io.BytesIO())
    assert "close_notify" in failed.value.hint


def test_a_certificate_of_a_data_connection_that_is_wrong_is_named_for_that(
    server: Ftp, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(store(server, full(authority))) as opened:
        opened.size("nothing")
        monkeypatch.setattr(ssl.SSLContext, "wrap_socket", _refused)
        with pytest.raises(TransientError, match="CERTIFICATE_VERIFY_FAILED") as failed:
            opened.names("")
    assert "sslrootcert" in failed.value.hint


def _ended(*_: object) -> ssl.SSLSocket:
    raise ssl.SSLZeroReturnError(6, "TLS/SSL connection has been closed (EOF)")


def _refused(*_: object, **__: object) -> ssl.SSLSocket:
    raise ssl.SSLCertVerificationError(1, "CERTIFICATE_VERIFY_FAILED")


def test_a_server_s_own_certificate_is_enough_also_where_a_ca_has_signed_it(
    authority: Authority, tmp_path: Path
) -> None:
    own = Authority(tmp_path / "authority").server("127.0.0.1")
    with ftp_server.running(tmp_path, encrypted_by=own) as running:
        pinned = {"sslmode": "verify-full", "sslrootcert": str(own.certificate)}
        with closing(store(running, pinned)) as opened:
            assert opened.size("nothing") is None
        pinned["sslrootcert"] = str(authority.server("127.0.0.1").certificate)
        with pytest.raises(ConfigError, match="CERTIFICATE_VERIFY_FAILED"):
            store(running, pinned).size("nothing")


@pytest.mark.parametrize("is_encrypted", [False, True], ids=["clear", "tls"])
def test_a_session_that_the_server_has_ended_for_its_silence_is_followed_by_another_one(
    authority: Authority, tmp_path: Path, is_encrypted: bool
) -> None:
    ended = threading.Event()
    pair = authority.server("127.0.0.1") if is_encrypted else None
    with (
        ftp_server.running(tmp_path, encrypted_by=pair, timeout=1, on_disconnect=lambda _: ended.set()) as running,
        closing(store(running, full(authority) if is_encrypted else {})) as opened,
    ):
        opened.write("in/a.csv", io.BytesIO(b"1"))
        assert ended.wait(20)
        opened.write("in/b.csv", io.BytesIO(b"2"))
        assert opened.names("in") == ["a.csv", "b.csv"]


def test_the_port_of_implicit_tls_is_named() -> None:
    there = Connection("partner", "ftp", "127.0.0.1", 990, "partner", "secret", extra={"sslmode": "verify-full"})
    with pytest.raises(TransientError) as failed:
        FtpStore(there, "/").size("nothing")
    assert "explicit TLS, mostly 21" in failed.value.hint
