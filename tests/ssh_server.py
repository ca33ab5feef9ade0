"""An OpenSSH of a module of tests: the machine's own sshd, or that of its Debian, fetched by apt and unpacked.

It runs as an ordinary account, which alone may log in, by its key.
"""

import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from seamline import settings
from seamline.adapters.connections import Connection
from seamline.settings import Settings
from seamline.stack import account, jars
from tests import debian_packages
from tests.waiting import wait_until

# The server, and the one library of it that a Debian without it may lack.
_PACKAGES = ("openssh-server", "libwrap0")
_LIBRARIES = Path("usr/lib/x86_64-linux-gnu")


class Daemon:
    """The process of a server on its port, which may be killed and started again."""

    def __init__(self, port: int, start: Callable[[], "subprocess.Popen[bytes]"]) -> None:
        self._port, self._start = port, start
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = self._start()
        wait_until(lambda: _answers(self._port), timeout_s=20, what="sshd")

    def sessions(self) -> list[psutil.Process]:
        """The processes of all sessions: each has one of its own."""
        return psutil.Process(self._process.pid).children(recursive=True) if self._process else []

    def kill(self) -> None:
        """By SIGKILL, with all sessions. A repeat changes nothing."""
        if self._process is None:
            return
        sessions = self.sessions()
        for one in [*sessions, self._process]:
            with suppress(psutil.NoSuchProcess):
                one.kill()
        self._process.wait()
        psutil.wait_procs(sessions)
        self._process = None


@dataclass(frozen=True)
class SshServer:
    """`connection` reaches `folder`, in which nothing lies."""

    connection: Connection
    folder: Path
    daemon: Daemon


@contextmanager
def running(known: Settings) -> Iterator[SshServer]:
    program, environment = _program(known)
    owner = account.server_account()
    # Below the folder of tests no other account finds a way.
    with tempfile.TemporaryDirectory(prefix="seamline-ssh-") as made:
        folder, port = Path(made), _free_port()
        for name in ("host", "login"):
            _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name))
        (folder / "place").mkdir()
        config = folder / "sshd_config"
        config.write_text(_config(folder, port), encoding="utf-8")
        host_key = (folder / "host.pub").read_text(encoding="utf-8").strip()
        shutil.copy(folder / "login", key := Path(f"{made}-login"))
        if owner is not None:
            for path in (folder, *folder.iterdir()):
                account.hand_over(path, owner)
        command = [str(program), "-D", "-e", "-f", str(config)]
        who = {} if owner is None else {"user": owner.uid, "group": owner.gid, "extra_groups": ()}

        def started() -> "subprocess.Popen[bytes]":
            with (folder / "log").open("a", encoding="utf-8") as log:
                return subprocess.Popen(command, env=environment, stderr=log, **who)  # type: ignore[call-overload,no-any-return]

        daemon = Daemon(port, started)
        try:
            daemon.start()
            login = owner.name if owner else pwd.getpwuid(key.stat().st_uid).pw_name
            extra = {"host_key": host_key, "key_file": str(key)}
            connection = Connection("partner", "sftp", "127.0.0.1", port, login, extra=extra)
            yield SshServer(connection, folder / "place", daemon)
        finally:
            daemon.kill()
            key.unlink()


def _config(folder: Path, port: int) -> str:
    return "\n".join(
        [
            f"Port {port}",
            "ListenAddress 127.0.0.1",
            f"HostKey {folder}/host",
            f"AuthorizedKeysFile {folder}/login.pub",
            f"PidFile {folder}/pid",
            "StrictModes no",
            "UsePAM yes",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            "Subsystem sftp internal-sftp",
            "",
        ]
    )


def _program(known: Settings) -> tuple[Path, dict[str, str]]:
    """And the environment that it needs."""
    environment = settings.process_environment()
    if found := shutil.which("sshd", path="/usr/sbin:/usr/local/sbin"):
        return Path(found), environment
    target = known.env / "openssh"

    def make(fresh: Path) -> None:
        with tempfile.TemporaryDirectory() as fetched:
            debian_packages.by_apt(_PACKAGES, Path(fetched), suite=debian_packages.suite_of_this_machine())
            for archive in Path(fetched).glob("*.deb"):
                _run("dpkg-deb", "--extract", str(archive), str(fresh))

    jars.make_once(target, " ".join(_PACKAGES), make)
    return target / "usr" / "sbin" / "sshd", {**environment, "LD_LIBRARY_PATH": str(target / _LIBRARIES)}


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=60)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
