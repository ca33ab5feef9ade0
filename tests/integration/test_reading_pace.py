"""Loads of real servers that follow how busy these are, and what a login may see of that."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace

import pytest

from seamline import registry
from seamline.adapters.connections import Connection, resolve
from seamline.bulk.read import RunReader
from seamline.bulk.threads import CopyingHere
from seamline.domain.digest import Segment
from seamline.domain.errors import ConfigError
from seamline.domain.runs import RunKind, RunState
from seamline.kinds.found import source_kind
from seamline.plan.checks import SourceBudgetPlan
from seamline.plan.model import DestinationPlan, Run, SourcePlan, SyncPlan, TablePlan
from seamline.ports import KnowsItsLoad, TableRead
from seamline.sync import reading_pace
from tests.integration.databases import mariadb, mariadb_database, postgres, postgres_database
from tests.integration.known import known_by_id
from tests.waiting import wait_until

NAME = "paced_load"
ROWS = 200_000


@pytest.fixture(scope="module")
def core(stack: object) -> Iterator[Connection]:
    with mariadb_database(NAME) as connection, closing(mariadb(connection)) as session, session.cursor() as cursor:
        cursor.execute("CREATE TABLE entry (id int PRIMARY KEY, v varchar(200))")
        cursor.execute(f"INSERT INTO entry SELECT seq, repeat('x', 200) FROM seq_1_to_{ROWS}")
        with known_by_id(connection, NAME, "mysql"):
            yield connection


@pytest.fixture(scope="module")
def warehouse(stack: object) -> Iterator[DestinationPlan]:
    with postgres_database(f"{NAME}_to") as database, known_by_id(database, f"{NAME}_to", "postgres"):
        yield DestinationPlan("warehouse", "postgres", f"{NAME}_to", "live")


def planned(kind: str) -> SourcePlan:
    schema = "public" if kind == "postgres" else ""
    return SourcePlan(NAME, kind, NAME, NAME, NAME, NAME, "log", "connector", snapshot_lock="brief", schema=schema)


def load_of(plan: SourcePlan) -> int:
    source = source_kind(plan.kind).open_source(plan)
    assert isinstance(source, KnowsItsLoad)
    assert source.replica_lag_s() is None, "it is no replica, and has none"
    return source.running()


@contextmanager
def busy(core: Connection, sessions: int) -> Iterator[threading.Event]:
    """So many sessions that work, until the event."""
    end = threading.Event()

    def work() -> None:
        with closing(mariadb(core)) as session, session.cursor() as cursor:
            while not end.is_set():
                cursor.execute("SELECT SLEEP(0.5)")

    with ThreadPoolExecutor(sessions) as pool:
        lives = [pool.submit(work) for _ in range(sessions)]
        try:
            yield end
        finally:
            end.set()
    for one in lives:
        one.result()


def test_a_load_waits_while_its_server_is_busy_and_goes_on_by_itself_and_is_whole(
    core: Connection,
    warehouse: DestinationPlan,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Its readers are forked from here, so they look as often, and let as few parts through."""
    monkeypatch.setattr(reading_pace, "LOOK_EVERY_S", 0.1)
    monkeypatch.setattr(reading_pace, "PART_EVERY_S", 5.0)
    quiet = load_of(planned("mariadb"))
    budget = SourceBudgetPlan(running_max=quiet + 15, wait_max_s=120)
    plan = SyncPlan(NAME, replace(planned("mariadb"), budget=budget), (warehouse,), ())
    (table,) = registry.source(plan).catalogue(["entry"])
    plan = replace(plan, tables=(TablePlan("entry", table=table),))
    run = Run(f"{NAME}/onboard/-/1", NAME, RunKind.ONBOARD, None, plan, RunState.RUNNING)
    said: list[str] = []
    monkeypatch.setattr(registry, "log_pressure", lambda *_: None)
    pacer = registry.reading_pacer(plan.source, run.run_id, say=said.append)
    reader = RunReader(run, tasks=lambda _: 1, copying_of=lambda groups, _: CopyingHere(groups), pacer=pacer)
    with ExitStack() as opened, ThreadPoolExecutor(2) as pool:
        end = opened.enter_context(busy(core, 30))
        wait_until(lambda: load_of(plan.source) >= quiet + 15, timeout_s=30, what="a busy server")
        waiting = pool.submit(pacer.begin)
        wait_until(lambda: said, timeout_s=30, what="who waits before anything is opened")
        assert not waiting.done() and "its limit is" in said[0]
        # As if it had become busy once the read was open.
        monkeypatch.setattr(pacer, "begin", lambda _: None)
        with reader.open_read([TableRead(table, Segment("entry"))]) as read:
            staging = pool.submit(read.stage, warehouse)
            heard: list[str] = []

            def reader_waits() -> bool:
                heard.append(capfd.readouterr().err)
                return f"the read of source {NAME} waits" in "".join(heard)

            wait_until(reader_waits, timeout_s=60, what="a reader that waits")
            assert not staging.done()
            end.set()
            began = time.monotonic()
            waiting.result(timeout=60)
            (load,) = staging.result(timeout=60)
            print(f"let go within {time.monotonic() - began:.1f} s")
            assert load.rows == ROWS
    assert said[-1] == f"source {NAME} is read at full speed again"


def test_a_login_that_does_not_see_what_others_do_is_refused_by_name_until_it_has_the_right_of_the_script(
    stack: object,
) -> None:
    with postgres_database(NAME) as reader, known_by_id(reader, NAME, "postgres"):
        plan = planned("postgres")
        root = replace(resolve("postgres_root"), database=NAME)
        with postgres(root) as other:
            other.execute("SELECT 1")
            with pytest.raises(ConfigError, match=r"does not see what \d+ sessions of the source do") as caught:
                load_of(plan)
            assert "pg_read_all_stats" in caught.value.hint
            try:
                other.execute(f"GRANT pg_read_all_stats TO {reader.login}".encode())
                before = load_of(plan)
                with ThreadPoolExecutor(1) as pool, postgres(root) as third:
                    working = pool.submit(third.execute, b"SELECT pg_sleep(20)")
                    wait_until(lambda: load_of(plan) > before, timeout_s=15, what="its statement to be counted")
                    third.cancel()
                    working.exception()
            finally:
                other.execute(f"REVOKE pg_read_all_stats FROM {reader.login}".encode())
