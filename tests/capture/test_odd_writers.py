"""Sessions that write otherwise than in rows: nothing of theirs is missing without a sign."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from seamline.adapters.connections import resolve
from seamline.domain.errors import LogCorrupted, SeamlineError, TerminalError
from seamline.sync.units import UnitAssembler
from tests.conftest import RunningStack
from tests.integration.captured import Captured, captured, finish, replay, told_marker
from tests.integration.databases import mariadb, mariadb_database
from tests.waiting import wait_until

NAME = "odd_writers"
ELSEWHERE = "odd_elsewhere"
FUNCTION = (
    "CREATE FUNCTION change_all() RETURNS INT DETERMINISTIC MODIFIES SQL DATA BEGIN UPDATE account SET a = 7;"
    " RETURN 1; END"
)
STATEMENTS = {
    "of the format STATEMENT": ("SET SESSION binlog_format = STATEMENT", "INSERT INTO account VALUES (2, 1, 'secret')"),
    "of the format MIXED": ("SET SESSION binlog_format = MIXED", "UPDATE account SET memo = 'secret'"),
    "behind a comment": ("SET SESSION binlog_format = STATEMENT", "/* job 7 */ -- nightly\n DELETE FROM account"),
    "from another database": (
        f"USE {ELSEWHERE}",
        "SET SESSION binlog_format = STATEMENT",
        f"REPLACE INTO `{NAME}`.`account` VALUES (1, 2, 'it''s')",
    ),
    "by a function": (FUNCTION, "SET SESSION binlog_format = STATEMENT", "SELECT change_all()"),
}


@pytest.fixture
def bank(stack: RunningStack) -> Iterator[Captured]:
    with captured(NAME) as one, mariadb_database(ELSEWHERE):
        one.execute("INSERT INTO account VALUES (1, 1, 'x')", f"CREATE TABLE {ELSEWHERE}.t (id INT, memo VARCHAR(99))")
        one.ensure()
        yield one


@pytest.mark.parametrize("kind", STATEMENTS)
def test_a_change_that_the_log_tells_as_a_statement_stops_the_capture_by_name(bank: Captured, kind: str) -> None:
    bank.execute(*STATEMENTS[kind])
    assert_stopped(bank)


def test_rows_loaded_from_a_file_as_a_statement_stop_the_capture_by_name(bank: Captured, tmp_path: Path) -> None:
    file = tmp_path / "rows.txt"
    file.write_text("7\t7\tx\n")
    with closing(mariadb(bank.root, local_infile=True)) as session, session.cursor() as cursor:
        cursor.execute("SET SESSION binlog_format = STATEMENT")
        cursor.execute(f"LOAD DATA LOCAL INFILE '{file}' INTO TABLE account")
    assert bank.rows("account")[-1] == (7, 7, "x")
    assert_stopped(bank)


def test_compressed_rows_stop_the_capture_by_name(bank: Captured) -> None:
    with closing(mariadb(resolve("core_bank_root"))) as session, session.cursor() as cursor:
        cursor.execute("SET GLOBAL log_bin_compress_min_len = 10, GLOBAL log_bin_compress = ON")
        try:
            bank.execute("INSERT INTO account VALUES (7, 7, repeat('secret ', 20))")
        finally:
            cursor.execute("SET GLOBAL log_bin_compress = OFF, GLOBAL log_bin_compress_min_len = DEFAULT")
    assert_stopped(bank, "of a kind that the connector does not know")


def assert_stopped(bank: Captured, words: str = "binlog_format was not ROW") -> None:
    bank.wait_until_failed()
    with pytest.raises(TerminalError, match=words) as raised:
        bank.ensure()
    assert "onboard" in raised.value.hint
    assert "secret" not in str(raised.value), "an error holds a value of a row"


def test_nothing_behind_what_cannot_be_read_is_told_however_often_the_capture_is_started(bank: Captured) -> None:
    """Debezium's client reads on for a moment: what it told then would hide that something is missing."""
    told_marker(bank)
    bank.connector.stop()
    end = bank.topics.end_offset()
    bank.execute(*STATEMENTS["of the format STATEMENT"])
    bank.execute(*(f"INSERT INTO account VALUES ({number}, 1, 'behind it')" for number in range(100, 600)))
    for _ in range(5):
        with pytest.raises(TerminalError, match="binlog_format was not ROW"):
            bank.ensure()
    with closing(bank.open_log()) as reader:
        reader.assign(end)
        records = reader.poll(2.0, 10_000)
        assert b"behind it" not in b"".join(row.after or b"" for record in records for row in record.rows)


