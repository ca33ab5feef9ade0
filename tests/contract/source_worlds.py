"""The sources that the source suite runs over: each with tables that a test may write to, and what their logs say."""

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import replace
from datetime import date
from enum import Enum
from multiprocessing import get_context
from typing import Any, Protocol

import psycopg
import pytest

from seamline import settings
from seamline.adapters.connections import Connection, resolve
from seamline.databases.mysql import marker as mariadb_marker
from seamline.databases.postgres.canonical import quoted, text_literal
from seamline.domain.canonical import canonical_text, literal_text
from seamline.domain.catalogue import Column, Kind, Table
from seamline.kinds.found import source_kind
from seamline.kinds.source import LoggedKind, SourceKind
from seamline.plan.model import SourcePlan
from seamline.sources.postgres import marker as postgres_marker
from seamline.values.special import LAST_PLAIN_MOMENT
from seamline_memory import bank as memory_bank
from seamline_memory import source_kind as memory_kind
from seamline_memory.images import image_of
from tests import mysql_server
from tests.contract.wire_values import wire_value
from tests.integration.databases import mariadb, mariadb_database, postgres, postgres_database
from tests.integration.kinds import CASES, INEXACT_CASES, LENIENT, KindCase
from tests.mysql_server import mysql
from tests.postgres_wire import WIRE
from tests.typed_values import EDGES, VALUES

WEEK_S = 7 * 86_400.0
KEY = Column("id", Kind.INTEGER, "int", nullable=False, length=32)


class Power(Enum):
    """What some sources have and others have not."""

    LOG = "a capture reads its log"
    NO_LOG = "nobody reads a log of it"
    WHOLE_TRANSACTIONS = "a transaction over several tables is seen whole"
    MARKER_TABLE = "its markers are rows of a table"


LOGGED_DATABASE = frozenset({Power.LOG, Power.WHOLE_TRANSACTIONS, Power.MARKER_TABLE})
UNLOGGED = frozenset({Power.NO_LOG, Power.WHOLE_TRANSACTIONS})


class SourceWorld(Protocol):
    """A source with three tables: `account` (id, balance) and `audit` (account, amount; no key), whose sums are equal
    after every transaction, and `kinds`, which holds each kind and edge value. `business_date`: of what is to be read,
    where a source is read by dates."""

    kind: SourceKind
    plan: SourcePlan
    business_date: date | None

    def transfer(self, amount: int) -> None:
        """One transaction: the amount to an account, and into the audit."""

    def task_pool(self) -> Executor:
        """Where a task of its readers runs: in another process, where the source is not in this one."""

    def values(self) -> Sequence[tuple[Any, ...]]:
        """The rows of `kinds`, as they were written."""


class LoggedWorld(SourceWorld, Protocol):
    kind: LoggedKind

    def images(self) -> Sequence[bytes]:
        """The rows of `kinds` as the log writes them."""

    def markers(self) -> list[tuple[str, str]]:
        """(id, payload) of each."""

    def age_markers(self) -> None:
        """As if those that are there had been committed eight days ago."""


class MemorySourceWorld:
    business_date = None

    def __init__(self, name: str) -> None:
        self.kind: LoggedKind = memory_kind.KIND
        self.plan = plan_of("memory", name)
        self._bank = memory_bank.BANKS[name] = memory_bank.Bank()
        self._kinds = Table("kinds", (KEY, *VALUES), ("id",))
        self._rows = rows_of_edges([EDGES.get(column.kind, [None]) for column in VALUES])
        number = [Column(one, Kind.INTEGER, "int", length=32) for one in ("account", "amount", "balance")]
        for table in (Table("account", (KEY, number[2]), ("id",)), Table("audit", tuple(number[:2])), self._kinds):
            self._bank.create(table)
        with self._bank.transaction() as transaction:
            transaction.insert("account", (1, 0))
            for row in self._rows:
                transaction.insert("kinds", row)

    def transfer(self, amount: int) -> None:
        with self._bank.transaction() as transaction:
            (account,) = transaction.rows["account"]
            transaction.update("account", account, (1, account[1] + amount))
            transaction.insert("audit", (1, amount))

    def task_pool(self) -> Executor:
        return ThreadPoolExecutor(1)

    def values(self) -> Sequence[tuple[Any, ...]]:
        return self._rows

    def images(self) -> Sequence[bytes]:
        return [image_of(self._kinds, row) for row in self._rows]

    def markers(self) -> list[tuple[str, str]]:
        return [(row[0], row[2]) for row in self._bank.contents.rows[memory_bank.MARKERS.name]]

    def age_markers(self) -> None:
        with self._bank.transaction() as transaction:
            for row in transaction.rows[memory_bank.MARKERS.name]:
                aged = (*row[:3], row[3] - int(WEEK_S * 1000) - 86_400_000)
                transaction.update(memory_bank.MARKERS.name, row, aged)


