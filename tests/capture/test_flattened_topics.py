"""Rows that Debezium's own transform has flattened, from its connector through its topics into a destination."""

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest

from seamline.adapters.connect.rest import ConnectClient
from seamline.adapters.connections import Connection, resolve
from seamline.domain.errors import LogCorrupted
from tests.integration.captured_topics import TopicsCaptured, captured_topics
from tests.integration.connect_worker import ConnectWorker
from tests.integration.databases import postgres, postgres_database
from tests.integration.streamed import Streamed, streamed
from tests.waiting import wait_until

# `delete.tombstone.handling.mode`, and whether its keys hold a schema. With `drop` nobody says that a row goes.
MODES = {"rewrite": True, "rewrite-with-tombstone": False, "tombstone": True, "delete-to-tombstone": False}
CREATE = (
    "CREATE TABLE account (id bigint PRIMARY KEY, amount numeric(18,2), opened date, at timestamp(3), moment timestamp,"
    " seen timestamptz, hour time, ratio double precision, part real, is_open boolean NOT NULL, code uuid, raw bytea,"
    " memo text)",
    # It lies outside of its row, so the log leaves it out of an update that does not touch it.
    "ALTER TABLE account ALTER memo SET STORAGE EXTERNAL",
)
ROW = (
    "'-0.07', '2024-02-29', '2024-02-29 01:02:03.004', '1969-12-31 23:59:59.999999', '2026-01-01 00:00:00.000001+08',"
    " '23:59:59.999999', 0.1, 0.1, true, '6f9619ff-8b86-d011-b42d-00cf4fc964ff', '\\x00ff', '余额'"
)
LONG = "repeat('x', 9000)"
BEFORE = (
    f"INSERT INTO account SELECT n, {ROW} FROM generate_series(1, 20) n",
    "INSERT INTO account (id, is_open) VALUES (21, false)",
)
CHANGES = (
    f"INSERT INTO account SELECT n, {ROW} FROM generate_series(101, 140) n",
    "INSERT INTO account (id, is_open) VALUES (141, true)",
    f"INSERT INTO account (id, is_open, memo) VALUES (142, true, {LONG})",
    "UPDATE account SET amount = amount * id, part = 1e30, ratio = 5e-324 WHERE id < 10",
    "UPDATE account SET amount = NULL, opened = NULL, at = NULL, seen = NULL, memo = NULL WHERE id IN (11, 111)",
    "UPDATE account SET id = id + 1000 WHERE id IN (12, 112)",
    "DELETE FROM account WHERE id IN (5, 6, 105, 106, 1012)",
    f"INSERT INTO account VALUES (6, {ROW})",
)
ROWS = (
    "SELECT id, amount, opened::text, at::text, moment::text, seen::text, hour::text, ratio, part, is_open, code::text,"
    " raw, memo FROM {} ORDER BY id"
)
COLUMNS = (
    {"name": "id", "type": "bigint"},
    {"name": "amount", "type": "decimal(18,2)", "form": "base64"},
    {"name": "opened", "type": "date", "form": "days"},
    {"name": "at", "type": "datetime(3)", "form": "ms"},
    {"name": "moment", "type": "datetime", "form": "us"},
    {"name": "seen", "type": "instant"},
    {"name": "hour", "type": "time", "form": "us"},
    {"name": "ratio", "type": "double"},
    {"name": "part", "type": "float"},
    {"name": "is_open", "type": "boolean", "nullable": False},
    {"name": "code", "type": "uuid"},
    {"name": "raw", "type": "bytes"},
    {"name": "memo", "type": "text"},
)


def table_of(mode: str) -> Mapping[str, Any]:
    named = {"table": mode.replace("-", "_"), "topic": f"flat-{mode}.public.account"}
    return {**named, "format": "json", "key": ["id"], "columns": COLUMNS}


TABLES = {str(table["table"]): table for table in map(table_of, MODES)}


