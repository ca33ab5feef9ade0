"""The fold of a topic's messages: rows that have one order, or nothing."""

import json
import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from seamline.adapters.kafka.committed import committed
from seamline.adapters.kafka.topics import TopicFacts
from seamline.domain.errors import Refused
from seamline.sources.kafka import state
from seamline.sources.kafka.layout import layout_of
from seamline.sources.kafka.position import KafkaPosition, TopicPlace
from seamline.sources.kafka.state import TopicStates
from tests.memory_topics import Cluster
from tests.unit.test_kafka_source import RATE, declared

PARTITIONS = 2


class Topics:
    def __init__(self, _: object) -> None: ...

    def facts(self, topic: str) -> TopicFacts:
        return TopicFacts(topic, "id", PARTITIONS, {"cleanup.policy": "delete"})


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.setattr(state, "CaptureTopics", Topics)
    made = Cluster(random.Random(1), partitions=PARTITIONS)
    with made.in_place():
        yield made


def write(cluster: Cluster, partition: int, key: str, rate: int | None) -> None:
    value = None if rate is None else json.dumps({"currency": key, "rate": rate}).encode()
    cluster.append(("rate", partition), (json.dumps({"currency": key}).encode(), value, []), None)


def folded(cluster: Cluster) -> Sequence[dict[str, Any]]:
    layout = layout_of(declared(RATE))
    ends = tuple(len(cluster.log(("rate", number))) for number in range(PARTITIONS))
    states = TopicStates({}, layout, "others", KafkaPosition({"rate": TopicPlace("id", ends)}))
    try:
        return [row for rows in states.batches(layout.tables[0].definition) for row in rows.to_pylist()]
    finally:
        states.close()


def test_rows_of_several_partitions_are_folded_where_each_key_lies_in_one(cluster: Cluster) -> None:
    for partition, key, rate in ((0, "EUR", 1), (0, "EUR", 2), (1, "USD", 3), (1, "CNY", 4), (1, "CNY", None)):
        write(cluster, partition, key, rate)
    assert sorted((row["currency"], int(row["rate"])) for row in folded(cluster)) == [("EUR", 2), ("USD", 3)]


@pytest.mark.parametrize("last", [2, None])
@pytest.mark.parametrize("is_read_at_once", [True, False])
def test_a_key_that_lies_in_two_partitions_has_no_newest_message(
    cluster: Cluster, last: int | None, is_read_at_once: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where partitions were added: whichever is read last, the fold would take it for the newest."""
    write(cluster, 0, "EUR", 1)
    write(cluster, 1, "EUR", last)
    if not is_read_at_once:
        monkeypatch.setattr(state, "committed", lambda *given: ([one] for some in committed(*given) for one in some))
    with pytest.raises(
        Refused, match=r'topic rate holds the key \{"currency":"EUR"\} in partitions 0 and 1'
    ) as stopped:
        folded(cluster)
    assert "another name" in stopped.value.hint
