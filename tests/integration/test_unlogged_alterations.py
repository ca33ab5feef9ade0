"""What somebody does at a PostgreSQL source for a while: the log lacks changes, or shows them as something else."""

from collections.abc import Iterator

import pytest

from seamline.adapters.connections import Connection
from seamline.domain.errors import SchemaConflict
from tests.conftest import RunningStack
from tests.integration.captured_postgres import ACCOUNT, AUDIT, FULL, PostgresCaptured, captured_postgres
from tests.integration.databases import postgres_database
from tests.integration.streamed import streamed

PUBLICATION = "ALTER PUBLICATION {publication}"
ROW = "INSERT INTO account VALUES (1, 1, 'x', 'glad')"
# What is done, and what is said of it. Each statement is a transaction.
UNLOGGED = {
    "renamed": (
        ("ALTER TABLE account RENAME TO maint; INSERT INTO maint VALUES (1); ALTER TABLE maint RENAME TO account",),
        "account was renamed or moved to another schema",
    ),
    "moved to another schema": (
        (
            "CREATE SCHEMA aside; ALTER TABLE account SET SCHEMA aside; INSERT INTO aside.account VALUES (1);"
            " ALTER TABLE aside.account SET SCHEMA public",
        ),
        "account was renamed or moved to another schema",
    ),
    "label renamed": (
        (
            "ALTER TYPE mood RENAME VALUE 'glad' TO 'merry'",
            ROW.replace("glad", "merry"),
            "ALTER TYPE mood RENAME VALUE 'merry' TO 'glad'",
        ),
        "label 'glad' of account.felt was renamed",
    ),
    "field added and dropped": (
        (
            "ALTER TYPE place ADD ATTRIBUTE z int",
            "INSERT INTO account VALUES (1, 1, 'x', 'glad', '(1,2,3)')",
            "ALTER TYPE place DROP ATTRIBUTE z",
        ),
        "a composite type in account.home was altered",
    ),
    "not published": (
        (f"{PUBLICATION} DROP TABLE account", ROW, f"{PUBLICATION} ADD TABLE account"),
        "account was not, or not as a whole, in its publication",
    ),
    "some rows published": (
        (
            f"{PUBLICATION} SET TABLE account WHERE (id > 9), audit, seamline_marker",
            ROW,
            f"{PUBLICATION} SET TABLE account, audit, seamline_marker",
        ),
        "account was not, or not as a whole, in its publication",
    ),
    "some columns published": (
        (
            f"{PUBLICATION} SET TABLE account (id, a), audit, seamline_marker",
            ROW,
            f"{PUBLICATION} SET TABLE account, audit, seamline_marker",
        ),
        "account was not, or not as a whole, in its publication",
    ),
    "no inserts published": (
        (
            f"{PUBLICATION} SET (publish = 'update, delete, truncate')",
            ROW,
            f"{PUBLICATION} SET (publish = 'insert, update, delete, truncate')",
        ),
        "the publication of account was altered",
    ),
}


@pytest.fixture
def bank(stack: RunningStack) -> Iterator[PostgresCaptured]:
    types = ("CREATE TYPE mood AS ENUM ('glad', 'sad')", "CREATE TYPE place AS (x int, y int)")
    create = (*types, ACCOUNT, "ALTER TABLE account ADD felt mood, ADD home place", AUDIT, FULL)
    with captured_postgres("unlogged_pg", create=create) as one:
        yield one


@pytest.fixture
def warehouse(stack: RunningStack) -> Iterator[Connection]:
    with postgres_database("unlogged_pg_warehouse") as connection:
        yield connection


