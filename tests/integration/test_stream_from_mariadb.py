"""The whole way of a change on real servers: MariaDB, its capture, the log topic, the span loop, PostgreSQL."""

import struct
from collections.abc import Iterator

import pytest

from seamline.adapters.connections import Connection
from seamline.domain.catalogue import Kind
from seamline.domain.errors import SchemaConflict
from tests.conftest import RunningStack
from tests.integration.captured import Captured, captured, told_marker
from tests.integration.databases import postgres_database
from tests.integration.kinds import CASES, INEXACT_CASES
from tests.integration.streamed import Streamed, streamed
from tests.waiting import wait_until

REPLACED = "CREATE OR REPLACE TABLE account (id BIGINT PRIMARY KEY, a INT, memo VARCHAR(200))"
REPLACED_IN_ANOTHER_ORDER = "CREATE OR REPLACE TABLE account (a BIGINT, id BIGINT PRIMARY KEY, memo VARCHAR(200))"
ALTERED_IN_A_COMMENT = "/*!50000 ALTER TABLE account MODIFY a BIGINT FIRST */"


@pytest.fixture
def bank(stack: RunningStack) -> Iterator[Captured]:
    with captured("stream_test") as one:
        yield one


@pytest.fixture
def warehouse(stack: RunningStack) -> Iterator[Connection]:
    with postgres_database("stream_test") as connection:
        yield connection


def test_every_kind_of_column_arrives_as_the_source_holds_it(bank: Captured, warehouse: Connection) -> None:
    cases = (*CASES, *INEXACT_CASES)
    columns = ", ".join(f"`{case.column.name}` {case.mariadb_type}" for case in cases)
    bank.execute(f"CREATE TABLE kinds (id INT PRIMARY KEY, {columns})")
    bank.execute(f"CREATE TABLE kinds_keyless ({columns})")
    with streamed(bank, warehouse, "kinds", "kinds_keyless") as stream:
        stream.start()
        rows = max(len(case.edges) for case in cases)
        for number in range(rows):
            listed = ", ".join(case.edges[number % len(case.edges)].mariadb for case in cases)
            bank.execute(f"INSERT INTO kinds VALUES ({number}, {listed})")
            bank.execute(*[f"INSERT INTO kinds_keyless VALUES ({listed})"] * 3)
        nothing = ", ".join(["NULL"] * len(cases))
        bank.execute(f"INSERT INTO kinds VALUES ({rows}, {nothing})", f"INSERT INTO kinds_keyless VALUES ({nothing})")
        stream.wait_until_applied()
        differing = stream.differing_columns("kinds", [str(number) for number in range(rows + 1)])
        # The two servers write exponents in two ways; the numbers themselves are looked at next.
        assert differing.keys() <= {"f32", "f64"}
        assert_same_numbers(stream, rows)
        assert stream.differences("kinds", "kinds_keyless") == {}
        # Every row is found again by every one of its values.
        bank.execute("DELETE FROM kinds_keyless", "UPDATE kinds SET id = id + 100", "DELETE FROM kinds WHERE id > 103")
        stream.wait_until_applied()
        assert stream.differences("kinds", "kinds_keyless") == {}
        assert stream.query("SELECT count(*) FROM live.kinds_keyless") == [(0,)]
        assert_same_numbers(stream, 4)
        assert stream.findings() == 0


def assert_same_numbers(stream: Streamed, rows: int) -> None:
    """Bit for bit what Python reads from the literal, in as many bits as the column has."""
    for case in INEXACT_CASES:
        stored = stream.query(f"SELECT {case.column.name}::float8 FROM live.kinds ORDER BY id")
        wanted = [case.edges[number % len(case.edges)].value for number in range(rows)]
        if case.column.kind is Kind.FLOAT:
            wanted = [struct.unpack("f", struct.pack("f", value))[0] for value in wanted]
        assert stored[:rows] == [(value,) for value in wanted], case.column.name
        assert stored[rows:] in ([], [(None,)])


def test_a_truncate_and_foreign_ddl_pass_and_own_ddl_stops_with_the_statement(
    bank: Captured, warehouse: Connection
) -> None:
    with streamed(bank, warehouse, "account", "audit") as stream:
        stream.start()
        bank.execute("INSERT INTO account VALUES (1, 1, 'before')", "INSERT INTO audit VALUES (1, 'before')")
        bank.execute("CREATE TABLE elsewhere (x INT)", "ALTER TABLE elsewhere ADD y INT", "TRUNCATE TABLE audit")
        bank.execute("INSERT INTO audit VALUES (2, 'after')")
        stream.wait_until_applied()
        assert stream.query("SELECT a, memo FROM live.audit") == [(2, "after")]
        bank.execute("INSERT INTO account VALUES (2, 2, 'last')", "ALTER TABLE account ADD COLUMN later INT")
        bank.execute("INSERT INTO account VALUES (3, 3, 'beyond', 3)")
        wait_until(lambda: stream.error is not None, timeout_s=60, what="the stream to stop")
        assert isinstance(stream.error, SchemaConflict)
        assert "ADD COLUMN later INT" in str(stream.error)
        assert stream.query("SELECT id FROM live.account ORDER BY id") == [(1,), (2,)]


