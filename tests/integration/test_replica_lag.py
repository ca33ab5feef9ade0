"""Loads from real replicas, which follow how far these are behind their primaries."""

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

import pytest

from seamline import registry, settings
from seamline.adapters.connections import Connection, resolve
from seamline.bulk.read import RunReader
from seamline.bulk.threads import CopyingHere
from seamline.databases.mysql.grants import statements_of
from seamline.domain.digest import Segment
from seamline.domain.errors import ConfigError, Refused
from seamline.domain.load_progress import LoadSoFar
from seamline.domain.reading_pace import Rate
from seamline.domain.runs import RunKind, RunState
from seamline.kinds.found import source_kind
from seamline.kinds.logins import logins_of
from seamline.plan.checks import SourceBudgetPlan
from seamline.plan.model import NightlyPlan, Run, SourcePlan, SyncPlan, TablePlan
from seamline.ports import KnowsItsLoad, TableRead
from seamline.settings import Ports
from seamline.stack.port_bases import held_port_base
from seamline.sync import reading_pace
from tests import mysql_server
from tests.conftest import RunningStack
from tests.integration.databases import mariadb, postgres, postgres_database
from tests.integration.known import destination_known_by_id, destination_plan, known_by_id
from tests.integration.replicated import mariadb_with_replica, postgres_with_replica, remove
from tests.integration.unlogged import ACCOUNTS, PASSWORD, Bank, unlogged_bank
from tests.mysql_server import mysql
from tests.waiting import wait_until

NAME, DAY = "lagging", date(2026, 11, 28)
LIMIT_S = 5.0
HELD_UP = {"postgres": ("SELECT pg_wal_replay_pause()", "SELECT pg_wal_replay_resume()")}
BY_A_LOCK = (f"LOCK TABLES {NAME}.audit WRITE", "UNLOCK TABLES")


@dataclass
class Replicated:
    """`at`: the root of the replica, `primary` that of its primary. `bank` writes to the primary, and its login reads
    the replica."""

    kind: str
    primary: Connection
    at: Connection
    bank: Bank

    def open_replica(self) -> Any:
        opens: dict[str, Callable[[Connection], Any]] = {"mariadb": mariadb, "mysql": mysql, "postgres": postgres}
        return opens[self.kind](self.at)

    def on_replica(self, *statements: str) -> None:
        with closing(self.open_replica()) as session, session.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    @contextmanager
    def held_up(self) -> Iterator[Callable[[], None]]:
        """Until what is given is called it applies nothing behind the next row of `audit`, or nothing at all."""
        begins, ends = HELD_UP.get(self.kind, BY_A_LOCK)
        with closing(self.open_replica()) as session, session.cursor() as cursor:
            cursor.execute(begins)
            yield lambda: cursor.execute(ends)

    @property
    def plan(self) -> SourcePlan:
        return replace(self.bank.plan, budget=SourceBudgetPlan(replica_lag_max_s=LIMIT_S, wait_max_s=120))

    def lag_s(self) -> float | None:
        source = source_kind(self.kind).open_source(self.plan)
        assert isinstance(source, KnowsItsLoad)
        return source.replica_lag_s()

    def grant(self) -> None:
        """What the budget asks for beside the bank's own script, as the primary's owner runs it."""
        *_, asked = statements_of(
            source_kind(self.kind).grant_script(self.plan, ["account"], logins=logins_of(self.bank.name))
        )
        self.bank.execute(asked)


@contextmanager
def _mysql_pair() -> Iterator[tuple[Connection, Connection]]:
    known = settings.load()
    folder = known.data / "replicated_mysql"
    with ExitStack() as running:
        running.callback(remove, folder)
        roots = []
        for name, server_id in (("first", "9"), ("second", "10")):
            base = running.enter_context(held_port_base(known.home))
            own = replace(known, data=folder / name, ports=Ports(base))
            roots.append(running.enter_context(mysql_server.running(own, server_id=server_id)))
        first, second = roots
        with closing(mysql(second)) as session, session.cursor() as cursor:
            cursor.execute(
                f"CHANGE REPLICATION SOURCE TO SOURCE_HOST='{first.host}', SOURCE_PORT={first.port},"
                f" SOURCE_USER='{first.login}', SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1"
            )
            cursor.execute("START REPLICA")
        yield first, second


@contextmanager
def _roots(kind: str) -> Iterator[tuple[Connection, Connection]]:
    if kind == "mysql":
        with _mysql_pair() as pair:
            yield pair
        return
    with mariadb_with_replica() if kind == "mariadb" else postgres_with_replica() as (first, second):
        yield first.administrator, second.administrator


