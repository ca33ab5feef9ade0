"""The whole way of a change of MySQL 9.7 on real servers: its capture, the log topic, a stream into PostgreSQL."""

from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace

import pymysql
import pytest

from seamline.adapters.connect.rest import ConnectClient
from seamline.adapters.connections import Connection
from seamline.domain.catalogue import Kind, Table
from seamline.domain.errors import SchemaConflict, TerminalError
from seamline.sources.mysql.edge_values import edge_values
from seamline.sync.onboard import publish
from tests.conftest import RunningStack
from tests.integration.bank_writers import writing
from tests.integration.captured import assert_begins_again, finish, lost_by_name, marker_in_log, replay
from tests.integration.captured_mysql import MySqlCaptured, as_writer, captured_mysql
from tests.integration.connect_worker import ConnectWorker
from tests.integration.databases import postgres_database
from tests.integration.known import destination_known_by_id
from tests.integration.mysql_types import NAMES
from tests.integration.snapshot_run import Records, run_of, snapshot_amid, tools_of
from tests.integration.streamed import DESTINATION, Streamed, streamed
from tests.mysql_server import mysql
from tests.opened_sink import postgres_sink
from tests.waiting import wait_until

NAME = "mysql_stream"
TABLES = ("account", "audit")


@pytest.fixture
def bank(stack: RunningStack, mysql_root: Connection) -> Iterator[MySqlCaptured]:
    with captured_mysql(mysql_root, NAME) as one:
        yield one


@pytest.fixture
def warehouse(stack: RunningStack) -> Iterator[Connection]:
    with postgres_database(NAME) as connection, destination_known_by_id(connection, DESTINATION.connection):
        yield connection


def test_a_snapshot_and_its_stream_amid_writers_are_the_source_also_where_the_worker_was_killed(
    worker: ConnectWorker, warehouse: Connection, mysql_root: Connection
) -> None:
    client = ConnectClient(worker.connection)
    with captured_mysql(mysql_root, NAME, client=client, secrets_file=str(worker.secrets_file)) as bank:
        bank.plan = replace(bank.plan, destinations=(DESTINATION,))
        bank.ensure()
        with writing(bank.root, tables=TABLES, session_of=as_writer) as writers:
            run = run_of(bank, TABLES)
            run.result["snapshot"] = snapshot_amid(writers, run, tools_of(bank, run, Records()))
            with closing(postgres_sink(run.plan, DESTINATION)) as sink:
                publish(run, DESTINATION.name, sink=sink)
            stream = Streamed(bank, run.plan, warehouse, tuple(_definitions(run.plan)))
            stream.start()
            try:
                worker.kill()
                killed_at = writers.committed
                wait_until(lambda: writers.committed > killed_at + 50, timeout_s=60, what="writers that go on")
                worker.start()
                bank.ensure()
                before = writers.committed
                wait_until(lambda: writers.committed > before + 50, timeout_s=60, what="50 transactions more")
                writers.stop()
                stream.wait_until_applied()
                assert stream.differences(*TABLES) == {}
                assert stream.findings() == 0
            finally:
                stream.stop()
        replay(bank, finish(bank))


def _definitions(plan: object) -> Iterator[Table]:
    for table in plan.tables:  # type: ignore[attr-defined]
        assert table.table is not None
        yield table.table


def test_every_edge_value_of_every_type_arrives_as_the_source_holds_it(
    bank: MySqlCaptured, warehouse: Connection
) -> None:
    bank.execute(
        *(f"CREATE TABLE {name} (id INT AUTO_INCREMENT PRIMARY KEY, v {of} NULL)" for of, name in NAMES.items())
    )
    with streamed(bank, warehouse, *NAMES.values()) as stream:
        stream.start()
        with closing(mysql(bank.root)) as session, session.cursor() as cursor:
            for table in stream.tables:
                column = table.column("v")
                mode = "" if column.kind is Kind.ENUM else "STRICT_ALL_TABLES"
                cursor.execute("SET SESSION sql_mode = %s", (mode,))
                for literal in edge_values(column):
                    with suppress(pymysql.err.DataError, pymysql.err.OperationalError):
                        cursor.execute(f"INSERT INTO {table.name} (v) VALUES ({literal})")
                cursor.execute(f"UPDATE {table.name} SET id = id + 1000 WHERE id < 3")
        stream.wait_until_applied()
        types = {name: of for of, name in NAMES.items()}
        assert {types[name]: found for name, found in stream.differences(*NAMES.values()).items()} == {}
        assert stream.findings() == 0


