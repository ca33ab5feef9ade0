"""An OpenSSH of a module of tests: the machine's own sshd, or that of its Debian, fetched by apt and unpacked.

It runs as an ordinary account, which alone may log in, by its key.
"""

import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seamline import settings
from seamline.adapters.connections import Connection
from seamline.settings import Settings
from seamline.stack import account, jars
from tests import debian_packages
from tests.daemon import Daemon, free_port, is_open

# The server, and the one library of it that a Debian without it may lack.
_PACKAGES = ("openssh-server", "libwrap0")
_LIBRARIES = Path("usr/lib/x86_64-linux-gnu")


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
        folder, port = Path(made), free_port()
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
        who: dict[str, Any] = {} if owner is None else {"user": owner.uid, "group": owner.gid, "extra_groups": ()}
        daemon = Daemon(lambda: command, folder / "log", answers=lambda: is_open(port), env=environment, **who)
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
