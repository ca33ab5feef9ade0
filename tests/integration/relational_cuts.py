"""Cuts in MariaDB and MySQL, in databases of a test's own: what they are staged and published from."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pytest

from seamline.adapters.connections import Connection, resolve
from seamline.domain.catalogue import Table
from seamline.domain.staged_cut import Published, StagedCut
from seamline.plan.model import DestinationPlan
from seamline.sinks.mariadb.kind import KIND as MARIADB
from seamline.sinks.mysql.kind import KIND as MYSQL
from seamline.sinks.relational.cuts import RelationalCuts
from seamline.sinks.relational.kind import RelationalKind
from seamline.sinks.relational.session import open_session
from tests.integration.cuts_published import STAGED_ENTRY, Place
from tests.integration.databases import drop_mariadb_destination, mariadb, mariadb_destination, mysql_destination

ROOT = "cuts_root"
DESTINATION = DestinationPlan("ledger_copy", "mariadb", ROOT, "cuts")


@dataclass(frozen=True)
class Server:
    """`publisher`: a login with the rights of the printed script. ROOT is the administrator of the same server."""

    kind: RelationalKind
    publisher: Connection


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


@pytest.fixture(scope="module", params=[MARIADB, MYSQL], ids=lambda kind: kind.name)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    kind = request.param
    root = request.getfixturevalue("mysql_root") if kind is MYSQL else resolve("core_bank_root")
    made = mysql_destination(root, "cuts") if kind is MYSQL else mariadb_destination("cuts")
    address = f"mysql://{root.login}:{quote(root.password, safe='')}@{root.host}:{root.port}/"
    with made as publisher, pytest.MonkeyPatch.context() as patch:
        patch.setenv(f"SEAMLINE_CONNECTION_{ROOT.upper()}", address)
        yield Server(kind, publisher)


@pytest.fixture
def kind(server: Server, monkeypatch: pytest.MonkeyPatch) -> RelationalKind:
    """The server's kind, which finds it by the id of `DESTINATION`'s connection."""
    at = server.publisher
    monkeypatch.setenv(
        f"SEAMLINE_CONNECTION_{DESTINATION.connection.upper()}",
        f"mysql://{at.login}:{quote(at.password, safe='')}@{at.host}:{at.port}",
    )
    return server.kind


@pytest.fixture
def sql(server: Server) -> Iterator[Sql]:
    with opened() as session, session.session.cursor() as cursor:
        drop_mariadb_destination(cursor, "cuts")
        cursor.execute("CREATE DATABASE cuts_stage")
        yield session


@contextmanager
def publishing(server: Server, *, reader_patience_s: float = 60.0) -> Iterator[RelationalCuts]:
    session = open_session(server.publisher, server.kind.dialect)
    with closing(
        RelationalCuts(DESTINATION, session, server.kind.dialect, reader_patience_s=reader_patience_s)
    ) as cuts:
        yield cuts


@pytest.fixture
def cuts(server: Server, sql: Sql) -> Iterator[RelationalCuts]:
    with publishing(server) as cuts:
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
