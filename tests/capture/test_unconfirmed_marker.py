"""A commit that waits for the word of a standby stands in the source's log before any session sees it."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager

import pytest

from tests.conftest import RunningStack
from tests.integration.captured import Captured, captured, marker_in_log, replay, stored
from tests.integration.captured_postgres import captured_postgres
from tests.integration.replicated import Backup, restorable_mariadb, restorable_postgres
from tests.integration.watched import watched
from tests.waiting import wait_until

KINDS = {
    "mariadb": (
        restorable_mariadb,
        captured,
        (
            "SET GLOBAL rpl_semi_sync_master_timeout = 600000",
            "SET GLOBAL rpl_semi_sync_master_wait_point = AFTER_SYNC",
            "SET GLOBAL rpl_semi_sync_master_enabled = ON",
        ),
        ("SET GLOBAL rpl_semi_sync_master_enabled = OFF",),
    ),
    "postgres": (
        restorable_postgres,
        captured_postgres,
        ("ALTER SYSTEM SET synchronous_standby_names = 'nobody'", "SELECT pg_reload_conf()"),
        ("ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()"),
    ),
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server(stack: RunningStack, kind: str) -> Iterator[Backup]:
    with KINDS[kind][0]() as server:
        yield server


@pytest.fixture
def bank(server: Backup, kind: str) -> Iterator[Captured]:
    with KINDS[kind][1](f"unconfirmed_{kind}") as one:
        one.ensure()
        marker_in_log(one)
        yield one


@contextmanager
def unconfirmed_marker(bank: Captured, server: Backup, kind: str) -> Iterator[str]:
    """The id of the newest one that the log has. The standby that is asked is away; it confirms at the end."""
    *_, ask_standby, confirm = KINDS[kind]
    server.server.ask(*ask_standby)
    with ThreadPoolExecutor(1) as pool:
        try:
            commit = hanging(pool, bank)
            wait_until(lambda: witness(bank) not in shown(bank), timeout_s=30, what="the marker in the offset")
            marker = witness(bank)
            yield marker
        finally:
            server.server.ask(*confirm)
        commit.result()
    wait_until(lambda: marker in shown(bank), timeout_s=30, what="the marker before all eyes")


def hanging(pool: ThreadPoolExecutor, bank: Captured) -> "Future[None]":
    """The commit of a marker. The setting takes a moment to hold."""
    for number in range(10):
        row = f"INSERT INTO seamline_marker (id, kind, payload) VALUES ('unconfirmed-{number}', 'heartbeat', '{{}}')"
        commit = pool.submit(bank.execute, row)
        if wait([commit], timeout=2).not_done:
            return commit
        commit.result()
    raise AssertionError("no commit waits for a standby")


def witness(bank: Captured) -> str:
    return str(stored(bank)["seamline_marker"])


def shown(bank: Captured) -> set[str]:
    return {str(row[0]) for row in bank.rows("seamline_marker")}


def test_a_marker_that_a_standby_has_not_confirmed_is_waited_for_and_the_watch_says_so(
    bank: Captured, server: Backup, kind: str
) -> None:
    with watched(bank) as alarms:
        with unconfirmed_marker(bank, server, kind):
            bank.client.restart_all(bank.connector.name)
            said = alarms.name_in_time("a standby has yet to confirm it")
            assert "goes on by itself" in said and "no longer available" not in said
        wait_until(lambda: is_running(bank) and not alarms.raised, timeout_s=60, what="the capture to go on by itself")
    bank.execute("INSERT INTO account VALUES (1, 1, 'behind it')")
    assert replay(bank, marker_in_log(bank)).holds("account") == [(1, 1, "behind it")]


def is_running(bank: Captured) -> bool:
    status = bank.connector.status()
    return status is not None and status.is_running


def test_a_marker_that_no_standby_has_confirmed_for_ten_minutes_counts_as_lost(
    bank: Captured, server: Backup, kind: str
) -> None:
    with unconfirmed_marker(bank, server, kind) as marker:
        bank.connector.stop()
        ten_minutes_ago = stored(bank)["seamline_marker_ms"] - 600_000
        bank.client.put_offset(
            bank.connector.name,
            partition={"server": bank.connector.name},
            offset={**stored(bank), "seamline_marker_ms": ten_minutes_ago},
        )
        bank.connector.start()
        status = bank.connector.status()
        assert status is not None and status.has_lost_its_place
        assert f"does not hold marker {marker}" in status.error
