"""Debezium's JDBC sink as a peer of the drain: the same transactions, in its own topics, written by its own modes.

A worker of its own holds Debezium's plain connector for MariaDB, which fills one topic per table with records that
carry their schemas (the sink takes no others), and the sink's two connectors of one task each: upserts by key, and
inserts where there is no key.
"""

import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg

from seamline import settings
from seamline.adapters.connect.rest import ConnectClient
from seamline.adapters.connections import Connection, resolve
from seamline.ports import Marker
from seamline.stack import jars
from seamline.stack.layout import Layout
from tests.integration.captured import Captured
from tests.integration.connect_worker import connect_worker
from tests.integration.databases import postgres
from tests.waiting import wait_until

Session = psycopg.Connection[tuple[object, ...]]
_SOURCE = "peer-source"
_BATCH = "10000"
MODES: Mapping[str, Mapping[str, str]] = {
    "as documented": {"batch.size": "500"},
    "batches of 10,000": {"batch.size": _BATCH},
    "UNNEST": {"batch.size": _BATCH, "dialect.postgres.unnest.insert.enabled": "true"},
    "reduction buffer": {"batch.size": _BATCH, "use.reduction.buffer": "true"},
    "reduction buffer, UNNEST": {
        "batch.size": _BATCH,
        "use.reduction.buffer": "true",
        "dialect.postgres.unnest.insert.enabled": "true",
    },
}
_READS = {
    "consumer.override.max.poll.records": _BATCH,
    "consumer.override.max.partition.fetch.bytes": str(16 * 1024 * 1024),
    "consumer.override.fetch.max.bytes": str(64 * 1024 * 1024),
}
_JSON = {
    f"{part}.converter{setting}": value
    for part in ("key", "value")
    for setting, value in (("", "org.apache.kafka.connect.json.JsonConverter"), (".schemas.enable", "true"))
}


