"""Topics of a destination that are not what their ledger knows any more: cut, spread, made anew, written otherwise."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewPartitions

from seamline.adapters.kafka.client import admin_client
from seamline.adapters.kafka.committed import committed, written_ends
from seamline.domain.catalogue import Table
from seamline.domain.errors import Diverged, Refused
from seamline.sinks.kafka import commit
from seamline.sinks.kafka.control import StreamState, record_of
from seamline.sinks.kafka.kind import KIND
from seamline.sinks.kafka.loads import topics_of
from seamline.sinks.kafka.topics import DestinationTopics
from tests.contract.behaviours import Applying, account, published, texts
from tests.contract.kafka_world import KafkaWorld
from tests.log_topic import ACCOUNT, AUDIT, STREAM, TABLES, delete, insert, publication

OTHER_TOPIC = r"account is not the topic that the ledger counts in: it has id .*, the ledger's had id "


@pytest.fixture
def make(stack: object) -> Iterator[Callable[..., KafkaWorld]]:
    worlds: list[KafkaWorld] = []

    def made(*tables: Table, **keys: Any) -> KafkaWorld:
        worlds.append(KafkaWorld(tables or TABLES, **keys))
        return worlds[-1]

    yield made
    for world in worlds:
        world.close()


def delete_topic(topics: DestinationTopics, topic: str) -> None:
    """A broker knows a moment later than its controller."""
    topics.delete([topic])
    while topics.is_there(topic):
        pass


def test_a_topic_that_got_partitions_or_was_made_anew_stops_the_stream_and_a_load_mends_it(make: Any) -> None:
    world = make(AUDIT, ACCOUNT)
    stream = published(world)
    rows = [account(number) for number in range(10)]
    stream.span(*[insert(ACCOUNT, **row) for row in rows])
    topic = f"{world.declared.prefix}.account"
    admin_client(world.settings).create_partitions([NewPartitions(topic, 3)])[topic].result()
    # The producer knows of them with its next look; whoever takes the stream knows at once.
    with pytest.raises(Diverged, match=r"has 3 partitions, .* its rows are spread over 1"):
        Applying(world)
    topics = topics_of(world.destination)
    delete_topic(topics, topic)
    with pytest.raises(Diverged, match="is gone"):
        Applying(world)
    topics.ensure(world.declared.prefix, [ACCOUNT])
    with pytest.raises(Diverged, match=r"lost records: its partition 0 goes on at offset 0, .* counted up to 10"):
        Applying(world)
    loads = [world.load(ACCOUNT, rows), world.load(AUDIT, [])]
    world.sink().publish(STREAM, loads, publication=publication((AUDIT, ACCOUNT), run_id="run-2"))
    Applying(world).span(delete(ACCOUNT, **account(3)))
    assert world.rows(ACCOUNT) == texts(*(row for row in rows if row["id"] != 3))


def test_a_stream_does_not_go_on_in_another_form(make: Any) -> None:
    world = make(ACCOUNT)
    stream = published(world)
    other = make(ACCOUNT, prefix=world.declared.prefix, format="debezium")
    again = other.load(ACCOUNT, [account(7)])
    for call in (
        lambda: Applying(other),
        lambda: other.sink().publish(STREAM, [again], publication=publication((ACCOUNT,), run_id="run-2")),
        lambda: KIND.open_live(other.plan, other.destination, 1),
    ):
        with pytest.raises(Refused, match="hold records of format json, and debezium is declared"):
            call()
    assert stream.span(insert(ACCOUNT, **account(1))).ledger.next_offset == 10


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_an_owner_that_writes_into_a_topic_made_anew_commits_nothing(make: Any, guarantee: str) -> None:
    world = make(ACCOUNT, guarantee=guarantee)
    stream = published(world)
    ledger = stream.span(insert(ACCOUNT, **account(1)), insert(ACCOUNT, **account(2))).ledger
    topic, topics = f"{world.declared.prefix}.account", topics_of(world.destination)
    delete_topic(topics, topic)
    topics.ensure(world.declared.prefix, [ACCOUNT])
    with pytest.raises(Diverged, match="lost records"):
        stream.span(*[insert(ACCOUNT, **account(number)) for number in range(3, 20)])
    assert world.sink().read_ledger(STREAM) == ledger


def make_anew_and_fill(world: KafkaWorld, topic: str, *, records: int) -> None:
    """As somebody does who deletes a topic and copies records into another one of its name."""
    topics = topics_of(world.destination)
    delete_topic(topics, topic)
    topics.ensure(world.declared.prefix, [ACCOUNT])
    others = Producer({"bootstrap.servers": world.settings["bootstrap.servers"]})
    for number in range(records):
        others.produce(topic, json.dumps(account(number, "theirs")), json.dumps({"id": number}))
    assert others.flush(10) == 0


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_a_topic_that_was_made_anew_and_filled_beyond_what_is_counted_stops_the_stream(
    make: Any, guarantee: str
) -> None:
    world = make(AUDIT, ACCOUNT, guarantee=guarantee)
    stream = published(world)
    ledger = stream.span(insert(ACCOUNT, **account(1))).ledger
    make_anew_and_fill(world, f"{world.declared.prefix}.account", records=10)
    for changes in ([insert(ACCOUNT, **account(2))], [insert(AUDIT, actor="x", action="y")]):
        with pytest.raises(Diverged, match=OTHER_TOPIC):
            stream.span(*changes)
    with pytest.raises(Diverged, match=OTHER_TOPIC):
        Applying(world)
    assert world.sink().read_ledger(STREAM) == ledger
    loads = [world.load(ACCOUNT, [account(1)]), world.load(AUDIT, [])]
    world.sink().publish(STREAM, loads, publication=publication((AUDIT, ACCOUNT), run_id="run-2"))
    Applying(world).span(insert(ACCOUNT, **account(3)))
    assert world.rows(ACCOUNT) == texts(account(1), account(3))


def test_a_control_record_of_before_that_has_no_ids_is_read_and_takes_them_at_its_next_commit(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make(ACCOUNT, guarantee="at_least_once")
    with monkeypatch.context() as patch:
        patch.setattr(commit, "record_of", _as_written_before)
        ledger = published(world).span(insert(ACCOUNT, **account(1))).ledger
    assert "topic_ids" not in newest_control_record(world)
    stream = Applying(world)
    assert stream.lease.ledger.next_offset == ledger.next_offset
    topic_id = topics_of(world.destination)._topics.topic_id(f"{world.declared.prefix}.account")
    assert newest_control_record(world)["topic_ids"] == {"account": topic_id}
    stream.span(insert(ACCOUNT, **account(2)))
    assert world.rows(ACCOUNT) == texts(account(1), account(2))
    make_anew_and_fill(world, f"{world.declared.prefix}.account", records=10)
    with pytest.raises(Diverged, match=OTHER_TOPIC):
        stream.span(insert(ACCOUNT, **account(3)))


def _as_written_before(state: StreamState, **more: Any) -> bytes:
    said = json.loads(record_of(state, **more))
    del said["topic_ids"]
    return json.dumps(said).encode()


def newest_control_record(world: KafkaWorld) -> Mapping[str, Any]:
    topic = f"{world.declared.prefix}.control"
    ends = written_ends(world.settings, topic)
    assert ends is not None
    *_, newest = (one for some in committed(world.settings, topic, ends) for one in some)
    found: dict[str, Any] = json.loads(newest.value() or b"")
    return found