def test_truncates_tags_and_compressed_transactions_arrive_and_an_alteration_stops_the_stream(
    bank: MySqlCaptured, warehouse: Connection
) -> None:
    with streamed(bank, warehouse, *TABLES) as stream:
        stream.start()
        bank.execute("INSERT INTO account VALUES (1, 1, 'before')", "INSERT INTO audit VALUES (1, 'before')")
        bank.execute("CREATE TABLE elsewhere (x INT)", "ALTER TABLE elsewhere ADD y INT", "TRUNCATE TABLE audit")
        bank.execute("INSERT INTO audit VALUES (2, 'after')", "RENAME TABLE elsewhere TO e2, e2 TO e3")
        bank.execute("CREATE TABLE made SELECT id, memo FROM account")
        bank.execute(
            "SET SESSION binlog_transaction_compression = ON",
            "INSERT INTO account VALUES (2, 2, repeat('packed ü ', 20))",
            "UPDATE account SET a = 7 WHERE id = 1",
            "SET SESSION binlog_transaction_compression = OFF",
            "SET gtid_next = 'AUTOMATIC:batch'",
            "INSERT INTO account VALUES (3, 3, 'tagged')",
        )
        stream.wait_until_applied()
        assert stream.query("SELECT a, memo FROM live.audit") == [(2, "after")]
        assert stream.differences(*TABLES) == {}
        bank.execute("ALTER TABLE account ADD COLUMN later INT", "INSERT INTO account VALUES (4, 4, 'beyond', 3)")
        wait_until(lambda: stream.error is not None, timeout_s=60, what="the stream to stop")
        assert isinstance(stream.error, SchemaConflict)
        assert "ADD COLUMN later INT" in str(stream.error)
        assert stream.query("SELECT id FROM live.account ORDER BY id") == [(1,), (2,), (3,)]
    # After a restart nothing is sent twice, and every transaction follows the one before it.
    bank.connector.stop()
    bank.ensure(bank.with_tables(*TABLES))
    replay(bank, finish(bank))


def test_a_zero_date_stops_the_stream_by_the_name_of_its_column(bank: MySqlCaptured, warehouse: Connection) -> None:
    bank.execute("CREATE TABLE dated (id INT PRIMARY KEY, d DATE, at DATETIME(6), ts TIMESTAMP NULL)")
    with streamed(bank, warehouse, "dated") as stream:
        stream.start()
        bank.execute("SET SESSION sql_mode = ''", "INSERT INTO dated VALUES (1, '2026-01-02', '0000-00-00', NULL)")
        wait_until(lambda: stream.error is not None, timeout_s=60, what="the stream to stop")
        assert "column at holds an invalid date" in str(stream.error)


LOST = {
    "has not written all of it": ("RESET BINARY LOGS AND GTIDS", "INSERT INTO account VALUES (2, 2, 'another first')"),
    "has purged transactions that follow it": (
        "INSERT INTO account VALUES (2, 2, 'never sent')",
        "FLUSH BINARY LOGS",
        "FLUSH BINARY LOGS",
    ),
}


@pytest.mark.parametrize("words", LOST)
def test_a_log_that_was_reset_or_purged_is_lost_by_name_and_nothing_behind_it_is_sent(
    bank: MySqlCaptured, words: str
) -> None:
    bank.ensure()
    marker_in_log(bank)
    bank.connector.stop()
    bank.execute(*LOST[words])
    if "purged" in words:
        wait_until(lambda: is_purged(bank), timeout_s=30, what="the server to let the old files go")
    end = bank.topics.end_offset()
    lost_by_name(bank, words)
    with closing(bank.open_log()) as reader:
        reader.assign(end)
        assert reader.poll(2.0, 100) == []
    assert_begins_again(bank)


def is_purged(bank: MySqlCaptured) -> bool:
    """A capture that was stopped may hold its file for a moment."""
    *older, newest = [file for file, *_ in bank.rows_of("SHOW BINARY LOGS")]
    bank.execute(f"PURGE BINARY LOGS TO '{newest}'")
    return not older


NOT_CARRIED = {
    "binlog_format was not ROW": ("SET SESSION binlog_format = STATEMENT", "UPDATE account SET a = 5"),
    "An XA transaction has changed": (
        "XA START 'x'",
        "INSERT INTO account VALUES (9, 9, 'x')",
        "XA END 'x'",
        "XA PREPARE 'x'",
    ),
    "binlog_row_value_options was not empty": (
        "SET SESSION binlog_row_value_options = 'PARTIAL_JSON'",
        "UPDATE doc SET j = JSON_SET(j, '$.a', 2)",
    ),
}


@pytest.mark.parametrize("words", NOT_CARRIED)
def test_what_the_log_does_not_tell_stops_the_capture_by_name(bank: MySqlCaptured, words: str) -> None:
    bank.execute("CREATE TABLE doc (id INT PRIMARY KEY, j JSON)")
    bank.execute("INSERT INTO doc VALUES (1, CONCAT('{\"a\": 1, \"b\": \"', REPEAT('x', 2000), '\"}'))")
    bank.ensure(bank.with_tables("account", "doc"))
    bank.execute("INSERT INTO account VALUES (1, 1, 'x')")
    with undecided(bank):
        bank.execute(*NOT_CARRIED[words])
        bank.wait_until_failed()
        with pytest.raises(TerminalError, match=words) as raised:
            bank.ensure(bank.with_tables("account", "doc"))
        assert "onboard the syncs of this source again" in raised.value.hint


@contextmanager
def undecided(bank: MySqlCaptured) -> Iterator[None]:
    try:
        yield
    finally:
        with suppress(pymysql.err.MySQLError):
            bank.execute("XA ROLLBACK 'x'")