@pytest.mark.parametrize("name", UNLOGGED)
def test_changes_that_the_log_lacks_or_shows_otherwise_stop_the_stream_before_the_next_one(
    name: str, bank: PostgresCaptured, warehouse: Connection
) -> None:
    """They are the first since the connector's task started: it has not met the table under its own name yet."""
    statements, said = UNLOGGED[name]
    with streamed(bank, warehouse, "account", "audit") as stream:
        stream.start()
        bank.execute(*(one.format(publication=bank.source_plan.publication) for one in statements))
        bank.execute("INSERT INTO audit VALUES (1)")
        with pytest.raises(SchemaConflict, match=said):
            stream.wait_until_applied()
        assert stream.query("SELECT count(*) FROM live.account") == [(0,)]
        assert stream.query("SELECT count(*) FROM live.audit") == [(0,)]


def test_a_table_that_becomes_a_partition_stops_the_stream_where_its_changes_may_be_published_as_another_tables(
    bank: PostgresCaptured, warehouse: Connection
) -> None:
    publication = PUBLICATION.format(publication=bank.source_plan.publication)
    bank.execute(f"{publication} SET (publish_via_partition_root = true)")
    with streamed(bank, warehouse, "account", "audit") as stream:
        stream.start()
        bank.execute(
            "CREATE TABLE whole (LIKE account) PARTITION BY LIST (id)",
            "ALTER TABLE whole ATTACH PARTITION account DEFAULT",
            f"{publication} ADD TABLE whole",
            ROW,
            f"{publication} DROP TABLE whole",
            "INSERT INTO audit VALUES (1)",
        )
        with pytest.raises(SchemaConflict, match="account became a partition"):
            stream.wait_until_applied()
        assert stream.query("SELECT count(*) FROM live.audit") == [(0,)]


# What is done to a running system every day, each statement by itself. None of it changes a value or leaves one out.
ORDINARY = (
    "GRANT SELECT ON account TO PUBLIC",
    "GRANT UPDATE (a) ON account TO PUBLIC",
    "GRANT USAGE ON SCHEMA public TO PUBLIC",
    "COMMENT ON TABLE account IS 'of the bank'",
    "COMMENT ON TYPE mood IS 'of the client'",
    "CREATE INDEX ON account (a)",
    "CREATE INDEX CONCURRENTLY ON account (memo)",
    "ALTER TABLE account ADD CONSTRAINT small CHECK (a < 1000)",
    "CREATE POLICY all_of_it ON account USING (true)",
    "ALTER TABLE account ENABLE ROW LEVEL SECURITY",
    "ALTER TABLE account DISABLE ROW LEVEL SECURITY",
    "ALTER TABLE account SET (fillfactor = 70)",
    "CREATE VIEW of_account AS SELECT * FROM account",
    "CREATE TRIGGER same BEFORE UPDATE ON account FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()",
    "ALTER TABLE account OWNER TO CURRENT_USER",
    "ALTER TYPE mood ADD VALUE 'calm'",
    "ALTER TYPE mood ADD VALUE 'first' BEFORE 'glad'",
    "ALTER TYPE mood ADD VALUE 'mild' AFTER 'glad'",
    "CREATE TABLE later (id int PRIMARY KEY)",
    f"{PUBLICATION} ADD TABLE later",
    f"{PUBLICATION} SET TABLE later, seamline_marker, audit, account",
    f"{PUBLICATION} DROP TABLE later",
    "VACUUM FULL pg_type, pg_enum, pg_publication, pg_publication_rel",
    "VACUUM FREEZE",
)


def test_what_is_done_to_a_running_system_every_day_stops_no_stream(
    bank: PostgresCaptured, warehouse: Connection
) -> None:
    with streamed(bank, warehouse, "account", "audit") as stream:
        stream.start()
        for number, statement in enumerate(ORDINARY):
            bank.execute(statement.format(publication=bank.source_plan.publication))
            bank.execute(f"INSERT INTO account VALUES ({number}, 1, 'x', 'glad')", "INSERT INTO audit VALUES (1)")
            if number % 6 == 5:
                stream.wait_until_applied()
        stream.wait_until_applied()
        assert stream.differences("account", "audit") == {}
