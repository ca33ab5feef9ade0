"""Where the records of a log are drained to: per round a schema of our stream's tables and one of its peer's, side by
side in one server. MariaDB calls a schema a database."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from seamline.adapters.connections import Connection
from seamline.plan.model import DestinationPlan, SyncPlan
from tests.integration.databases import mariadb, mariadb_destination, postgres, postgres_database
from tests.integration.known import destination_known_by_id, destination_plan, known_by_id

Rows = list[tuple[Any, ...]]
Ask = Callable[[str], Rows]


@dataclass(frozen=True, slots=True)
class JdbcPlace:
    """The database that a driver opens, and what stands before the name of a table in it."""

    database: str
    prefix: str


class Warehouse(Protocol):
    """`connection`: of the login that owns the tables."""

    @property
    def connection(self) -> Connection: ...

    def destination(self, round_name: str) -> DestinationPlan:
        """Of the stream of this round."""

    def peer_schema(self, round_name: str) -> str:
        """Where the tables of its peer lie."""

    def ledger(self, destination: DestinationPlan) -> str: ...

    def jdbc_place(self, schema: str) -> "JdbcPlace": ...

    def make_like(self, plan: SyncPlan, schema: str) -> None:
        """Tables of the same columns, with the same key or index."""

    def asking(self) -> AbstractContextManager[Ask]:
        """One session, for as long as the block lasts."""


@dataclass(frozen=True, slots=True)
class PostgresWarehouse:
    connection: Connection

    def destination(self, round_name: str) -> DestinationPlan:
        return destination_plan(self.connection.database, f"live{round_name}")

    def peer_schema(self, round_name: str) -> str:
        return f"peer{round_name}"

    def ledger(self, destination: DestinationPlan) -> str:  # noqa: ARG002
        return "seamline.ledger"

    def jdbc_place(self, schema: str) -> JdbcPlace:
        return JdbcPlace(self.connection.database, f"{schema}.")

    def make_like(self, plan: SyncPlan, schema: str) -> None:
        with self.asking() as ask:
            ask(f"CREATE SCHEMA {schema}")
            for table in plan.tables:
                like = f"{plan.destinations[0].namespace}.{table.name}"
                ask(f"CREATE TABLE {schema}.{table.name} (LIKE {like} INCLUDING ALL)")

    @contextmanager
    def asking(self) -> Iterator[Ask]:
        with postgres(self.connection) as session:

            def ask(statement: str) -> Rows:
                cursor = session.execute(statement.encode())
                return cursor.fetchall() if cursor.description else []

            yield ask


@dataclass(frozen=True, slots=True)
class MariaDbWarehouse:
    """`name`: all of its databases begin with it."""

    connection: Connection
    name: str

    def destination(self, round_name: str) -> DestinationPlan:
        return DestinationPlan("warehouse", "mariadb", self.name, f"{self.name}_live{round_name}")

    def peer_schema(self, round_name: str) -> str:
        return f"{self.name}_peer{round_name}"

    def ledger(self, destination: DestinationPlan) -> str:
        return f"{destination.namespace}_seamline.ledger"

    def jdbc_place(self, schema: str) -> JdbcPlace:
        return JdbcPlace(schema, "")

    def make_like(self, plan: SyncPlan, schema: str) -> None:
        """Of a keyless table without the invisible columns and the index by which Seamline finds its rows."""
        with self.asking() as ask:
            ask(f"CREATE DATABASE {schema}")
            for table in plan.tables:
                live = f"{plan.destinations[0].namespace}.{table.name}"
                like = f"LIKE {live}" if table.definition.is_keyed else f"SELECT * FROM {live} LIMIT 0"
                ask(f"CREATE TABLE {schema}.{table.name} {like}")

    @contextmanager
    def asking(self) -> Iterator[Ask]:
        with closing(mariadb(self.connection)) as session, session.cursor() as cursor:

            def ask(statement: str) -> Rows:
                cursor.execute(statement)
                return list(cursor.fetchall())

            yield ask


@contextmanager
def postgres_warehouse(name: str) -> Iterator[PostgresWarehouse]:
    with postgres_database(name) as connection, destination_known_by_id(connection, name):
        yield PostgresWarehouse(connection)


@contextmanager
def mariadb_warehouse(name: str) -> Iterator[MariaDbWarehouse]:
    with mariadb_destination(name) as publisher, known_by_id(publisher, name, "mysql"):
        yield MariaDbWarehouse(publisher, name)


def differing(ask: Ask, one: str, other: str) -> int:
    """Rows, copies counted, that only one of these tables has."""
    sides = ((one, other), (other, one))
    counts = (f"SELECT count(*) FROM (SELECT * FROM {a} EXCEPT ALL SELECT * FROM {b}) AS d" for a, b in sides)
    return sum(int(ask(count)[0][0]) for count in counts)
