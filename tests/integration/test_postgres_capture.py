"""The capture of a PostgreSQL source: every odd record, every kill, and what the log then says."""

import uuid
from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest

from seamline.adapters.connect.rest import ConnectClient
from seamline.domain.errors import PositionLost
from seamline.ports import Marker
from tests.conftest import RunningStack
from tests.integration.captured import replay
from tests.integration.captured_postgres import PostgresCaptured, captured_postgres
from tests.integration.connect_worker import ConnectWorker, connect_worker
from tests.integration.producer_quota import producer_quota
from tests.waiting import wait_until

ROWS = 30_000


@pytest.fixture
def bank(stack: RunningStack) -> Iterator[PostgresCaptured]:
    with captured_postgres("capture_pg") as one:
        yield one


def last_marker(bank: PostgresCaptured) -> str:
    marker = Marker(id=f"last-{uuid.uuid4().hex}", kind="heartbeat")
    bank.source.commit_marker(marker)
    return marker.id


def test_every_change_of_keyed_and_keyless_tables_comes_once_and_in_order(bank: PostgresCaptured) -> None:
    bank.ensure()
    with closing(bank.session()) as session:
        session.execute("INSERT INTO account SELECT n, n, 'x' FROM generate_series(1, 100) n")
        session.execute("UPDATE account SET a = a + 1 WHERE id < 50")
        session.execute("UPDATE account SET id = id + 1000 WHERE id > 90")
        session.execute("DELETE FROM account WHERE id BETWEEN 50 AND 60")
        session.execute("INSERT INTO audit SELECT 1, 'same' FROM generate_series(1, 50)")
        session.execute("DELETE FROM audit WHERE ctid IN (SELECT ctid FROM audit LIMIT 20)")
        with session.transaction():
            session.execute("INSERT INTO account VALUES (7000, 1, 'rolled back')")
            raise psycopg.Rollback
        session.execute("SELECT pg_logical_emit_message(true, 'somebody', 'else')")
        session.execute("SELECT pg_logical_emit_message(false, 'somebody', 'else')")
    state = replay(bank, last_marker(bank))
    assert state.holds("account") == sorted(bank.rows("account"), key=repr)
    assert state.holds("audit") == sorted(bank.rows("audit"), key=repr)


@pytest.fixture(scope="module")
def worker(stack: RunningStack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectWorker]:
    folder = tmp_path_factory.mktemp("connect")
    with connect_worker(stack.settings, stack.connection("kafka"), name="capture_pg", folder=folder) as one:
        secret = stack.connection("core_bank_capture")
        one.write_secrets({"core_bank_capture.user": secret.login, "core_bank_capture.password": secret.password})
        yield one


@pytest.fixture
def own_worker(worker: ConnectWorker) -> Iterator[PostgresCaptured]:
    client = ConnectClient(worker.connection)
    with captured_postgres("killed_pg", client=client, secrets_file=str(worker.secrets_file)) as one:
        yield one


def test_a_worker_killed_in_mid_transaction_loses_and_doubles_nothing(
    own_worker: PostgresCaptured, stack: RunningStack, worker: ConnectWorker
) -> None:
    """Of an INSERT. Of a COPY, whose rows share their LSNs, the connector may lose some: ADR 14."""
    bank = own_worker
    bank.ensure()
    start = bank.topics.end_offset()
    slow = producer_quota(stack.settings, stack.connection("kafka"), client_id=bank.connector.name, bytes_per_s=50_000)
    with slow:
        with closing(bank.session()) as session, session.transaction():
            session.execute(f"INSERT INTO account SELECT n, 0, repeat('x', 50) FROM generate_series(1, {ROWS}) n")
            session.execute("INSERT INTO audit VALUES (1, 'the same transaction')")
        wait_until(lambda: bank.topics.end_offset() > start + 1_000, timeout_s=60, what="part of the transaction")
        worker.kill()
        killed_at = bank.topics.end_offset()
    worker.start()
    bank.ensure()
    state = replay(bank, last_marker(bank))
    assert killed_at < start + ROWS, "the worker was killed too late to prove anything"
    assert state.holds("account") == sorted(bank.rows("account"), key=repr)
    assert state.holds("audit") == bank.rows("audit")


def test_a_slot_that_was_dropped_stops_the_capture_and_is_named(bank: PostgresCaptured) -> None:
    bank.ensure()
    bank.connector.stop()
    wait_until(lambda: not is_active(bank), timeout_s=20, what="the slot to be let go")
    bank.execute(f"SELECT pg_drop_replication_slot('{bank.source_plan.slot}')")
    bank.execute("INSERT INTO account VALUES (1, 1, 'lost to the log')")
    with pytest.raises(PositionLost, match="replication slot dropped or made anew"):
        bank.ensure()


def test_a_slot_that_was_made_anew_is_not_taken_for_the_old_one(bank: PostgresCaptured) -> None:
    """What committed between the two is in neither."""
    bank.ensure()
    bank.connector.stop()
    wait_until(lambda: not is_active(bank), timeout_s=20, what="the slot to be let go")
    slot = bank.source_plan.slot
    bank.execute(f"SELECT pg_drop_replication_slot('{slot}')")
    bank.execute("INSERT INTO account VALUES (1, 1, 'lost to the log')")
    bank.execute(f"SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')")
    with pytest.raises(PositionLost, match="no longer holds its place"):
        bank.ensure()


def is_active(bank: PostgresCaptured) -> bool:
    with closing(bank.session()) as session:
        row = session.execute(
            "SELECT active FROM pg_replication_slots WHERE slot_name = %s", (bank.source_plan.slot,)
        ).fetchone()
    return bool(row and row[0])
