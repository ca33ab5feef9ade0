"""Topics that others write, on real servers: their capture, the log topic, the stream, PostgreSQL."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from decimal import Decimal

import pytest
from confluent_kafka import Producer

from seamline.adapters.connect.rest import ConnectClient
from seamline.domain.digest import Segment
from seamline.domain.errors import LogCorrupted, Refused, TransientError
from seamline.kinds.bulk import BulkRead, Wanted
from seamline.sources.kafka import source
from seamline.sources.kafka.source import KafkaReaders, open_for_tasks
from tests.conftest import RunningStack
from tests.integration.captured_topics import NoTasks, TopicsCaptured, captured_topics, envelope, key
from tests.integration.connect_worker import ConnectWorker, connect_worker
from tests.integration.databases import postgres_database
from tests.integration.streamed import streamed
from tests.waiting import wait_until

NOTES = 3_000


@pytest.fixture(scope="module")
def worker(stack: RunningStack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectWorker]:
    folder = tmp_path_factory.mktemp("connect")
    with connect_worker(stack.settings, stack.connection("kafka"), name="topics", folder=folder) as one:
        yield one


@pytest.fixture
def topics(worker: ConnectWorker) -> Iterator[TopicsCaptured]:
    with captured_topics("topics_test", client=ConnectClient(worker.connection)) as one:
        yield one


def write(one: TopicsCaptured, first: int) -> None:
    """Accounts that come, change, change their key and go; rates that go; each note once, whatever happens."""
    producer = one.producer()
    for number in range(first, first + 200):
        row = (number, number * 100 + 7, 20_000 + number, "old")
        producer.produce("topics-test.account", envelope("c", None, row), key(number))
        changed = (number, -number, 20_000, "new")
        producer.produce("topics-test.account", envelope("u", row, changed), key(number))
        if number % 3 == 0:
            producer.produce("topics-test.account", envelope("d", changed, None), key(number))
            producer.produce("topics-test.account", None, key(number))
    for number in range(26):
        currency = f"A{chr(ord('A') + number)}{first % 10}"
        rate = f'{{"currency":"{currency}","rate":{number}.000000000001,"at":1764400000123}}'
        producer.produce("topics-test.rate", rate, currency)
        if number % 5 == 0:
            producer.produce("topics-test.rate", None, currency)
    for number in range(first, first + NOTES):
        producer.produce("topics-test.note", json.dumps({"number": number, "text": "余额"}))
    assert producer.flush(60) == 0


@contextmanager
def open_transaction(one: TopicsCaptured, number: int) -> Iterator[Producer]:
    """With a note that has arrived at its broker."""
    producer = one.producer(**{"transactional.id": "topics-test"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("topics-test.note", json.dumps({"number": number, "text": "not yet"}))
    producer.flush(30)
    yield producer


def abort(one: TopicsCaptured) -> None:
    """What a producer takes back was never there. The marker of it takes an offset."""
    with open_transaction(one, -1) as producer:
        producer.abort_transaction(30)


def test_each_message_arrives_once_through_a_worker_that_is_killed_and_a_stream_that_starts_again(
    topics: TopicsCaptured, worker: ConnectWorker
) -> None:
    with (
        postgres_database("topics_test") as warehouse,
        streamed(topics, warehouse, "account", "rate", "note") as stream,
    ):
        stream.start()
        write(topics, 0)
        worker.kill()
        abort(topics)
        write(topics, 10_001)
        worker.start()
        topics.ensure()
        stream.stop()
        write(topics, 20_002)
        stream.start()
        stream.wait_until_applied()
        assert stream.differences("account", "rate", "note") == {}
        assert stream.query("SELECT count(*), count(DISTINCT number), min(number) FROM live.note") == [
            (3 * NOTES, 3 * NOTES, 0)
        ]
        found = stream.query("SELECT id, balance, opened::text, memo FROM live.account WHERE id IN (7, 10002, 20001)")
        assert sorted(found) == [(7, Decimal("-0.07"), "2024-10-04", "new")]
        assert stream.query("SELECT count(*) FROM live.account") == [(400,)]
        assert stream.query("SELECT rate, at::text FROM live.rate WHERE currency = 'AB1'") == [
            (Decimal("1.000000000001"), "2025-11-29 07:06:40.123+00")
        ]
        # What a change met nobody knows, so nothing of it is a finding.
        assert stream.findings() == 0


def test_a_load_reads_the_rows_that_the_topics_make_at_one_position_wherever_it_runs(
    topics: TopicsCaptured, worker: ConnectWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for the capture, and one that stands still gives nothing that would count as now."""
    write(topics, 0)
    topics.ensure()
    write(topics, 10_001)
    abort(topics)
    tables, tasks = topics.source.catalogue(("account", "note")), NoTasks()
    with open_for_tasks(topics.source_plan, Wanted("one", 1, tables, 1), tasks) as opened:
        reads = [BulkRead(table, Segment(table.name), number) for number, table in enumerate(tables)]
        proofs: list[str] = []
        with closing(KafkaReaders(topics.source_plan, reads, barrier=tasks.barrier)) as readers:
            readers.open_at_barrier()
            write(topics, 20_002)
            rows = [sum(b.num_rows for b in readers.rows(n, proven=proofs.append).batches) for n in range(len(reads))]
        seen = [sum(one.rows for one in opened.views[0].digests(Segment(t.name), run_key="r").values()) for t in tables]
    assert rows == seen == [266, 2 * NOTES]
    assert proofs == [opened.proof] * 2
    ConnectClient(worker.connection).stop(topics.source_plan.connector)
    write(topics, 30_003)
    monkeypatch.setattr(source, "_WAIT_S", 0.1)
    stopped = open_for_tasks(topics.source_plan, Wanted("two", 1, tables, 1), NoTasks())
    with pytest.raises(TransientError, match="has not come to what its topics held"), stopped:
        pass


