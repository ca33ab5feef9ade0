"""The pairs of a source and a destination that a bank may have, and a writer's session in each source.

Neither side knows the other, so one pair with MySQL in front and MariaDB behind meets the code of both that PostgreSQL
and MariaDB in front of PostgreSQL do not; those with tables of Iceberg and Delta behind meet that of lakes.
"""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from seamline.adapters.connections import Connection, resolve
from seamline.domain.ledger import StreamId
from seamline.domain.staged_cut import CutSource
from seamline.plan.model import DestinationPlan
from seamline.settings import load
from tests import mysql_server
from tests.fault.real.bank_plus import SCHEMA_MARIADB, SCHEMA_MYSQL, SCHEMA_POSTGRES, TABLES
from tests.fault.real.warehouse import Warehouse
from tests.fault.real.warehouse_lake import DeltaWarehouse, LakeWarehouse
from tests.fault.real.warehouse_mariadb import LIVE, MariaDbWarehouse
from tests.fault.real.warehouse_postgres import PostgresWarehouse
from tests.integration.bank_writers import in_mariadb, in_postgres
from tests.integration.captured import Captured, captured
from tests.integration.captured_mysql import captured_mysql
from tests.integration.captured_postgres import captured_postgres
from tests.integration.databases import mariadb_destination, mariadb_writer_of, postgres_database
from tests.integration.known import destination_known_by_id, destination_plan, known_by_id

NAME = "t1_warehouse"
POSTGRES = destination_plan(NAME, "live")
MARIADB = DestinationPlan("warehouse", "mariadb", NAME, LIVE, writer_connection=f"{NAME}_writer")
ICEBERG = DestinationPlan(
    "warehouse", "iceberg", NAME, LIVE, writer_connection=f"{NAME}_writer", cut_source=CutSource.LIVE
)
DELTA = replace(ICEBERG, kind="delta")


@dataclass(frozen=True, slots=True)
class Pair:
    """The destination is there as long as it is entered, and known by its connection ids."""

    name: str
    source: Callable[[], AbstractContextManager[Captured]]
    destination: Callable[[], AbstractContextManager[DestinationPlan]]
    warehouse: Callable[[StreamId, DestinationPlan], Warehouse]


@contextmanager
def _of_mariadb() -> Iterator[Captured]:
    with captured("t1_mariadb") as one:
        one.execute("DROP TABLE account, audit, later", *SCHEMA_MARIADB)
        yield one


@contextmanager
def _of_postgres(name: str = "t1_postgres") -> Iterator[Captured]:
    with captured_postgres(name, create=SCHEMA_POSTGRES, tables=TABLES) as one:
        yield one


@contextmanager
def _of_mysql() -> Iterator[Captured]:
    """The fixture `mysql_root` has started its server."""
    with captured_mysql(mysql_server.root(load()), "t1_mysql", create=SCHEMA_MYSQL, tables=TABLES) as one:
        yield one


@contextmanager
def _in_postgres() -> Iterator[DestinationPlan]:
    with postgres_database(NAME) as database, destination_known_by_id(database, NAME):
        yield POSTGRES


@contextmanager
def _in_iceberg() -> Iterator[DestinationPlan]:
    """Its catalogue in PostgreSQL, its files in a folder of this machine."""
    with _in_postgres(), tempfile.TemporaryDirectory(prefix="t1-lake-") as warehouse:
        yield replace(ICEBERG, options=(("catalog", "lake"), ("warehouse", warehouse), ("write", "native")))


@contextmanager
def _in_delta() -> Iterator[DestinationPlan]:
    with _in_postgres(), tempfile.TemporaryDirectory(prefix="t1-delta-") as warehouse:
        yield replace(DELTA, options=(("warehouse", warehouse),))


@contextmanager
def _in_mariadb() -> Iterator[DestinationPlan]:
    with (
        mariadb_destination(LIVE) as publisher,
        known_by_id(publisher, NAME, "mysql"),
        known_by_id(mariadb_writer_of(publisher), f"{NAME}_writer", "mysql"),
    ):
        yield MARIADB


def _postgres_warehouse(stream: StreamId, _: DestinationPlan) -> Warehouse:
    return PostgresWarehouse(resolve(NAME), stream)


def _mariadb_warehouse(stream: StreamId, _: DestinationPlan) -> Warehouse:
    return MariaDbWarehouse(resolve(NAME), resolve("core_bank_root"), stream)


def _lake_warehouse(stream: StreamId, plan: DestinationPlan) -> Warehouse:
    return LakeWarehouse(resolve(NAME), stream, plan)


def _delta_warehouse(stream: StreamId, plan: DestinationPlan) -> Warehouse:
    return DeltaWarehouse(resolve(NAME), stream, plan)


def _binlog_session(root: Connection) -> Any:
    """Under REPEATABLE READ a search in a table without an index locks all of it."""
    session = in_mariadb(root)
    with session.cursor() as cursor:
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        cursor.execute("SET SESSION innodb_lock_wait_timeout = 5")
    return session


def _mysql_session(root: Connection) -> Any:
    """No strict session takes an ENUM's error value."""
    session = _binlog_session(root)
    with session.cursor() as cursor:
        cursor.execute("SET SESSION sql_mode = ''")
    return session


PAIRS: dict[str, Pair] = {
    "mariadb": Pair("mariadb", _of_mariadb, _in_postgres, _postgres_warehouse),
    "postgres": Pair("postgres", _of_postgres, _in_postgres, _postgres_warehouse),
    "mysql": Pair("mysql into mariadb", _of_mysql, _in_mariadb, _mariadb_warehouse),
    "lake": Pair("postgres into iceberg", partial(_of_postgres, "t1_lake"), _in_iceberg, _lake_warehouse),
    "delta": Pair("postgres into delta", partial(_of_postgres, "t1_delta"), _in_delta, _delta_warehouse),
}
# Those that go over every failpoint in every mode.
KINDS = ("mariadb", "postgres")
SESSIONS: dict[str, Callable[[Connection], Any]] = {
    "mariadb": _binlog_session,
    "postgres": in_postgres,
    "mysql": _mysql_session,
    "lake": in_postgres,
    "delta": in_postgres,
}
