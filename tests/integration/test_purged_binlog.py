"""A MariaDB source whose binlog no longer goes on where the capture stands: by a purge, or because the server began
anew."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from seamline.domain.errors import PositionLost
from tests.conftest import RunningStack
from tests.integration.captured import Captured, captured
from tests.integration.databases import mariadb
from tests.waiting import wait_until


@pytest.fixture
def bank(stack: RunningStack) -> Iterator[Captured]:
    """Its capture is stopped, and has not told the last transaction."""
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
        with pytest.raises(PositionLost, match="purged") as lost:
            bank.ensure()
        assert "onboard the syncs of this source again" in lost.value.hint
    with closing(bank.open_log()) as reader:
        reader.assign(end)
        assert reader.poll(2.0, 100) == []


def test_a_server_whose_binlog_began_anew_is_not_the_one_that_the_log_knows(bank: Captured) -> None:
    bank.execute("RESET MASTER", "INSERT INTO account VALUES (2, 2, 'another first transaction')")
    end = bank.topics.end_offset()
    with pytest.raises(PositionLost, match="no longer available on the server"):
        bank.ensure()
    with closing(bank.open_log()) as reader:
        reader.assign(end)
        assert reader.poll(2.0, 100) == []