# Each takes rows or columns of `account` away, or its table: by statements of which a reader may overlook that.
OVERLOOKED = {
    "replaced by the same": [REPLACED],
    "replaced by other rows": [f"{REPLACED} SELECT 7 id, 7 a, 'x' memo"],
    "replaced by another type": [
        REPLACED.replace("a INT", "a DECIMAL(10,4)"),
        "INSERT INTO account VALUES (9, 1.75, 'n')",
    ],
    "replaced in another order": [REPLACED_IN_ANOTHER_ORDER, "INSERT INTO account (id, a) VALUES (5, 9)"],
    "replaced under a setting": [f"SET STATEMENT lock_wait_timeout=5 FOR {REPLACED}"],
    "renamed in a comment that runs": ["/*!50000 RENAME TABLE account TO account_old */"],
    "altered in a comment that runs": [ALTERED_IN_A_COMMENT, "INSERT INTO account (id, a) VALUES (5, 9)"],
    "altered in half a comment": ["/*M!100000 ALTER */ TABLE account /*! ADD x INT FIRST */"],
    "dropped with its database": ["DROP DATABASE stream_test", "CREATE DATABASE stream_test"],
    "replaced with its database": ["CREATE OR REPLACE DATABASE stream_test"],
}


@pytest.mark.parametrize("how", OVERLOOKED)
def test_a_table_that_is_taken_away_or_altered_by_whatever_statement_stops_the_stream_before_a_wrong_row(
    bank: Captured, warehouse: Connection, how: str
) -> None:
    with streamed(bank, warehouse, "account", "audit") as stream:
        stream.start()
        bank.execute("INSERT INTO account VALUES (1, 11, 'a'), (2, 22, 'b')")
        stream.wait_until_applied()
        # What a statement did is known to be whole once another transaction begins.
        bank.execute(*OVERLOOKED[how], "CREATE TABLE stream_test.behind_it (x INT)")
        wait_until(lambda: stream.error is not None, timeout_s=60, what="the stream to stop")
        assert isinstance(stream.error, SchemaConflict)
        assert "account" in stream.error.message
        assert stream.query("SELECT id, a FROM live.account ORDER BY id") == [(1, 11), (2, 22)]


@pytest.mark.parametrize("statement", ["/*!50000 TRUNCATE TABLE account */", "TRUNCATE /*M!100000 TABLE */ account"])
def test_a_truncate_in_a_comment_that_runs_empties_the_table(
    bank: Captured, warehouse: Connection, statement: str
) -> None:
    with streamed(bank, warehouse, "account") as stream:
        stream.start()
        bank.execute("INSERT INTO account VALUES (1, 11, 'a')", statement, "INSERT INTO account VALUES (2, 22, 'b')")
        stream.wait_until_applied()
        assert stream.query("SELECT id, a FROM live.account") == [(2, 22)]


def test_a_comment_that_the_server_passes_over_is_no_part_of_its_statement(
    bank: Captured, warehouse: Connection
) -> None:
    """For other versions: the connector would fail at what stands in it."""
    with streamed(bank, warehouse, "account") as stream:
        stream.start()
        bank.execute("CREATE TABLE elsewhere (x INT) /*!80016 of others */ /*M!999999 of later ones */")
        bank.execute("INSERT INTO account VALUES (1, 11, 'a')")
        stream.wait_until_applied()
        assert stream.query("SELECT id, a FROM live.account") == [(1, 11)]


@pytest.mark.parametrize("statement", [REPLACED_IN_ANOTHER_ORDER, ALTERED_IN_A_COMMENT])
def test_a_table_that_was_altered_before_it_was_loaded_is_told_in_its_new_shape(
    bank: Captured, warehouse: Connection, statement: str
) -> None:
    """The capture has known it in the old one."""
    bank.ensure()
    told_marker(bank)
    bank.execute(statement)
    with streamed(bank, warehouse, "account") as stream:
        stream.start()
        bank.execute("INSERT INTO account (id, a) VALUES (5, 9)")
        stream.wait_until_applied()
        assert stream.query("SELECT id, a FROM live.account WHERE id = 5") == [(5, 9)]
        assert stream.differences("account") == {}
