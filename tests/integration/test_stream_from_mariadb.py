"""The whole way of a change on real servers: MariaDB, its capture, the log topic, the span loop, PostgreSQL."""

from collections.abc import Iterator

import pytest

from seamline.adapters.connections import Connection
from seamline.domain.errors import SchemaConflict
from tests.conftest import RunningStack
from tests.integration.captured import ACCOUNT, Captured, captured, marker_in_log
from tests.integration.databases import postgres_database
from tests.integration.kinds import CASES, INEXACT_CASES, LENIENT
from tests.integration.streamed import Streamed, streamed
from tests.integration.typed_tables import typed_beside
from tests.waiting import wait_until

REPLACED = "CREATE OR REPLACE TABLE account (id BIGINT PRIMARY KEY, a INT, memo VARCHAR(200))"
REPLACED_IN_ANOTHER_ORDER = "CREATE OR REPLACE TABLE account (a BIGINT, id BIGINT PRIMARY KEY, memo VARCHAR(200))"
ALTERED_IN_A_COMMENT = "/*!50000 ALTER TABLE account MODIFY a BIGINT FIRST */"


@pytest.fixture
def bank(stack: RunningStack) -> Iterator[Captured]:
    with captured("stream_test") as one:
        yield one


@pytest.fixture(scope="module")
def captured_once(stack: RunningStack) -> Iterator[Captured]:
    with captured("stream_kept") as one:
        yield one


@pytest.fixture
def kept(captured_once: Captured) -> Captured:
    """The same capture for each: its tables are new, and its stream begins behind what the log holds already."""
    captured_once.execute("DROP TABLE IF EXISTS account, account_old, behind_it", ACCOUNT, "TRUNCATE audit")
    return captured_once


@pytest.fixture
def warehouse(stack: RunningStack) -> Iterator[Connection]:
    with postgres_database("stream_test") as connection:
        yield connection


def test_every_kind_of_column_arrives_as_the_source_holds_it_and_in_the_typed_form(
    bank: Captured, warehouse: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = (*CASES, *INEXACT_CASES)
    columns = ", ".join(f"`{case.column.name}` {case.mariadb_type}" for case in cases)
    bank.execute(f"CREATE TABLE kinds (id INT PRIMARY KEY, {columns})")
    bank.execute(f"CREATE TABLE kinds_keyless ({columns})")
    with streamed(bank, warehouse, "kinds", "kinds_keyless") as stream, typed_beside(stream, monkeypatch) as typed:
        stream.start()
        rows = max(len(case.edges) for case in cases)
        for number in range(rows):
            listed = ", ".join(case.edges[number % len(case.edges)].mariadb for case in cases)
            bank.execute(f"{LENIENT} INSERT INTO kinds VALUES ({number}, {listed})")
            bank.execute(*[f"{LENIENT} INSERT INTO kinds_keyless VALUES ({listed})"] * 3)
        nothing = ", ".join(["NULL"] * len(cases))
        bank.execute(f"INSERT INTO kinds VALUES ({rows}, {nothing})", f"INSERT INTO kinds_keyless VALUES ({nothing})")
        stream.wait_until_applied()
        differing = stream.differing_columns("kinds", [str(number) for number in range(rows + 1)])
        # The two servers write exponents in two ways; the numbers themselves are looked at next.
        assert differing.keys() <= {"f32", "f64"}
        assert_same_numbers(stream, rows)
        assert stream.differences("kinds", "kinds_keyless") == {}
        assert typed.differing("kinds") == typed.differing("kinds_keyless") == []
        # Every row is found again by every one of its values.
        bank.execute("DELETE FROM kinds_keyless", "UPDATE kinds SET id = id + 100", "DELETE FROM kinds WHERE id > 103")
        stream.wait_until_applied()
        assert stream.differences("kinds", "kinds_keyless") == {}
        assert stream.query("SELECT count(*) FROM live.kinds_keyless") == [(0,)]
        assert_same_numbers(stream, 4)
        assert typed.differing("kinds") == typed.differing("kinds_keyless") == []
        assert stream.findings() == 0


def assert_same_numbers(stream: Streamed, rows: int) -> None:
    """Bit for bit what Python reads from the literal: each double has a text of its own, zeros too."""
    for case in INEXACT_CASES:
        stored = stream.query(f"SELECT {case.column.name}::float8 FROM live.kinds ORDER BY id")
        wanted = [case.edges[number % len(case.edges)].value for number in range(rows)]
        assert [str(value) for (value,) in stored[:rows]] == [str(value) for value in wanted], case.column.name
        assert stored[rows:] in ([], [(None,)])


# Of the tables of the sync.
LEAVE_VALUES_ALONE = (
    "ALTER TABLE account ADD INDEX by_a (a), ADD UNIQUE (memo), COMMENT 'of the bank, and more'",
    "ALTER TABLE account ALTER a SET DEFAULT 7, AUTO_INCREMENT = 100",
    "ALTER TABLE account ADD CONSTRAINT small CHECK (a < 1000 AND memo IS NOT NULL)",
    "ALTER TABLE account FORCE, STATS_PERSISTENT = 1, ENGINE = InnoDB ROW_FORMAT = DYNAMIC",
    "ALTER TABLE account DROP INDEX by_a, DROP CONSTRAINT small, RENAME INDEX memo TO by_memo",
    "CREATE INDEX by_a ON account (a)",
    "CREATE UNIQUE INDEX once ON audit (a)",
    "ALTER TABLE audit ADD INDEX (memo)",
)


def test_a_truncate_and_foreign_ddl_incremental_and_own_ddl_stops_with_the_statement(
    bank: Captured, warehouse: Connection
) -> None:
    with streamed(bank, warehouse, "account", "audit") as stream:
        stream.start()
        bank.execute("INSERT INTO account VALUES (1, 1, 'before')", "INSERT INTO audit VALUES (1, 'before')")
        bank.execute("CREATE TABLE elsewhere (x INT)", "ALTER TABLE elsewhere ADD y INT", "TRUNCATE TABLE audit")
        bank.execute("INSERT INTO audit VALUES (2, 'after')")
        bank.execute(*LEAVE_VALUES_ALONE, "INSERT INTO account (id, memo) VALUES (9, 'behind them')")
        stream.wait_until_applied()
        assert stream.query("SELECT a, memo FROM live.account WHERE id = 9") == [(7, "behind them")]
        assert stream.query("SELECT a, memo FROM live.audit") == [(2, "after")]
        bank.execute("INSERT INTO account VALUES (2, 2, 'last')", "ALTER TABLE account ADD COLUMN later INT")
        bank.execute("INSERT INTO account VALUES (3, 3, 'beyond', 3)")
        wait_until(lambda: stream.error is not None, timeout_s=60, what="the stream to stop")
        assert isinstance(stream.error, SchemaConflict)
        assert "ADD COLUMN later INT" in str(stream.error)
        assert stream.query("SELECT id FROM live.account ORDER BY id") == [(1,), (2,), (9,)]


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
}
WITH_ITS_DATABASE = {
    "dropped with its database": ["DROP DATABASE stream_test", "CREATE DATABASE stream_test"],
    "replaced with its database": ["CREATE OR REPLACE DATABASE stream_test"],
}


