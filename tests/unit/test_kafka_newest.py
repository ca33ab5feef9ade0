"""What the newest messages of a topic say against its declaration, before anything is set up; and what topics of ours
need to be read by a second sync."""

import json
import random
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from seamline.adapters.kafka.topics import TopicFacts, faults
from seamline.ports import Problem
from seamline.sinks.kafka import preflight
from seamline.sinks.kafka.options import JSON, KafkaOptions
from seamline.sinks.kafka.topics import rule_of
from seamline.sources.kafka import kept, newest
from seamline.sources.kafka.layout import layout_of
from tests.log_topic import ACCOUNT as OURS
from tests.memory_topics import Cluster
from tests.unit.test_kafka_source import ACCOUNT, NOTE, PRODUCTS, RATE, ROW, E, declared, envelope, maxwell

OPTIONS = KafkaOptions("t", JSON, 2, -1, 900)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster(random.Random(1), partitions=2)
    with made.in_place():
        yield made


def problems(*tables: Mapping[str, Any], topic: str = "rate", policy: str = "delete") -> list[Problem]:
    facts = TopicFacts(topic, "id", 2, {"cleanup.policy": policy})
    return list(newest.problems(layout_of(declared(*tables)), "others", facts, {}))


def write(cluster: Cluster, topic: str, value: object, *, key: str | None = None, partition: int = 1) -> None:
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    cluster.append((topic, partition), (None if key is None else key.encode(), text, []), None)


def test_columns_that_nobody_has_declared_are_named_with_place_and_cure_before_anything_is_set_up(
    cluster: Cluster,
) -> None:
    for number in range(30):
        write(cluster, "rate", {"currency": "EUR", "rate": number}, partition=0)
        write(cluster, "rate", {"currency": "USD", "rate": number, "by": "me"})
    (found,) = problems(NOTE, RATE)
    assert found.what == (
        "a message cannot be taken: topic rate, partition 1, offset 29: table rate has no column by (20 of the 40"
        " newest messages)"
    )
    assert (found.is_fatal, found.table, found.place) == (True, "rate", ("tables", 1))
    assert "Let sources/others.yaml say what the message holds (`columns`, `ignored`" in found.cure
    assert problems({**RATE, "ignored": ["by"]}) == []


def test_a_topic_without_a_message_is_no_mistake_and_is_said(cluster: Cluster) -> None:
    (found,) = problems(RATE)
    assert (found.is_fatal, "topic rate holds no message yet" in found.what) == (False, True)


@pytest.mark.parametrize(
    ("table", "value", "why"),
    [
        (RATE, {"currency": "EUR"}, "a row of rate has no field rate"),
        (RATE, {"currency": "EURO", "rate": 1}, "column currency is char(3) and holds"),
        (RATE, b"\0\0\0\0\1", "it begins as one of a schema registry"),
        (RATE, b"\xff", "it is no text of UTF-8"),
        (ACCOUNT, {"schema": {}, "payload": envelope("c", None, ROW)}, "it holds its schema: declare `schemas: true`"),
        ({**ACCOUNT, "schemas": True}, envelope("c", None, ROW), "it holds no schema: `schemas: false`"),
        (ACCOUNT, {"id": 1}, "it has fields that this format does not"),
        (E, maxwell("insert", table="other"), "it is about test.other, which is neither among the tables"),
        (PRODUCTS, {"database": "inventory"}, "it has no field `type`"),
    ],
)
def test_what_a_stream_would_stop_at_is_found_in_every_format(
    cluster: Cluster, table: Mapping[str, Any], value: object, why: str
) -> None:
    write(cluster, str(table["topic"]), value)
    (found,) = problems(table, topic=str(table["topic"]))
    assert (found.is_fatal, found.place) == (True, ("tables", 0))
    assert why in found.what.replace("its value begins", "it begins")


def test_keys_of_messages_are_held_against_the_declared_one(cluster: Cluster) -> None:
    write(cluster, "rate", {"currency": "EUR", "rate": 1}, key="7")
    for policy in ("delete", "compact"):
        (found,) = problems(RATE, policy=policy)
        assert 'its key {"currency": "••••"} is not the key {"currency": "••••"} of its row' in found.what
    others = {**RATE, "message_key": "other"}
    assert problems(others) == []
    (found,) = problems(others, policy="compact")
    assert "its topic is compacted, and its key is not the declared key of its row" in found.what


def made(**settings: str) -> TopicFacts:
    return TopicFacts(
        "t.account", "id", 2, {**rule_of(OURS, OPTIONS).settings(), "min.insync.replicas": "2", **settings}
    )


def test_a_topic_that_a_destination_makes_is_one_of_which_a_second_sync_warns_nothing() -> None:
    table = layout_of(declared({**RATE, "topic": "t.account"})).tables[0]
    assert list(kept.problems(table, made(), (0, 0))) == list(preflight._of_topic(made(), rule_of(OURS, OPTIONS))) == []


def test_a_topic_of_an_earlier_version_goes_on_and_both_sides_name_the_command_that_mends_it() -> None:
    old, rule = made(**{"delete.retention.ms": "86400000"}), rule_of(OURS, OPTIONS)
    assert faults(old, rule) == ()
    table = layout_of(declared({**RATE, "topic": "t.account"})).tables[0]
    command = "--entity-name t.account --add-config delete.retention.ms=604800000"
    ((what, cure, is_fatal),) = preflight._of_topic(old, rule)
    (read,) = kept.problems(table, old, (0, 0))
    assert ("delete.retention.ms is 86400000" in what, is_fatal, read.is_fatal) == (True, False, False)
    assert command in cure and command in read.cure
