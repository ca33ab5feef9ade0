"""A broker that was started again: what a client from before asks it, and a transaction that it has forgotten."""

import shutil

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


@pytest.fixture
def broker(own: OwnStack) -> OwnStack:
    own.up("kafka")
    return own


def test_a_client_from_before_a_restart_asks_the_leader_of_now(broker: OwnStack) -> None:
    topics = CaptureTopics(client_settings(resolve("kafka", within=broker.settings)))
    topics.ensure_log(ASKED)
    assert topics.offsets(ASKED) == (0, 0)
    broker.down()
    broker.up("kafka")
    assert topics.offsets(ASKED) == (0, 0)


def test_a_transaction_that_the_broker_forgot_stays_open_until_it_is_ended(broker: OwnStack) -> None:
    """As 4.3.1 may, after it was killed."""
    settings = client_settings(resolve("kafka", within=broker.settings))
    topics = CaptureTopics(settings)
    for topic in (LOG, BESIDE):
        topics.ensure_log(topic)
    topics.ensure_connector_offsets(OFFSETS)
    forgotten = begun(settings, "forgotten", TOPICS)
    forgotten.commit_transaction(30)
    broker.down()
    known = broker.layout.kafka / "log" / _STATE
    before = shutil.copytree(known, broker.layout.kafka / "before")
    broker.up("kafka")
    forgotten = begun(settings, "forgotten", TOPICS)
    broker.down()
    shutil.rmtree(known)
    before.rename(known)
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
