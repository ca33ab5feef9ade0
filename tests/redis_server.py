"""A Redis of a module of tests: fetched, unpacked and run by its own loader, with a folder of its own."""

import logging
import shlex
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from redis import Redis
from redis.exceptions import RedisError

from seamline.adapters.connections import Connection
from seamline.kinds.logins import DestinationLogins
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.settings import Settings
from seamline.sinks.redis.grants import grant_script
from seamline.sinks.redis.keys import PREFIX as KEY_OF_PREFIX
from seamline.sinks.redis.options import ROWS_MAX, ROWS_MAX_DEFAULT
from tests import debian_packages
from tests.daemon import free_port
from tests.waiting import wait_until

VERSION = "8.0.6"
PREFIX = "settlement"
PASSWORD = "of-tests"  # noqa: S105
# As preflight wants it, but for the last: every commit is on the disk when it is confirmed.
SETTINGS = {"appendonly": "yes", "appendfsync": "always", "save": "", "maxmemory-policy": "noeviction"}

log = logging.getLogger(__name__)


class RedisServer:
    """`publisher` and `writer` have the ACL of the grant script; the administrator has no password."""

    def __init__(self, root: Path, folder: Path, settings: dict[str, str]) -> None:
        self._root = root
        self._folder = folder
        self._settings = settings
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def publisher(self) -> Connection:
        return self._connection("warehouse", DestinationLogins().publisher)

    @property
    def writer(self) -> Connection:
        return self._connection("warehouse_writer", DestinationLogins().writer)

    def resolve(self, connection_id: str) -> Connection:
        return self.writer if connection_id.endswith("_writer") else self.publisher

    def admin(self) -> Any:
        return Redis(port=self.port, protocol=2)

    def start(self) -> None:
        libraries = self._root / "usr" / "lib" / "x86_64-linux-gnu"
        options = {**SETTINGS, **self._settings, "port": str(self.port), "bind": "127.0.0.1", "dir": str(self._folder)}
        # Its libraries are newer than those of this machine, and so is their loader.
        loader = [str(libraries / "ld-linux-x86-64.so.2"), "--library-path", str(libraries)]
        command = [*loader, str(self._root / "usr" / "bin" / "redis-server")]
        command += [part for name, value in options.items() for part in (f"--{name}", value)]
        with (self._folder / "log").open("ab") as out:
            self._process = subprocess.Popen(command, stdout=out, stderr=out)
        wait_until(self._answers, timeout_s=30, what="Redis")
        with closing(self.admin()) as admin:
            for words in acl_of(PREFIX):
                admin.execute_command(*words)

    def kill(self) -> None:
        """As a crash does."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, f"Redis ended as it came up: {(self._folder / 'log').read_text()[-800:]}"
        with closing(self.admin()) as admin:
            try:
                return bool(admin.ping())
            except RedisError:
                return False

    def _connection(self, connection_id: str, login: str) -> Connection:
        return Connection(connection_id, "redis", "127.0.0.1", self.port, login, PASSWORD)


def acl_of(prefix: str) -> list[Sequence[str]]:
    """The grant script, as commands."""
    logins = DestinationLogins()
    text = grant_script(prefix, logins=logins)
    for login in (logins.publisher, logins.writer):
        text = text.replace(f"<password of {login}>", PASSWORD)
    return [shlex.split(line) for line in text.splitlines() if line and not line.startswith("#")]


def binaries(known: Settings) -> Path:
    """Fetched at the first call on this machine."""
    target = known.env / f"redis-{VERSION}"
    replaced = debian_packages.unpacked(
        target,
        packages=debian_packages.read_lock(debian_packages.REDIS_LOCK),
        store=debian_packages.shared_store(),
        fetch=debian_packages.by_apt,
    )
    for package in replaced:
        log.warning("Debian has another version of %s than the locked %s", package.name, package.version)
    return target


def destination_of(plan: SyncPlan, *, rows_max: int = ROWS_MAX_DEFAULT) -> DestinationPlan:
    """The plan's destination as one of this kind."""
    options = ((KEY_OF_PREFIX, PREFIX), (ROWS_MAX, str(rows_max)))
    return replace(plan.destinations[0], kind="redis", options=options)


@contextmanager
def running(known: Settings, **settings: str) -> Iterator[RedisServer]:
    with tempfile.TemporaryDirectory(prefix="seamline-redis-") as folder:
        named = {name.replace("_", "-"): value for name, value in settings.items()}
        server = RedisServer(binaries(known), Path(folder), named)
        server.start()
        try:
            yield server
        finally:
            server.kill()