def rows_of_edges(edges: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """Numbered rows for the edges of each column: every one is in one of them, and the last is NULL throughout."""
    count = max(map(len, edges))
    return [
        *((number, *(of[number % len(of)] for of in edges)) for number in range(count)),
        (count, *[None] * len(edges)),
    ]


_BINLOG_CASES = (*CASES, *INEXACT_CASES)
_OF_MARIADB = {"ident", "doc"}


class MariaDbSourceWorld:
    business_date = None

    def __init__(self, root: Connection, *, kind: str = "mariadb", cases: Sequence[KindCase] = _BINLOG_CASES) -> None:
        self.kind = logged_kind(kind)
        self.plan = replace(plan_of(kind, root.database), snapshot_lock="brief")
        self._root = root
        self._cases = cases
        columns = ", ".join(f"`{case.column.name}` {case.mariadb_type}" for case in self._cases)
        self._run(
            "CREATE TABLE account (id INT PRIMARY KEY, balance INT)",
            "CREATE TABLE audit (account INT, amount INT)",
            f"CREATE TABLE kinds (id INT PRIMARY KEY, {columns})",
            mariadb_marker.create_statement(self.plan.marker_table),
            "INSERT INTO account VALUES (1, 0)",
            *(
                f"{LENIENT} INSERT INTO kinds VALUES ({number}, {', '.join(one.mariadb for one in edges)})"
                for number, edges in enumerate(self._edges())
            ),
        )

    def transfer(self, amount: int) -> None:
        self._run(
            "BEGIN",
            f"UPDATE account SET balance = balance + {amount}",
            f"INSERT INTO audit VALUES (1, {amount})",
            "COMMIT",
        )

    def task_pool(self) -> Executor:
        return ProcessPoolExecutor(1, get_context("spawn"))

    def values(self) -> Sequence[tuple[Any, ...]]:
        return [(number, *(edge.value for edge in edges)) for number, edges in enumerate(self._edges())]

    def images(self) -> Sequence[bytes]:
        columns = [case.column for case in self._cases]
        found = []
        for number, edges in enumerate(self._edges()):
            pairs = zip(columns, edges, strict=True)
            wires = {column.name: wire_value(column, edge.value) for column, edge in pairs}
            found.append(_json({"id": number, **wires}))
        return found

    def _edges(self) -> list[tuple[Any, ...]]:
        count = max(len(case.edges) for case in self._cases)
        return [tuple(case.edges[n % len(case.edges)] for case in self._cases) for n in range(count)]

    def markers(self) -> list[tuple[str, str]]:
        with closing(mariadb(self._root)) as session, session.cursor() as cursor:
            cursor.execute(f"SELECT id, payload FROM {self.plan.marker_table} ORDER BY id")
            return list(cursor.fetchall())

    def age_markers(self) -> None:
        self._run(f"UPDATE {self.plan.marker_table} SET at = at - INTERVAL 8 DAY")

    def _run(self, *statements: str) -> None:
        with closing(mariadb(self._root)) as session, session.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)


class MySqlSourceWorld(MariaDbSourceWorld):
    """The same tables, but for the types that MySQL has not, and documents, which it prints in its own way."""

    def __init__(self, root: Connection) -> None:
        super().__init__(
            root, kind="mysql", cases=[case for case in _BINLOG_CASES if case.column.name not in _OF_MARIADB]
        )

    def _run(self, *statements: str) -> None:
        with closing(mysql(self._root)) as session, session.cursor() as cursor:
            # As `LENIENT` does for one statement of MariaDB.
            cursor.execute("SET SESSION sql_mode = ''")
            for statement in statements:
                cursor.execute(statement.removeprefix(LENIENT))

    def markers(self) -> list[tuple[str, str]]:
        with closing(mysql(self._root)) as session, session.cursor() as cursor:
            cursor.execute(f"SELECT id, payload FROM {self.plan.marker_table} ORDER BY id")
            return list(cursor.fetchall())


