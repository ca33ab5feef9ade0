"""The local MariaDB 11.4, the bank and an archive beside it: accounts with exactly the grants that Seamline asks a
database's owner for."""

import hashlib
from dataclasses import replace
from pathlib import Path

import pymysql

from seamline.adapters.connections import Connection, resolve
from seamline.adapters.tls import pymysql_tls
from seamline.databases.mysql.grants import statements_of
from seamline.demo.bank import TABLES
from seamline.domain.errors import TerminalError
from seamline.kinds.logins import Logins
from seamline.settings import Settings
from seamline.sinks.relational.grants import grant_statements
from seamline.sources.mariadb.grants import grant_script
from seamline.stack import account
from seamline.stack.layout import Layout
from seamline.stack.server_settings import ARCHIVE_DATABASE, MARIADB, MARIADB_DATABASE

# Connection → the role of the source that it is.
ROLES = {"core_bank": "reader", "core_bank_capture": "capture", "core_bank_marker": "marker"}

# The demo's second destination lies beside the bank.
PUBLISHER, WRITER = "archive", "archive_writer"


def command(layout: Layout) -> tuple[str, ...]:
    server = layout.mariadb_server
    own = {
        **MARIADB,
        "basedir": str(server),
        "datadir": str(layout.mariadb),
        "lc_messages_dir": str(server / "share"),
        "plugin_dir": str(server / "lib"),
        "socket": str(_own_folder(layout) / "mariadb.sock"),
        "pid_file": str(layout.mariadb / "mariadb.pid"),
        "tmpdir": str(_own_folder(layout)),
        "port": str(layout.settings.ports.mariadb),
        "bind_address": "127.0.0.1",
        # On loopback. With TLS on, 11.4 makes itself an RSA key at every start: 1 to 30 s on a busy core (measured).
        "ssl": "0",
    }
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in own.items()]
    return (str(server / "bin" / "mariadbd"), "--no-defaults", *flags)


def _own_folder(layout: Layout) -> Path:
    """For its socket and its temporary tables.

    A server that starts, also the one that makes a data folder, removes every temporary table that it finds in its
    tmpdir, in /tmp another server's as well. Seen on 11.4.5: statements failed in one stack while another came up, and
    one of five data folders that were made side by side was not.
    """
    return layout.sockets / "servers"


def initialise(layout: Layout) -> None:
    """Make the data folder unless it is there. It appears in one step; `provision` sets root's password."""
    own = _own_folder(layout)
    owner = account.server_account()
    own.mkdir(parents=True, exist_ok=True)
    if owner is not None:
        account.hand_over(own, owner)
    if layout.mariadb.exists():
        return
    fresh = account.fresh_folder(layout.mariadb, owner)
    server = layout.mariadb_server
    result = account.run_as_server(
        [
            str(server / "scripts" / "mariadb-install-db"), "--no-defaults", f"--basedir={server}",
            f"--datadir={fresh}", f"--lc-messages-dir={server / 'share'}", f"--tmpdir={own}",
            "--skip-name-resolve", "--auth-root-authentication-method=normal", "--skip-test-db", "--force",
        ],
        layout,
        timeout_s=300,
    )  # fmt: skip
    if result.returncode != 0:
        raise TerminalError(
            f"mariadb-install-db could not make {fresh}:\n    {(result.stderr + result.stdout).strip()[-2000:]}",
            hint="the reason is above; ./seamline doctor checks the machine",
        )
    fresh.rename(layout.mariadb)


def is_ready(layout: Layout) -> bool:
    """Whether the server answers. A fresh one answers that root's password is not set yet."""
    try:
        with _connect(resolve("core_bank_root", within=layout.settings)):
            return True
    except pymysql.err.OperationalError as exc:
        return bool(exc.args[0] == pymysql.constants.ER.ACCESS_DENIED_ERROR)


def provision(known: Settings) -> None:
    """Set root's password; make the bank's database, accounts and marker table. Repeating it changes nothing."""
    root = resolve("core_bank_root", within=known)
    try:
        session = _connect(root)
    except pymysql.err.OperationalError as exc:
        if exc.args[0] != pymysql.constants.ER.ACCESS_DENIED_ERROR:
            raise
        session = _connect(replace(root, password=""))
    with session, session.cursor() as cursor:
        _secure_root(cursor, root.password)
        cursor.execute(f"CREATE DATABASE IF NOT EXISTS {MARIADB_DATABASE} CHARACTER SET utf8mb4")
        cursor.execute(f"USE {MARIADB_DATABASE}")
        cursor.execute("SET SESSION sql_notes = 0")
        # A right to a table can only be given once it is there.
        for statement in TABLES.values():
            cursor.execute(statement)
        for statement in _granted(known):
            cursor.execute(statement)
        application, publisher, writer = (
            resolve(connection_id, within=known) for connection_id in ("bank_app", PUBLISHER, WRITER)
        )
        for owner in (application, publisher, writer):
            given = (owner.login, password_hash(owner.password))
            cursor.execute("CREATE USER IF NOT EXISTS %s@'%%' IDENTIFIED BY PASSWORD %s", given)
        cursor.execute(f"GRANT ALL ON {MARIADB_DATABASE}.* TO '{application.login}'@'%'")
        for statement in grant_statements(ARCHIVE_DATABASE, publisher=publisher.login, writer=writer.login):
            cursor.execute(statement)


def _granted(known: Settings) -> list[str]:
    """What `seamline grants` prints for the demo's source, whose owner has agreed to the brief lock."""
    roles = {role: resolve(connection_id, within=known) for connection_id, role in ROLES.items()}
    logins = Logins(**{role: connection.login for role, connection in roles.items()})
    script = grant_script(MARIADB_DATABASE, tuple(TABLES), logins=logins, snapshot_lock="brief")
    for connection in roles.values():
        given = f"BY PASSWORD '{password_hash(connection.password)}'"
        script = script.replace(f"BY '<password of {connection.login}>'", given)
    return statements_of(script)


def password_hash(password: str) -> str:
    """As SELECT PASSWORD('…') answers. Statements stand in the binlog as they were written, and the capture's login may
    read it."""
    inner = hashlib.sha1(password.encode()).digest()
    return f"*{hashlib.sha1(inner).hexdigest().upper()}"


def _secure_root(cursor: pymysql.cursors.Cursor, password: str) -> None:
    """One root, with a password. The installer leaves roots without one and accounts without a name."""
    cursor.execute("SELECT user, host FROM mysql.global_priv WHERE user IN ('root', '')")
    for user, host in cursor.fetchall():
        if user == "root":
            cursor.execute("ALTER USER %s@%s IDENTIFIED BY PASSWORD %s", (user, host, password_hash(password)))
        else:
            cursor.execute("DROP USER %s@%s", (user, host))


def _connect(root: Connection) -> "pymysql.Connection[pymysql.cursors.Cursor]":
    return pymysql.connect(
        host=root.host,
        port=root.port,
        user=root.login,
        password=root.password,
        connect_timeout=5,
        read_timeout=60,
        autocommit=True,
        **pymysql_tls(root),
    )
