"""A log topic on a real broker that shows something twice, not at all, or in another order than the source."""

import json
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from seamline.adapters.connections import resolve
from seamline.adapters.kafka.client import client_settings
from seamline.domain.cutover import Boundary
from seamline.domain.errors import LogCorrupted
from seamline.domain.position import Position
from seamline.plan.model import TablePlan
from seamline.ports import Marker, Publication
from tests.conftest import RunningStack
from tests.integration.captured import Captured, captured
from tests.integration.captured_postgres import captured_postgres
from tests.integration.databases import postgres_database
from tests.integration.streamed import DESTINATION, Streamed, stage_empty
from tests.once_more import ONCE_MORE
from tests.waiting import wait_until

TRANSACTIONS = 8
COPIES = 3
KINDS = {"mariadb": captured, "postgres": captured_postgres}
LAST = "last-of-the-topic"


@dataclass(frozen=True, slots=True)
class Topic:
    """A source's topic as it was written: its messages, and where each of the test's transactions lies in them."""

    bank: Captured
    at: Position
    messages: tuple[Message, ...]
    begins: tuple[int, ...]
    ends: tuple[int, ...]

    def transaction(self, number: int) -> Sequence[Message]:
        return self.messages[self.begins[number] : self.ends[number]]


# What stops the stream is one code for both; each kind's order of positions has unit tests.
@pytest.fixture(scope="module", params=["mariadb", pytest.param("postgres", marks=ONCE_MORE)])
def topic(request: pytest.FixtureRequest, stack: RunningStack) -> Iterator[Topic]:
    with KINDS[request.param](f"tampered_{request.param}") as bank:
        bank.ensure()
        (view,) = bank.source.open_views(1)
        with closing(view):
            at = view.position
        bank.source.commit_marker(Marker(id="high-1", kind="high"))
        for number in range(TRANSACTIONS):
            copies = ", ".join(["(7, 'alike')"] * COPIES)
            in_one_transaction(
                bank, f"INSERT INTO account VALUES ({number}, 0, 'x')", f"INSERT INTO audit VALUES {copies}"
            )
        bank.source.commit_marker(Marker(id=LAST, kind="barrier"))
        messages = messages_of(bank)
        values = [json.loads(message.value() or b"{}") for message in messages]
        own = [n for n, value in enumerate(values) if value.get("op") == "c" and value["source"]["table"] == "account"]
        statuses = [value.get("status") for value in values]
        begins = tuple(max(n for n in range(row) if statuses[n] == "BEGIN") for row in own)
        ends = tuple(statuses.index("END", row) + 1 for row in own)
        assert len(own) == TRANSACTIONS
        yield Topic(bank, at, tuple(messages), begins, ends)


def in_one_transaction(bank: Captured, *statements: str) -> None:
    bank.execute("BEGIN", *statements, "COMMIT")


def messages_of(bank: Captured) -> list[Message]:
    """All of the topic up to the last marker."""
    settings = {**client_settings(resolve("kafka")), "group.id": "seamline-test", "isolation.level": "read_committed"}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(bank.source_plan.log_topic, 0, 0)])
    found: list[Message] = []

    def is_whole() -> bool:
        found.extend(message for message in consumer.consume(1_000, 0.5) if not message.error())
        last = [n for n, message in enumerate(found) if LAST.encode() in (message.value() or b"")]
        return bool(last) and any(b'"END"' in (message.value() or b"") for message in found[last[0] :])

    wait_until(is_whole, timeout_s=60, what="the whole topic")
    consumer.close()
    return found


Tampering = Callable[[Topic], list[Message]]


def as_it_was(topic: Topic) -> list[Message]:
    return list(topic.messages)


def a_transaction_twice(topic: Topic) -> list[Message]:
    return [*topic.messages[: topic.ends[4]], *topic.transaction(4), *topic.messages[topic.ends[4] :]]


def rewound(topic: Topic) -> list[Message]:
    return [*topic.messages[: topic.ends[4]], *topic.messages[topic.begins[1] :]]


def two_in_the_other_order(topic: Topic) -> list[Message]:
    before, between = topic.messages[: topic.begins[4]], topic.messages[topic.ends[4] : topic.begins[5]]
    return [*before, *topic.transaction(5), *between, *topic.transaction(4), *topic.messages[topic.ends[5] :]]