@dataclass
class Bank:
    """A database with a connector of Debezium's for each mode."""

    root: Connection

    def execute(self, *statements: str) -> None:
        with closing(postgres(self.root)) as session:
            for statement in statements:
                session.execute(statement.encode())

    def rows(self) -> list[tuple[Any, ...]]:
        with closing(postgres(self.root)) as session:
            return list(session.execute(ROWS.format("account").encode()).fetchall())

    def slots(self, state: str) -> int:
        with closing(postgres(self.root)) as session:
            query = f"SELECT count(*) FROM pg_replication_slots WHERE slot_name LIKE 'flat_%' AND {state}"
            row = session.execute(query.encode()).fetchone()
        return int(row[0]) if row else 0


def connector(worker: ConnectWorker, root: Connection, mode: str) -> dict[str, str]:
    slot = f"flat_{mode.replace('-', '_')}"
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "tasks.max": "1",
        "database.hostname": root.host,
        "database.port": str(root.port),
        "database.user": root.login,
        "database.password": f"${{file:{worker.secrets_file}:flat.password}}",
        "database.dbname": root.database,
        "topic.prefix": f"flat-{mode}",
        "table.include.list": "public.account",
        "plugin.name": "pgoutput",
        "slot.name": slot,
        "slot.drop.on.stop": "true",
        "publication.name": slot,
        "publication.autocreate.mode": "filtered",
        "transforms": "flat",
        "transforms.flat.type": "io.debezium.transforms.ExtractNewRecordState",
        "transforms.flat.delete.tombstone.handling.mode": mode,
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "key.converter.schemas.enable": str(MODES[mode]).lower(),
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
    }


@contextmanager
def flattened(worker: ConnectWorker) -> Iterator[Bank]:
    """Its rows are in the topics of every mode, and its changes follow them."""
    client = ConnectClient(worker.connection)
    with postgres_database("flat_test"):
        bank = Bank(replace(resolve("postgres_root"), database="flat_test"))
        bank.execute(*CREATE, *BEFORE)
        worker.write_secrets({"flat.password": bank.root.password})
        try:
            for mode in MODES:
                client.put_config(f"flat-{mode}", connector(worker, bank.root, mode))
            wait_until(lambda: bank.slots("active") == len(MODES), timeout_s=120, what="the connectors to stream")
            yield bank
        finally:
            for mode in MODES:
                client.delete(f"flat-{mode}")
            wait_until(lambda: bank.slots("NOT active") + bank.slots("active") == 0, timeout_s=60, what="no slot")


@pytest.fixture
def topics(worker: ConnectWorker) -> Iterator[TopicsCaptured]:
    with captured_topics("flat_test", tuple(TABLES.values()), client=ConnectClient(worker.connection)) as one:
        yield one


def wait_until_the_same(stream: Streamed, bank: Bank) -> None:
    wanted = bank.rows()

    def is_same() -> bool:
        if stream.error is not None:
            raise stream.error
        return all(stream.query(ROWS.format(f"live.{table}")) == wanted for table in TABLES)

    wait_until(is_same, timeout_s=90, what="the rows of the database in each table")


def test_rows_that_debezium_has_flattened_come_change_and_go_in_every_mode_that_says_so(
    topics: TopicsCaptured, worker: ConnectWorker
) -> None:
    """Snapshot, inserts, updates, NULL, keys that change and come again, deletes; then an update of which the log
    has not all values, which stops the stream."""
    with (
        postgres_database("flat_warehouse") as warehouse,
        streamed(topics, warehouse, *TABLES) as stream,
        flattened(worker) as bank,
    ):
        stream.start()
        bank.execute(*CHANGES)
        wait_until_the_same(stream, bank)
        assert stream.differences(*TABLES) == {}
        assert len(bank.rows()) == 59
        bank.execute("UPDATE account SET is_open = false WHERE id = 142")
        wait_until(lambda: stream.error is not None, timeout_s=60, what="the stream to stop")
        assert isinstance(stream.error, LogCorrupted)
        assert "its writer left the value of memo out" in str(stream.error)
