"""A MariaDB that takes names of either case for one (`lower_case_table_names`): no statement goes unseen."""

import signal
from collections.abc import Iterator
from contextlib import closing

import pytest

from seamline.domain.log import touched
from seamline.sync.transactions import TransactionAssembler
from tests.conftest import RunningStack
from tests.integration.captured import Captured, captured, marker_in_log
from tests.integration.replicated import restorable_mariadb

TABLES = ("account", "audit")
STATEMENTS = (
    "ALTER TABLE Account MODIFY a BIGINT",
    "RENAME TABLE Account TO Account_old",
    "RENAME TABLE ACCOUNT_OLD TO Account",
    "TRUNCATE TABLE Account",
    "CREATE OR REPLACE TABLE ACCOUNT (id BIGINT, a INT, memo VARCHAR(200), PRIMARY KEY (id))",
    "DROP INDEX `PRIMARY` ON Account",
    "DROP TABLE ACCOUNT",
)


@pytest.fixture
def bank(stack: RunningStack) -> Iterator[Captured]:
    with restorable_mariadb() as server_of_its_own:
        server = server_of_its_own.server
        server.end(signal.SIGTERM)
        server.flags = ("--lower-case-table-names=1",)
        server.start()
        with captured("names") as one:
            yield one


def test_every_statement_of_a_table_is_seen_whatever_case_it_was_typed_in(bank: Captured) -> None:
    bank.ensure()
    bank.execute("INSERT INTO Account VALUES (1, 1, 'x')", *STATEMENTS, "ALTER TABLE Later COMMENT 'not of the sync'")
    marker_in_log(bank)
    transactions = TransactionAssembler(TABLES, marker_table=bank.source_plan.marker_table)
    with closing(bank.open_log()) as reader:
        reader.assign(bank.kafka.offsets(bank.source_plan.log_topic)[0])
        made = transactions.feed(reader.poll(5.0, 10_000))
    assert transactions.trouble is None
    assert [row.table for transaction in made for row in transaction.rows] == ["account"]
    stops = [transaction.ddl for transaction in made if transaction.ddl]
    assert {touched(stop, TABLES) for stop in stops} == {("account",)}
    # What is replaced is reported as dropped and created.
    assert [stop.statement.partition(" ")[0] for stop in stops] == [
        *("ALTER", "RENAME", "RENAME", "", "DROP", "DROP", "DROP"),
    ]