@pytest.mark.parametrize("how", OVERLOOKED)
def test_a_table_that_is_taken_away_or_altered_by_whatever_statement_stops_the_stream_before_a_wrong_row(
    kept: Captured, warehouse: Connection, how: str
) -> None:
    stops_before_a_wrong_row(kept, warehouse, *OVERLOOKED[how])


@pytest.mark.parametrize("how", WITH_ITS_DATABASE)
def test_a_table_that_is_taken_away_with_its_database_stops_the_stream_before_a_wrong_row(
    bank: Captured, warehouse: Connection, how: str
) -> None:
    stops_before_a_wrong_row(bank, warehouse, *WITH_ITS_DATABASE[how])


def stops_before_a_wrong_row(bank: Captured, warehouse: Connection, *statements: str) -> None:
    with streamed(bank, warehouse, "account", "audit") as stream:
        stream.start()
        bank.execute("INSERT INTO account VALUES (1, 11, 'a'), (2, 22, 'b')")
        stream.wait_until_applied()
        # What a statement did is known to be whole once another transaction begins.
        bank.execute(*statements, f"CREATE TABLE {bank.source_plan.database}.behind_it (x INT)")
        wait_until(lambda: stream.error is not None, timeout_s=60, what="the stream to stop")
        assert isinstance(stream.error, SchemaConflict)
        assert "account" in stream.error.message
        assert stream.query("SELECT id, a FROM live.account ORDER BY id") == [(1, 11), (2, 22)]


