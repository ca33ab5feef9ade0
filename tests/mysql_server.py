"""A MySQL of a session of tests: fetched, unpacked and run by its own loader, on a port beside the stack's."""

import logging
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pymysql

from seamline.adapters.connections import Connection
from seamline.settings import Settings
from seamline.stack import account
from seamline.stack.layout import Layout
from tests import debian_packages
from tests.waiting import wait_until

VERSION = "9.7.4"
# Of the first port of the session, as those in `settings.Ports`.
PORT_DISTANCE = 7
# What a source must have beyond the server's own defaults.
SOURCE_SETTINGS = {"gtid_mode": "ON", "enforce_gtid_consistency": "ON", "binlog_row_metadata": "FULL", "server_id": "9"}

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Binaries:
    """A root folder with the server and every library that it needs."""

    root: Path

    def command(self, layout: Layout, **settings: str) -> list[str]:
        libraries = self.root / "usr" / "lib" / "x86_64-linux-gnu"
        own = {
            "basedir": str(self.root / "usr"),
            "datadir": str(_data(layout)),
            "plugin_dir": str(self.root / "usr" / "lib" / "mysql" / "plugin"),
            "lc_messages_dir": str(self.root / "usr" / "share" / "mysql"),
            "character_sets_dir": str(self.root / "usr" / "share" / "mysql" / "charsets"),
            # The package's own folder for files is not there.
            "secure_file_priv": "NULL",
            "tmpdir": str(_folder(layout)),
            "socket": str(layout.sockets / "mysql" / "mysql.sock"),
            "pid_file": str(_folder(layout) / "mysql.pid"),
            "log_error": str(_folder(layout) / "mysql.log"),
            "mysqlx": "OFF",
            "innodb_buffer_pool_size": "64M",
            **settings,
        }
        flags = [f"--{name.replace('_', '-')}={value}" for name, value in own.items()]
        # Its libraries are newer than those of this machine, and so is their loader.
        loader = [str(libraries / "ld-linux-x86-64.so.2"), "--library-path", str(libraries)]
        return [*loader, str(self.root / "usr" / "sbin" / "mysqld"), "--no-defaults", *flags]


def binaries(known: Settings) -> Binaries:
    """Fetched at the first call on this machine."""
    target = known.env / f"mysql-{VERSION}"
    replaced = debian_packages.unpacked(
        target,
        packages=debian_packages.read_lock(debian_packages.LOCK),
        store=debian_packages.shared_store(),
        fetch=debian_packages.by_apt,
    )
    for package in replaced:
        log.warning("Debian has another version of %s than the locked %s", package.name, package.version)
    return Binaries(target)


def root(known: Settings) -> Connection:
    """The root of the server that runs with these settings."""
    return Connection("mysql_root", "mysql", host="127.0.0.1", port=known.ports.base + PORT_DISTANCE, login="root")


@contextmanager
def running(known: Settings, **own: str) -> Iterator[Connection]:
    """A fresh server with the settings of a source, reached as its root. `own`: those of this one alone."""
    reached = root(known)
    # A second one would find the data folder locked, and wait for a minute and a half to be ended.
    assert not _answers(reached), "a MySQL of this session runs already, that of the fixture `mysql_root`"
    layout, made = Layout(known), binaries(known)
    owner = account.server_account()
    for folder in (_folder(layout), layout.sockets / "mysql"):
        folder.mkdir(parents=True, exist_ok=True)
        if owner is not None:
            account.hand_over(folder, owner)
    if not _data(layout).exists():
        fresh = account.fresh_folder(_data(layout), owner)
        tool = made.command(layout, initialize_insecure="ON", datadir=str(fresh), log_error="stderr")
        answer = account.run_as_server(tool, layout, timeout_s=120)
        assert answer.returncode == 0, f"mysqld made no data folder:\n{answer.stderr[-2000:]}"
        fresh.rename(_data(layout))
    launch = made.command(layout, port=str(reached.port), bind_address=reached.host, **{**SOURCE_SETTINGS, **own})
    wrapped = [str(layout.python), "-m", "seamline.stack.run", "--as-server", *launch]
    with subprocess.Popen(wrapped, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            wait_until(lambda: _is_up(reached, server), timeout_s=60, what="MySQL")
            yield reached
        finally:
            server.terminate()
            try:
                server.wait(timeout=60)
            except subprocess.TimeoutExpired:
                # On a busy machine it flushes for longer, and nobody will read what it holds.
                server.kill()


def _is_up(root: Connection, server: "subprocess.Popen[bytes]") -> bool:
    assert server.poll() is None, "MySQL ended as it came up: its log is mysql.log of the data folder"
    return _answers(root)


def _answers(root: Connection) -> bool:
    try:
        mysql(root).close()
    except pymysql.err.OperationalError:
        return False
    return True


def mysql(connection: Connection) -> "pymysql.Connection[pymysql.cursors.Cursor]":
    return pymysql.connect(
        host=connection.host,
        port=connection.port,
        user=connection.login,
        password=connection.password,
        database=connection.database or None,
        autocommit=True,
        charset="utf8mb4",
        init_command="SET time_zone = '+00:00'",
    )


@contextmanager
def mysql_database(root: Connection, name: str) -> Iterator[Connection]:
    """An empty database, reached as the server's root."""
    with closing(mysql(root)) as session, session.cursor() as cursor:
        # A test that failed may have left a transaction open.
        cursor.execute("SET SESSION lock_wait_timeout = 10")
        cursor.execute(f"DROP DATABASE IF EXISTS {name}")
        cursor.execute(f"CREATE DATABASE {name}")
        yield replace(root, database=name)
        cursor.execute(f"DROP DATABASE {name}")


def _folder(layout: Layout) -> Path:
    return layout.data / "mysql"


def _data(layout: Layout) -> Path:
    return _folder(layout) / "data"
