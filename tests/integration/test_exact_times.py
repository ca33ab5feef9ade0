"""Times of PostgreSQL in columns with defaults and without NULL, in rows that go or change their key."""

from collections.abc import Iterator

import pytest

from seamline.adapters.connections import Connection
from tests.conftest import RunningStack
from tests.integration.captured_postgres import PostgresCaptured, captured_postgres
from tests.integration.databases import postgres_database
from tests.integration.streamed import streamed

TIMED = """CREATE TABLE timed (id int PRIMARY KEY, created timestamp NOT NULL DEFAULT now(),
    fixed timestamp NOT NULL DEFAULT '2020-01-01 00:00:00', ever timestamp DEFAULT 'infinity',
    short timestamp(3) NOT NULL DEFAULT now(), grace interval NOT NULL DEFAULT '1 day',
    term interval DEFAULT 'infinity')"""
LAST = "'294276-12-31 23:59:59.999999'"


@pytest.fixture
def bank(stack: RunningStack) -> Iterator[PostgresCaptured]:
    with captured_postgres("timed", create=(TIMED,), tables=("timed",)) as one:
        yield one


@pytest.fixture
def warehouse(stack: RunningStack) -> Iterator[Connection]:
    with postgres_database("timed_warehouse") as connection:
        yield connection


def test_rows_with_defaults_and_without_null_come_change_their_keys_and_go(
    bank: PostgresCaptured, warehouse: Connection
) -> None:
    with streamed(bank, warehouse, "timed") as stream:
        stream.start()
        bank.execute(
            "INSERT INTO timed (id) SELECT generate_series(1, 4)",
            "UPDATE timed SET id = 5 WHERE id = 1",
            f"UPDATE timed SET created = {LAST}, fixed = 'infinity', grace = '-infinity' WHERE id = 5",
            f"UPDATE timed SET id = 6, ever = {LAST}, term = NULL, grace = '2562047788:00:54.775807' WHERE id = 2",
            "DELETE FROM timed WHERE id = 3",
        )
        stream.wait_until_applied()
        texts = "SELECT id, created::text, fixed::text, ever::text, short::text, grace::text, term::text FROM"
        with bank.session() as session:
            wanted = session.execute(f"{texts} timed ORDER BY id".encode()).fetchall()
        assert [row[0] for row in wanted] == [4, 5, 6]
        assert stream.query(f"{texts} live.timed ORDER BY id") == wanted
