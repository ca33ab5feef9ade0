"""The suite of every source over topics that somebody else writes, with their capture on real servers."""

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka import Producer

from seamline.adapters.connect.rest import ConnectClient
from seamline.adapters.kafka.client import client_settings
from seamline.adapters.kafka.lines import KafkaLines
from seamline.sources.kafka.layout import markers_topic
from tests.contract.source_suite import SOURCE_BEHAVIOURS, SourceBehaviour
from tests.contract.source_worlds import WEEK_S, Power, SourceWorld, logged_kind, rows_of_edges
from tests.integration.captured_topics import TopicsCaptured, captured_topics
from tests.integration.connect_worker import ConnectWorker
from tests.waiting import wait_until

KIND, NAME = "kafka", "source_suite_kafka"
_POWERS = {Power.LOG}
_LAST = datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
# Type of a column and pairs: how a message says a value, and what it is.
_EDGES: dict[str, list[tuple[Any, Any]]] = {
    "smallint": [(-(2**15), -(2**15)), (2**15 - 1, 2**15 - 1)],
    "bigint": [(2**63 - 1, 2**63 - 1), (-(2**63), -(2**63))],
    "unsigned": [(2**64 - 1, 2**64 - 1), (0, 0)],
    "decimal(65,30)": [("-0.000000000000000000000000000001", Decimal(-1).scaleb(-30)), (7, Decimal(7))],
    "float": [(0.10000000149011612, 0.10000000149011612), (3.4028234663852886e38, 3.4028234663852886e38)],
    "double": [(0.1, 0.1), (-1.7976931348623157e308, -1.7976931348623157e308), (5e-324, 5e-324)],
    "boolean": [(True, True), (0, False)],
    "char(5)": [("ab", "ab"), ("ü€😀 b", "ü€😀 b")],
    "text": [("", ""), ("余额\u0000\t\n\\N\" '", "余额\u0000\t\n\\N\" '"), ("NULL", "NULL")],
    "bytes": [("AP8=", b"\0\xff"), ("", b"")],
    "date": [("0001-01-01", date(1, 1, 1)), ("9999-12-31", date(9999, 12, 31))],
    "datetime": [("9999-12-31T23:59:59.999999", _LAST.replace(tzinfo=None))],
    "instant": [
        ("9999-12-31T23:59:59.999999Z", _LAST),
        ("2026-01-01T00:00:00.000001+08:00", datetime(2025, 12, 31, 16, 0, 0, 1, tzinfo=UTC)),
    ],
    "time": [("23:59:59.999999", timedelta(days=1) - timedelta(microseconds=1)), ("00:00:00", timedelta(0))],
    "uuid": [(str(UUID(int=2**128 - 1)), UUID(int=2**128 - 1))],
}


def _table(name: str, columns: dict[str, str], key: tuple[str, ...] = ()) -> dict[str, Any]:
    declared = [{"name": column, "type": of} for column, of in columns.items()]
    return {"table": name, "topic": f"source-suite.{name}", "format": "json", "key": list(key), "columns": declared}


TABLES = (
    _table("account", {"id": "integer", "balance": "integer"}, ("id",)),
    _table("audit", {"account": "integer", "amount": "integer"}),
    _table("kinds", {"id": "integer", **{f"c{number}": of for number, of in enumerate(_EDGES)}}, ("id",)),
)


class TopicSourceWorld:
    """A message is of one table, so that a transaction of two topics has no one place at which all of it came."""

    business_date = None

    def __init__(self, captured: TopicsCaptured) -> None:
        self.kind = logged_kind(KIND)
        self.plan = captured.source_plan
        self._captured = captured
        self._balance = 0
        captured.ensure()
        # Whoever sets up a capture writes a marker of its own.
        self._first_marker = self._lines.end()
        names = [column["name"] for column in TABLES[-1]["columns"]]
        rows = [dict(zip(names, row, strict=True)) for row in self._rows(0)]
        self._write(("account", {"id": 1, "balance": 0}), *(("kinds", row) for row in rows))

    def transfer(self, amount: int) -> None:
        self._balance += amount
        self._write(("account", {"id": 1, "balance": self._balance}), ("audit", {"account": 1, "amount": amount}))

    def _write(self, *messages: tuple[str, dict[str, Any]]) -> None:
        producer = self._captured.producer()
        for table, row in messages:
            producer.produce(f"source-suite.{table}", json.dumps(row), str(row.get("id", "")) or None)
        assert producer.flush(60) == 0
        source = self._captured.source
        source.newest_of_all(source.catalogue([str(one["table"]) for one in TABLES]))

    def task_pool(self) -> Executor:
        return ThreadPoolExecutor(1)

    def values(self) -> Sequence[tuple[Any, ...]]:
        return self._rows(1)

    def _rows(self, side: int) -> list[tuple[Any, ...]]:
        return rows_of_edges([[edge[side] for edge in edges] for edges in _EDGES.values()])

    def images(self) -> Sequence[bytes]:
        found: list[bytes] = []
        with closing(self._captured.open_log()) as reader:
            reader.assign(self._captured.kafka.offsets(self.plan.log_topic)[0])

            def all_are_there() -> bool:
                rows = (row for record in reader.poll(1.0, 1_000) for row in record.rows)
                found.extend(row.after for row in rows if row.table == "kinds" and row.after is not None)
                return len(found) >= len(self.values())

            wait_until(all_are_there, timeout_s=60, what="the rows in the log")
        return found

    def markers(self) -> list[tuple[str, str]]:
        """A marker that is written again is the same one."""
        rows = map(json.loads, self._newest_markers().values())
        return sorted((row["id"], row["payload"]) for row in rows)

    def _newest_markers(self) -> dict[str, str]:
        lines = self._lines.read(self._lines.end(), since=self._first_marker)
        return {json.loads(text)["id"]: text for _, text in lines}

    def age_markers(self) -> None:
        lines, topic = self._lines, markers_topic(self.plan)
        old = self._newest_markers()
        self._wait_for_capture(lines.end())
        self._captured.kafka.prune(topic, below=lines.end())
        producer = Producer(client_settings(self._captured.root))
        aged = datetime.now(UTC) - timedelta(seconds=WEEK_S + 86_400)
        for text in old.values():
            producer.produce(topic, text.encode(), timestamp=int(aged.timestamp() * 1000))
        assert producer.flush(60) == 0
        self._wait_for_capture(lines.end())

    @property
    def _lines(self) -> KafkaLines:
        return KafkaLines(markers_topic(self.plan))

    def _wait_for_capture(self, end: int) -> None:
        wait_until(partial(self._has_come_to, end), timeout_s=60, what="the markers in the log")

    def _has_come_to(self, end: int) -> bool:
        return self._captured.source.newest().topics[markers_topic(self.plan)].ends[0] >= end


@pytest.fixture(scope="module")
def source_world(killed_at_will: ConnectWorker) -> Iterator[SourceWorld]:
    if not killed_at_will.is_running:
        killed_at_will.start()
    with captured_topics(NAME, TABLES, client=ConnectClient(killed_at_will.connection)) as captured:
        yield TopicSourceWorld(captured)


KEPT = [behaviour for behaviour, power in SOURCE_BEHAVIOURS.items() if power is None or power in _POWERS]


@pytest.mark.parametrize("behaviour", KEPT, ids=lambda behaviour: behaviour.__name__)
def test_topics_of_others_keep_the_contract_of_every_source(
    behaviour: SourceBehaviour, source_world: SourceWorld
) -> None:
    behaviour(source_world)
