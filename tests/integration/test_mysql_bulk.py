"""Tables of a MySQL are staged in PostgreSQL as they were at one position."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace

import pymysql
import pytest

from seamline.adapters.connections import Connection
from seamline.bulk.read import RunReader
from seamline.bulk.threads import CopyingHere
from seamline.databases.mysql import snapshot_barrier
from seamline.domain.catalogue import Kind
from seamline.domain.digest import Segment, SegmentDigest
from seamline.domain.errors import SchemaConflict
from seamline.domain.runs import RunKind, RunState
from seamline.plan.model import Run, TablePlan
from seamline.ports import TableRead
from seamline.sources.mysql.catalogue import read_catalogue
from seamline.sources.mysql.edge_values import edge_values
from tests.integration.bank_writers import writing
from tests.integration.captured_mysql import MySqlCaptured, as_writer, captured_mysql
from tests.integration.databases import postgres_database
from tests.integration.known import destination_known_by_id, destination_plan
from tests.integration.mysql_types import NAMES, TYPES
from tests.mysql_server import mysql
from tests.waiting import wait_until

WAREHOUSE = destination_plan("mysql_bulk_warehouse", "bank")
TABLES = ("account", "audit")
Digests = dict[str, SegmentDigest]


@pytest.fixture(scope="module")
def bank(mysql_root: Connection) -> Iterator[MySqlCaptured]:
    with captured_mysql(mysql_root, "mysql_bulk", destinations=(WAREHOUSE,)) as one:
        fill(one)
        yield one


@pytest.fixture(scope="module", autouse=True)
def warehouse() -> Iterator[None]:
    name = WAREHOUSE.connection
    with postgres_database(name) as connection, destination_known_by_id(connection, name):
        yield


def fill(one: MySqlCaptured) -> None:
    with closing(mysql(one.root)) as session, session.cursor() as cursor:
        for of, name in NAMES.items():
            cursor.execute(f"CREATE TABLE {name} (id INT AUTO_INCREMENT PRIMARY KEY, v {of} NULL)")
        for table in read_catalogue(session, one.source_plan.database, list(NAMES.values())):
            column = table.column("v")
            mode = "" if column.kind is Kind.ENUM else "STRICT_ALL_TABLES"
            cursor.execute("SET SESSION sql_mode = %s", (mode,))
            for literal in edge_values(column):
                with suppress(pymysql.err.DataError, pymysql.err.OperationalError):
                    cursor.execute(f"INSERT INTO {table.name} (v) VALUES ({literal})")


def staged(one: MySqlCaptured, tables: Sequence[str], *, lock: str = "none") -> tuple[Digests, Digests]:
    """The digests of the source at the read's position, and those of what was staged."""
    plan = one.with_tables(*tables)
    plan = replace(plan, source=replace(plan.source, snapshot_lock=lock))
    one.grant(plan)
    definitions = one.source.catalogue(tables)
    plan = replace(plan, tables=tuple(TablePlan(table.name, table=table) for table in definitions))
    run = Run("bulk/onboard/-/1", plan.sync, RunKind.ONBOARD, None, plan, RunState.RUNNING)
    reader = RunReader(run, tasks=lambda _: 2, copying_of=lambda groups, _: CopyingHere(groups))
    reads = [TableRead(table, Segment(table.name)) for table in definitions]
    with reader.open_read(reads) as source:
        loads = source.stage(WAREHOUSE)
        with reader.open_staged(WAREHOUSE, loads, 1) as (view,):
            return tuple(  # type: ignore[return-value]
                {table: side.digests(Segment(table), run_key="bulk").get(0, SegmentDigest()) for table in tables}
                for side in (source.views_for(WAREHOUSE)[0], view)
            )


@pytest.mark.parametrize("lock", ["none", "brief"])
def test_what_is_staged_amid_writers_is_what_the_source_had_at_one_position(
    bank: MySqlCaptured, caplog: pytest.LogCaptureFixture, lock: str
) -> None:
    caplog.set_level(logging.INFO, "seamline.bulk_read")
    first = {"none": 1, "brief": 1_000_000}[lock]
    with writing(bank.root, tables=TABLES, first_id=first, session_of=as_writer) as writers:
        wait_until(lambda: writers.committed > 50, timeout_s=60, what="writers at work")
        source, found = staged(bank, TABLES, lock=lock)
        before = writers.committed
        wait_until(lambda: writers.committed > before + 10, timeout_s=60, what="writers that were let go")
    assert found == source
    assert found["account"].rows > 10
    # Where no lock is allowed, it may be that one session had to read.
    assert lock == "none" or "all sessions opened" in caplog.text


def test_a_source_that_commits_too_often_and_allows_no_lock_is_read_by_the_session_that_digests(
    bank: MySqlCaptured, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(snapshot_barrier, "ATTEMPTS_MAX", 0)
    source, found = staged(bank, TABLES)
    assert found == source
    assert "one session reads table after table" in caplog.text


def test_every_edge_value_of_every_type_is_staged_as_the_source_digests_it(bank: MySqlCaptured) -> None:
    source, found = staged(bank, tuple(NAMES.values()))
    of = {name: type_name for type_name, name in NAMES.items()}
    assert {of[name] for name, digest in source.items() if found[name] != digest} == set()
    assert len(TYPES) == len([name for name, digest in source.items() if digest.rows])


def test_a_zero_date_is_refused_by_the_name_of_its_column(bank: MySqlCaptured) -> None:
    with zero_date(bank), pytest.raises(SchemaConflict, match=r"a value of zero\.d does not fit date"):
        staged(bank, ("zero",))


@contextmanager
def zero_date(one: MySqlCaptured) -> Iterator[None]:
    one.execute("CREATE TABLE zero (id INT PRIMARY KEY, d DATE)")
    with closing(mysql(one.root)) as session, session.cursor() as cursor:
        cursor.execute("SET SESSION sql_mode = ''")
        cursor.execute("INSERT INTO zero VALUES (1, '0000-00-00')")
    yield
    one.execute("DROP TABLE zero")
