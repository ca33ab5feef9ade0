"""The catalogue of cuts, beside the ledger: which there are, which tables hold them, which of them count.

| table of `<schema>_seamline` | a row says |
|---|---|
| cut | one version of a date: its run, position, verdict, signature, and since when readers have it |
| cut_table | one table of it: the table that holds its rows, and whether readers see it |
| cut_pointer | the version that counts for a table and date |
| cut_proven | the newest proven version of a table |
| cut_rows | a table that holds rows of versions, and the last number that a cut got there |
| cut_number | which of these numbers a cut has |

The views of cuts join these rows, so one transaction here is what readers notice, of all tables at once. `at`: the
database of the catalogue, in quotes.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import date

import pymysql

from seamline.databases.mysql.canonical import quoted
from seamline.domain.errors import TransientError
from seamline.plan.model import DestinationPlan
from seamline.sinks.relational.places import ledger_database
from seamline.sinks.relational.session import PATIENCE_S, Session, execute, lock_name, query

_TABLE_OF_DATE = """sync varchar(64) NOT NULL, table_name varchar(128) NOT NULL, business_date date NOT NULL,
    version int NOT NULL"""
_TABLES = {
    "cut": """sync varchar(64) NOT NULL, business_date date NOT NULL, version int NOT NULL,
        run_id varchar(255) NOT NULL UNIQUE, position longtext NOT NULL, as_of datetime(6) NOT NULL,
        verdict varchar(32) NOT NULL, is_partial boolean NOT NULL, left_out longtext NOT NULL, signed_by text NOT NULL,
        attached_at datetime(6) NOT NULL, published_at datetime(6), expired_at datetime(6),
        PRIMARY KEY (sync, business_date, version)""",
    "cut_table": f"""{_TABLE_OF_DATE}, version_table varchar(64) NOT NULL UNIQUE, shown_in varchar(64) NOT NULL,
        mode varchar(32) NOT NULL, row_count bigint NOT NULL, late_rows bigint, gone_rows bigint,
        verdict varchar(32) NOT NULL, is_published boolean NOT NULL DEFAULT FALSE,
        is_proven boolean NOT NULL DEFAULT FALSE, is_expired boolean NOT NULL DEFAULT FALSE,
        PRIMARY KEY (sync, table_name, business_date, version)""",
    "cut_pointer": f"{_TABLE_OF_DATE}, PRIMARY KEY (sync, table_name, business_date)",
    "cut_proven": f"{_TABLE_OF_DATE}, PRIMARY KEY (sync, table_name)",
    "cut_rows": """rows_table varchar(64) NOT NULL PRIMARY KEY, table_name varchar(128) NOT NULL,
        last_number bigint NOT NULL""",
    "cut_number": f"""{_TABLE_OF_DATE}, rows_table varchar(64) NOT NULL, number bigint NOT NULL,
        PRIMARY KEY (sync, table_name, business_date, version), UNIQUE (rows_table, number)""",
}
# Those of an earlier release, which made no others.
_FIRST = {"cut", "cut_table", "cut_pointer", "cut_proven"}
# Names byte by byte: `Entry` and `entry` are two tables.
_OPTIONS = "ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin"
# So long we wait for a table that a reader has open, and whoever comes after us waits behind us.
_WAIT_S = 1


@dataclass(frozen=True, slots=True)
class Version:
    """One table of one version of a date. `name`: the table that holds it. `shown_in`: the view of all versions that it
    belongs to. `rows_table`: where it is stored as a version, the table of its rows; `name` is a view then."""

    sync: str
    table: str
    business_date: date
    version: int
    name: str
    shown_in: str
    rows_table: str = ""


@contextmanager
def locked_cuts(session: Session, destination: DestinationPlan) -> Iterator[None]:
    """Publishers of a destination and what lets cuts expire take turns. The lock ends with the session.

    Inside, a statement waits a second at most for a table that readers have open.
    """
    name = lock_name(f"cuts of {ledger_database(destination)}")
    ((is_ours,),) = query(session, "SELECT GET_LOCK(%s, %s)", (name, PATIENCE_S))
    if not is_ours:
        raise TransientError(
            f"another session publishes cuts in {destination.name}, or lets some expire", hint="it is tried again"
        )
    try:
        execute(session, f"SET SESSION lock_wait_timeout = {_WAIT_S}")
        yield
    finally:
        with suppress(pymysql.err.Error):
            execute(session, "DO RELEASE_LOCK(%s)", (name,))
            execute(session, f"SET SESSION lock_wait_timeout = {PATIENCE_S}")


def has_catalogue(session: Session, destination: DestinationPlan) -> bool:
    return base_tables_in(session, ledger_database(destination)) >= _FIRST


def create_catalogue(session: Session, destination: DestinationPlan) -> None:
    """With the databases that cuts lie in. A repeat changes nothing, and waits for no reader."""
    at = ledger_database(destination)
    # Looked for first: in MySQL 9.7.4 a CREATE … IF NOT EXISTS waits for whoever reads something in the database.
    databases = {str(name) for (name,) in query(session, "SELECT schema_name FROM information_schema.schemata")}
    for database in {at, destination.cut_namespace, destination.namespace} - databases:
        execute(
            session,
            f"CREATE DATABASE IF NOT EXISTS {quoted(database)} CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
        )
    for name in _TABLES.keys() - base_tables_in(session, at):
        execute(session, f"CREATE TABLE IF NOT EXISTS {quoted(at)}.{name} ({_TABLES[name]}) {_OPTIONS}")


def base_tables_in(session: Session, database: str) -> frozenset[str]:
    """Without views."""
    rows = query(
        session,
        "SELECT table_name FROM information_schema.tables WHERE table_schema = %s AND table_type = 'BASE TABLE'",
        (database,),
    )
    return frozenset(str(name) for (name,) in rows)


def versions_of(session: Session, at: str, cut_namespace: str, table: str) -> Sequence[Version]:
    """Those of a table whose rows are there, of every sync, the oldest first."""
    there = base_tables_in(session, cut_namespace)
    rows = query(
        session,
        "SELECT t.sync, t.table_name, t.business_date, t.version, t.version_table, t.shown_in,"
        f" COALESCE(n.rows_table, '') FROM {at}.cut_table AS t LEFT JOIN {at}.cut_number AS n"
        " USING (sync, table_name, business_date, version)"
        " WHERE t.table_name = %s AND NOT t.is_expired ORDER BY t.business_date, t.version",
        (table,),
    )
    return [version for version in (Version(*row) for row in rows) if (version.rows_table or version.name) in there]


def views_of_all(session: Session, at: str, table: str) -> Sequence[str]:
    """The views of all versions that the table has, or had until now: its own, then those of cuts put aside."""
    rows = query(session, f"SELECT DISTINCT shown_in FROM {at}.cut_table WHERE table_name = %s ORDER BY 1", (table,))
    return list(dict.fromkeys((table, *(str(name) for (name,) in rows))))


def note_newest_proven(session: Session, at: str, sync: str, tables: Sequence[str]) -> None:
    """In the caller's transaction, after it has changed what is proven."""
    for table in sorted(tables):
        execute(session, f"DELETE FROM {at}.cut_proven WHERE sync = %s AND table_name = %s", (sync, table))
        execute(
            session,
            f"INSERT INTO {at}.cut_proven SELECT sync, table_name, business_date, version FROM {at}.cut_table"
            " WHERE sync = %s AND table_name = %s AND is_published AND is_proven"
            " ORDER BY business_date DESC, version DESC LIMIT 1",
            (sync, table),
        )