def test_a_read_waits_for_no_transaction_that_stays_open_and_has_it_once_it_has_ended(
    topics: TopicsCaptured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "_MARKED_S", 1.0)
    topics.ensure()
    write(topics, 0)
    tables = topics.source.catalogue(("note",))

    def rows_read() -> int:
        with open_for_tasks(topics.source_plan, Wanted("one", 1, tables, 1), NoTasks()) as opened:
            digests = opened.views[0].digests(Segment("note"), run_key="r")
        return sum(one.rows for one in digests.values())

    with open_transaction(topics, NOTES) as producer:
        assert rows_read() == NOTES
        producer.commit_transaction(30)
    assert rows_read() == NOTES + 1


def test_a_message_that_cannot_be_read_stops_the_stream_at_its_place(topics: TopicsCaptured) -> None:
    with postgres_database("topics_test") as warehouse, streamed(topics, warehouse, "rate") as stream:
        stream.start()
        producer = topics.producer()
        producer.produce("topics-test.rate", '{"currency":"EUR","rate":1,"at":0}', "EUR", partition=0)
        producer.produce("topics-test.rate", '{"currency":"EUR","rate":1,"at":0,"by":"me"}', "EUR", partition=0)
        producer.flush(30)
        wait_until(lambda: stream.error is not None, timeout_s=60, what="the stream to stop")
        assert isinstance(stream.error, LogCorrupted)
        why = "topic topics-test.rate, partition 0, offset 1: table rate has no column by"
        assert why in str(stream.error)
        (found,) = topics.source.preflight(topics.source.catalogue(("rate",)))
        assert (why in found.what, found.is_fatal, found.cure) == (True, True, stream.error.hint)
        assert stream.query("SELECT count(*) FROM live.rate") in ([(0,)], [(1,)])


def test_a_topic_that_has_lost_its_beginning_has_no_state_and_one_that_will_lose_it_is_warned_of(
    topics: TopicsCaptured,
) -> None:
    write(topics, 0)
    topics.ensure()
    topics.kafka.prune("topics-test.account", below=3)
    topics.alter("topics-test.rate", "cleanup.policy", "compact")
    topics.alter("topics-test.note", "retention.ms", "604800000")
    found = topics.source.preflight(topics.source.catalogue(("account", "rate", "note")))
    assert [(one.table, one.is_fatal) for one in found] == [
        ("account", True), ("rate", True), ("rate", False), ("note", False)
    ]  # fmt: skip
    assert "topic topics-test.account begins at 3, 0, 0" in found[0].what
    (view,) = topics.source.open_views(1)
    with closing(view), pytest.raises(Refused, match=r"topics-test\.account begins at 3, 0, 0"):
        view.digests(Segment("account"), run_key="r")


@pytest.mark.parametrize(
    ("happens", "said"),
    [
        (TopicsCaptured.add_partitions, "the partitions of topic topics-test.rate were changed: they are 4, were 3"),
        (TopicsCaptured.make_again, "topic topics-test.rate was made again"),
        (TopicsCaptured.delete, "a topic is not there any more"),
    ],
)
def test_a_topic_that_changes_while_it_is_captured_stops_the_capture_by_name(
    topics: TopicsCaptured, happens: Callable[[TopicsCaptured, str], None], said: str
) -> None:
    """Its connector looked at its start alone: what went into a new partition was never read."""
    topics.ensure()
    write(topics, 0)
    happens(topics, "topics-test.rate")
    topics.wait_until_failed()
    status = topics.connector.status()
    assert status is not None
    assert said in status.trace
    assert status.has_lost_its_place
