"""Sessions that write otherwise than in rows: nothing of theirs is missing without a sign."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from seamline.adapters.connections import resolve
from seamline.domain.errors import LogCorrupted, SeamlineError, TerminalError
from seamline.domain.log import touched
from seamline.sync.transactions import TransactionAssembler
from tests.conftest import RunningStack
from tests.integration.captured import Captured, captured, finish, marker_in_log, replay
from tests.integration.databases import mariadb, mariadb_database
from tests.waiting import wait_until

NAME = "odd_writers"
ELSEWHERE = "odd_elsewhere"
# Of the capture that nothing stops.
GOES_ON = "odd_goes_on"
BESIDE = "odd_beside"
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


# What Debezium (3.5.0.Final) cannot read, of tables that no sync carries; `{}` stands for what they are called after.
UNREAD = (
    "CREATE TABLE {}_x (id INT PRIMARY KEY, u INT WITHOUT SYSTEM VERSIONING) WITH SYSTEM VERSIONING",
    "CREATE TABLE {}_y (id INT PRIMARY KEY, y YEAR)",
    "ALTER TABLE {}_y ADD SYSTEM VERSIONING",
    "CREATE TABLE {}_z (id INT, s DATE, e DATE, PERIOD FOR p(s,e), PRIMARY KEY(id, p WITHOUT OVERLAPS))",
    "CREATE TABLE {}_w (e ENUM(x'41','B'))",
    "CREATE OR REPLACE TABLE {}_v (account INT, c CHAR(5) BYTE)",
    "CREATE TABLE {}_c (t VARCHAR(50) COMPRESSED, b BLOB COMPRESSED)",
    "INSERT INTO {}_c VALUES (repeat('x', 50), repeat('x', 5000))",
    "SET GLOBAL mysql56_temporal_format = OFF",
    "CREATE TABLE {}_o (a DATETIME(6), b TIME(6))",
    "SET GLOBAL mysql56_temporal_format = ON",
    "INSERT INTO {}_o VALUES ('2026-01-02 03:04:05.123456', '-10:20:30.5')",
    "CREATE TABLE {}_i (a INET6, b INET4)",
    "INSERT INTO {}_i VALUES ('::1', '127.0.0.1')",
    "RENAME TABLE {}_i TO {}_j",
    "SET sql_mode = ORACLE",
    "CREATE PACKAGE {}_k AS FUNCTION g RETURN INT; END",
    "SET sql_mode = DEFAULT",
)
# To begin with, a capture reads the structure of all tables. The bytes of the label are a letter in UTF-8, too.
BEFOREHAND = (
    *(statement.replace("{}", "before") for statement in UNREAD),
    "CREATE TABLE before_f (id INT PRIMARY KEY, e ENUM('ß€')) DEFAULT CHARSET=latin1",
)


@contextmanager
def captured_beside(name: str, another: str) -> Iterator[Captured]:
    with captured(name) as one, mariadb_database(another):
        one.execute("INSERT INTO account VALUES (1, 1, 'x')", f"CREATE TABLE {another}.t (id INT, memo VARCHAR(99))")
        one.execute(*BEFOREHAND)
        one.ensure()
        yield one


@pytest.fixture
def bank(stack: RunningStack) -> Iterator[Captured]:
    with captured_beside(NAME, ELSEWHERE) as one:
        yield one


@pytest.mark.parametrize("kind", STATEMENTS)
def test_a_change_that_the_log_holds_as_a_statement_stops_the_capture_by_name(bank: Captured, kind: str) -> None:
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


def test_nothing_behind_what_cannot_be_read_is_reported_however_often_the_capture_is_started(bank: Captured) -> None:
    """Debezium's client reads on for a moment: what it reported then would hide that something is missing."""
    marker_in_log(bank)
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


@pytest.fixture(scope="module")
def shared(stack: RunningStack) -> Iterator[Captured]:
    """One capture over all that does not stop it."""
    with captured_beside(GOES_ON, BESIDE) as one:
        yield one


def assert_passed_over(shared: Captured) -> None:
    """What lies in the log until now has neither stopped the capture nor changed a row."""
    ((number,),) = shared.rows_of("SELECT 1 + max(id) FROM account")
    shared.execute(f"INSERT INTO account VALUES ({number}, {number}, 'y')")
    assert replay(shared, finish(shared)).holds("account") == [(one, one, "y") for one in range(2, number + 1)]


def test_statements_of_other_databases_are_passed_over(shared: Captured) -> None:
    shared.execute(
        f"USE {BESIDE}",
        "SET SESSION binlog_format = STATEMENT",
        f"INSERT INTO t VALUES (1, 'not {GOES_ON}\\'s'), (2, '{GOES_ON}')",
        "UPDATE t SET id = 7",
        f"TRUNCATE {GOES_ON}.audit",
    )
    assert_passed_over(shared)


def test_statements_of_other_databases_that_nobody_can_read_are_passed_over(shared: Captured) -> None:
    shared.execute(f"USE {BESIDE}", *(statement.replace("{}", "later") for statement in UNREAD))
    assert_passed_over(shared)


def test_an_xa_transaction_of_another_database_is_passed_over(shared: Captured) -> None:
    write_by_xa(f"{BESIDE}.t")
    assert_passed_over(shared)