@pytest.mark.parametrize("statement", ["/*!50000 TRUNCATE TABLE account */", "TRUNCATE /*M!100000 TABLE */ account"])
def test_a_truncate_in_a_comment_that_runs_empties_the_table(
    kept: Captured, warehouse: Connection, statement: str
) -> None:
    with streamed(kept, warehouse, "account", "audit") as stream:
        stream.start()
        kept.execute("INSERT INTO account VALUES (1, 11, 'a')", statement, "INSERT INTO account VALUES (2, 22, 'b')")
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
def test_a_table_that_was_altered_before_it_was_loaded_is_reported_in_its_new_schema(
    bank: Captured, warehouse: Connection, statement: str
) -> None:
    """The capture has known it in the old one."""
    bank.ensure()
    marker_in_log(bank)
    bank.execute(statement)
    with streamed(bank, warehouse, "account") as stream:
        stream.start()
        bank.execute("INSERT INTO account (id, a) VALUES (5, 9)")
        stream.wait_until_applied()
        assert stream.query("SELECT id, a FROM live.account WHERE id = 5") == [(5, 9)]
        assert stream.differences("account") == {}


# What a later statement says → a value of which a reader by other words makes another one.
SPELLED = {
    "first VARCHAR(9)": "'a text'",
    "n INTEGER UNSIGNED": "3000000000",
    "z INT ZEROFILL": "3000000000",
    "sz SMALLINT(5) ZEROFILL": "40000",
    "y YEAR": "2026",
    "de DEC": "123",
    "at DATETIME(3)": "'2026-03-05 17:00:00.123'",
    "tz TINYINT ZEROFILL": "200",
    "i1 INT1": "-100",
    "mz MEDIUMINT ZEROFILL": "16000000",
    "mid MIDDLEINT UNSIGNED": "16000001",
    "bz BIGINT ZEROFILL": "18446744073709551615",
    "i8 INT8 UNSIGNED": "18446744073709551614",
    "yes BOOLEAN DEFAULT TRUE": "100",
    "r REAL": "3.141592653589793",
    "dp DOUBLE PRECISION": "2.718281828459045",
    "f8 FLOAT8 UNSIGNED": "0.1",
    "f30 FLOAT(30)": "0.123456789012345",
    "fz FLOAT ZEROFILL": "0.1",
    "dz DOUBLE ZEROFILL": "1e300",
    "fx FIXED(8,2) ZEROFILL": "12.34",
    "nu NUMERIC(20,4)": "-1234567.8901",
    "b BINARY": "x'00'",
    "b2 BINARY(2)": "x'4100'",
    "vb VARCHAR(9) CHARACTER SET binary": "x'00ff41'",
    "cb CHAR(4) CHARACTER SET binary": "x'4100'",
    "tb TEXT CHARACTER SET binary": "x'00ff42'",
    "cy CHARACTER VARYING(9)": "'größer'",
    "nc NATIONAL CHARACTER(5)": "'ü'",
    "lv LONG VARCHAR": "'long'",
    "j JSON": "'{\"a\": 1}'",
    "ud UUID DEFAULT '00000000-0000-0000-0000-000000000001'": "NULL",
    "u UUID": "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'",
    "g ENUM('a ', 'it''s', 'b,c', 'ü')": "'a'",
    "s SET('x ', 'y')": "'x,y'",
    "ts TIMESTAMP(6) NULL": "'2026-03-05 17:00:00.123456'",
    "t TIME": "'838:59:59'",
    "bit9 BIT(9)": "b'100000001'",
    "bit1 BIT": "b'1'",
}

# Short values are stored as they are, and so are long ones that do not become shorter.
COMPRESSED = {
    "c9 VARCHAR(9) COMPRESSED": "'größer'",
    "c0 VARCHAR(300) COMPRESSED DEFAULT 'x'": "''",
    "cv VARCHAR(300) COMPRESSED": "repeat('größer ', 40)",
    "ct MEDIUMTEXT COMPRESSED CHARACTER SET latin1": "repeat('größer ', 20000)",
    "cn TEXT COMPRESSED": "NULL",
    "cl BLOB COMPRESSED": "concat(x'00ff', repeat(x'0041', 9000))",
    "cv5 VARBINARY(500) COMPRESSED": "concat(unhex(sha2(1, 512)), unhex(sha2(2, 512)), unhex(sha2(3, 512)))",
}


def captured_as_stubs(bank: Captured, *tables: str) -> None:
    """Captured, and dropped: the capture knows the next tables of these names by their statements alone."""
    bank.execute(*(f"CREATE TABLE {name} (id INT PRIMARY KEY)" for name in tables))
    wanted = bank.with_tables(*tables)
    bank.ensure(wanted)
    marker_in_log(bank)
    bank.execute(*(f"DROP TABLE {name}" for name in tables))


