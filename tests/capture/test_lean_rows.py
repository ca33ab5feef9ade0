"""What the log carries of a row, byte by byte: its images, its operation and where it stands."""

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from seamline.adapters.connections import resolve
from seamline.adapters.kafka.client import client_settings
from tests.conftest import RunningStack
from tests.integration.captured import Captured, captured, finish
from tests.integration.captured_postgres import captured_postgres
from tests.waiting import wait_until

OF_BINLOG = ["name", "ts_ms", "db", "table", "gtid", "file", "pos"]
OF_WAL = ["name", "ts_ms", "db", "schema", "table", "txId", "lsn"]


@pytest.fixture(params=["mariadb", "postgres"])
def bank(request: pytest.FixtureRequest, stack: RunningStack) -> Iterator[Captured]:
    assert stack
    with captured("lean_rows") if request.param == "mariadb" else captured_postgres("lean_rows") as one:
        yield one


def test_a_row_is_reported_with_what_a_stream_reads_and_with_nothing_else(bank: Captured) -> None:
    bank.ensure()
    start = bank.topics.end_offset()
    bank.execute(
        "INSERT INTO account (id, a, memo) VALUES (1, 1, 'x'), (2, 2, NULL)",
        "UPDATE account SET a = 5 WHERE id = 1",
        "UPDATE account SET id = 3 WHERE id = 2",
        "DELETE FROM account WHERE id = 3",
        "INSERT INTO audit (a, memo) VALUES (1, 'x')",
        "TRUNCATE TABLE audit",
        "INSERT INTO audit (a, memo) VALUES (2, 'y')",
    )
    logged = [value for value in values_of(bank, start, finish(bank)) if "op" in value]
    of_source = OF_BINLOG if bank.source_plan.kind == "mariadb" else OF_WAL
    assert {tuple(value) for value in logged} == {("before", "after", "source", "op")}
    assert {tuple(value["source"]) for value in logged} == {tuple(of_source)}
    assert [value["op"] for value in logged if value["source"]["table"] == "account"] == ["c", "c", "u", "d", "c", "d"]
    assert [value["op"] for value in logged if value["source"]["table"] == "audit"] == ["c", "t", "c"]


def test_the_rows_behind_an_alter_have_the_new_columns(bank: Captured) -> None:
    bank.ensure()
    start = bank.topics.end_offset()
    bank.execute(
        "INSERT INTO account (id, a, memo) VALUES (1, 1, 'x')",
        "ALTER TABLE account ADD COLUMN extra INT",
        "INSERT INTO account (id, a, memo, extra) VALUES (2, 2, 'y', 7)",
    )
    images = [value["after"] for value in values_of(bank, start, finish(bank)) if value.get("op") == "c"]
    assert [image for image in images if "memo" in image] == [
        {"id": 1, "a": 1, "memo": "x"},
        {"id": 2, "a": 2, "memo": "y", "extra": 7},
    ]


def values_of(one: Captured, start: int, marker: str) -> list[dict[str, Any]]:
    """All records from `start` up to this marker."""
    settings = {**client_settings(resolve("kafka")), "group.id": "seamline-test", "isolation.level": "read_committed"}
    found: list[dict[str, Any]] = []
    with closing(Consumer(settings)) as consumer:
        consumer.assign([TopicPartition(one.source_plan.log_topic, 0, start)])

        def is_there() -> bool:
            messages = consumer.consume(1_000, 0.5)
            found.extend(json.loads(message.value() or b"{}") for message in messages if message.error() is None)
            return any((value.get("after") or {}).get("id") == marker for value in found)

        wait_until(is_there, timeout_s=60, what="the last marker")
    return found
