"""What servers keep of their own log for a capture, and a source that gets its disk back."""

import secrets
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace

import pytest

from seamline.domain.log_fill import GIB
from seamline.sync.backlog_watch import SOURCE_BACKLOG
from seamline.sync.source_watch import Rhythm
from tests.conftest import RunningStack
from tests.integration.captured import Captured, assert_begins_again, captured, lost_by_name, marker_in_log
from tests.integration.captured_postgres import PostgresCaptured, captured_postgres
from tests.integration.databases import mariadb
from tests.integration.watched import watched
from tests.waiting import wait_until

FAST = Rhythm(backlog_s=1.0, place_s=1.0)


@pytest.fixture
def postgres_bank(stack: RunningStack) -> Iterator[PostgresCaptured]:
    with captured_postgres("backlog_pg") as one:
        yield one


@pytest.fixture
def bank(stack: RunningStack) -> Iterator[Captured]:
    with captured("backlog_test") as one:
        yield one


def test_a_slot_that_keeps_too_much_is_given_up_with_the_way_on_and_the_source_keeps_nothing_more(
    postgres_bank: PostgresCaptured,
) -> None:
    bank = postgres_bank
    bank.ensure()
    marker_in_log(bank)
    bank.plan = replace(bank.plan, source=replace(bank.source_plan, source_backlog_max_gb=4 * (1 << 20) / GIB))
    # As while Connect is away: nobody reads the slot.
    bank.connector.stop()
    before = bank.source.backlog({}).size_bytes
    for _ in range(4):
        bank.execute(f"INSERT INTO account SELECT n, n, '{secrets.token_hex(80)}' FROM generate_series(1, 10000) n",
                     "DELETE FROM account")  # fmt: skip
    assert bank.source.backlog({}).size_bytes > before + 4 * (1 << 20)
    with watched(bank, rhythm=FAST) as alarms:
        wait_until(lambda: bank.source.backlog({}).is_lost, timeout_s=60, what="the slot to be dropped")
        wait_until(lambda: "no longer keeps" in alarms.raised.get(SOURCE_BACKLOG, ""), timeout_s=30, what="the alarm")
    assert "capture reset" in alarms.raised[SOURCE_BACKLOG]
    status = bank.connector.status()
    assert status is not None and status.is_stopped
    lost_by_name(bank, "replication slot")


def test_the_binlog_behind_a_captures_place_is_measured_and_a_file_that_is_gone_is_known(bank: Captured) -> None:
    bank.ensure()
    marker_in_log(bank)
    place = wait_until(lambda: bank.client.offset(bank.connector.name), timeout_s=30, what="a place")
    assert place is not None
    before = bank.source.backlog(place)
    rows = [(number, number, secrets.token_hex(100)) for number in range(5_000)]
    with closing(mariadb(bank.root)) as session, session.cursor() as cursor:
        cursor.executemany("INSERT INTO account VALUES (%s, %s, %s)", rows)
        session.commit()
        cursor.execute("FLUSH BINARY LOGS")
    behind = bank.source.backlog(place)
    assert behind.size_bytes > before.size_bytes + 1_000_000
    # The server of the stack keeps its binlog for ten days.
    assert behind.expires_in_s is not None
    assert 864_000 - 300 < behind.expires_in_s <= 864_000
    base = str(place["file"]).rpartition(".")[0]
    assert bank.source.backlog({**place, "file": f"{base}.000000"}).is_lost


def test_a_binlog_is_given_up_with_its_place_and_one_that_expires_meanwhile_is_named_with_one_way_on(
    bank: Captured,
) -> None:
    bank.ensure()
    marker_in_log(bank)
    wait_until(lambda: bank.client.offset(bank.connector.name), timeout_s=30, what="a place")
    bank.connector.stop()
    bank.plan = replace(bank.plan, source=replace(bank.source_plan, source_backlog_max_gb=(1 << 20) / GIB))
    write_to_binlog(bank, 2 << 20)
    # The host begins only now: it finds the capture stopped, and hears where it stands all the same.
    with watched(bank, rhythm=FAST) as alarms:
        wait_until(lambda: SOURCE_BACKLOG in alarms.raised, timeout_s=30, what="the capture to be given up")
        said = alarms.raised[SOURCE_BACKLOG]
        assert "the capture is given up, and keeps its place" in said
        assert "raise the limit and run `./seamline capture start" in said and "reset" not in said
        assert "deletes nothing of its log by itself, for slave_connections_needed_for_purge is 1" in said
        with expiring_at_once(bank):
            wait_until(lambda: "no longer keeps" in alarms.raised[SOURCE_BACKLOG], timeout_s=60, what="the loss named")
    assert f"`./seamline capture reset {bank.source_plan.name}`" in alarms.raised[SOURCE_BACKLOG]
    end = bank.topics.end_offset()
    lost_by_name(bank, "purged")
    assert bank.topics.end_offset() == end, "nothing goes on behind what was lost"
    assert_begins_again(bank)


def write_to_binlog(bank: Captured, size: int) -> None:
    rows = [(number, number, secrets.token_hex(100)) for number in range(100, 100 + size // 200)]
    with closing(mariadb(bank.root)) as session, session.cursor() as cursor:
        cursor.executemany("INSERT INTO account VALUES (%s, %s, %s)", rows)
        session.commit()


@contextmanager
def expiring_at_once(bank: Captured) -> Iterator[None]:
    """The server's own rule deletes what is a second old, at each new file."""
    names = ("binlog_expire_logs_seconds", "slave_connections_needed_for_purge")
    (before,) = bank.rows_of(f"SELECT @@GLOBAL.{', @@GLOBAL.'.join(names)}")
    end = threading.Event()

    def rotate() -> None:
        while not end.wait(1.0):
            bank.execute("FLUSH BINARY LOGS")

    bank.execute("SET GLOBAL binlog_expire_logs_seconds = 1")
    bank.execute("SET GLOBAL slave_connections_needed_for_purge = 0")
    thread = threading.Thread(target=rotate)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join(timeout=30)
        for name, value in zip(names, before, strict=True):
            bank.execute(f"SET GLOBAL {name} = {value}")
