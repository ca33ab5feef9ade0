"""Drain of a filled log against Debezium's own JDBC sink, from the same events: its modes in turn, then rounds of the
fastest, whose median counts. Into PostgreSQL, or into MariaDB.

The records of the span loop's log are copied, byte for byte, to a topic per table, for the sink takes the schema of one
table from its settings (`schema.content`; else each record would carry it). A worker of its own runs a connector per
table, side by side: upserts by key, inserts where there is no key. Not among its modes is UNNEST, which binds neither a
DATE nor a DATETIME(6) (3.6.0.Final). All results must be equal to each other and to the source. Goals: at least 3 times
as fast into PostgreSQL, 2 times into MariaDB.

A backlog of half an hour at 1,000 changes a second, so that the first read and the last commit of the span loop, beside
which nothing else runs, weigh little. The capture is stopped meanwhile: where source and destination are one server, it
would read what either side writes.

On the servers of the local stack: `./seamline exec python -m bench.jdbc_sink`, and the same with `--into mariadb`.
"""

import argparse
import dataclasses
import json
import statistics
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import confluent_kafka
import orjson
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

from bench.stream import CREATE, TABLES, drained_by_span_loop, fill, published_empty, require_equal, wait_for
from bench.warehouses import Ask, Rows, Warehouse, mariadb_warehouse, postgres_warehouse
from seamline import settings
from seamline.adapters.connect.rest import ConnectClient
from seamline.adapters.connections import resolve
from seamline.adapters.kafka.client import admin_client, client_settings
from seamline.plan.model import TablePlan
from seamline.ports import Marker
from seamline.stack import jars
from seamline.stack.layout import Layout
from tests.checkout import day_and_commit
from tests.integration.captured import Captured, captured
from tests.integration.connect_worker import connect_worker

NAME = "bench_sink"
DRAIN_MAX_S = 600.0
_BATCH = {"batch.size": "10000"}
_BUFFER = {"use.reduction.buffer": "true"}


@dataclasses.dataclass(frozen=True, slots=True)
class Mode:
    """`keyed`: the connector's settings for a table with a key; one without takes only the batch size. `url`: the
    driver's options, `keyless_url` where there is no key."""

    keyed: Mapping[str, str]
    url: str
    keyless_url: str


@dataclasses.dataclass(frozen=True, slots=True)
class Into:
    """`url`: of the driver, with a place for host and port, database and options of a mode."""

    goal: float
    url: str
    modes: Mapping[str, Mode]