def a_row_twice(topic: Topic) -> list[Message]:
    place = topic.ends[5] - 2
    return [*topic.messages[: place + 1], *topic.messages[place:]]


def a_row_lost(topic: Topic) -> list[Message]:
    place = topic.ends[5] - 2
    return [*topic.messages[:place], *topic.messages[place + 1 :]]


def an_end_lost(topic: Topic) -> list[Message]:
    place = topic.ends[5] - 1
    return [*topic.messages[:place], *topic.messages[place + 1 :]]


def a_begin_lost(topic: Topic) -> list[Message]:
    place = topic.begins[5]
    return [*topic.messages[:place], *topic.messages[place + 1 :]]


def all_behind_a_begin_lost(topic: Topic) -> list[Message]:
    return [*topic.messages[: topic.begins[5] + 1], *topic.messages[topic.ends[5] :]]


def a_transaction_lost(topic: Topic) -> list[Message]:
    return [*topic.messages[: topic.begins[5]], *topic.messages[topic.ends[5] :]]


# Each with what the stream says, and how many of the transactions it has applied until then, whole.
TAMPERED: dict[Tampering, tuple[str, int]] = {
    a_transaction_twice: ("a second time", 5),
    all_behind_a_begin_lost: ("no END", 5),
    a_transaction_lost: ("a transaction is lost", 5),
    two_in_the_other_order: ("out of order", 4),
    rewound: ("a second time", 5),
    a_row_twice: ("is not whole", 5),
    a_row_lost: ("is not whole", 5),
    an_end_lost: ("no END", 5),
    a_begin_lost: ("a row of transaction", 5),
}


def applied_from(topic: Topic, messages: Sequence[Message]) -> tuple[LogCorrupted | None, list[int], int]:
    """A stream over these messages: what stopped it, the accounts and the copies that it has left behind."""
    bank, name = topic.bank, f"seamline-test.tampered.{uuid.uuid4().hex[:8]}"
    topic_id = bank.kafka.ensure_log(name)
    producer = Producer(client_settings(resolve("kafka")))
    for message in messages:
        producer.produce(name, key=message.key(), value=message.value(), headers=message.headers() or [])
    assert producer.flush(20) == 0
    try:
        with postgres_database("tampered") as warehouse:
            tables = bank.source.catalogue(["account", "audit"])
            plan = replace(
                bank.with_tables("account", "audit"),
                source=replace(bank.source_plan, log_topic=name),
                destinations=(DESTINATION,),
                tables=tuple(TablePlan(table.name, table=table) for table in tables),
            )
            stream = Streamed(replace(bank, plan=plan), plan, warehouse, tables)
            boundaries = tuple(Boundary(table.name, topic.at, high_marker="high-1") for table in tables)
            publication = Publication("run-1", name, topic_id, 0, topic.at, boundaries)
            stream.sink().publish(stream.stream, stage_empty(stream), publication=publication)
            stream.start()
            wait_until(
                lambda: stream.error is not None or stream.ledger().last_marker == LAST,
                timeout_s=60,
                what="the end of the stream",
            )
            stream.stop()
            assert stream.error is None or isinstance(stream.error, LogCorrupted)
            accounts = [int(str(number)) for (number,) in stream.query("SELECT id FROM live.account ORDER BY id")]
            ((copies,),) = stream.query("SELECT count(*) FROM live.audit")
            return stream.error, accounts, int(str(copies))
    finally:
        bank.kafka.delete(name)


def test_the_topic_as_it_was_written_is_applied_whole(topic: Topic) -> None:
    assert applied_from(topic, as_it_was(topic)) == (None, list(range(TRANSACTIONS)), TRANSACTIONS * COPIES)


@pytest.mark.parametrize("tampering", list(TAMPERED), ids=lambda tampering: tampering.__name__)
def test_a_topic_that_was_tampered_with_stops_the_stream_at_the_last_good_end(
    topic: Topic, tampering: Tampering
) -> None:
    said, whole = TAMPERED[tampering]
    error, accounts, copies = applied_from(topic, tampering(topic))
    assert error is not None
    assert said in str(error)
    assert (accounts, copies) == (list(range(whole)), whole * COPIES)
