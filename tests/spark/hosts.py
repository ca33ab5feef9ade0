"""Stream hosts as processes of their own, each test with a platform database of its own."""

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

import psutil
import psycopg

from seamline import settings
from seamline.adapters.connections import Connection, resolve
from seamline.domain.ledger import StreamId
from seamline.platform import migrate
from seamline.platform.database import Database, Session, parameters
from seamline.platform.store import PlatformStore
from seamline.platform.streams import PlatformStreamDirector
from seamline.ports import StreamReport
from tests.integration.databases import postgres, postgres_database
from tests.waiting import wait_until

START_S = 90.0
# How Spark starts the daemon of its Python workers; the JVM's own command line has the module's name as a setting.
DAEMON = "-m seamline_spark.stream_host.daemon"


@dataclasses.dataclass
class Failpoints:
    """Where the workers of a host shall meet their end."""

    file: Path

    def arm(self, text: str) -> None:
        """Written beside and renamed: the worker reads the file whenever it changes."""
        new = self.file.with_suffix(".new")
        new.write_text(text, encoding="utf-8")
        new.rename(self.file)

    def fired(self) -> Counter[str]:
        record = self.file.with_name(self.file.name + ".fired")
        return Counter(record.read_text(encoding="utf-8").split()) if record.exists() else Counter()


@dataclasses.dataclass
class Hosts:
    """Starts hosts by `script`; their streams may leave files in `folder`."""

    script: Path
    folder: Path
    platform: Connection
    environment: dict[str, str]
    director: PlatformStreamDirector
    store: PlatformStore
    started: list["subprocess.Popen[bytes]"] = dataclasses.field(default_factory=list)
    # What runs the script: Python, or a spark-submit.
    runner: tuple[str, ...] = (sys.executable,)

    def start(self, *arguments: str) -> "subprocess.Popen[bytes]":
        with (self.folder / f"host{len(self.started)}.log").open("wb") as output:
            host = subprocess.Popen(
                [*self.runner, str(self.script), *arguments],
                env=self.environment,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self.started.append(host)
        return host

    def report(self, sync: str) -> StreamReport | None:
        return self.director.latest_report(StreamId(sync, "warehouse"))

    def state(self, sync: str) -> str:
        report = self.report(sync)
        return report.state if report else ""

    def log(self, number: int = 0) -> str:
        return (self.folder / f"host{number}.log").read_text(encoding="utf-8", errors="replace")

    # ---- what simple streams write ---------------------------------------------------------------------------------

    def written(self, sync: str) -> dict[str, int]:
        """What the stream wrote last; {} before its first word."""
        place = self.folder / sync
        return json.loads(place.read_text(encoding="utf-8")) if place.exists() else {}

    def pid(self, sync: str) -> int:
        return wait_until(lambda: self.written(sync).get("pid"), timeout_s=START_S, what=f"{sync} to run") or 0

    def moves_on(self, sync: str) -> None:
        before = self.written(sync)
        wait_until(
            lambda: (now := self.written(sync))["turns"] > before["turns"] and now["pid"] == before["pid"],
            timeout_s=10,
            what=f"{sync} to go on undisturbed",
        )

    # ---- the platform database, gone and back ----------------------------------------------------------------------

    def refuse_all(self) -> None:
        """Let nobody into the platform database, and put out who is in."""
        name = self.platform.database
        with postgres(resolve("postgres_root")) as session:
            session.execute(f"alter database {name} allow_connections false")
            session.execute(f"select pg_terminate_backend(pid) from pg_stat_activity where datname = '{name}'")

    def admit_all(self) -> None:
        with postgres(resolve("postgres_root")) as session:
            session.execute(f"alter database {self.platform.database} allow_connections true")

    def end(self) -> None:
        for host in self.started:
            for process in session_of(host.pid):
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
        for host in self.started:
            host.wait(timeout=10)


@contextmanager
def hosts_of(script: Path, folder: Path, *, name: str, **environment: str) -> Iterator[Hosts]:
    """Hosts with an empty platform database called `name`. Every process that they started is gone at the end."""
    with postgres_database(name) as platform:
        database = Database(lambda: _session(platform))
        migrate.upgrade(lambda: _session(platform))
        every = {**settings.process_environment(), "SEAMLINE_CONNECTION_SEAMLINE_DB": uri(platform), **environment}
        with closing(database):
            hosts = Hosts(script, folder, platform, every, PlatformStreamDirector(database), PlatformStore(database))
            try:
                yield hosts
            finally:
                hosts.end()


def _session(platform: Connection) -> Session:
    known = parameters(platform, application_name="tests", statement_timeout_s=30)
    return psycopg.connect(**known, autocommit=True)


def uri(connection: Connection) -> str:
    login = quote(connection.login) + (f":{quote(connection.password)}" if connection.password else "")
    return f"postgres://{login}@{connection.host}:{connection.port}/{connection.database}"


def session_of(leader: int) -> list[psutil.Process]:
    """The living processes of the session that this process leads or led."""
    found = []
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) == leader and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (ProcessLookupError, psutil.NoSuchProcess):
            continue
    return found


def processes_of(host: "subprocess.Popen[bytes]", of: str) -> list[psutil.Process]:
    """Living processes of a host whose command line says this, the oldest first."""
    found = []
    for process in session_of(host.pid):
        with contextlib.suppress(psutil.NoSuchProcess):
            if of in " ".join(process.cmdline()):
                found.append((process.create_time(), process))
    return [process for _, process in sorted(found, key=lambda one: one[0])]


def tasks_of(host: "subprocess.Popen[bytes]") -> list[psutil.Process]:
    """The Python processes of its tasks, forked by Spark's daemon, which is the oldest of them."""
    return processes_of(host, DAEMON)[1:]


def kill_host(host: "subprocess.Popen[bytes]") -> None:
    """The driver; its JVM, its daemon and its tasks follow it."""
    everything = [process.pid for process in session_of(host.pid)]
    os.kill(host.pid, signal.SIGKILL)
    wait_until(lambda: all(map(is_gone, everything)), timeout_s=20, what="every process of the host to be gone")
    host.wait(timeout=10)


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