def test_statements_of_other_databases_are_passed_over(bank: Captured) -> None:
    bank.execute(
        f"USE {ELSEWHERE}",
        "SET SESSION binlog_format = STATEMENT",
        f"INSERT INTO t VALUES (1, 'not {NAME}\\'s'), (2, '{NAME}')",
        "UPDATE t SET id = 7",
        f"TRUNCATE {NAME}.audit",
    )
    bank.execute("INSERT INTO account VALUES (2, 2, 'y')")
    assert replay(bank, finish(bank)).holds("account") == [(2, 2, "y")]


def test_statements_of_other_databases_that_nobody_can_read_are_passed_over(bank: Captured) -> None:
    bank.execute(
        f"USE {ELSEWHERE}",
        "CREATE TABLE addresses (a INET6)",
        "INSERT INTO addresses VALUES ('::1')",
        "CREATE TABLE packed (t VARCHAR(50) COMPRESSED)",
    )
    bank.execute("INSERT INTO account VALUES (2, 2, 'y')")
    assert replay(bank, finish(bank)).holds("account") == [(2, 2, "y")]


def test_a_statement_of_the_captured_database_that_nobody_can_read_stops_the_capture(bank: Captured) -> None:
    bank.execute(f"USE {ELSEWHERE}", f"CREATE TABLE {NAME}.addresses (a INET6)")
    bank.wait_until_failed()
    with pytest.raises(TerminalError, match="ParsingException"):
        bank.ensure()


ALTERED_BESIDE_THE_LOG = {
    "in another order": "ALTER TABLE account MODIFY a BIGINT FIRST",
    "renamed": "ALTER TABLE account CHANGE memo note VARCHAR(200)",
    "with one more": "ALTER TABLE account ADD COLUMN b INT FIRST",
    "of another type": "ALTER TABLE account MODIFY a DECIMAL(10,2)",
    "wider": "ALTER TABLE account MODIFY a BIGINT",
    "with a fraction": "ALTER TABLE account MODIFY at DATETIME(6)",
    "with other labels": "ALTER TABLE account MODIFY mood ENUM('x', 'glad', 'sad')",
}


@pytest.mark.parametrize("how", ALTERED_BESIDE_THE_LOG)
def test_rows_of_a_table_that_was_altered_where_the_log_does_not_tell_it_stop_the_capture_by_name(
    bank: Captured, how: str
) -> None:
    """So does a statement that Debezium has misunderstood: what it makes of the table is not what the server names."""
    bank.execute("ALTER TABLE account ADD (at DATETIME, mood ENUM('glad', 'sad'))")
    bank.execute("INSERT INTO account (id, a) VALUES (2, 22)")
    told_marker(bank)
    bank.execute("SET SESSION sql_log_bin = 0", ALTERED_BESIDE_THE_LOG[how])
    bank.execute("INSERT INTO account (id, a) VALUES (3, 33)")
    assert_stopped(bank, "A statement was not understood: odd_writers.account has ")


def test_an_xa_transaction_of_a_captured_table_stops_the_stream_by_name(bank: Captured) -> None:
    write_by_xa(f"{NAME}.account")
    bank.execute("INSERT INTO account VALUES (2, 2, 'y')")
    finish(bank)
    units = UnitAssembler(("account", "audit"), marker_table=bank.source_plan.marker_table)
    with closing(bank.open_log()) as reader:
        reader.assign(0)

        def trouble() -> SeamlineError | None:
            units.feed(reader.poll(1.0, 1_000))
            return units.trouble

        told = wait_until(trouble, timeout_s=60, what="the stop")
    assert isinstance(told, LogCorrupted)
    assert "XA" in str(told)


def test_an_xa_transaction_of_another_database_is_passed_over(bank: Captured) -> None:
    write_by_xa(f"{ELSEWHERE}.t")
    bank.execute("INSERT INTO account VALUES (2, 2, 'y')")
    assert replay(bank, finish(bank)).holds("account") == [(2, 2, "y")]


def write_by_xa(table: str) -> None:
    with closing(mariadb(resolve("core_bank_root"))) as session, session.cursor() as cursor:
        cursor.execute("XA START 'odd'")
        cursor.execute(f"INSERT INTO {table} (id, memo) VALUES (7, 'xa')")
        cursor.execute("XA END 'odd'")
        cursor.execute("XA PREPARE 'odd'")
        cursor.execute("XA COMMIT 'odd'")
