"""Rows that a MariaDB has rolled back and logs all the same: they are not sent on, or the capture stops by name."""

from collections.abc import Iterator

import pytest

from seamline.domain.errors import TerminalError
from tests.conftest import RunningStack
from tests.integration.captured import Captured, captured, finish, replay
from tests.integration.databases import mariadb_database

NAME = "rolled_back"
ELSEWHERE = "rolled_elsewhere"
# More than the connector holds of one transaction.
LARGE = "INSERT INTO {} SELECT seq, 1, repeat('x', 150) FROM seq_1000_to_61000"
TEMPORARY = "CREATE TEMPORARY TABLE draft (a INT)"
UNDONE = {
    "as a whole": (TEMPORARY, "INSERT INTO account VALUES (2, 2, 'x')", "UPDATE account SET a = 7", "ROLLBACK"),
    "as a whole, and a savepoint in it": (
        TEMPORARY,
        "INSERT INTO account VALUES (2, 2, 'x')",
        "SAVEPOINT s",
        "DELETE FROM account",
        "ROLLBACK",
    ),
    "as a whole, larger than what is held": (
        TEMPORARY,
        LARGE.format("account"),
        "UPDATE account SET a = 7",
        "ROLLBACK",
    ),
    "to a savepoint": (
        "INSERT INTO account VALUES (2, 2, 'x')",
        "SAVEPOINT s",
        "UPDATE account SET a = 7",
        TEMPORARY,
        "ROLLBACK TO SAVEPOINT s",
        "INSERT INTO account VALUES (3, 3, 'y')",
        "COMMIT",
    ),
    "to a savepoint, as its last statement": (
        "INSERT INTO account VALUES (2, 2, 'x')",
        "SAVEPOINT s",
        "DELETE FROM account",
        TEMPORARY,
        "ROLLBACK TO s",
        "COMMIT",
    ),
    "to a savepoint behind a table without transactions": (
        "INSERT INTO account VALUES (2, 2, 'x')",
        "SAVEPOINT s",
        "INSERT INTO account VALUES (3, 3, 'y')",
        f"INSERT INTO {ELSEWHERE}.plain VALUES (1)",
        "ROLLBACK TO s",
        "COMMIT",
    ),
    "to a savepoint that holds others": (
        TEMPORARY,
        "INSERT INTO account VALUES (2, 2, 'x')",
        "SAVEPOINT `the ``outer`",
        "INSERT INTO account VALUES (3, 3, 'y')",
        "SAVEPOINT s",
        "INSERT INTO account VALUES (4, 4, 'z')",
        "ROLLBACK TO S",
        "INSERT INTO account VALUES (5, 5, 'z')",
        "SAVEPOINT t",
        "ROLLBACK TO `The ``Outer`",
        "SAVEPOINT s",
        "INSERT INTO account VALUES (6, 6, 'z')",
        "ROLLBACK TO s",
        "UPDATE account SET a = a + 1",
        "COMMIT",
    ),
    "to a savepoint that was set twice": (
        TEMPORARY,
        "INSERT INTO account VALUES (2, 2, 'x')",
        "SAVEPOINT s",
        "INSERT INTO account VALUES (3, 3, 'y')",
        "SAVEPOINT s",
        "INSERT INTO account VALUES (4, 4, 'z')",
        "ROLLBACK TO s",
        "COMMIT",
    ),
    "to a savepoint by a session with names in double quotes": (
        "SET SESSION sql_mode = CONCAT(@@sql_mode, ',ANSI_QUOTES')",
        "BEGIN",
        TEMPORARY,
        "INSERT INTO account VALUES (2, 2, 'x')",
        'SAVEPOINT "a b"',
        "INSERT INTO account VALUES (3, 3, 'y')",
        'ROLLBACK TO "a b"',
        "COMMIT",
    ),
    "before the first row, and then a transaction of its own": (
        TEMPORARY,
        "SAVEPOINT s",
        "INSERT INTO account VALUES (2, 2, 'x')",
        "ROLLBACK TO s",
        "INSERT INTO account VALUES (3, 3, 'y')",
        "COMMIT",
    ),
    "in a table of others, to a savepoint, larger than what is held": (
        TEMPORARY,
        LARGE.format(f"{ELSEWHERE}.packed"),
        "SAVEPOINT s",
        f"DELETE FROM {ELSEWHERE}.packed",
        "ROLLBACK TO s",
        "INSERT INTO account VALUES (2, 2, 'x')",
        "COMMIT",
    ),
}
NOT_UNDERSTOOD = {
    "is larger than what is held": (
        TEMPORARY,
        LARGE.format("account"),
        "SAVEPOINT s",
        "UPDATE account SET a = 7 WHERE id < 5",
        "ROLLBACK TO s",
        "COMMIT",
    ),
    "has a name in other letters": (
        TEMPORARY,
        "INSERT INTO account VALUES (2, 2, 'x')",
        "SAVEPOINT é",
        "UPDATE account SET a = 7",
        "ROLLBACK TO e",
        "COMMIT",
    ),
}


@pytest.fixture(scope="module")
def shared(stack: RunningStack) -> Iterator[Captured]:
    """One capture under all transactions that do not stop it."""
    with captured(NAME) as one, mariadb_database(ELSEWHERE):
        one.execute(
            f"CREATE TABLE {ELSEWHERE}.plain (i INT) ENGINE = MyISAM",
            f"CREATE TABLE {ELSEWHERE}.packed (id INT, a INT, memo VARCHAR(150))",
        )
        one.ensure()
        yield one


@pytest.mark.parametrize("how", UNDONE)
def test_what_a_transaction_has_rolled_back_is_not_sent_though_the_binlog_has_it(shared: Captured, how: str) -> None:
    # Each begins as the first one did, and none has left anything in the log that the source does not hold.
    shared.execute("DELETE FROM account", "INSERT INTO account VALUES (1, 1, 'x')")
    assert replay(shared, finish(shared)).holds("account") == [(1, 1, "x")]
    begins = shared.topics.end_offset()
    shared.execute("BEGIN", *UNDONE[how])
    shared.execute("INSERT INTO account VALUES (999, 9, 'behind it')")
    logged = replay(shared, finish(shared), since=begins).holds("account")
    assert sorted(logged) == sorted(row for row in shared.rows("account") if row != (1, 1, "x") or row in logged)
    assert (999, 9, "behind it") in logged


@pytest.fixture
def bank(stack: RunningStack) -> Iterator[Captured]:
    with captured(f"{NAME}_stops") as one:
        one.execute("INSERT INTO account VALUES (1, 1, 'x')")
        one.ensure()
        yield one


@pytest.mark.parametrize("how", NOT_UNDERSTOOD)
def test_a_rollback_that_cannot_be_followed_stops_the_capture_by_name(bank: Captured, how: str) -> None:
    bank.execute("BEGIN", *NOT_UNDERSTOOD[how])
    bank.wait_until_failed()
    with pytest.raises(TerminalError, match="rolled back to a savepoint") as raised:
        bank.ensure()
    assert "temporary table" in raised.value.hint
