"""Databases of a test of its own on the servers of the local stack, dropped at the end."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

import psycopg
import pymysql

from seamline.adapters.connections import Connection, resolve
from seamline.sinks.postgres.grants import grant_statements
from seamline.sinks.relational.grants import grant_statements as mariadb_grants

# The logins of the local stack's destination.
PUBLISHER, WRITER = "warehouse", "warehouse_writer"


@contextmanager
def mariadb_database(name: str) -> Iterator[Connection]:
    """An empty database in the local stack's MariaDB, reached as its administrator."""
    root = resolve("core_bank_root")
    with closing(mariadb(root)) as session, session.cursor() as cursor:
        cursor.execute(f"DROP DATABASE IF EXISTS {name}")
        cursor.execute(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
    yield replace(root, database=name)
    with closing(mariadb(root)) as session, session.cursor() as cursor:
        cursor.execute(f"DROP DATABASE {name}")


@contextmanager
def mariadb_destination(name: str) -> Iterator[Connection]:
    """Database `name` of a destination and those beside it in the local stack's MariaDB, reached as its publisher;
    `mariadb_writer_of` is its writer. Both have the rights of the printed script."""
    root = resolve("core_bank_root")
    publisher = replace(root, connection_id=name, login=f"{name}_publisher", database="")
    writer = mariadb_writer_of(publisher)
    with closing(mariadb(replace(root, database=""))) as session, session.cursor() as cursor:
        drop_mariadb_destination(cursor, name)
        for login in (publisher.login, writer.login):
            cursor.execute(f"CREATE OR REPLACE USER '{login}'@'%'")
            cursor.execute(f"SET PASSWORD FOR '{login}'@'%%' = PASSWORD(%s)", (root.password,))
        for statement in mariadb_grants(name, publisher=publisher.login, writer=writer.login):
            cursor.execute(statement)
        yield publisher
        drop_mariadb_destination(cursor, name)
        for login in (publisher.login, writer.login):
            cursor.execute(f"DROP USER '{login}'@'%'")


@contextmanager
def mysql_destination(root: Connection, name: str) -> Iterator[Connection]:
    """The same in a MySQL of this session; its logins have no password, as its root has none."""
    publisher = replace(root, connection_id=name, login=f"{name}_publisher", database="")
    writer = mariadb_writer_of(publisher)
    with closing(mariadb(replace(root, database=""))) as session, session.cursor() as cursor:
        drop_mariadb_destination(cursor, name)
        cursor.execute("SET GLOBAL local_infile = ON")
        for login in (publisher.login, writer.login):
            cursor.execute(f"DROP USER IF EXISTS '{login}'@'%'")
            cursor.execute(f"CREATE USER '{login}'@'%'")
        for statement in mariadb_grants(name, publisher=publisher.login, writer=writer.login):
            cursor.execute(statement)
        yield publisher
        drop_mariadb_destination(cursor, name)
        for login in (publisher.login, writer.login):
            cursor.execute(f"DROP USER '{login}'@'%'")


def mariadb_writer_of(publisher: Connection) -> Connection:
    login = publisher.login.replace("_publisher", "_writer")
    return replace(publisher, connection_id=f"{publisher.connection_id}_writer", login=login)


def drop_mariadb_destination(cursor: Any, name: str) -> None:
    """All databases of a destination."""
    cursor.execute("SELECT schema_name FROM information_schema.schemata")
    for (found,) in cursor.fetchall():
        if found == name or found.startswith(f"{name}_"):
            cursor.execute(f"DROP DATABASE {found}")


def mariadb(connection: Connection, **options: Any) -> "pymysql.Connection[pymysql.cursors.Cursor]":
    return pymysql.connect(
        host=connection.host,
        port=connection.port,
        user=connection.login,
        password=connection.password,
        database=connection.database or None,
        autocommit=True,
        charset="utf8mb4",
        init_command="SET time_zone = '+00:00'",
        **options,
    )


@contextmanager
def postgres_database(name: str, *, writer: str = WRITER) -> Iterator[Connection]:
    """An empty database in the local stack's PostgreSQL, reached as a destination's publisher; `writer_of` is its
    writer. Both have the rights of the printed script. `writer`: PUBLISHER where one login is both."""
    root, publisher = resolve("postgres_root"), resolve(PUBLISHER)
    with postgres(root) as session:
        session.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        session.execute(f"CREATE DATABASE {name} ENCODING 'UTF8' TEMPLATE template0")
        session.execute(f"REVOKE ALL ON DATABASE {name} FROM PUBLIC")
    with postgres(replace(root, database=name)) as session:
        for statement in grant_statements(name, publisher=publisher.login, writer=resolve(writer).login):
            session.execute(statement.encode())
        # For tables that tests make by hand.
        session.execute(f"GRANT USAGE, CREATE ON SCHEMA public TO {publisher.login}")
    try:
        yield replace(publisher, database=name)
    finally:
        # Also of a test that failed: a role that owns something there, or has rights to it, cannot be dropped.
        with postgres(root) as session:
            session.execute(f"DROP DATABASE {name} WITH (FORCE)")


def writer_of(publisher: Connection) -> Connection:
    """The other login of a destination's database: it has the rows and owns nothing."""
    writer = resolve(WRITER)
    return replace(publisher, connection_id=writer.connection_id, login=writer.login, password=writer.password)


def either_of(publisher: Connection) -> Callable[[str], Connection]:
    """How a sink resolves the connections of a destination that is this database."""
    return lambda connection_id: writer_of(publisher) if connection_id.endswith("_writer") else publisher


def postgres(connection: Connection) -> psycopg.Connection:
    return psycopg.connect(
        host=connection.host,
        port=connection.port,
        user=connection.login,
        password=connection.password,
        dbname=connection.database,
        autocommit=True,
        options="-c TimeZone=UTC",
    )
