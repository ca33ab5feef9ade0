"""A MariaDB that is killed while it writes a transaction into its binlog: it keeps what it has written there, takes the
transaction back, and gives its GTID to the next one.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import closing, suppress

import pymysql
import pytest

from seamline.adapters.connect import debezium_capture
from seamline.sync.source_watch import Rhythm
from tests.conftest import RunningStack
from tests.integration.captured import Captured, captured, marker_in_log, replay
from tests.integration.databases import mariadb
from tests.integration.replicated import Server, restorable_mariadb
from tests.integration.watched import watched
from tests.waiting import wait_until

ATTEMPTS = 5
LARGE = "INSERT INTO account SELECT seq, 1, repeat('x', 190) FROM seq_10_to_250000"


@pytest.fixture
def server(stack: RunningStack) -> Iterator[Server]:
    with restorable_mariadb() as backup:
        yield backup.server


@pytest.fixture
def bank(server: Server) -> Iterator[Captured]:
    with captured("torn") as one:
        one.ensure()
        one.execute("INSERT INTO account VALUES (1, 1, 'before')")
        marker_in_log(one)
        yield one


def torn(server: Server, bank: Captured, *, least_bytes: int) -> bool:
    """Whether of one transaction so many bytes stand in the binlog, and not all: the commit may win."""
    with closing(mariadb(bank.root)) as session, session.cursor() as cursor:
        cursor.execute("SHOW MASTER STATUS")
        name, begins_at, *_ = cursor.fetchone() or ()
        session.begin()
        cursor.execute(LARGE)
        file = server.layout.mariadb / str(name)

        def commit() -> None:
            with suppress(pymysql.err.MySQLError):
                session.commit()

        committing = threading.Thread(target=commit)
        committing.start()
        wait_until(
            lambda: file.stat().st_size > int(begins_at) + least_bytes, timeout_s=60, what="the binlog", every_s=0.001
        )
        server.end(signal.SIGKILL)
        committing.join()
    server.start()
    assert file.stat().st_size > int(begins_at) + least_bytes, "the server keeps what it has written"
    ((committed,),) = bank.rows_of("SELECT count(*) > 1 FROM account")
    bank.execute("DELETE FROM account WHERE id > 1")
    return not committed


@pytest.mark.parametrize("least_bytes", [1 << 20, 16 << 20], ids=["less than what is held", "more than what is held"])
def test_what_a_killed_server_has_left_of_a_transaction_in_its_binlog_is_not_sent(
    server: Server, bank: Captured, least_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The connector does not notice that its server has died: the watch does, here by a shorter silence.
    monkeypatch.setattr(debezium_capture, "_SILENT_AFTER_S", 5.0)
    with watched(bank, rhythm=Rhythm(heartbeat_s=1, status_s=1)):
        assert any(torn(server, bank, least_bytes=least_bytes) for _ in range(ATTEMPTS)), "every commit has won"
        bank.execute("INSERT INTO account VALUES (2, 2, 'after')")
        logged = replay(bank, marker_in_log(bank)).holds("account")
    assert sorted(logged) == [(1, 1, "before"), (2, 2, "after")]
