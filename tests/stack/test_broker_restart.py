"""A broker that was started again: what a client from before asks it, and a transaction that it has forgotten."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Producer

from seamline.adapters.connections import resolve
from seamline.adapters.kafka.client import client_settings
from seamline.adapters.kafka.left_open import end_left_open
from seamline.adapters.kafka.topics import CaptureTopics
from tests.stack.own_stack import OwnStack
from tests.waiting import wait_until

ASKED, LOG, OFFSETS, BESIDE = "asked.log", "forgotten.log", "forgotten.offsets", "remembered.log"
TOPICS = (LOG, OFFSETS)
_STATE = "__transaction_state-0"


@dataclass(frozen=True)
class Restarted:
    """A broker that was started again; the client is from before, and so is the copy of what it knew then."""

    broker: OwnStack
    topics: CaptureTopics
    known_before: Path


@pytest.fixture(scope="module")
def restarted(own: OwnStack) -> Restarted:
    own.up("kafka")
    settings = client_settings(resolve("kafka", within=own.settings))
    topics = CaptureTopics(settings)
    for topic in (ASKED, LOG, BESIDE):
        topics.ensure_log(topic)
    topics.ensure_connector_offsets(OFFSETS)
    assert topics.offsets(ASKED) == (0, 0)
    begun(settings, "forgotten", TOPICS).commit_transaction(30)
    own.down()
    copied = shutil.copytree(own.layout.kafka / "log" / _STATE, own.layout.kafka / "before")
    own.up("kafka")
    return Restarted(own, topics, copied)


def test_a_client_from_before_a_restart_asks_the_leader_of_now(restarted: Restarted) -> None:
    assert restarted.topics.offsets(ASKED) == (0, 0)


def test_a_transaction_that_the_broker_forgot_stays_open_until_it_is_ended(restarted: Restarted) -> None:
    """As 4.3.1 may, after it was killed."""
    broker, topics = restarted.broker, restarted.topics
    settings = client_settings(resolve("kafka", within=broker.settings))
    forgotten = begun(settings, "forgotten", TOPICS)
    broker.down()
    known = broker.layout.kafka / "log" / _STATE
    shutil.rmtree(known)
    restarted.known_before.rename(known)
    broker.up("kafka")

    remembered = begun(settings, "remembered", (BESIDE,))
    stand_at = ends(topics, (*TOPICS, BESIDE))
    wait_until(lambda: ends(topics, (BESIDE,)) > stand_at[2:], timeout_s=60, what="the broker to end what it knows of")
    assert ends(topics, TOPICS) == stand_at[:2] == [2, 2], "nobody reads beyond one record and its transaction's end"
    assert end_left_open(settings, "forgotten", TOPICS) == TOPICS
    wait_until(lambda: min(ends(topics, TOPICS)) > 2, timeout_s=20, what="the end of the forgotten one")
    assert end_left_open(settings, "forgotten", TOPICS) == ()
    del forgotten, remembered


def begun(settings: dict[str, str], name: str, topics: tuple[str, ...]) -> Producer:
    """A transaction with a record in each topic, which its broker ends when it is a second old."""
    producer = Producer({**settings, "transactional.id": name, "transaction.timeout.ms": 1_000, "log_level": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    for topic in topics:
        producer.produce(topic, key=b"k", value=b"never committed", partition=0)
    producer.flush(30)
    return producer


def ends(topics: CaptureTopics, names: tuple[str, ...]) -> list[int]:
    """Where who reads only what is committed comes to the end of each topic."""
    return [topics.offsets(name)[1] for name in names]
