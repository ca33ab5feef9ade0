"""A bulk read opens as many sessions at its source as it has readers, whatever the tables and the destinations.

Counted are real connections: between the source and whoever reads it stands a link that counts them.
"""

import itertools
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace

import pytest

from seamline import registry
from seamline.adapters.connections import Connection, resolve
from seamline.bulk.read import VIEWS, RunReader
from seamline.bulk.threads import CopyingHere
from seamline.domain.catalogue import Table
from seamline.domain.digest import Segment
from seamline.domain.runs import RunKind, RunState
from seamline.domain.verdict import Verdict
from seamline.plan.model import DestinationPlan, Run, SourcePlan, SyncPlan, TablePlan
from seamline.ports import TableRead
from seamline.sync.comparison import Work, compare_tables
from tests.fault.soak.link import Link
from tests.integration.databases import mariadb, mariadb_database, postgres, postgres_database
from tests.integration.known import known_by_id

NAME = "counted_sessions"
TABLES = 12
ROWS = 500
# A reader has a session that reads. Beside it MariaDB's has one at the barrier, PostgreSQL's one that holds the tables.
PER_READER = 2
# Those of the coordinating process beside its views. MariaDB: the barrier's, and two for the moment in which commits
# are held. PostgreSQL: the one that has the slot, and one that sees that all transactions of its snapshot have ended.
AROUND = {"mariadb": 3, "postgres": 2}
RUNS = itertools.count(1)


class CountingLink(Link):
    """`made` connections so far, at most `most` of them at a time."""

    made = most = 0

    def _carry(self, client: socket.socket) -> None:
        self.made += 1
        self.most = max(self.most, len(self._carried) + 1)
        super()._carry(client)


@contextmanager
def counted(connection: Connection, kind: str) -> Iterator[CountingLink]:
    link = CountingLink(connection.host, connection.port)
    try:
        with known_by_id(replace(connection, host="127.0.0.1", port=link.port), NAME, kind):
            yield link
    finally:
        link.close()


@contextmanager
def mariadb_source() -> Iterator[tuple[Connection, Callable[[Sequence[str]], None]]]:
    with mariadb_database(NAME) as connection, closing(mariadb(connection)) as session, session.cursor() as cursor:

        def execute(statements: Sequence[str]) -> None:
            for statement in statements:
                cursor.execute(statement)

        yield connection, execute


@contextmanager
def postgres_source() -> Iterator[tuple[Connection, Callable[[Sequence[str]], None]]]:
    with postgres_database(NAME):
        owner = replace(resolve("postgres_root"), database=NAME)
        with postgres(owner) as session:

            def execute(statements: Sequence[str]) -> None:
                for statement in statements:
                    session.execute(statement.encode())

            yield owner, execute


@pytest.fixture(scope="module", params=["mariadb", "postgres"])
def source(request: pytest.FixtureRequest, stack: object) -> Iterator[tuple[SourcePlan, CountingLink]]:
    kind = str(request.param)
    opened, client = {"mariadb": (mariadb_source(), "mysql"), "postgres": (postgres_source(), "postgres")}[kind]
    series = {"mariadb": f"SELECT seq, 'row' FROM seq_1_to_{ROWS}", "postgres": ""}[kind]
    series = series or f"SELECT n, 'row' FROM generate_series(1, {ROWS}) AS n"
    with opened as (connection, execute), counted(connection, client) as link:
        for number in range(TABLES):
            execute([f"CREATE TABLE t{number} (id int PRIMARY KEY, v varchar(20))", f"INSERT INTO t{number} {series}"])
        plan = SourcePlan(NAME, kind, NAME, NAME, NAME, NAME, "log", "connector", snapshot_lock="brief")
        yield (replace(plan, schema="public") if kind == "postgres" else plan), link


@pytest.fixture(scope="module")
def destinations(stack: object) -> Iterator[tuple[DestinationPlan, ...]]:
    with ExitStack() as opened:
        plans = []
        for name in ("first", "second"):
            database = opened.enter_context(postgres_database(f"{NAME}_{name}"))
            opened.enter_context(known_by_id(database, f"{NAME}_{name}", "postgres"))
            plans.append(DestinationPlan(name, "postgres", f"{NAME}_{name}", "live"))
        yield tuple(plans)


def read_and_compared(run: Run, *, tasks: int) -> None:
    reader = RunReader(run, tasks=lambda _: tasks, copying_of=lambda groups, _: CopyingHere(groups))
    reads = [TableRead(table.definition, Segment(table.name)) for table in run.plan.tables]
    with reader.open_read(reads) as read:
        for destination in run.plan.destinations:
            loads = list(read.stage(destination))
            work = [Work(load.table, Segment(load.table.name), Segment(load.table.name)) for load in loads]
            with reader.open_staged(destination, loads, VIEWS) as staged:
                verdicts = compare_tables(work, source=read.views_for(destination), destination=staged)
            assert [(one.verdict, one.source_rows) for one in verdicts] == [(Verdict.MATCH, ROWS)] * len(reads)


def run_of(source: SourcePlan, tables: Sequence[Table], destinations: Sequence[DestinationPlan]) -> Run:
    planned = tuple(TablePlan(table.name, table=table) for table in tables)
    plan = SyncPlan(NAME, source, tuple(destinations), planned)
    return Run(f"{NAME}/onboard/-/{next(RUNS)}", NAME, RunKind.ONBOARD, None, plan, RunState.RUNNING)


@pytest.mark.parametrize(("tables", "to", "tasks"), [(2, 1, 2), (12, 1, 2), (2, 2, 2), (12, 2, 2), (12, 2, 4)])
def test_sessions_at_the_source_grow_with_the_readers_alone(
    source: tuple[SourcePlan, CountingLink], destinations: Sequence[DestinationPlan], tables: int, to: int, tasks: int
) -> None:
    plan, link = source
    names = [f"t{number}" for number in range(tables)]
    defined = registry.source(SyncPlan(NAME, plan, tuple(destinations), ())).catalogue(names)
    before, link.most = link.made, 0
    read_and_compared(run_of(plan, defined, destinations[:to]), tasks=tasks)
    # MariaDB's two for the brief lock are opened again where a commit came in between.
    assert link.most <= AROUND[plan.kind] + VIEWS + PER_READER * tasks
    assert link.made - before >= VIEWS + PER_READER * tasks
    if plan.kind == "postgres":
        assert link.made - before == AROUND[plan.kind] + VIEWS + PER_READER * tasks