def test_a_type_that_a_later_statement_says_in_other_words_than_the_server_is_read_as_the_server_has_it(
    bank: Captured, warehouse: Connection
) -> None:
    names = ("spelled", "spelled_keyless", "numbered", "unread", "unread_keyless")
    captured_as_stubs(bank, *names)
    columns = ", ".join(SPELLED)
    # Of these two no reader but the server understands the statement (3.5.0.Final).
    unread = ", ".join([columns, "last CHAR(5) BYTE", *COMPRESSED])
    bank.execute(
        f"CREATE TABLE spelled (id INT PRIMARY KEY, {columns}) CHARACTER SET utf8mb4",
        f"CREATE TABLE spelled_keyless ({columns}) CHARACTER SET utf8mb4",
        "CREATE TABLE numbered (id SERIAL PRIMARY KEY, n INT)",
        f"CREATE TABLE unread (id INT, k INT, {unread}, PRIMARY KEY (k, id)) CHARACTER SET utf8mb4",
        f"CREATE TABLE unread_keyless ({unread}) CHARACTER SET utf8mb4",
    )
    values = ", ".join(SPELLED.values())
    more = ", ".join(["x'410000'", *COMPRESSED.values()])
    with streamed(bank, warehouse, *names) as stream:
        stream.start()
        bank.execute(
            f"INSERT INTO spelled VALUES (1, {values})",
            f"INSERT INTO spelled_keyless VALUES ({values})",
            "INSERT INTO numbered VALUES (18446744073709551614, 1)",
            f"INSERT INTO unread VALUES (1, 2, {values}, {more})",
            f"INSERT INTO unread_keyless VALUES ({values}, {more})",
        )
        stream.wait_until_applied()
        assert stream.differing_columns("spelled", ["1"]).keys() <= {"dz"}, "the two write exponents in two ways"
        assert stream.differences("spelled_keyless", "numbered", "unread_keyless") == {}
        bank.execute("UPDATE spelled SET id = 2", "DELETE FROM spelled_keyless", "UPDATE numbered SET n = 2")
        bank.execute("UPDATE unread SET k = 3, dz = 1", "DELETE FROM unread_keyless")
        stream.wait_until_applied()
        assert stream.query("SELECT count(*) FROM live.spelled_keyless") == [(0,)]
        assert stream.query("SELECT count(*) FROM live.unread_keyless") == [(0,)]
        assert stream.query("SELECT dz FROM live.spelled") == [(1e300,)]
        assert stream.query("SELECT k, id FROM live.unread") == [(3, 1)]
        assert stream.differences("unread") == {}
        assert stream.findings() == 0


@pytest.mark.parametrize(
    "setting", ["SET sql_mode = ''", "SET character_set_collations = 'latin1=latin1_bin,utf8mb4=utf8mb4_bin'"]
)
def test_the_labels_of_a_statement_are_read_in_the_character_set_of_its_client(
    bank: Captured, warehouse: Connection, setting: str
) -> None:
    captured_as_stubs(bank, "person")
    labels = "ENUM('männlich', 'weiblich')"
    # The bytes of the last one are a letter in UTF-8, too.
    more = "f ENUM('x', 'ß€') CHARACTER SET latin1, s SET('Ã©', 'ß€', 'b') CHARACTER SET latin1"
    more += r", b ENUM('a\\b', 'c\\,d', 'e,f'), c SET('x\\y', 'z')"
    # An ENUM of two bytes, and a SET with its last bit.
    of_many = {count: ",".join(f"'n{number}'" for number in range(count)) for count in (300, 64)}
    more += f", many ENUM({of_many[300]}), wide SET({of_many[64]})"
    columns = f"größe INT, g {labels} CHARACTER SET latin1, h {labels} CHARACTER SET utf8mb4, {more}"
    bank.execute_in("latin1", setting, f"CREATE TABLE person (id INT PRIMARY KEY, {columns})")
    with streamed(bank, warehouse, "person") as stream:
        stream.start()
        bank.execute(
            "INSERT INTO person VALUES (1, 180, 'männlich', 'männlich', 'ß€', 'b,Ã©',"
            r" 'a\\b', 'x\\y,z', 'n299', 'n63,n0')",
            r"INSERT INTO person (id, b) VALUES (2, 'c\\,d'), (3, 'e,f')",
        )
        stream.wait_until_applied()
        assert stream.query("SELECT * FROM live.person WHERE id = 1") == [
            (1, 180, "männlich", "männlich", "ß€", "Ã©,b", r"a\b", r"x\y,z", "n299", "n0,n63")
        ]
        assert stream.query("SELECT b FROM live.person WHERE id > 1 ORDER BY id") == [(r"c\,d",), ("e,f",)]
        assert stream.differences("person") == {}
