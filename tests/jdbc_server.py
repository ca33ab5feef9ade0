"""H2 or HSQLDB of a test: the server in its own jar, and who writes to it."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from seamline import settings
from seamline.settings import Settings
from seamline.stack import jars, java
from seamline.stack.layout import Layout

_SOURCE = Path(__file__).parent / "java" / "JdbcServer.java"
PASSWORD = "of the reader"
# Of the first port of the session, as those in `settings.Ports`.
_PORTS = {"h2": 13, "hsqldb": 14}
_URLS = {"h2": "jdbc:h2:tcp://127.0.0.1:{}/mem:bank", "hsqldb": "jdbc:hsqldb:hsql://127.0.0.1:{}/bank"}
_DRIVERS = {"h2": "org.h2.Driver", "hsqldb": "org.hsqldb.jdbc.JDBCDriver"}


@dataclass(frozen=True)
class JdbcServer:
    """`connection`: as an environment variable says it, of a login that may SELECT once it was granted."""

    kind: str
    connection: str
    process: "subprocess.Popen[str]"
    log: Path

    def execute(self, line: str) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n", f"{line}: {self.log.read_text(encoding='utf-8')[:2000]}"

    @contextmanager
    def money_moves(self) -> Iterator[None]:
        self.execute("MOVE")
        try:
            yield
        finally:
            self.execute("STOP")


@contextmanager
def running(known: Settings, kind: str, folder: Path, *, login: str) -> Iterator[JdbcServer]:
    """Its drivers are those that JDBC sources of this process find."""
    layout, environment = Layout(known), settings.process_environment()
    locked = [one for one in jars.read_lock(known.root / "jars" / "jars.lock") if one.configuration == jars.DATABASES]
    files = known.env / "databases"
    jars.ensure(locked, files, fetch=jars.ivy(layout, environment))
    drivers = files / jars.DATABASES
    binary = str(java.find(layout, environment).binary)
    path = ":".join(map(str, sorted(drivers.glob("*.jar"))))
    made = _compiled(layout, binary, path)
    port = str(known.ports.base + _PORTS[kind])
    with (
        (folder / "server.log").open("w", encoding="utf-8") as log,
        subprocess.Popen(
            [binary, "-Xmx128m", "-Duser.timezone=UTC", "-cp", f"{made}:{path}", "JdbcServer", kind, port],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as process,
        pytest.MonkeyPatch.context() as patch,
    ):
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "up\n", (folder / "server.log").read_text(encoding="utf-8")
            patch.setenv("SEAMLINE_JDBC_DRIVERS", str(drivers))
            said = {
                "conn_type": "jdbc",
                "host": _URLS[kind].format(port),
                "login": login,
                "password": PASSWORD,
                "extra": {"driver_class": _DRIVERS[kind]},
            }
            yield JdbcServer(kind, json.dumps(said), process, folder / "server.log")
        finally:
            process.terminate()


def _compiled(layout: Layout, binary: str, path: str) -> Path:
    """Once in a session of tests: it takes longer than the server takes to come up."""
    made = layout.data / "jdbc_server"
    if not made.exists():
        (compiler,) = (layout.jars / "compiler").glob("ecj-*.jar")
        fresh = made.with_suffix(".fresh")
        compiling = [binary, "-jar", str(compiler), "-17", "-nowarn", "-cp", path, "-d", str(fresh), str(_SOURCE)]
        subprocess.run(compiling, check=True, capture_output=True)
        fresh.rename(made)
    return made
