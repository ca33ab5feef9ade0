"""A server of a test's own, with its replica, which takes over the address when it dies, or with its backup."""

import math
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psycopg
import pymysql
import pytest

from seamline import settings
from seamline.adapters.connections import Connection, resolve
from seamline.settings import Ports
from seamline.sources.postgres.server_load import replica_lag_s
from seamline.stack import account, mariadb, postgres
from seamline.stack.layout import Layout
from seamline.stack.port_bases import held_port_base
from tests.integration import databases
from tests.integration.databases import PUBLISHER, WRITER
from tests.waiting import wait_until

TakeOver = Callable[[], None]
# PostgreSQL ends at once, with all its processes, MariaDB in order.
QUICK = signal.SIGQUIT


@dataclass
class Server:
    """A data folder, and the process that serves it at the port of `administrator`."""

    layout: Layout
    administrator: Connection
    command: Callable[[Layout], Sequence[str]]
    is_ready: Callable[[Connection], bool]
    flags: tuple[str, ...] = ()
    process: "subprocess.Popen[bytes] | None" = field(default=None, init=False)

    def start(self) -> None:
        command = (*self.command(self.layout), *self.flags)
        with (self.layout.data / "server.log").open("ab") as log:
            self.process = subprocess.Popen(_as_server(self.layout, *command), stdout=log, stderr=log)
        wait_until(self._answers, timeout_s=60, what="the server to answer")

    def _answers(self) -> bool:
        """Of this process, not of another server that has its port."""
        if self.process is not None and self.process.poll() is not None:
            written = (self.layout.data / "server.log").read_text(errors="replace")
            raise AssertionError(f"the server ended as it came up:\n{written[-2000:]}")
        return self.is_ready(self.administrator)

    def end(self, how: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(timeout=60)
            self.process = None

    def move_to(self, other: "Server") -> None:
        """It comes back at the address of the other one, which has ended."""
        self.end(signal.SIGINT if self.command is postgres.command else signal.SIGTERM)
        self.administrator = other.administrator
        self.layout = Layout(replace(self.layout.settings, ports=other.layout.settings.ports))
        self.start()

    def ask(self, *statements: str) -> list[tuple[Any, ...]]:
        """The rows of the last one."""
        open_session: Any = databases.postgres if self.command is postgres.command else databases.mariadb
        with closing(open_session(self.administrator)) as session, session.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return list(cursor.fetchall()) if cursor.description else []


@contextmanager
def replicated_mariadb() -> Iterator[TakeOver]:
    """The replica of `mariadb_with_replica` is promoted at the end."""
    with mariadb_with_replica() as (first, second):

        def take_over() -> None:
            ((all_of_it,),) = first.ask("SELECT @@GLOBAL.gtid_binlog_pos")
            assert second.ask(f"SELECT MASTER_GTID_WAIT('{all_of_it}', 60)") == [(0,)]
            first.end(signal.SIGKILL)
            second.ask("STOP SLAVE", "RESET SLAVE ALL")
            second.move_to(first)

        yield take_over


@contextmanager
def mariadb_with_replica() -> Iterator[tuple[Server, Server]]:
    """Every connection of the bank leads to the first server, whose `server_id` is 7; that of its replica is 8."""
    root = replace(resolve("core_bank_root"), database="")
    with _pair(root, mariadb.command, mariadb_is_ready, lambda ports: ports.mariadb) as (first, second):
        second.flags = ("--server-id=8",)
        mariadb.initialise(first.layout)
        _run("cp", "-a", str(first.layout.mariadb), str(second.layout.mariadb))
        mariadb.initialise(second.layout)
        for server in (first, second):
            server.start()
        with _leading_to(first, "core_bank_root", *mariadb.ROLES, "bank_app"):
            mariadb.provision(settings.load())
            own = first.administrator
            # Its root has no password until it has replicated the statement that sets it.
            replace(second, administrator=replace(second.administrator, password="")).ask(
                f"CHANGE MASTER TO master_host='{own.host}', master_port={own.port}, master_user='{own.login}',"
                f" master_password='{own.password}', master_use_gtid=slave_pos, master_ssl=0",
                "START SLAVE",
            )
            yield first, second


@contextmanager
def replicated_postgres() -> Iterator[TakeOver]:
    """The standby of `postgres_with_replica` is promoted at the end."""
    with postgres_with_replica() as (first, second):

        def take_over() -> None:
            ((all_of_it,),) = first.ask("SELECT pg_current_wal_insert_lsn()")
            is_caught_up = f"SELECT pg_last_wal_replay_lsn() >= '{all_of_it}'"
            wait_until(lambda: second.ask(is_caught_up) == [(True,)], timeout_s=60, what="the replica")
            _loses_its_primary(second, lambda: first.end(signal.SIGKILL))
            assert second.ask("SELECT pg_promote(true, 60)") == [(True,)]
            second.move_to(first)

        yield take_over


@contextmanager
def postgres_with_replica() -> Iterator[tuple[Server, Server]]:
    """The administrator's connection leads to the first server, and so do those of a destination; its replica is a
    standby."""
    root = resolve("postgres_root")
    with _pair(root, postgres.command, postgres_is_ready, lambda ports: ports.postgres) as (first, second):
        postgres.initialise(first.layout, {"postgres_root": root.password})
        first.start()
        _make_logins(first)
        own = first.administrator
        second.layout.postgres.mkdir(mode=0o700)
        hand_to_server(second.layout.postgres)
        address = ("-h", own.host, "-p", str(own.port), "-U", own.login)
        backup = (str(postgres.binaries() / "pg_basebackup"), *address, "-D", str(second.layout.postgres), "-R", "-c")
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PGPASSWORD", own.password)
            _run(*_as_server(second.layout, *backup, "fast"))
        second.start()
        with _leading_to(first, "postgres_root", PUBLISHER, WRITER):
            yield first, second


@dataclass
class Backup:
    """A cold copy of a server's whole data folder, which is put back as an administrator would."""

    server: Server
    folder: Path

    def take(self) -> None:
        self.server.end(signal.SIGINT if self.server.command is postgres.command else signal.SIGTERM)
        _run("cp", "-a", str(self.folder), str(self._kept))
        self.server.start()

    def put_back(self) -> None:
        self.server.end(signal.SIGKILL)
        remove(self.folder)
        self._kept.rename(self.folder)
        self.server.start()

    @property
    def _kept(self) -> Path:
        return self.folder.with_name(f"{self.folder.name}.kept")


@contextmanager
def restorable_mariadb() -> Iterator[Backup]:
    """Every connection of the bank leads to a server of the test's own."""
    root = replace(resolve("core_bank_root"), database="")
    with _pair(root, mariadb.command, mariadb_is_ready, lambda ports: ports.mariadb) as (server, _):
        mariadb.initialise(server.layout)
        server.start()
        with _leading_to(server, "core_bank_root", *mariadb.ROLES, "bank_app"):
            mariadb.provision(settings.load())
            yield Backup(server, server.layout.mariadb)


@contextmanager
def restorable_postgres(*flags: str) -> Iterator[Backup]:
    """`flags` go over the settings that every server of the stack has; ALTER SYSTEM does not."""
    root = resolve("postgres_root")
    with _pair(root, postgres.command, postgres_is_ready, lambda ports: ports.postgres) as (server, _):
        postgres.initialise(server.layout, {"postgres_root": root.password})
        server.flags = flags
        server.start()
        _make_logins(server)
        with _leading_to(server, "postgres_root", PUBLISHER, WRITER):
            yield Backup(server, server.layout.postgres)


def _loses_its_primary(standby: Server, end: Callable[[], None]) -> None:
    """What it says of its distance before and after."""
    with closing(databases.postgres(standby.administrator)) as session:

        def says(lag_s: float) -> bool:
            return replica_lag_s(session, "postgres_root") == lag_s  # type: ignore[arg-type]

        wait_until(lambda: says(0.0), timeout_s=60, what="a standby that has all")
        end()
        wait_until(lambda: says(math.inf), timeout_s=60, what="a standby that streams no more")


def _make_logins(server: Server) -> None:
    for connection_id in (PUBLISHER, WRITER):
        known = resolve(connection_id)
        server.ask(f"CREATE ROLE {known.login} LOGIN PASSWORD '{known.password}'")


@contextmanager
def _pair(
    root: Connection,
    command: Callable[[Layout], Sequence[str]],
    is_ready: Callable[[Connection], bool],
    port: Callable[[Ports], int],
) -> Iterator[tuple[Server, Server]]:
    """Below the stack's data, where the account of its servers may go."""
    known = settings.load()
    folder = known.data / f"replicated_{root.kind}"
    with ExitStack() as leaving:
        leaving.callback(remove, folder)
        servers = []
        for name in ("first", "second"):
            (folder / name).mkdir(parents=True)
            ports = Ports(leaving.enter_context(held_port_base(known.home)))
            layout = Layout(replace(known, data=folder / name, ports=ports))
            servers.append(Server(layout, replace(root, port=port(ports)), command, is_ready))
            leaving.callback(servers[-1].end, QUICK)
        yield servers[0], servers[1]


@contextmanager
def _leading_to(server: Server, *connections: str) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for known in map(resolve, connections):
            address = f"{known.login}:{known.password}@{known.host}:{server.administrator.port}/{known.database}"
            patch.setenv(f"SEAMLINE_CONNECTION_{known.connection_id.upper()}", f"{known.kind}://{address}")
        yield


def remove(folder: Path) -> None:
    """What a server has started may write for a moment after it has ended."""

    def is_gone() -> bool:
        shutil.rmtree(folder, ignore_errors=True)
        return not folder.exists()

    wait_until(is_gone, timeout_s=20, what=f"{folder} to be gone")


def mariadb_is_ready(root: Connection) -> bool:
    """A fresh one answers that root's password is not set yet."""
    try:
        databases.mariadb(root).close()
    except pymysql.err.OperationalError as exc:
        return bool(exc.args[0] == pymysql.constants.ER.ACCESS_DENIED_ERROR)
    return True


def postgres_is_ready(root: Connection) -> bool:
    with suppress(psycopg.OperationalError):
        databases.postgres(root).close()
        return True
    return False


def _as_server(layout: Layout, *command: str) -> tuple[str, ...]:
    return (str(layout.python), "-m", "seamline.stack.run", "--as-server", *command)


def hand_to_server(folder: Path) -> None:
    owner = account.server_account()
    if owner is not None:
        account.hand_over(folder, owner)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, timeout=120)