class JdbcSink:
    """A filled log of `tables` (name → its key, empty where it has none), and the sink that drains it."""

    def __init__(self, bank: Captured, client: ConnectClient, tables: Mapping[str, Sequence[str]]) -> None:
        self._bank = bank
        self._client = client
        self._tables = tables
        # Topics of an earlier run stay out of it.
        self._prefix = f"peer-{uuid.uuid4().hex[:8]}"

    def begin(self) -> None:
        """Capture from now on; returns when a marker came through."""
        self._client.create_stopped(_SOURCE, self._source())
        self._client.resume(_SOURCE)
        self._client.wait_for(_SOURCE, lambda status: status.is_running, what="to run", timeout_s=120)
        wait_until(self._marked, timeout_s=120, what="the peer's capture")

    def end(self, changes: int) -> None:
        """Stop the capture once this many changes lie in the topics of its tables."""
        wait_until(lambda: self._captured() == changes, timeout_s=900, what="the peer's topics to be full")
        self._client.stop(_SOURCE)

    def drain(self, warehouse: Connection, schema: str, mode: str, *, last_entry: int, accesses: int) -> float:
        """Seconds from the moment both sinks run to the last row there."""
        names = [f"peer-sink-{schema}-{kind}" for kind in ("keyed", "keyless")]
        for name in names:
            self._client.create_stopped(name, self._sink(warehouse, schema, mode, is_keyed=name.endswith("keyed")))
        try:
            for name in names:
                self._client.resume(name)
            for name in names:
                self._client.wait_for(name, lambda status: status.is_running, what="to run", timeout_s=120)
            began = time.perf_counter()
            with postgres(warehouse) as session:
                self._wait_for(session, f"SELECT max(id) FROM {schema}.entry", last_entry, names)
                self._wait_for(session, f"SELECT count(*) FROM {schema}.access", accesses, names)
            return time.perf_counter() - began
        finally:
            for name in names:
                self._client.delete(name)

    def _wait_for(self, session: Session, statement: str, wanted: int, names: Sequence[str]) -> None:
        while session.execute(statement.encode()).fetchone() != (wanted,):
            failed = [status.trace for name in names if (status := self._client.status(name)) and status.is_failed]
            assert not failed, failed
            time.sleep(0.1)

    def _topic(self, table: str) -> str:
        return f"{self._prefix}.{self._bank.source_plan.database}.{table}"

    def _captured(self) -> int:
        return sum(self._bank.kafka.offsets(self._topic(table))[1] for table in self._tables)

    def _marked(self) -> bool:
        self._bank.source.commit_marker(Marker(f"peer-{uuid.uuid4().hex}", "heartbeat"))
        topic = self._topic(self._bank.source_plan.marker_table)
        return bool(self._bank.kafka.topic_id(topic)) and self._bank.kafka.offsets(topic)[1] > 0

    def _source(self) -> dict[str, str]:
        """Ours as far as it says what to read, in Debezium's own class and its usual form."""
        ours = self._bank.client.config(self._bank.connector.name) or {}
        root = self._bank.root
        wanted = ("table.include.list", "database.include.list", "database.hostname", "database.port")
        return {
            **{name: ours[name] for name in wanted},
            "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
            "tasks.max": "1",
            "topic.prefix": self._prefix,
            "database.user": root.login,
            "database.password": root.password,
            "database.ssl.mode": "disable",
            "database.server.id": "7654321",
            "topic.creation.default.partitions": "1",
            "topic.creation.default.replication.factor": "1",
            "snapshot.mode": "no_data",
            "snapshot.locking.mode": "none",
            "schema.history.internal.kafka.topic": f"{self._prefix}.history",
            "schema.history.internal.kafka.bootstrap.servers": str(
                ours["schema.history.internal.kafka.bootstrap.servers"]
            ),
            **_JSON,
        }

    def _sink(self, warehouse: Connection, schema: str, mode: str, *, is_keyed: bool) -> dict[str, str]:
        tables = [table for table, key in self._tables.items() if bool(key) is is_keyed]
        keyed = {"insert.mode": "upsert", "primary.key.mode": "record_key", "delete.enabled": "true"}
        return {
            "connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector",
            "tasks.max": "1",
            "topics": ",".join(self._topic(table) for table in tables),
            "connection.url": f"jdbc:postgresql://{warehouse.host}:{warehouse.port}/{warehouse.database}"
            f"?currentSchema={schema}&reWriteBatchedInserts=true",
            "connection.username": warehouse.login,
            "connection.password": warehouse.password,
            "collection.name.format": "${source.table}",
            "schema.evolution": "none",
            **(keyed if is_keyed else {"insert.mode": "insert", "primary.key.mode": "none"}),
            **(
                MODES[mode]
                if is_keyed
                else {name: value for name, value in MODES[mode].items() if "buffer" not in name}
            ),
            **_READS,
            **_JSON,
        }


@contextmanager
def jdbc_sink(bank: Captured, tables: Mapping[str, Sequence[str]]) -> Iterator[JdbcSink]:
    here = settings.load()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        plugins = _plugins(Layout(here), Path(folder) / "plugins")
        worker = stack.enter_context(
            connect_worker(here, resolve("kafka"), name="peer", folder=Path(folder), plugins=plugins)
        )
        yield JdbcSink(bank, ConnectClient(worker.connection), tables)


def _plugins(layout: Layout, folder: Path) -> Path:
    """Debezium's plain MariaDB connector and its JDBC sink, the latter fetched when it is not there."""
    locked = jars.read_lock(layout.settings.root / "jars" / "jars.lock")
    peers = [file for file in locked if file.configuration == jars.PEER]
    archives = layout.settings.env / "peers"
    jars.ensure(peers, archives, fetch=jars.ivy(layout, settings.process_environment()))
    sources = [file for file in locked if "connector-mariadb" in file.path]
    for archive in [*(archives / file.path for file in peers), *(layout.jars / file.path for file in sources)]:
        target = folder / archive.name.split("-plugin.tar.gz")[0]
        target.mkdir(parents=True)
        jars.untar(archive, target)
    return folder
