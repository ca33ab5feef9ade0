"""Topics of a test's own that somebody else writes, with their capture."""

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from seamline.adapters.connect.debezium_capture import capture_endpoint
from seamline.adapters.connect.rest import ConnectClient
from seamline.adapters.connections import resolve
from seamline.adapters.kafka.client import admin_client, client_settings
from seamline.adapters.kafka.topics import CaptureTopics
from seamline.plan.model import SourcePlan, SyncPlan, TablePlan
from seamline.sources.kafka.layout import markers_topic
from seamline.sources.kafka.source import KafkaSource
from seamline.sources.kafka.spec import KafkaSource as Declaration
from tests.integration.captured import Captured, forget
from tests.waiting import wait_until

ACCOUNT = {
    "table": "account",
    "topic": "topics-test.account",
    "format": "debezium",
    "key": ["id"],
    "columns": [
        {"name": "id", "type": "bigint"},
        {"name": "balance", "type": "decimal(18,2)"},
        {"name": "opened", "type": "date"},
        {"name": "memo", "type": "text"},
    ],
}
RATE = {
    "table": "rate",
    "topic": "topics-test.rate",
    "format": "json",
    "key": ["currency"],
    "columns": [
        {"name": "currency", "type": "char(3)"},
        {"name": "rate", "type": "decimal(30,12)"},
        {"name": "at", "type": "instant", "form": "ms"},
    ],
}
NOTE = {
    "table": "note",
    "topic": "topics-test.note",
    "format": "json",
    "columns": [{"name": "number", "type": "integer"}, {"name": "text", "type": "text"}],
}
TABLES = (ACCOUNT, RATE, NOTE)
# As Debezium's JsonConverter writes it beside each row.
_ROW_SCHEMA = [
    {"type": "int64", "field": "id"},
    {
        "type": "bytes",
        "name": "org.apache.kafka.connect.data.Decimal",
        "parameters": {"scale": "2", "connect.decimal.precision": "18"},
        "field": "balance",
    },
    {"type": "int32", "name": "io.debezium.time.Date", "field": "opened"},
    {"type": "string", "field": "memo"},
]
_SCHEMA = {
    "type": "struct",
    "fields": [{"type": "struct", "fields": _ROW_SCHEMA, "field": image} for image in ("before", "after")],
}


class TopicsCaptured(Captured):
    """`root` is the cluster's connection."""

    @property
    def source(self) -> KafkaSource:
        return KafkaSource(self.source_plan)

    def grant(self, plan: SyncPlan) -> None:
        """Nothing: the cluster has no authorizer."""

    def alter(self, topic: str, setting: str, value: str) -> None:
        entry = ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        admin = admin_client(client_settings(self.root))
        admin.incremental_alter_configs([resource])[resource].result()

    def add_partitions(self, topic: str) -> None:
        """One more than it has."""
        admin = admin_client(client_settings(self.root))
        admin.create_partitions([NewPartitions(topic, 4)])[topic].result()

    def delete(self, topic: str) -> None:
        self.kafka.delete(topic)
        wait_until(partial(_is_gone, self, topic), timeout_s=20, what=f"topic {topic} to be gone")

    def make_again(self, topic: str) -> None:
        self.delete(topic)
        _make(self, [topic])

    def producer(self, **more: object) -> Producer:
        return Producer({**client_settings(self.root), "acks": "all", **more})


class NoTasks:
    """`CopyTasks` that are read here."""

    def start(self, barrier: str) -> None:
        self.barrier = barrier

    def is_running(self) -> bool:
        return False

    def result(self) -> None:
        return None


def envelope(op: str, before: Sequence[Any] | None, after: Sequence[Any] | None) -> bytes:
    """A message about `account`, whose values are the id, the balance in hundredths, days since 1970, and the memo."""
    source = {"connector": "mysql", "name": "bank", "file": "binlog.000001", "pos": 4}
    payload = {"before": _row(before), "after": _row(after), "source": source, "op": op, "ts_ms": 1}
    return json.dumps({"schema": _SCHEMA, "payload": payload}).encode()


def key(number: int) -> bytes:
    schema = {"type": "struct", "fields": [{"type": "int64", "field": "id"}]}
    return json.dumps({"schema": schema, "payload": {"id": number}}).encode()


def _row(values: Sequence[Any] | None) -> Mapping[str, Any] | None:
    if values is None:
        return None
    number, hundredths, opened, memo = values
    unscaled = b64encode(hundredths.to_bytes(8, "big", signed=True)).decode()
    return {"id": number, "balance": unscaled, "opened": opened, "memo": memo}


@contextmanager
def captured_topics(
    name: str, tables: Sequence[Mapping[str, Any]] = TABLES, *, client: ConnectClient | None = None
) -> Iterator[TopicsCaptured]:
    """Empty topics of three partitions; nothing is captured yet."""
    one = _as_declared(name, tables, client=client)
    topics = sorted({str(table["topic"]) for table in tables})
    _forget(one, topics)
    _make(one, topics)
    try:
        yield one
    finally:
        _forget(one, topics)


@contextmanager
def captured_topics_of_others(
    name: str, tables: Sequence[Mapping[str, Any]], *, connection: str = "kafka", client: ConnectClient | None = None
) -> Iterator[TopicsCaptured]:
    """Topics that somebody else makes and takes away; nothing is captured yet. `connection`: of the login that reads
    them."""
    one = _as_declared(name, tables, connection=connection, client=client)
    _forget(one, ())
    try:
        yield one
    finally:
        _forget(one, ())


def _as_declared(
    name: str,
    tables: Sequence[Mapping[str, Any]],
    *,
    connection: str = "kafka",
    client: ConnectClient | None = None,
) -> TopicsCaptured:
    declared = Declaration.model_validate({"source": name, "kind": "kafka", "connection": connection, "tables": tables})
    source = SourcePlan(
        name=name,
        kind="kafka",
        database=name,
        reader=connection,
        capture=connection,
        marker=connection,
        log_topic=f"seamline.{name}.log",
        connector=f"seamline-{name}",
        **declared.plan_fields(),
    )
    plan = SyncPlan(f"{name}_sync", source, (), tuple(TablePlan(str(one["table"])) for one in tables))
    return TopicsCaptured(
        plan, resolve(connection), client or ConnectClient(resolve("connect")), capture_endpoint(source)
    )


def _make(one: TopicsCaptured, topics: Sequence[str]) -> None:
    made = admin_client(client_settings(one.root)).create_topics(
        [NewTopic(topic, num_partitions=3, replication_factor=1) for topic in topics]
    )
    for future in made.values():
        future.result()


def _forget(one: TopicsCaptured, topics: Sequence[str]) -> None:
    forget(one)
    for topic in (*topics, markers_topic(one.source_plan)):
        CaptureTopics(client_settings(one.root)).delete(topic)
        wait_until(partial(_is_gone, one, topic), timeout_s=20, what=f"topic {topic} to be gone")


def _is_gone(one: TopicsCaptured, topic: str) -> bool:
    return not one.kafka.topic_id(topic)