def test_tables_of_statements_that_nobody_can_read_are_passed_over_and_read_rightly_once_they_are_carried(
    bank: Captured,
) -> None:
    bank.execute(*(statement.replace("{}", "later") for statement in UNREAD))
    bank.execute("INSERT INTO account VALUES (2, 2, 'y')", "INSERT INTO later_y (id, y) VALUES (1, 1999)")
    assert replay(bank, finish(bank)).holds("account") == [(2, 2, "y")]
    # For a UNIQUE over long texts the server keeps a column that nobody sees.
    bank.execute("CREATE TABLE later_u (id INT PRIMARY KEY, t TEXT, UNIQUE (t))")
    carried = ("account", "audit", "before_f", "before_w", "before_z", "later_u", "later_v", "later_z")
    bank.ensure(bank.with_tables(*carried))
    bank.execute(
        "INSERT INTO before_f VALUES (1, 'ß€')",
        "INSERT INTO before_w VALUES ('A')",
        "INSERT INTO later_v VALUES (7, x'4100')",
        "INSERT INTO account VALUES (3, 3, 'z')",
        "INSERT INTO later_u VALUES (1, 'once')",
        "ALTER TABLE account ADD COLUMN t TEXT, ADD UNIQUE (t)",
        "UPDATE account SET t = 'x' WHERE id = 3",
        *(f"INSERT INTO {table} VALUES (1, '2026-01-01', '2026-02-01')" for table in ("before_z", "later_z")),
        # Nothing is known of it when the next statement comes.
        "ALTER TABLE later_v ADD b INT",
        "INSERT INTO later_v VALUES (8, x'4200', 9)",
    )
    state = replay(bank, finish(bank))
    assert state.holds("account") == [(2, 2, "y"), (3, 3, "z", "x")]
    assert state.holds("later_u") == [(1, "once")]
    assert state.holds("before_f") == [(1, "ß€")]
    assert state.holds("before_w") == [("A",)]
    assert state.holds("before_z") == state.holds("later_z") == [(1, 20454, 20485)]
    assert state.holds("later_v") == [(7, "QQAAAAA="), (8, "QgAAAAA=", 9)]


# A statement that nobody can read, and the captured tables that it may touch.
MAY_TOUCH = {
    "ALTER TABLE account ADD SYSTEM VERSIONING": ("account",),
    "ALTER TABLE aside ADD SYSTEM VERSIONING, RENAME TO account2": (),
    "ALTER TABLE aside2 RENAME TO audit, ADD u INT WITHOUT SYSTEM VERSIONING": ("audit",),
}


def test_a_statement_that_nobody_can_read_is_reported_for_the_tables_that_it_may_touch_and_of_no_other(
    bank: Captured,
) -> None:
    bank.execute("CREATE TABLE aside (id INT)", "CREATE TABLE aside2 (id INT) WITH SYSTEM VERSIONING")
    bank.execute("DROP TABLE audit", "SET SESSION system_versioning_alter_history = KEEP", *MAY_TOUCH)
    bank.execute("INSERT INTO account (id, a) VALUES (2, 2)", "INSERT INTO audit (id) VALUES (3)")
    marker_in_log(bank)
    transactions = TransactionAssembler(("account", "audit"), marker_table=bank.source_plan.marker_table)
    with closing(bank.open_log()) as reader:
        reader.assign(0)
        made = transactions.feed(reader.poll(5.0, 10_000))
    assert transactions.trouble is None
    stops = {ddl.statement: touched(ddl, ("account", "audit")) for transaction in made if (ddl := transaction.ddl)}
    assert {statement: stops.get(statement, ()) for statement in MAY_TOUCH} == MAY_TOUCH
    assert [row.table for transaction in made for row in transaction.rows] == ["account", "audit"]


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
def test_rows_of_a_table_that_was_altered_where_the_log_does_not_show_it_stop_the_capture_by_name(
    bank: Captured, how: str
) -> None:
    """So does a statement that Debezium has misunderstood: what it makes of the table is not what the server names."""
    bank.execute("ALTER TABLE account ADD (at DATETIME, mood ENUM('glad', 'sad'))")
    bank.execute("INSERT INTO account (id, a) VALUES (2, 22)")
    marker_in_log(bank)
    bank.execute("SET SESSION sql_log_bin = 0", ALTERED_BESIDE_THE_LOG[how])
    bank.execute("INSERT INTO account (id, a) VALUES (3, 33)")
    assert_stopped(bank, "A statement was not understood: odd_writers.account has ")


def test_an_xa_transaction_of_a_captured_table_stops_the_stream_by_name(bank: Captured) -> None:
    write_by_xa(f"{NAME}.account")
    bank.execute("INSERT INTO account VALUES (2, 2, 'y')")
    finish(bank)
    transactions = TransactionAssembler(("account", "audit"), marker_table=bank.source_plan.marker_table)
    with closing(bank.open_log()) as reader:
        reader.assign(0)

        def trouble() -> SeamlineError | None:
            transactions.feed(reader.poll(1.0, 1_000))
            return transactions.trouble

        stopped_by = wait_until(trouble, timeout_s=60, what="the stop")
    assert isinstance(stopped_by, LogCorrupted)
    assert "XA" in str(stopped_by)


def write_by_xa(table: str) -> None:
    with closing(mariadb(resolve("core_bank_root"))) as session, session.cursor() as cursor:
        cursor.execute("XA START 'odd'")
        cursor.execute(f"INSERT INTO {table} (id, memo) VALUES (7, 'xa')")
        cursor.execute("XA END 'odd'")
        cursor.execute("XA PREPARE 'odd'")
        cursor.execute("XA COMMIT 'odd'")
