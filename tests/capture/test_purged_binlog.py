"""A MariaDB source whose binlog no longer goes on where the capture stands: by a purge, because the server began again,
or because it lacks a transaction."""

import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.conftest import RunningStack
from tests.integration.captured import Captured, assert_begins_again, captured, lost_by_name, marker_in_log, replay
from tests.integration.databases import mariadb
from tests.waiting import wait_until


@pytest.fixture
def bank(stack: RunningStack) -> Iterator[Captured]:
    """Its capture is stopped, and has not sent the last transaction."""
    with captured("purged") as one:
        one.ensure()
        one.connector.stop()
        one.execute("INSERT INTO account VALUES (1, 1, 'never told')")
        yield one


def binlogs(bank: Captured) -> list[str]:
    with closing(mariadb(bank.root)) as session, session.cursor() as cursor:
        cursor.execute("SHOW BINARY LOGS")
        return [str(row[0]) for row in cursor.fetchall()]


def test_a_purged_binlog_is_named_and_the_capture_goes_on_nowhere_else(bank: Captured) -> None:
    read = binlogs(bank)
    bank.execute("FLUSH BINARY LOGS", "INSERT INTO account VALUES (2, 2, 'in the next file')")

    def is_purged() -> bool:
        bank.execute(f"PURGE BINARY LOGS TO '{binlogs(bank)[-1]}'")
        return not set(read) & set(binlogs(bank))

    wait_until(is_purged, timeout_s=30, what="the server to let the old files go")
    end = bank.topics.end_offset()
    for _ in range(2):
        lost = lost_by_name(bank, "purged")
        assert "onboard the syncs of this source again" in lost.hint
    with closing(bank.open_log()) as reader:
        reader.assign(end)
        assert reader.poll(2.0, 100) == []
    assert_begins_again(bank)


def test_a_server_whose_binlog_began_again_is_not_the_one_that_the_log_knows(bank: Captured) -> None:
    bank.execute("RESET MASTER", "INSERT INTO account VALUES (2, 2, 'another first transaction')")
    end = bank.topics.end_offset()
    lost_by_name(bank, "no longer available on the server")
    with closing(bank.open_log()) as reader:
        reader.assign(end)
        assert reader.poll(2.0, 100) == []


@pytest.mark.parametrize("again", ["RESET MASTER", "RESET MASTER TO 700"])
def test_a_binlog_that_began_again_and_has_passed_the_place_is_not_the_one_that_the_log_knows(
    again: str, bank: Captured
) -> None:
    """Its numbers are those that the log expects, and the marker is still in its table."""
    place = (bank.client.offset(bank.connector.name) or {})["gtids"]
    bank.execute(
        again,
        "INSERT INTO account VALUES (2, 2, 'before the place')",
        f"SET SESSION gtid_seq_no = {place.split('-')[2]}",
        "INSERT INTO account VALUES (3, 3, 'at the place')",
        "INSERT INTO account VALUES (4, 4, 'behind the place')",
    )
    end = bank.topics.end_offset()
    lost = lost_by_name(bank, "no longer available on the server: its binlog is another one")
    assert "onboard the syncs of this source again" in lost.hint
    assert bank.topics.end_offset() == end
    assert_begins_again(bank)


def test_a_place_in_a_file_that_is_gone_is_the_same_place_where_nothing_behind_it_is_gone(bank: Captured) -> None:
    bank.execute("SET SESSION gtid_domain_id = 5", "INSERT INTO account VALUES (2, 2, 'of another domain')")
    bank.ensure()
    marker_in_log(bank)
    bank.connector.stop()
    read = binlogs(bank)
    bank.execute("FLUSH BINARY LOGS")

    def is_purged() -> bool:
        bank.execute(f"PURGE BINARY LOGS TO '{binlogs(bank)[-1]}'")
        return not set(read) & set(binlogs(bank))

    wait_until(is_purged, timeout_s=30, what="the server to let the old files go")
    bank.execute("INSERT INTO account VALUES (3, 3, 'in the next file')")
    bank.ensure()
    assert replay(bank, marker_in_log(bank)).holds("account") == [
        (1, 1, "never told"),
        (2, 2, "of another domain"),
        (3, 3, "in the next file"),
    ]


def rows_in_topic(bank: Captured) -> list[bytes]:
    """The new images of all rows in the log."""
    images: list[bytes] = []
    with closing(bank.open_log()) as reader:
        reader.assign(bank.kafka.offsets(bank.source_plan.log_topic)[0])
        while records := reader.poll(2.0, 1_000):
            images += [row.after or b"" for record in records for row in record.rows]
    return images


def test_a_hole_in_the_gtids_stops_the_capture_before_what_comes_behind_it(bank: Captured) -> None:
    bank.ensure()
    wait_until(
        lambda: b"never told" in b"".join(rows_in_topic(bank)), timeout_s=30, what="the transaction before the hole"
    )
    ((newest,),) = bank.rows_of("SELECT @@GLOBAL.gtid_binlog_pos")
    domain, _, sequence = str(newest).split(",")[0].split("-")
    began_s = time.monotonic()
    bank.execute(
        f"SET SESSION gtid_domain_id = {domain}, gtid_seq_no = {int(sequence) + 5}",
        "INSERT INTO account VALUES (3, 3, 'behind it')",
    )
    bank.wait_until_failed()
    lost_by_name(bank, rf"GTID {domain}-\d+-{int(sequence) + 5} follows number {sequence} of", since_s=began_s)
    assert b"behind it" not in b"".join(rows_in_topic(bank))
