"""A server of files that is killed amid a commit and started again: a real sshd, by SIGKILL, with all its sessions.

Who commits has no answer then. What a partner or a reader sees is all of a delivery or nothing of it, and the repeat
settles which.
"""

import io
import random
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest

from seamline import settings
from seamline.domain.errors import CommitUnknown, TransientError
from seamline.files.stores import sftp, sftp_session
from seamline.files.stores.opening import open_store
from seamline.files.stores.store import Store
from tests import ssh_server
from tests.contract.behaviours import Applying, account, published, texts
from tests.contract.change_files_world import ChangeFilesWorld
from tests.contract.file_places import Place, folder_place, said
from tests.contract.files_world import STORE_STEPS, Night
from tests.contract.test_files_cuts import actors
from tests.log_topic import ACCOUNT, AUDIT, STREAM, TABLES, insert
from tests.ssh_server import Daemon, SshServer

# Of steps that are alike the first and the last; behind the last number nothing is left to be done.
STEPS = (0, 5, 6, 7, 10, 11, 12, 13, 14, 15)


@pytest.fixture(scope="module")
def server() -> Iterator[SshServer]:
    with ssh_server.running(settings.load()) as found:
        yield found


@pytest.fixture
def place(server: SshServer, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv("SEAMLINE_CONNECTION_KILLED", said(server.connection))
    return folder_place(f"sftp://{server.folder}", "killed", server.folder)


def dying_behind(step: int, daemon: Daemon, store: Store, patch: pytest.MonkeyPatch) -> list[str]:
    """The server does all changes up to this one and is killed before it has answered to that. The steps taken."""
    taken: list[str] = []

    def watched(name: str) -> None:
        real = getattr(store, name)

        def once(*given: Any) -> Any:
            taken.append(name)
            found = real(*given)
            if len(taken) <= step:
                return found
            daemon.kill()
            # Nobody is there any more: the error is the client's own.
            return real(*given)

        patch.setattr(store, name, once)

    for name in STORE_STEPS:
        watched(name)
    return taken


class _Dying:
    """A file of which the server has seen the first bytes when it is killed."""

    def __init__(self, daemon: Daemon, content: Any) -> None:
        self._daemon, self._content, self._reads = daemon, content, 0

    def read(self, size: int = -1) -> bytes:
        self._reads += 1
        if self._reads > 1:
            self._daemon.kill()
        return bytes(self._content.read(3 if self._reads == 1 else size))


def test_a_server_that_is_killed_within_any_step_of_a_publish_leaves_a_delivery_whole_or_not_to_be_seen(
    server: SshServer, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in STEPS:
        night = Night(place, tmp_path)
        cut, cuts = night.cut("first"), night.opened()
        with monkeypatch.context() as patch, closing(cuts):
            taken = dying_behind(step, server.daemon, cuts.store, patch)
            try:
                night.publish(cut, by=cuts)
                break
            except TransientError:
                assert len(taken) > step
        assert actors(night.fetched()) in (set(), {"first"})
        is_decided = any(path.startswith("log/") and path.endswith(".json") for path in night.own())
        assert is_decided == ("put_if_absent" in taken), "the number is the commit"
        server.daemon.start()
        assert night.publish(cut) == 1
        assert actors(night.fetched()) == {"first"}
        assert night.fetched(2) is None
    assert {"write", "put_if_absent", "place"} <= set(taken)
    assert step == len(taken)


def test_a_server_that_is_killed_within_a_file_leaves_no_delivery(
    server: SshServer, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    night = Night(place, tmp_path)
    cut, cuts = night.cut("first"), night.opened()
    write = cuts.store.write
    with monkeypatch.context() as patch, closing(cuts), pytest.raises(TransientError):
        patch.setattr(cuts.store, "write", lambda path, content: write(path, _Dying(server.daemon, content)))
        night.publish(cut, by=cuts)
    server.daemon.start()
    assert night.fetched() is None
    assert night.publish(cut) == 1
    assert actors(night.fetched()) == {"first"}


def test_a_server_that_is_killed_within_any_step_of_a_span_has_it_once_after_the_repeat(
    server: SshServer, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = ChangeFilesWorld(TABLES, place.location, staging=tmp_path, connection=place.connection)
    published(world)
    for step in range(20):
        stream, number = Applying(world), step + 1
        changes = (insert(ACCOUNT, **account(number)), insert(AUDIT, actor="x", action=str(number)))
        with monkeypatch.context() as patch, closing(stream.sink):
            taken = dying_behind(step, server.daemon, stream.sink._log.store, patch)  # type: ignore[attr-defined]
            try:
                stream.span(*changes)
                break
            except (TransientError, CommitUnknown) as error:
                assert isinstance(error, CommitUnknown) == ("put_if_absent" in taken)
        server.daemon.start()
        before = stream.next_offset
        again = Applying(world)
        assert (again.next_offset > before) == ("put_if_absent" in taken), "the manifest is the commit"
        if again.next_offset == before:
            again.span(*changes)
        assert world.rows(ACCOUNT) == texts(*(account(one + 1) for one in range(number)))
        assert len(world.rows(AUDIT)) == number
    assert taken[-1] == "put_if_absent"
    assert step == len(taken)


class _CutOff:
    """A file during whose first reading the network breaks. `read_bytes`: all that was asked for."""

    def __init__(self, store: Any, content: bytes, at_bytes: int) -> None:
        self._store, self._content, self._at_bytes = store, io.BytesIO(content), at_bytes
        self.read_bytes = 0

    def read(self, size: int = -1, /) -> bytes:
        piece = self._content.read(size)
        if self.read_bytes < self._at_bytes <= self.read_bytes + len(piece):
            self._store._session.transport.sock.shutdown(socket.SHUT_RDWR)
        self.read_bytes += len(piece)
        return piece

    def seek(self, offset: int, /) -> int:
        return self._content.seek(offset)


def test_an_upload_whose_connection_breaks_goes_on_behind_what_the_server_has(server: SshServer, place: Place) -> None:
    content = random.Random(7).randbytes(24 << 20)  # noqa: S311
    with closing(open_store(f"sftp://{server.folder}", "killed")) as store:
        cut_off = _CutOff(store, content, 20 << 20)
        store.write("cut off/large", cut_off)
        assert store.size("cut off/large") == len(content)
    assert (Path(server.folder) / "cut off" / "large").read_bytes() == content
    # Another MiB, and what was under way.
    assert cut_off.read_bytes < len(content) + (8 << 20)


def ended(daemon: Daemon, patch: pytest.MonkeyPatch) -> None:  # noqa: ARG001
    """As by a server that ends a session that asks nothing for some minutes."""
    sessions = daemon.sessions()
    for one in sessions:
        one.kill()
    psutil.wait_procs(sessions)


def forgotten(daemon: Daemon, patch: pytest.MonkeyPatch) -> None:
    """As by a network that has forgotten a session of which it saw nothing for long: nobody says that it is over."""
    patch.setattr(sftp, "_IDLE_S", 0)
    patch.setattr(sftp_session, "_PROBE_S", 0.5)
    for one in daemon.sessions():
        one.suspend()


@pytest.mark.parametrize("happens", [ended, forgotten])
def test_a_stream_whose_session_is_gone_after_an_idle_time_commits_by_another_one(
    server: SshServer, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, happens: Any
) -> None:
    """Each such commit ended in a TransientError, and restarted the stream."""
    own = place.below(happens.__name__)
    world = ChangeFilesWorld(TABLES, own.location, staging=tmp_path, connection=own.connection)
    with closing((stream := published(world)).sink):
        stream.span(insert(ACCOUNT, **account(1)))
        happens(server.daemon, monkeypatch)
        ledger = stream.span(insert(ACCOUNT, **account(2))).ledger
    assert world.state().streams[STREAM].row == ledger
    assert world.rows(ACCOUNT) == texts(account(1), account(2))
    ended(server.daemon, monkeypatch)
