"""Tables that are altered while their stream goes on, on real servers: PostgreSQL, its capture, the log, PostgreSQL."""

from collections.abc import Iterator

import pytest

from seamline.adapters.connections import Connection
from seamline.domain.errors import SchemaConflict
from tests.conftest import RunningStack
from tests.integration.altered import has_stopped
from tests.integration.captured_postgres import PostgresCaptured, captured_postgres
from tests.integration.databases import postgres_database
from tests.integration.streamed import streamed
from tests.waiting import wait_until

ALTERATIONS = {
    "retyped": ("ALTER TABLE account ALTER COLUMN a TYPE bigint", "account.a is now bigint, was integer"),
    "retyped to what looks alike": ("ALTER TABLE account ALTER COLUMN at TYPE date", "account.at is now date, was"),
    "longer": ("ALTER TABLE account ALTER COLUMN code TYPE varchar(20)", "account.code is now character varying(20)"),
    "more places": ("ALTER TABLE account ALTER COLUMN price TYPE numeric(12,4)", "account.price is now numeric(12,4)"),
    "new column": ("ALTER TABLE account ADD COLUMN later int DEFAULT 5", "account.later integer is new"),
    "renamed column": ("ALTER TABLE account RENAME COLUMN a TO b", "account.a was dropped or renamed"),
    "dropped column": ("ALTER TABLE account DROP COLUMN a", "account.a was dropped"),
    "other key": ("ALTER TABLE account DROP CONSTRAINT account_pkey, ADD PRIMARY KEY (code)", "is now code, was id"),
    "renamed table": ("ALTER TABLE account RENAME TO accounts", 'no table "account"'),
}

# What leaves a table looking as it did.
UNDONE = {
    "retyped there and back": (
        "ALTER TABLE account ALTER COLUMN price TYPE numeric(12,4); UPDATE account SET price = 2.5555 WHERE id = 2;"
        " ALTER TABLE account ALTER COLUMN price TYPE numeric(12,2)",
        "account.price was altered and its table rewritten",
    ),
    "computed again": (
        "ALTER TABLE account ALTER COLUMN a TYPE int USING a * 100",
        "account.a was altered and its table rewritten",
    ),
    "dropped and added": (
        "ALTER TABLE account DROP COLUMN price; ALTER TABLE account ADD COLUMN price numeric(12,2)",
        "account.price was dropped and added again",
    ),
    "another in its place": (
        "CREATE TABLE other (LIKE account INCLUDING ALL); DROP TABLE account; ALTER TABLE other RENAME TO account;"
        " GRANT SELECT ON account TO PUBLIC; ALTER PUBLICATION {publication} ADD TABLE account;"
        " INSERT INTO account (id, code) VALUES (2, 'new')",
        "account is another table now",
    ),
    "label renamed": ("ALTER TYPE mood RENAME VALUE 'glad' TO 'merry'", "label 'glad' of account.felt is now 'merry'"),
    "identity by another index": (
        "ALTER TABLE account REPLICA IDENTITY USING INDEX account_code_key",
        "the replica identity of account is not its primary key",
    ),
}


COLUMNS = "id bigint PRIMARY KEY, a int, at timestamp, code varchar(10) NOT NULL UNIQUE, felt mood"
ALTERED = (
    "CREATE TYPE mood AS ENUM ('glad', 'sad')",
    # The last one: a column that is added again stands where it stood.
    f"CREATE TABLE account ({COLUMNS}, price numeric(12,2))",
    "CREATE TABLE elsewhere (a int)",
)


@pytest.fixture(scope="module")
def captured_once(stack: RunningStack) -> Iterator[PostgresCaptured]:
    with captured_postgres("altered_pg", create=ALTERED, tables=("account",)) as one:
        yield one


@pytest.fixture
def warehouse(stack: RunningStack) -> Iterator[Connection]:
    with postgres_database("altered_pg_warehouse") as connection:
        yield connection


@pytest.fixture
def kept(captured_once: PostgresCaptured) -> PostgresCaptured:
    """The same capture for each: its tables are new, and its stream begins behind what the log holds already."""
    gone = ("DROP TABLE IF EXISTS account, accounts, elsewhere", "DROP TYPE mood")
    captured_once.execute(*gone, *ALTERED, *captured_once.publishing("account"))
    return captured_once


@pytest.mark.parametrize("name", [*ALTERATIONS, *UNDONE])
def test_an_altered_table_stops_the_stream_before_a_wrong_row(
    name: str, kept: PostgresCaptured, warehouse: Connection
) -> None:
    """The log of PostgreSQL holds no DDL, and its values do not say what type they have."""
    bank = kept
    statement, said = {**ALTERATIONS, **UNDONE}[name]
    with streamed(bank, warehouse, "account") as stream:
        stream.start()
        bank.execute("INSERT INTO account VALUES (2, 2, '2026-01-02', 'y', 'glad', 2.50)")
        # Nothing of this changes what a value means.
        bank.execute("ALTER TABLE elsewhere ADD COLUMN b int", "ANALYZE account", "VACUUM account")
        bank.execute("ALTER TABLE account ALTER COLUMN a SET DEFAULT 7", "ALTER TYPE mood ADD VALUE 'calm'")
        bank.execute("UPDATE account SET a = 3 WHERE id = 2")
        stream.wait_until_applied()
        before = stream.query("SELECT * FROM live.account")
        statement = statement.format(publication=bank.source_plan.publication)
        table = "accounts" if name == "renamed table" else "account"
        bank.execute(f"{statement}; UPDATE {table} SET price = price + 1.00, at = at + interval '1 day' WHERE id = 2")
        wait_until(lambda: has_stopped(stream, bank), timeout_s=60, what="the stream to stop")
        assert isinstance(stream.error, SchemaConflict)
        assert said in str(stream.error)
        assert stream.query("SELECT * FROM live.account") == before
