"""The capture of a PostgreSQL source: every odd record, every kill, and what the log then says."""

import uuid
from collections.abc import Iterator
from contextlib import closing

import pytest

from seamline.ports import Marker
from tests.conftest import RunningStack
from tests.integration.captured import replay
from tests.integration.captured_postgres import PostgresCaptured, captured_postgres


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
            raise_and_roll_back(session)
        session.execute("SELECT pg_logical_emit_message(true, 'somebody', 'else')")
        session.execute("SELECT pg_logical_emit_message(false, 'somebody', 'else')")
    state = replay(bank, last_marker(bank))
    assert state.holds("account") == sorted(bank.rows("account"), key=repr)
    assert state.holds("audit") == sorted(bank.rows("audit"), key=repr)


def raise_and_roll_back(session) -> None:
    import psycopg

    raise psycopg.Rollback