@pytest.fixture(scope="module", params=["mariadb", "mysql", "postgres"])
def replicated(request: pytest.FixtureRequest, stack: RunningStack) -> Iterator[Replicated]:
    kind = request.param
    with ExitStack() as around:
        primary, at = around.enter_context(_roots(kind))
        server = primary if kind == "mysql" else None
        bank = around.enter_context(unlogged_bank(kind, NAME, DAY, server=server))
        reader = logins_of(NAME).reader
        reads = replace(at, connection_id=NAME, login=reader, password=PASSWORD, database=NAME)
        around.enter_context(known_by_id(reads, NAME, "postgres" if kind == "postgres" else "mysql"))
        yield Replicated(kind, primary, at, bank)


def run_of(pair: Replicated) -> Run:
    plan = SyncPlan("night", pair.plan, (destination_plan(f"{NAME}_to", "night"),), (), nightly=NightlyPlan())
    (table,) = registry.source(plan).catalogue(["account"])
    plan = replace(plan, tables=(TablePlan("account", None, table),))
    return Run(f"night/nightly/{DAY}/1", "night", RunKind.NIGHTLY, DAY, plan, RunState.RUNNING)


def has_all(pair: Replicated) -> bool:
    """Of the grants too, which came last."""
    try:
        return pair.lag_s() == 0.0
    except (ConfigError, Refused):
        return False


def test_a_load_from_a_replica_that_falls_behind_waits_and_goes_on_by_itself_with_what_was_missing(
    replicated: Replicated, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading_pace, "LOOK_EVERY_S", 0.1)
    wait_until(lambda: _is_refused_by_name(replicated), timeout_s=60, what="the login to be replicated")
    replicated.grant()
    wait_until(lambda: has_all(replicated), timeout_s=60, what="a replica that has all")
    said: list[str] = []
    waits: list[LoadSoFar] = []
    with (
        postgres_database(f"{NAME}_to") as warehouse,
        destination_known_by_id(warehouse, f"{NAME}_to"),
        ThreadPoolExecutor(1) as pool,
        replicated.held_up() as let_go,
    ):
        run = run_of(replicated)
        pacer = registry.reading_pacer(run.plan.source, run.run_id, say=said.append)
        reader = RunReader(
            run,
            tasks=lambda _: 1,
            copying_of=lambda groups, _: CopyingHere(groups),
            pacer=pacer,
            on_progress=waits.append,
        )

        def load() -> int:
            with reader.open_read([TableRead(one.definition, Segment(one.name)) for one in run.plan.tables]) as read:
                (staged,) = read.stage(run.plan.destinations[0])
                return staged.rows

        replicated.bank.execute("INSERT INTO audit VALUES ('one', 'more')")
        replicated.bank.execute(f"INSERT INTO account VALUES ({ACCOUNTS + 1}, 'one more', 1)")
        wait_until(lambda: pacer.pace.rate is Rate.WAITS, timeout_s=60, what="a replica that is too far behind")
        loading = pool.submit(load)
        wait_until(lambda: waits, timeout_s=60, what="a load that waits")
        assert not loading.done()
        let_go()
        assert loading.result(timeout=60) == ACCOUNTS + 1
    *slower, waiting, free = said
    assert f"a replica of source {NAME} is {LIMIT_S:g} s behind, its limit is {LIMIT_S:g} s" in waiting
    assert free == f"source {NAME} is read at full speed again"
    assert [one for one in slower if "at a quarter of the speed" in one] == slower


def _is_refused_by_name(pair: Replicated) -> bool:
    """Until the login has come to the replica it is not known there."""
    try:
        pair.lag_s()
    except (ConfigError, Refused) as exc:
        return isinstance(exc, Refused) or "pg_read_all_stats" in exc.hint
    return False


@pytest.mark.parametrize("replicated", ["mariadb", "mysql"], indirect=True)
def test_a_replica_whose_thread_does_not_run_keeps_reads_waiting_until_it_does(replicated: Replicated) -> None:
    """One of its threads fetches what the other one applies."""
    replicated.grant()
    wait_until(lambda: has_all(replicated), timeout_s=60, what="a replica that has all")
    for thread in ("SQL_THREAD", "IO_THREAD"):
        replicated.on_replica(f"STOP REPLICA {thread}")
        assert replicated.lag_s() == math.inf
        replicated.on_replica(f"START REPLICA {thread}")
        wait_until(lambda: replicated.lag_s() == 0.0, timeout_s=60, what="a replica that goes on")


@pytest.mark.parametrize("replicated", ["postgres"], indirect=True)
def test_a_primary_of_postgres_says_how_far_its_standby_is_behind(replicated: Replicated) -> None:
    replicated.grant()
    reads = replace(resolve(NAME), port=replicated.primary.port)
    with known_by_id(reads, NAME, "postgres"):
        with replicated.held_up() as let_go:
            for number in range(3):
                replicated.bank.execute(f"INSERT INTO audit VALUES ('one', '{number}')")
            wait_until(lambda: (replicated.lag_s() or 0.0) >= 2.0, timeout_s=60, what="a standby that is behind")
            let_go()
        wait_until(lambda: (replicated.lag_s() or 0.0) < 1.0, timeout_s=60, what="a standby that has all")