# The log holds decimals as texts: the server is to read them. That the driver makes one statement of a batch needs the
# buffer: an upsert fails where two of its rows are of one key.
_PLAIN, _REWRITTEN = (f"stringtype=unspecified&reWriteBatchedInserts={word}" for word in ("false", "true"))
# One statement of many rows as text, or the server's own bulk protocol. Either takes rows of one key one by one.
_ONE_TEXT, _BULK = "rewriteBatchedStatements=true", "useBulkStmts=true"
INTO: Mapping[str, Into] = {
    "postgres": Into(
        3.0,
        "jdbc:postgresql://{server}/{database}?{options}",
        {
            "as documented": Mode({"batch.size": "500"}, _PLAIN, _REWRITTEN),
            "batches of 10,000": Mode(_BATCH, _PLAIN, _REWRITTEN),
            "reduction buffer": Mode(_BATCH | _BUFFER, _REWRITTEN, _REWRITTEN),
        },
    ),
    "mariadb": Into(
        2.0,
        "jdbc:mariadb://{server}/{database}?timezone=UTC&{options}",
        {
            "as documented": Mode({"batch.size": "500"}, "", ""),
            "batches of 10,000, one statement each": Mode(_BATCH, _ONE_TEXT, _ONE_TEXT),
            "reduction buffer, one statement each": Mode(_BATCH | _BUFFER, _ONE_TEXT, _ONE_TEXT),
            "reduction buffer, bulk protocol": Mode(_BATCH | _BUFFER, _BULK, _BULK),
        },
    ),
}
_READS = {
    "consumer.override.max.poll.records": _BATCH["batch.size"],
    "consumer.override.max.partition.fetch.bytes": str(16 * 1024 * 1024),
    "consumer.override.fetch.max.bytes": str(64 * 1024 * 1024),
    "consumer.override.isolation.level": "read_committed",
}
# Debezium's types of the columns, as the connector's settings of a capture make them.
_TYPES: Mapping[str, tuple[str, str]] = {
    # Of `entry` it is a BIGINT, of which the bench needs no more than 32 bits.
    **dict.fromkeys(("id", "account_id"), ("int32", "")),
    **dict.fromkeys(("currency", "memo", "amount", "actor", "action"), ("string", "")),
    "version": ("int64", ""),
    **dict.fromkeys(("updated_at", "booked_at"), ("string", "io.debezium.time.ZonedTimestamp")),
    "value_date": ("int32", "io.debezium.time.Date"),
    "at": ("int64", "io.debezium.time.MicroTimestamp"),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--into", choices=tuple(INTO), default="postgres")
    parser.add_argument("--changes", type=int, default=1_800_000)
    parser.add_argument(
        "--rounds", type=int, default=3, help="of its fastest mode; its drain in the search is one of them"
    )
    chosen = parser.parse_args()
    # Its databases lie beside the source's, in one server.
    opened = mariadb_warehouse(f"{NAME}_into") if chosen.into == "mariadb" else postgres_warehouse(NAME)
    with captured(NAME) as bank, opened as warehouse:
        bank.execute(*CREATE)
        bank.ensure(dataclasses.replace(bank.plan, tables=tuple(TablePlan(name) for name in TABLES)))
        return drain_against_sink(bank, warehouse, INTO[chosen.into], changes=chosen.changes, rounds=chosen.rounds)


def drain_against_sink(bank: Captured, warehouse: Warehouse, into: Into, *, changes: int, rounds: int) -> int:
    modes = tuple(into.modes)
    plans = published_empty(bank, warehouse, len(modes) + rounds - 1)
    start = bank.topics.end_offset()
    written = fill(bank, changes)
    last = Marker(f"barrier-{uuid.uuid4().hex}", "barrier")
    bank.source.commit_marker(last)
    wait_for(bank, last, start)
    bank.connector.stop()
    with topics_per_table(bank, start) as topics, sink_worker() as client:
        ours: list[float] = []
        theirs: dict[str, list[float]] = {mode: [] for mode in modes}
        for number, plan in enumerate(plans):
            mode = modes[number] if number < len(modes) else fastest(theirs)
            ours.append(drained_by_span_loop(plan, warehouse, last))
            live, schema = plan.destinations[0].namespace, warehouse.peer_schema(str(number))
            warehouse.make_like(plan, schema)
            sink = JdbcSink(client, warehouse, schema, into.url, into.modes[mode])
            theirs[mode].append(sink.drain({table.name: table for table in plan.tables}, topics, like=live))
            require_equal(bank, warehouse, live, schema)
            print(f"span loop {ours[-1]:6.2f} s  JDBC sink, {mode}: {theirs[mode][-1]:6.2f} s", flush=True)
    return report(written, ours, theirs, goal=into.goal)


def report(written: int, ours: Sequence[float], theirs: Mapping[str, Sequence[float]], *, goal: float) -> int:
    best = fastest(theirs)
    mine, peer = statistics.median(ours), statistics.median(theirs[best])
    ratio = peer / mine
    print(f"{written:,} changes; all results equal to each other and to the source; medians")
    print(f"span loop {mine:6.2f} s  {written / mine:10,.0f} changes/s")
    print(f"JDBC sink {peer:6.2f} s  {written / peer:10,.0f} changes/s ({best})")
    print(f"ratio {ratio:.1f}×  (goal ≥ {goal:g}×)")
    return 0 if ratio >= goal else 1


def fastest(times: Mapping[str, Sequence[float]]) -> str:
    return min(times, key=lambda mode: statistics.median(times[mode]))


# ---- the same events, by table --------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Copied:
    topic: str
    events: int


@contextmanager
def topics_per_table(bank: Captured, start: int) -> Iterator[Mapping[str, Copied]]:
    """Table → the topic that holds its records from `start` on."""
    kafka, prefix = client_settings(resolve("kafka")), f"peer-{uuid.uuid4().hex[:8]}"
    names = {table: f"{prefix}.{table}" for table in TABLES}
    admin = admin_client(kafka)
    for created in admin.create_topics([NewTopic(name, 1, 1) for name in names.values()]).values():
        created.result()
    try:
        counts = copy_records(kafka, bank, start, names)
        yield {table: Copied(name, counts[table]) for table, name in names.items()}
    finally:
        for name in names.values():
            bank.kafka.delete(name)


def copy_records(kafka: Mapping[str, object], bank: Captured, start: int, names: Mapping[str, str]) -> dict[str, int]:
    counts, refused = dict.fromkeys(names, 0), []
    reads = {"group.id": NAME, "isolation.level": "read_committed", "enable.partition.eof": True}
    consumer = confluent_kafka.Consumer({**kafka, **reads})
    producer = confluent_kafka.Producer({**kafka, "compression.type": "lz4", "linger.ms": 50})
    with closing(consumer):
        consumer.assign([confluent_kafka.TopicPartition(bank.plan.source.log_topic, 0, start)])
        is_at_end = False
        while not is_at_end:
            for message in consumer.consume(10_000, 1.0):
                error = message.error()
                is_at_end = error is not None and error.code() == confluent_kafka.KafkaError._PARTITION_EOF
                if is_at_end:
                    break
                assert error is None, error
                table = ((orjson.loads(message.value() or b"{}").get("source")) or {}).get("table")
                if table in counts:
                    producer.produce(
                        names[table],
                        message.value(),
                        message.key(),
                        on_delivery=lambda error, _: refused.append(error) if error else None,
                    )
                    counts[table] += 1
                producer.poll(0)
    assert producer.flush(60) == 0
    assert not refused, refused[0]
    return counts


# ---- the sink -------------------------------------------------------------------------------------------------------


class JdbcSink:
    """A connector for each table, into tables of their names in one schema."""

    def __init__(self, client: ConnectClient, warehouse: Warehouse, schema: str, url: str, mode: Mode) -> None:
        self._client = client
        self._warehouse = warehouse
        self._schema = schema
        self._url = url
        self._mode = mode

    def drain(self, tables: Mapping[str, TablePlan], topics: Mapping[str, Copied], *, like: str) -> float:
        """Seconds from the moment all connectors run to the last record that they have applied. `like`: the schema of
        what the span loop has brought."""
        names = {f"peer-{self._schema}-{table}": table for table in tables}
        for name, table in names.items():
            self._client.create_stopped(name, self._settings(tables[table], topics[table].topic))
        try:
            with self._warehouse.asking() as ask:
                wanted = list(_brought(ask, like))
                for name in names:
                    self._client.resume(name)
                for name in names:
                    self._client.wait_for(name, lambda status: status.is_running, what="to run", timeout_s=120)
                began = time.perf_counter()
                while not self._has(ask, wanted):
                    assert time.perf_counter() - began < DRAIN_MAX_S, f"{self._mode}: not all events were applied"
                    statuses = (self._client.status(name) for name in names)
                    failed = [status.trace for status in statuses if status is not None and status.is_failed]
                    assert not failed, failed[0]
                    time.sleep(0.1)
                return time.perf_counter() - began
        finally:
            for name in names:
                self._client.delete(name)

    def _has(self, ask: Ask, wanted: Sequence[Rows]) -> bool:
        """Asks no further than it must: the sink has the same server to itself."""
        return all(found == brought for found, brought in zip(_brought(ask, self._schema), wanted, strict=True))

    def _settings(self, table: TablePlan, topic: str) -> dict[str, str]:
        key = {"insert.mode": "upsert", "primary.key.mode": "record_key", "delete.enabled": "true"}
        is_keyed, mode, at = table.definition.is_keyed, self._mode, self._warehouse.connection
        place, options = self._warehouse.jdbc_place(self._schema), mode.url if is_keyed else mode.keyless_url
        return {
            "connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector",
            "tasks.max": "1",
            "topics": topic,
            "connection.url": self._url.format(server=f"{at.host}:{at.port}", database=place.database, options=options),
            "connection.username": at.login,
            "connection.password": at.password,
            "collection.name.format": f"{place.prefix}{table.name}",
            "schema.evolution": "none",
            **(key if is_keyed else {"insert.mode": "insert", "primary.key.mode": "none"}),
            **(mode.keyed if is_keyed else {"batch.size": mode.keyed["batch.size"]}),
            **_READS,
            **_converter("key", _struct(table, "Key", table.definition.key)),
            **_converter("value", _envelope(table)),
        }


def _brought(ask: Ask, schema: str) -> Iterator[Rows]:
    """What only the last record of each table makes it say; the cheapest first."""
    for table, what in (("balance", "sum(version)"), ("entry", "max(id)"), ("access", "count(*)")):
        yield ask(f"SELECT {what} FROM {schema}.{table}")


def _converter(part: str, schema: Mapping[str, object]) -> dict[str, str]:
    return {
        f"{part}.converter": "org.apache.kafka.connect.json.JsonConverter",
        f"{part}.converter.schemas.enable": "true",
        f"{part}.converter.schema.content": json.dumps(schema),
    }


def _envelope(table: TablePlan) -> dict[str, object]:
    row = _struct(table, "Value", [column.name for column in table.definition.columns])
    return {
        "type": "struct",
        "name": f"{NAME}.{table.name}.Envelope",
        "fields": [
            {**row, "optional": True, "field": "before"},
            {**row, "optional": True, "field": "after"},
            {"type": "string", "optional": False, "field": "op"},
        ],
    }


def _struct(table: TablePlan, what: str, names: Sequence[str]) -> dict[str, object]:
    fields = []
    for column in (column for column in table.definition.columns if column.name in names):
        kind, logical = _TYPES[column.name]
        field = {"type": kind, "optional": column.nullable, "field": column.name}
        fields.append(field | ({"name": logical, "version": 1} if logical else {}))
    return {"type": "struct", "name": f"{NAME}.{table.name}.{what}", "fields": fields}


@contextmanager
def sink_worker() -> Iterator[ConnectClient]:
    here = settings.load()
    with tempfile.TemporaryDirectory() as folder:
        plugins = _plugin(Layout(here), Path(folder) / "plugins")
        # A name of its own: what a killed run has left in its topics would go on.
        name = f"peer-{uuid.uuid4().hex[:8]}"
        with connect_worker(here, resolve("kafka"), name=name, folder=Path(folder), plugins=plugins) as worker:
            yield ConnectClient(worker.connection)


def _plugin(layout: Layout, folder: Path) -> Path:
    """Debezium's JDBC sink, fetched when it is not there."""
    peers = [file for file in jars.read_lock(layout.settings.root / "jars" / "jars.lock") if jars.is_peer(file)]
    archives = layout.settings.env / "peers"
    jars.ensure(peers, archives, fetch=jars.ivy(layout, settings.process_environment()))
    (archive,) = [archives / file.path for file in peers]
    target = folder / "debezium-connector-jdbc"
    target.mkdir(parents=True)
    jars.untar(archive, target)
    return folder


if __name__ == "__main__":
    print(day_and_commit(), flush=True)
    raise SystemExit(main())
