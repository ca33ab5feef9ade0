"""A server of files that is killed amid a commit and started again, by SIGKILL: real servers of SFTP, FTP (in the clear
and by TLS), HDFS and S3.

Who commits has no answer then. What a partner or a reader sees is all of a delivery or nothing of it, and the repeat
settles which.
"""

import ftplib
import io
import random
import shutil
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from seamline import settings
from seamline.domain.errors import CommitUnknown, TransientError
from seamline.files.stores import sftp, sftp_session
from seamline.files.stores.hdfs import HdfsStore
from seamline.files.stores.opening import open_store
from seamline.files.stores.sftp import SftpStore
from seamline.files.stores.store import Store
from tests import ftp_server, s3_server, ssh_server
from tests.certificates import Authority
from tests.contract.behaviours import Applying, account, published, texts
from tests.contract.change_files_world import ChangeFilesWorld
from tests.contract.file_places import Place, folder_place, hdfs_place, said, stored_place
from tests.contract.files_world import STORE_STEPS, Night
from tests.contract.test_files_cuts import actors
from tests.daemon import Daemon
from tests.hdfs_server import Hdfs
from tests.log_topic import ACCOUNT, AUDIT, STREAM, TABLES, insert
from tests.once_more import ONCE_MORE
from tests.ssh_server import SshServer

# A server of S3 that keeps objects on the disk runs where this machine has it: those of moto would go with its memory.
VERSITYGW = shutil.which("versitygw")
# HDFS needs seconds for each start.
QUICK = ("sftp", "ftp", "ftps", *(["s3"] if VERSITYGW else []))
# By what of its client a store gives a draft its name; S3 has no drafts.
RENAMES = {
    "sftp": (SftpStore, "_renamed"),
    **dict.fromkeys(("ftp", "ftps"), (ftplib.FTP, "rename")),
    "hdfs": (HdfsStore, "_renamed"),
}


@dataclass(frozen=True)
class Served:
    """A place whose server may be killed. `connection`: as an environment variable says it. `chosen`: behind which of
    the steps that were taken it is killed."""

    store: str
    place: Place
    connection: str
    daemon: Daemon
    chosen: Callable[[Sequence[str]], Sequence[int]]


def ends_of_runs(steps: Sequence[str]) -> Sequence[int]:
    """Of steps that are alike the first and the last."""
    around = [None, *steps, None]
    return [at for at, name in enumerate(steps) if not around[at] == name == around[at + 2]]


def decisive(steps: Sequence[str]) -> Sequence[int]:
    """For a server that needs seconds to come up: the decision, the first name that is given, and the flag's."""
    places = [at for at, name in enumerate(steps) if name == "place"]
    return [steps.index("put_if_absent"), *places[:1], *places[-1:]]


@pytest.fixture(scope="module")
def server() -> Iterator[SshServer]:
    with ssh_server.running(settings.load()) as found:
        yield found


