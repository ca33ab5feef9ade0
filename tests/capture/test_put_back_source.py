"""A source whose data folder is put back from a cold copy: the same server, the same timeline, another history."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.conftest import RunningStack
from tests.integration.captured import Captured, captured, lost_by_name, marker_in_log, stored
from tests.integration.captured_postgres import captured_postgres
from tests.integration.replicated import Backup, restorable_mariadb, restorable_postgres
from tests.integration.watched import watched
from tests.waiting import wait_until


def mariadb_writes_past(bank: Captured, backup: Backup, place: dict[str, Any]) -> None:
    """Up to the place's own number, then on in a file of another name: the binlog shows nothing of the loss."""
    sequence = int(place["gtids"].split("-")[2])

    def is_at_the_place() -> bool:
        bank.execute("INSERT INTO audit VALUES (1, 'of another history')")
        return newest() == sequence

    def newest() -> int:
        ((gtids,),) = backup.server.ask("SELECT @@GLOBAL.gtid_binlog_pos")
        return int(str(gtids).split("-")[2])

    def files() -> list[str]:
        return [str(row[0]) for row in backup.server.ask("SHOW BINARY LOGS")]

    def is_purged() -> bool:
        backup.server.ask(f"PURGE BINARY LOGS TO '{files()[-1]}'")
        return place["file"] not in files()

    assert newest() < sequence
    wait_until(is_at_the_place, timeout_s=30, what="the number of the place")
    backup.server.ask("FLUSH BINARY LOGS")
    wait_until(is_purged, timeout_s=30, what="the server to let the old files go")


def postgres_writes_past(bank: Captured, backup: Backup, place: dict[str, Any]) -> None:
    def is_past() -> bool:
        bank.execute("INSERT INTO audit SELECT n, 'of another history' FROM generate_series(1, 1000) n")
        return written() > place["lsn"]

    def written() -> int:
        ((bytes_before,),) = backup.server.ask("SELECT (pg_current_wal_lsn() - '0/0')::bigint")
        return int(bytes_before)

    assert written() < place["lsn"]
    wait_until(is_past, timeout_s=30, what="the source to write past the place")


WritePast = Callable[[Captured, Backup, dict[str, Any]], None]
KINDS = {
    "mariadb": (restorable_mariadb, captured, mariadb_writes_past),
    "postgres": (restorable_postgres, captured_postgres, postgres_writes_past),
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def backup(stack: RunningStack, kind: str) -> Iterator[Backup]:
    with KINDS[kind][0]() as backup:
        yield backup


@pytest.fixture
def write_past(kind: str) -> WritePast:
    return KINDS[kind][2]


@pytest.fixture
def bank(backup: Backup, kind: str) -> Iterator[Captured]:
    """Its log holds what the backup does not."""
    with KINDS[kind][1](f"put_back_{kind}") as one:
        one.ensure()
        one.execute("INSERT INTO account VALUES (1, 1, 'in the backup')")
        marker_in_log(one)
        backup.take()
        one.client.restart_all(one.connector.name)
        one.ensure()
        one.execute("INSERT INTO account VALUES (2, 2, 'told, and gone')")
        yield one


def test_a_source_that_was_put_back_from_a_backup_is_named_within_a_minute_and_not_gone_on_with(
    bank: Captured, backup: Backup
) -> None:
    marker_in_log(bank)
    with watched(bank) as alarms:
        backup.put_back()
        assert bank.rows("account") == [(1, 1, "in the backup")]
        bank.execute("INSERT INTO account VALUES (3, 3, 'of another history')")
        assert "capture reset" in alarms.name_in_time("restored")
    end = bank.topics.end_offset()
    lost_by_name(bank, "restored")
    assert bank.topics.end_offset() == end


def test_a_source_that_was_put_back_and_has_written_past_the_place_is_named_within_a_minute(
    bank: Captured, backup: Backup, write_past: WritePast
) -> None:
    """The marker that it lacks is seconds old."""
    marker = marker_in_log(bank)
    wait_until(lambda: stored(bank).get("seamline_marker") == marker, timeout_s=30, what="the marker in the offset")
    bank.connector.stop()
    backup.put_back()
    write_past(bank, backup, stored(bank))
    end = bank.topics.end_offset()
    with watched(bank) as alarms:
        bank.client.resume(bank.connector.name)
        assert "capture reset" in alarms.name_in_time(f"does not hold marker {marker}")
    lost_by_name(bank, f"restored to an earlier state.*does not hold marker {marker}")
    assert bank.topics.end_offset() == end
