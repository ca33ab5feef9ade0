"""The snapshot of an onboarding on real servers, while writers commit: what is staged is what the log says at P."""

import itertools
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace

import pytest

from seamline.adapters.connections import Connection
from seamline.databases.mysql import snapshot_barrier
from seamline.databases.mysql.client import query, role
from seamline.databases.mysql.snapshot_sessions import BEGIN_SNAPSHOT, close_all
from seamline.domain.digest import Segment
from seamline.domain.errors import GateFailed, Refused, TransientError
from seamline.sources.mariadb.sessions import address_of, open_session, open_views
from seamline.sync.onboard import publish
from seamline.sync.snapshot import take_snapshot
from tests.conftest import RunningStack
from tests.integration.bank_writers import writing
from tests.integration.captured import Captured, captured
from tests.integration.databases import postgres, postgres_database
from tests.integration.known import destination_known_by_id, destination_plan
from tests.integration.snapshot_run import (
    BY_TOLERANCE,
    RATES,
    Meddler,
    Records,
    caught_before_publish,
    rows_in,
    run_of,
    snapshot_amid,
    staged_as_the_log_says,
    staged_names,
    state_at,
    tools_of,
)
from tests.once_more import ONCE_MORE
from tests.opened_sink import postgres_sink

# Without the lock each third; each reads the log of all before it.
ROUNDS = [*range(4), *(pytest.param(number, marks=ONCE_MORE) for number in range(4, 10))]
WRITERS = 6
# Each test's writers make keys of their own.
FIRST_IDS = itertools.count(1, 1_000_000)
WAREHOUSE = destination_plan("snap_warehouse", "bank")
TABLES = ("account", "audit", "later")
SEGMENT = Segment("account", buckets=16)


@pytest.fixture(scope="module")
def bank(stack: RunningStack) -> Iterator[Captured]:
    with captured("snap_bank") as one:
        one.plan = replace(one.with_tables(*TABLES), destinations=(WAREHOUSE,))
        one.ensure()
        yield one


@pytest.fixture(scope="module")
def warehouse() -> Iterator[Connection]:
    name = WAREHOUSE.connection
    with postgres_database(name) as connection, destination_known_by_id(connection, name):
        yield connection


