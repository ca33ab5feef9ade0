"""A transaction of Kafka whose producer is gone is ended, and what it wrote is never seen."""

import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from seamline.adapters.connections import resolve
from seamline.adapters.kafka.client import client_settings
from seamline.adapters.kafka.left_open import end_left_open
from seamline.adapters.kafka.topics import CaptureTopics
from tests.conftest import RunningStack
from tests.waiting import wait_until

LOG, OFFSETS = "left_open.log", "left_open.offsets"


@pytest.fixture
def topics(stack: RunningStack) -> Iterator[CaptureTopics]:
    topics = CaptureTopics(client_settings(resolve("kafka")))
    topics.ensure_log(LOG)
    topics.ensure_connector_offsets(OFFSETS)
    yield topics
    for topic in (LOG, OFFSETS):
        topics.delete(topic)


def test_what_was_left_open_is_ended_in_all_topics_and_the_next_reader_sees_none_of_it(topics: CaptureTopics) -> None:
    settings, name = client_settings(resolve("kafka")), f"left-open-{uuid.uuid4().hex}"
    gone = Producer({**settings, "transactional.id": name})
    gone.init_transactions(30)
    gone.begin_transaction()
    for topic in (LOG, OFFSETS):
        gone.produce(topic, key=b"k", value=b"never committed", partition=0)
    gone.flush(30)
    # Nobody reads beyond it.
    assert [topics.offsets(topic)[1] for topic in (LOG, OFFSETS)] == [0, 0]

    assert end_left_open(settings, name, (LOG, OFFSETS)) == (LOG, OFFSETS)
    wait_until(lambda: all(topics.offsets(topic)[1] > 0 for topic in (LOG, OFFSETS)), timeout_s=20, what="the end")
    assert end_left_open(settings, name, (LOG, OFFSETS)) == ()
    for topic in (LOG, OFFSETS):
        reader = Consumer({**settings, "group.id": name, "isolation.level": "read_committed"})
        reader.assign([TopicPartition(topic, 0, 0)])
        assert reader.poll(2.0) is None
        reader.close()
