"""Files on FTP servers that answer as others do: folders that are missing or closed, and transfers that fail."""

import ftplib
import hashlib
import io
import random
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyftpdlib.handlers import DTPHandler, TLS_DTPHandler

from seamline.domain.errors import SeamlineError, TransientError
from seamline.files.stores.ftp import FtpStore
from seamline.sinks.files.two_phase import NOTHING, Hashing, ManifestLog
from tests import ftp_server
from tests.certificates import Authority

_THERE = "a.csv"


def names(folder: Path, asked: str, **server: Any) -> Sequence[str]:
    (folder / "in").mkdir()
    (folder / "in" / _THERE).write_text("1")
    with ftp_server.running(folder, **server) as running, closing(FtpStore(running.connection, "/")) as opened:
        return opened.names(asked)


def nlst_450(handler: Any, path: str) -> None:
    """As ProFTPD, which has no other word for a folder that is missing."""
    handler.respond(f"450 {path}: No such file or directory")


def test_a_missing_folder_is_empty_also_where_the_server_says_450(tmp_path: Path) -> None:
    assert names(tmp_path, ".seamline", ftp_NLST=nlst_450) == []


@pytest.mark.parametrize("answer", ["450 cannot read the disk", "550 Permission denied"])
def test_a_folder_that_is_there_and_cannot_be_listed_is_not_empty(tmp_path: Path, answer: str) -> None:
    with pytest.raises(TransientError, match=answer):
        names(tmp_path, "in", ftp_NLST=lambda handler, _: handler.respond(answer))


def test_a_login_that_may_not_list_sees_no_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(TransientError, match="550"):
        names(tmp_path, "in", rights="eradfmwMT")


def test_a_folder_of_which_a_server_says_that_it_has_no_files_is_empty(tmp_path: Path) -> None:
    assert names(tmp_path, "in", ftp_NLST=lambda handler, _: handler.respond("550 No files found")) == []


class Full(io.BytesIO):
    def write(self, content: Any, /) -> int:
        raise OSError("no space left on device")


def test_a_session_whose_transfer_failed_is_not_asked_again(tmp_path: Path) -> None:
    """Its answers are one behind: what comes next is that of the transfer."""
    (tmp_path / _THERE).write_text("1")
    with ftp_server.running(tmp_path) as server, closing(FtpStore(server.connection, "/")) as opened:
        with pytest.raises(TransientError, match="no space"):
            opened.read(_THERE, Full())
        assert opened.size(_THERE) == 1


def breaking(at_bytes: int, received: list[int], kind: type[Any] = DTPHandler) -> type[Any]:
    """A data connection that the server closes once, when it has so much. What each one has received is listed."""

    class Breaking(kind):  # type: ignore[misc]
        def handle_read_event(self) -> None:
            super().handle_read_event()
            if not received and self.get_transmitted_bytes() >= at_bytes:
                self.close()

        def close(self) -> None:
            if not self._closed:
                received.append(self.get_transmitted_bytes())
            super().close()

    return Breaking


@pytest.mark.parametrize("is_encrypted", [False, True], ids=["clear", "tls"])
def test_a_broken_upload_goes_on_behind_what_the_server_has(tmp_path: Path, is_encrypted: bool) -> None:
    content, received = random.Random(7).randbytes(8 << 20), list[int]()  # noqa: S311
    authority = Authority(tmp_path / "authority")
    pair = authority.server("127.0.0.1") if is_encrypted else None
    extra = {"sslmode": "verify-full", "sslrootcert": str(authority.ca)} if is_encrypted else {}
    handler = breaking(5 << 20, received, TLS_DTPHandler if is_encrypted else DTPHandler)
    with (
        ftp_server.running(tmp_path, encrypted_by=pair, dtp_handler=handler) as server,
        closing(FtpStore(replace(server.connection, extra=extra), "/")) as store,
    ):
        reading = Hashing(io.BytesIO(content))
        store.write("out/large", reading)
    assert (tmp_path / "out" / "large").read_bytes() == content
    assert (reading.size, reading.sha256) == (len(content), hashlib.sha256(content).hexdigest()), "hashed once"
    first, second = received
    assert first >= 5 << 20
    assert second <= len(content) - first + (2 << 20)


def test_an_upload_that_breaks_again_and_again_fails(tmp_path: Path) -> None:
    class Never(list[int]):
        def __bool__(self) -> bool:
            return False

    handler = breaking(1, received := Never())
    with (
        ftp_server.running(tmp_path, dtp_handler=handler) as server,
        closing(FtpStore(server.connection, "/")) as store,
        pytest.raises(TransientError, match="cannot write out/large"),
    ):
        store.write("out/large", io.BytesIO(bytes(4 << 20)))
    assert len(received) == 3


class Killed(BaseException):
    """As a SIGKILL: nothing of the client goes on."""


def dying(patch: pytest.MonkeyPatch, at: int, *, is_sent: bool) -> list[str]:
    """Clients end at their command of this number, before it is sent or before its answer. Those that were sent."""
    sent, real = list[str](), ftplib.FTP.putcmd

    def putcmd(self: ftplib.FTP, line: str) -> None:
        is_last = len(sent) == at
        if is_last and not is_sent:
            raise Killed(line)
        sent.append(line.partition(" ")[0])
        real(self, line)
        if is_last:
            raise Killed(line)

    patch.setattr(ftplib.FTP, "putcmd", putcmd)
    return sent


def killed_at_each_command(folder: Path, monkeypatch: pytest.MonkeyPatch, *, is_sent: bool) -> None:
    with ftp_server.running(folder) as server:
        for at in range(100):
            own = f"own {at}"
            with closing(FtpStore(server.connection, "/")) as store, monkeypatch.context() as patch:
                sent = dying(patch, at, is_sent=is_sent)
                with suppress(Killed):
                    ManifestLog(store, own).decide(NOTHING, "killed", {"of": "killed"})
            with closing(FtpStore(server.connection, "/")) as store:
                log = ManifestLog(store, own)
                found = log.settle(lambda newest, log=log: log.decide(newest, "next", {"behind": newest.state}))
                assert found.state in ({"behind": {}}, {"behind": {"of": "killed"}})
                assert found.number == 1 + bool(found.state["behind"])
                assert log.newest() == found
                if not is_sent:
                    assert bool(found.state["behind"]) == ("RNTO" in sent), "the rename is the commit"
            if len(sent) < at:
                break
        assert {"MKD", "STOR", "RNFR", "RNTO"} <= set(sent)
        assert at < 99


@pytest.mark.parametrize("is_sent", [False, True], ids=["unsent", "unanswered"])
def test_a_client_that_is_killed_at_any_command_has_put_a_manifest_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_sent: bool
) -> None:
    """One call of ours is many of the server's: folders, a file, a rename."""
    killed_at_each_command(tmp_path, monkeypatch, is_sent=is_sent)


def test_a_manifest_that_is_written_where_it_is_read_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def straight(self: FtpStore, path: str, content: bytes) -> bool:
        self.write(f"{path}/content", io.BytesIO(content))
        return True

    monkeypatch.setattr(FtpStore, "put_if_absent", straight)
    with pytest.raises((AssertionError, SeamlineError)):
        killed_at_each_command(tmp_path, monkeypatch, is_sent=False)
