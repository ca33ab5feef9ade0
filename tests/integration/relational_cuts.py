"""Cuts in the local stack's MariaDB, in databases of a test's own: what they are staged and published from."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from seamline.adapters.connections import Connection, resolve
from seamline.domain.catalogue import Table
from seamline.domain.staged_cut import Published, StagedCut
from seamline.plan.model import DestinationPlan
from seamline.sinks.mariadb.dialect import MARIADB
from seamline.sinks.relational.cuts import RelationalCuts
from seamline.sinks.relational.session import open_session
from tests.integration.cuts_published import STAGED_ENTRY, Place
from tests.integration.databases import drop_mariadb_destination, mariadb, mariadb_destination

ROOT = "core_bank_root"
DESTINATION = DestinationPlan("ledger_copy", "mariadb", ROOT, "cuts")


class Sql:
    """Statements by hand, as psycopg has them, of the server's administrator."""

    def __init__(self, connection: Connection) -> None:
        self.session = mariadb(connection)

    def execute(self, statement: str) -> Any:
        cursor = self.session.cursor()
        cursor.execute(statement)
        return cursor

    def close(self) -> None:
        self.session.close()


@contextmanager
def opened() -> Iterator[Sql]:
    with closing(Sql(resolve(ROOT))) as session:
        yield session


@pytest.fixture(scope="module")
def publisher() -> Iterator[Connection]:
    """A login with the rights of the printed script."""
    with mariadb_destination("cuts") as connection:
        yield connection


@pytest.fixture
def sql(publisher: Connection) -> Iterator[Sql]:
    with opened() as session, session.session.cursor() as cursor:
        drop_mariadb_destination(cursor, "cuts")
        cursor.execute("CREATE DATABASE cuts_stage")
        yield session


@contextmanager
def publishing(publisher: Connection, *, reader_patience_s: float = 60.0) -> Iterator[RelationalCuts]:
    session = open_session(publisher, MARIADB)
    with closing(RelationalCuts(DESTINATION, session, MARIADB, reader_patience_s=reader_patience_s)) as cuts:
        yield cuts


@pytest.fixture
def cuts(publisher: Connection, sql: Sql) -> Iterator[RelationalCuts]:
    with publishing(publisher) as cuts:
        yield cuts


def stage(sql: Sql, name: str, rows: int, *, value: int = 0) -> Place:
    """Of columns as `cuts_published.STAGED_ENTRY` says."""
    sql.execute(f"CREATE TABLE cuts_stage.`{name}` (id bigint PRIMARY KEY, business_date date NOT NULL, v int)")
    listed = ", ".join(f"({number}, '2026-03-05', {value})" for number in range(1, rows + 1))
    sql.execute(f"INSERT INTO cuts_stage.`{name}` VALUES {listed}")
    return Place(f"cuts_stage.{name}", rows)


def publish(cuts: RelationalCuts, cut: StagedCut, *, signed_by: str = "") -> Published:
    definitions: dict[str, Table] = {"entry": STAGED_ENTRY}
    return cuts.publish(cut, definitions=definitions, signed_by=signed_by)