class PostgresSourceWorld:
    business_date = None

    def __init__(self, root: Connection) -> None:
        self.kind = logged_kind("postgres")
        self.plan = replace(plan_of("postgres", root.database), schema="public")
        self._root = root
        columns = ", ".join(f"{quoted(column.name)} {column.source_type}" for column in WIRE)
        with self._session() as session:
            for statement in (
                "CREATE TABLE account (id int PRIMARY KEY, balance int)",
                "CREATE TABLE audit (account int, amount int)",
                r"CREATE TYPE mood AS ENUM ('sad, or so', 'back\slash')",
                f"CREATE TABLE kinds (id int PRIMARY KEY, {columns})",
                postgres_marker.create_statement("public", self.plan.marker_table),
                "INSERT INTO account VALUES (1, 0)",
            ):
                session.execute(statement.encode())
            for number, row in enumerate(self._pairs(1)):
                values = ", ".join(_literal(column, value) for column, value in zip(WIRE, row, strict=True))
                session.execute(f"INSERT INTO kinds VALUES ({number}, {values})".encode())

    def transfer(self, amount: int) -> None:
        with self._session() as session, session.transaction():
            session.execute("UPDATE account SET balance = balance + %s", (amount,))
            session.execute("INSERT INTO audit VALUES (1, %s)", (amount,))

    def task_pool(self) -> Executor:
        return ProcessPoolExecutor(1, get_context("spawn"))

    def values(self) -> Sequence[tuple[Any, ...]]:
        return [(number, *row) for number, row in enumerate(self._pairs(1))]

    def images(self) -> Sequence[bytes]:
        names = [column.name for column in WIRE]
        return [
            _json({"id": number, **dict(zip(names, row, strict=True))}) for number, row in enumerate(self._pairs(0))
        ]

    def _pairs(self, side: int) -> list[tuple[Any, ...]]:
        """Of each pair what the log writes (0), or what that stands for (1)."""
        stored = [[pair for pair in pairs if _is_exact(column, pair[1])] for column, pairs in WIRE.items()]
        count = max(map(len, stored))
        found = [tuple(pairs[n % len(pairs)][side] for pairs in stored) for n in range(count)]
        return [*found, (None,) * len(WIRE)]

    def markers(self) -> list[tuple[str, str]]:
        with self._session() as session:
            statement = f"SELECT id, payload::text FROM {quoted(self.plan.marker_table)} ORDER BY id"
            return list(session.execute(statement.encode()).fetchall())

    def age_markers(self) -> None:
        with self._session() as session:
            session.execute(f"UPDATE {quoted(self.plan.marker_table)} SET at = at - interval '8 days'".encode())

    @contextmanager
    def _session(self) -> Iterator["psycopg.Connection[Any]"]:
        with closing(postgres(self._root)) as session:
            yield session


def _is_exact(column: Column, value: Any) -> bool:
    """No text of PostgreSQL holds NUL; and of the last moments it has (`values/special.py`) its own digests, made by
    `extract(epoch)`, are rounded."""
    if isinstance(value, str):
        return "\0" not in value
    return column.kind not in (Kind.DATETIME, Kind.INSTANT) or not isinstance(value, int) or value <= LAST_PLAIN_MOMENT


def _literal(column: Column, value: Any) -> str:
    """A value as PostgreSQL reads it."""
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"'\\x{value.hex()}'"
    if isinstance(value, tuple):
        months, days, microseconds = value
        seconds, rest = divmod(abs(microseconds), 1_000_000)
        sign = "-" if microseconds < 0 else ""
        clock = f"{sign}{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{rest:06d}"
        return f"'{months} months {days} days {clock}'"
    canonical = canonical_text(column, value)
    return text_literal(literal_text(column, canonical or ""))


def plan_of(kind: str, name: str) -> SourcePlan:
    return SourcePlan(name, kind, name, name, name, name, f"seamline.{name}.log", f"seamline-{name}")


def _json(row: dict[str, Any]) -> bytes:
    return json.dumps(row, separators=(",", ":"), ensure_ascii=False).encode()


def logged_kind(name: str) -> LoggedKind:
    kind = source_kind(name)
    assert isinstance(kind, LoggedKind)
    return kind


def without_a_log(world: SourceWorld) -> SourceWorld:
    """As `log: none` declares it."""
    nobody = {"capture": "", "marker": "", "log_topic": "", "connector": "", "snapshot_lock": "none"}
    world.plan = replace(world.plan, **nobody)
    return world


@contextmanager
def memory_world(name: str) -> Iterator[SourceWorld]:
    yield MemorySourceWorld(name)


@contextmanager
def mariadb_world(name: str) -> Iterator[SourceWorld]:
    with mariadb_database(name) as root, _roles(name, "mysql", root):
        yield MariaDbSourceWorld(root)


@contextmanager
def mysql_world(name: str) -> Iterator[SourceWorld]:
    """On the server of the test session, which runs."""
    server = mysql_server.root(settings.load())
    with mysql_server.mysql_database(server, name) as root, _roles(name, "mysql", root):
        yield MySqlSourceWorld(root)


@contextmanager
def postgres_world(name: str) -> Iterator[SourceWorld]:
    with postgres_database(name):
        root = replace(resolve("postgres_root"), database=name)
        with _roles(name, "postgres", root):
            yield PostgresSourceWorld(root)


@contextmanager
def _roles(name: str, scheme: str, root: Connection) -> Iterator[None]:
    """One connection for all roles: what each may do is tested elsewhere."""
    address = f"{scheme}://{root.login}:{root.password}@{root.host}:{root.port}/{name}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(f"SEAMLINE_CONNECTION_{name.upper()}", address)
        yield


Opens = Callable[[str], AbstractContextManager[SourceWorld]]


def unlogged(opens: Opens) -> Opens:
    @contextmanager
    def opened(name: str) -> Iterator[SourceWorld]:
        with opens(name) as world:
            yield without_a_log(world)

    return opened