@pytest.fixture(scope="module", params=[*QUICK, "hdfs"])
def begun(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    with ExitStack() as opened:
        yield OPENED[request.param](request, opened, folder)


def _sftp(request: pytest.FixtureRequest, opened: ExitStack, folder: Path) -> Served:  # noqa: ARG001
    found: SshServer = request.getfixturevalue("server")
    place = folder_place(f"sftp://{found.folder}", "killed", found.folder)
    return Served("sftp", place, said(found.connection), found.daemon, ends_of_runs)


def _ftp(request: pytest.FixtureRequest, opened: ExitStack, folder: Path) -> Served:  # noqa: ARG001
    (folder / "root" / "out").mkdir(parents=True)
    found, daemon = opened.enter_context(ftp_server.killable(folder / "root", folder / "log"))
    place = folder_place("ftp:///out", "killed", folder / "root" / "out")
    return Served("ftp", place, said(found.connection), daemon, ends_of_runs)


def _ftps(request: pytest.FixtureRequest, opened: ExitStack, folder: Path) -> Served:  # noqa: ARG001
    (folder / "root" / "out").mkdir(parents=True)
    authority = Authority(folder / "authority")
    own = authority.server("127.0.0.1")
    found, daemon = opened.enter_context(ftp_server.killable(folder / "root", folder / "log", encrypted_by=own))
    connection = said(found.connection, extra={"sslmode": "verify-full", "sslrootcert": str(authority.ca)})
    place = folder_place("ftp:///out", "killed", folder / "root" / "out")
    return Served("ftps", place, connection, daemon, ends_of_runs)


def _hdfs(request: pytest.FixtureRequest, opened: ExitStack, folder: Path) -> Served:  # noqa: ARG001
    found: Hdfs = request.getfixturevalue("hdfs")
    return Served("hdfs", hdfs_place(found, "/killed", "killed"), found.connection, found.daemon, decisive)


def _s3(request: pytest.FixtureRequest, opened: ExitStack, folder: Path) -> Served:  # noqa: ARG001
    assert VERSITYGW
    found, daemon = opened.enter_context(s3_server.killable(VERSITYGW, folder))
    root = f"{found.bucket}/out"
    return Served(
        "s3", stored_place(f"s3://{root}", "killed", found.filesystem, root), found.connection, daemon, ends_of_runs
    )


OPENED = {"sftp": _sftp, "ftp": _ftp, "ftps": _ftps, "hdfs": _hdfs, "s3": _s3}


@pytest.fixture
def served(begun: Served, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setenv("SEAMLINE_CONNECTION_KILLED", begun.connection)
    yield begun
    # Whatever a test has come to, others use this server too.
    begun.daemon.start()


def dying_behind(step: int | None, daemon: Daemon, store: Store, patch: pytest.MonkeyPatch) -> list[str]:
    """The server does all changes up to this one and is killed before it has answered to that; None: it lives. The
    steps taken."""
    taken: list[str] = []

    def watched(name: str) -> None:
        real = getattr(store, name)

        def once(*given: Any) -> Any:
            taken.append(name)
            found = real(*given)
            if step is None or len(taken) <= step:
                return found
            daemon.kill()
            # Nobody is there any more: the error is the client's own. A content is read, and perhaps closed.
            return store.size(given[0])

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


def steps_of_publish(served: Served, staging: Path) -> list[str]:
    night = Night(served.place, staging)
    with pytest.MonkeyPatch.context() as patch, closing(night.opened()) as cuts:
        taken = dying_behind(None, served.daemon, cuts.store, patch)
        night.publish(night.cut("nobody dies"), by=cuts)
    assert {"write", "put_if_absent", "place"} <= set(taken)
    return taken


# Three starts of HDFS. Once in each run it is killed by the test of a span.
@pytest.mark.parametrize("begun", [*QUICK, pytest.param("hdfs", marks=ONCE_MORE)], indirect=True)
def test_a_server_that_is_killed_within_any_step_of_a_publish_leaves_a_delivery_whole_or_not_to_be_seen(
    served: Served, tmp_path: Path
) -> None:
    for step in served.chosen(steps_of_publish(served, tmp_path)):
        night = Night(served.place, tmp_path)
        cut, cuts = night.cut("first"), night.opened()
        with pytest.MonkeyPatch.context() as patch, closing(cuts), pytest.raises(TransientError):
            taken = dying_behind(step, served.daemon, cuts.store, patch)
            night.publish(cut, by=cuts)
        assert len(taken) > step
        is_decided = "put_if_absent" in taken
        assert is_seen_as_decided(served, night) == is_decided, "the number is the commit"
        assert night.publish(cut) == 1
        assert actors(night.fetched()) == {"first"}
        assert night.fetched(2) is None


def is_seen_as_decided(served: Served, night: Night) -> bool:
    """By what lies there once the server is up again, of which a partner has all or nothing."""
    served.daemon.start()
    assert actors(night.fetched()) in (set(), {"first"})
    # Drafts begin with a full stop; on FTP a number is a folder.
    return any(path.startswith("log/0") for path in night.own())


def _within_a_file(served: Served, store: Store, patch: pytest.MonkeyPatch) -> None:
    write = store.write
    patch.setattr(store, "write", lambda path, content: write(path, _Dying(served.daemon, content)))


def _before_a_draft_has_its_name(served: Served, store: Store, patch: pytest.MonkeyPatch) -> None:  # noqa: ARG001
    owner, name = RENAMES[served.store]
    real = getattr(owner, name)

    def dying(*given: Any) -> Any:
        served.daemon.kill()
        return real(*given)

    patch.setattr(owner, name, dying)


@pytest.mark.parametrize(
    ("begun", "dies"),
    [
        *((store, _within_a_file) for store in QUICK),
        *((store, _before_a_draft_has_its_name) for store in QUICK if store in RENAMES),
        *(pytest.param("hdfs", how, marks=ONCE_MORE) for how in (_within_a_file, _before_a_draft_has_its_name)),
    ],
    indirect=["begun"],
)
def test_a_server_that_is_killed_within_a_file_or_before_its_name_leaves_no_delivery(
    served: Served, tmp_path: Path, dies: Any
) -> None:
    night = Night(served.place, tmp_path)
    cut, cuts = night.cut("first"), night.opened()
    with pytest.MonkeyPatch.context() as patch, closing(cuts), pytest.raises(TransientError):
        dies(served, cuts.store, patch)
        night.publish(cut, by=cuts)
    served.daemon.start()
    assert night.fetched() is None
    assert night.publish(cut) == 1
    assert actors(night.fetched()) == {"first"}


@pytest.mark.parametrize("begun", ["ftp"], indirect=True)
def test_a_planted_server_that_forgets_what_it_has_confirmed_is_found(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill = served.daemon.kill

    def forgetful() -> None:
        kill()
        for path in served.place.seen(""):
            if "/log/0" in path:
                served.place.put(path, None)

    monkeypatch.setattr(served.daemon, "kill", forgetful)
    with pytest.raises(AssertionError, match="the number is the commit"):
        test_a_server_that_is_killed_within_any_step_of_a_publish_leaves_a_delivery_whole_or_not_to_be_seen(
            served, tmp_path
        )


def test_a_server_that_is_killed_within_any_step_of_a_span_has_it_once_after_the_repeat(
    served: Served, tmp_path: Path
) -> None:
    world = ChangeFilesWorld(TABLES, served.place.location, staging=tmp_path, connection=served.place.connection)
    steps, rows = span_and_its_steps(published(world), served, 1, dies_behind=None), 1
    assert steps[-1] == "put_if_absent"
    for step in served.chosen(steps):
        rows += 1
        stream = Applying(world)
        before = stream.next_offset
        taken = span_and_its_steps(stream, served, rows, dies_behind=step)
        served.daemon.start()
        again = Applying(world)
        assert (again.next_offset > before) == ("put_if_absent" in taken), "the manifest is the commit"
        if again.next_offset == before:
            again.span(*changes_of(rows))
        assert world.rows(ACCOUNT) == texts(*(account(one + 1) for one in range(rows)))
        assert len(world.rows(AUDIT)) == rows


def changes_of(number: int) -> Sequence[Any]:
    return insert(ACCOUNT, **account(number)), insert(AUDIT, actor="x", action=str(number))


def span_and_its_steps(stream: Applying, served: Served, number: int, *, dies_behind: int | None) -> list[str]:
    with pytest.MonkeyPatch.context() as patch, closing(stream.sink):
        taken = dying_behind(dies_behind, served.daemon, stream.sink._log.store, patch)  # type: ignore[attr-defined]
        if dies_behind is None:
            stream.span(*changes_of(number))
            return taken
        with pytest.raises((TransientError, CommitUnknown)) as raised:
            stream.span(*changes_of(number))
    assert isinstance(raised.value, CommitUnknown) == ("put_if_absent" in taken)
    return taken


@pytest.fixture
def place(server: SshServer, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv("SEAMLINE_CONNECTION_KILLED", said(server.connection))
    return folder_place(f"sftp://{server.folder}", "killed", server.folder)


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