@pytest.fixture(autouse=True)
def small_writers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many rounds share one database: its transactions stay small enough that it does."""
    monkeypatch.setattr("tests.integration.bank_writers._LARGE", 300)


@pytest.fixture(autouse=True)
def empty(bank: Captured, warehouse: Connection) -> None:
    with postgres(warehouse) as session:
        for schema in ("bank", "bank_stage", "seamline"):
            session.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")


@pytest.mark.parametrize("number", ROUNDS)
def test_staged_tables_are_what_the_position_rule_says(number: int, bank: Captured, warehouse: Connection) -> None:
    run = run_of(bank, TABLES, lock="none" if number % 3 == 2 else "brief", number=number)
    records = Records()
    with writing(bank.root, tables=TABLES[:2], count=WRITERS, first_id=next(FIRST_IDS)) as writers:
        snapshot = snapshot_amid(writers, run, tools_of(bank, run, records))
    staged = staged_as_the_log_says(bank, warehouse, snapshot, TABLES[:2])
    assert staged["later"] == []
    assert {one.table: one.rows for one in records.receipts} == {table: len(rows) for table, rows in staged.items()}


def test_a_source_that_commits_too_often_and_allows_no_lock_is_read_by_one_session(
    bank: Captured, warehouse: Connection, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(snapshot_barrier, "ATTEMPTS_MAX", 0)
    run = run_of(bank, TABLES, lock="none")
    records = Records()
    with writing(bank.root, tables=TABLES[:2], count=WRITERS, first_id=next(FIRST_IDS)) as writers:
        snapshot = snapshot_amid(writers, run, tools_of(bank, run, records))
    staged = staged_as_the_log_says(bank, warehouse, snapshot, TABLES[:2])
    assert {one.table: one.rows for one in records.receipts} == {table: len(rows) for table, rows in staged.items()}
    assert "one session reads table after table" in caplog.text
    with pytest.raises(Refused, match="did not come to stand at one binlog position"):
        locked = run_of(bank, TABLES, lock="brief")
        take_snapshot(locked, tools_of(bank, locked, records))


def test_published_tables_stand_where_the_ledger_says(bank: Captured, warehouse: Connection) -> None:
    run = run_of(bank, TABLES, lock="brief")
    with writing(bank.root, tables=TABLES[:2], first_id=next(FIRST_IDS)):
        run.result["snapshot"] = take_snapshot(run, tools_of(bank, run, Records()))
    with closing(postgres_sink(run.plan, WAREHOUSE)) as sink:
        commit = publish(run, "warehouse", sink=sink)
        again = publish(run, "warehouse", sink=sink)
        ledger = sink.read_ledger(run.plan.stream_id("warehouse"))
    snapshot = run.result["snapshot"]
    assert ledger is not None
    assert commit.ledger == again.ledger == ledger
    assert (ledger.next_offset, ledger.topic_id) == (snapshot["next_offset"], snapshot["topic_id"])
    assert ledger.is_catching_up
    assert {(b.table, b.generation, b.high_marker) for b in ledger.boundaries} == {
        (table, 1, snapshot["high_marker"]) for table in TABLES
    }
    state = state_at(bank, ledger.position, ledger.next_offset, snapshot["high_marker"], TABLES[:2])
    live = rows_in(warehouse, "bank", {table: table for table in TABLES[:2]})
    assert live == {table: state.holds(table) for table in TABLES[:2]}
    with postgres(warehouse) as session:
        assert session.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'bank_stage'").fetchone() == (0,)


@pytest.mark.parametrize("point", ["snap.opened", "snap.chunk_staged", "snap.manifest_written"])
def test_an_attempt_that_fails_leaves_nothing_and_the_next_one_is_whole(
    point: str, bank: Captured, warehouse: Connection
) -> None:
    run = run_of(bank, TABLES, lock="brief")
    with pytest.raises(TransientError, match=point):
        take_snapshot(run, tools_of(bank, run, Records(), f"{point}=error"))
    snapshot = take_snapshot(run, tools_of(bank, run, Records()))
    names = staged_names(snapshot)
    assert {table: len(rows) for table, rows in rows_in(warehouse, "bank_stage", names).items()} == {
        load["table"]: load["rows"] for load in snapshot["loads"]["warehouse"]
    }
    with postgres(warehouse) as session:
        left = session.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'bank_stage'").fetchall()
        assert {name for (name,) in left} == set(names.values())


def test_a_row_changed_while_staged_stops_the_onboarding_and_is_named(bank: Captured, warehouse: Connection) -> None:
    bank.execute("REPLACE INTO account VALUES (900000000, 7, 'mine')")
    run = run_of(bank, TABLES, lock="brief")
    records = Records()
    meddler = Meddler(warehouse, "account", "UPDATE {place} SET a = 8 WHERE id = 900000000")
    with pytest.raises(GateFailed) as caught:
        take_snapshot(run, replace(tools_of(bank, run, records), failpoints=meddler))
    assert '{"id": "900000000"}' in str(caught.value)
    assert not records.results


def test_a_changed_float_is_caught_while_staged_and_once_more_before_it_is_published(
    bank: Captured, warehouse: Connection
) -> None:
    bank.execute(*RATES)
    caught_before_publish(bank, warehouse, reported=BY_TOLERANCE)


def test_several_views_stand_at_one_position_under_writers_without_any_lock(bank: Captured) -> None:
    source = replace(bank.source_plan, snapshot_lock="none")
    with writing(bank.root, tables=TABLES[:2], count=WRITERS, first_id=next(FIRST_IDS)):
        seen: Counter[str] = Counter()
        for _ in range(5):
            views = open_views(source, 4)
            assert len({str(view.position) for view in views}) == 1
            counts = [view.digests(SEGMENT, run_key="k") for view in views]
            assert all(count == counts[0] for count in counts)
            seen[str(views[0].position)] += 1
            for view in views:
                view.close()
        assert len(seen) > 1


def test_a_session_shows_its_own_address_while_others_show_theirs(bank: Captured) -> None:
    sessions = []
    try:
        for number in range(4):
            bank.execute(f"INSERT INTO audit VALUES ({number}, 'between two snapshots')")
            sessions.append(open_session(role(bank.source_plan, bank.source_plan.reader)))
            query(sessions[-1], BEGIN_SNAPSHOT)
        alone = [address_of(session) for session in sessions]
        assert len(set(alone)) == len(alone)
        with ThreadPoolExecutor(len(sessions)) as pool:
            addresses = list(pool.map(lambda session: {address_of(session) for _ in range(300)}, sessions))
        assert addresses == [{address} for address in alone]
    finally:
        close_all(sessions)
