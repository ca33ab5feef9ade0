"""The log reader on a real broker: it keeps its place, never jumps over a hole, and knows its topic from another."""

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from confluent_kafka import Producer

from seamline.adapters.kafka.client import client_settings
from seamline.adapters.kafka.log_reader import KafkaLogReader
from seamline.adapters.kafka.topics import CaptureTopics
from seamline.domain.errors import InvariantViolated, LogCorrupted, PositionLost, TransientError
from seamline.domain.log import LogRecord
from seamline.domain.table_places import TablePlaces
from seamline.sources.mariadb.decode import MariaDbDecoder
from tests.conftest import RunningStack
from tests.waiting import wait_until

NAME, DATABASE = "seamline-reader-test", "bank"


def heartbeat(number: int) -> bytes:
    return b'{"ts_ms":%d}' % (1_795_000_000_000 + number)


@dataclass
class Topic:
    name: str
    settings: dict[str, str]

    @property
    def topics(self) -> CaptureTopics:
        return CaptureTopics(self.settings)

    def reader(self) -> KafkaLogReader:
        decoder = MariaDbDecoder(NAME, TablePlaces(DATABASE))
        return KafkaLogReader(self.settings, topic=self.name, decoder=decoder)

    def write(self, *values: bytes) -> None:
        producer = Producer(self.settings)
        for value in values:
            producer.produce(self.name, value=value)
        assert producer.flush(20) == 0


@pytest.fixture
def topic(stack: RunningStack) -> Iterator[Topic]:
    one = Topic(f"seamline-test.reader.{uuid.uuid4().hex[:8]}", client_settings(stack.connection("kafka")))
    one.topics.ensure_log(one.name)
    yield one
    one.topics.delete(one.name)


def read(reader: KafkaLogReader, count: int) -> list[LogRecord]:
    found: list[LogRecord] = []

    def has_all() -> bool:
        found.extend(reader.poll(0.2, 1_000))
        return len(found) >= count

    wait_until(has_all, timeout_s=20, what=f"{count} records")
    return found


def fails(reader: KafkaLogReader, kind: type[Exception]) -> Callable[[], Exception | None]:
    def ask() -> Exception | None:
        try:
            reader.poll(0.2, 1_000)
        except kind as exc:
            return exc
        return None

    return ask


def test_records_come_in_order_from_the_offset_asked(topic: Topic) -> None:
    topic.write(*(heartbeat(number) for number in range(10)))
    reader = topic.reader()
    reader.assign(4)
    assert [record.offset for record in read(reader, 6)] == [4, 5, 6, 7, 8, 9]
    assert reader.end_offset() == 10
    assert not reader.poll(0.1, 10)
    reader.close()


def test_the_end_of_the_log_is_known_also_to_a_reader_that_has_taken_in_nothing_new(topic: Topic) -> None:
    topic.write(*(heartbeat(number) for number in range(10)))
    reader = topic.reader()
    reader.assign(0)
    read(reader, 10)
    topic.write(heartbeat(10), heartbeat(11))
    wait_until(lambda: reader.end_offset() == 12, timeout_s=20, what="the fetch that reports it")
    assert [record.offset for record in read(reader, 2)] == [10, 11]
    reader.close()


def test_no_more_records_come_at_once_than_asked_and_none_is_lost_between(topic: Topic) -> None:
    topic.write(*(heartbeat(number) for number in range(10)))
    reader = topic.reader()
    reader.assign(0)
    batches = [wait_until(lambda: reader.poll(0.2, 3), timeout_s=20, what="records") for _ in range(2)]
    batches.append(read(reader, 10 - sum(map(len, batches))))
    assert all(len(batch) <= 3 for batch in batches[:2])
    assert [record.offset for batch in batches for record in batch] == list(range(10))
    reader.close()


def test_an_aborted_transaction_is_never_seen(topic: Topic) -> None:
    producer = Producer({**topic.settings, "transactional.id": topic.name})
    producer.init_transactions(20)
    for number, finish in ((1, producer.abort_transaction), (2, producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce(topic.name, value=heartbeat(number))
        finish(20)
    reader = topic.reader()
    reader.assign(0)
    (record,) = read(reader, 1)
    assert record.ts_ms == 1_795_000_000_002
    reader.close()


def test_a_transaction_that_ends_while_a_fetch_waits_at_the_broker_is_read_at_once(topic: Topic) -> None:
    """An idle fetch waits there for five seconds; only the end of the transaction makes its records readable."""
    producer = Producer({**topic.settings, "transactional.id": topic.name})
    producer.init_transactions(20)
    reader = topic.reader()
    reader.assign(0)
    for number in range(5):
        assert not reader.poll(1.0, 10)
        producer.begin_transaction()
        producer.produce(topic.name, value=heartbeat(number))
        assert producer.flush(20) == 0
        assert not reader.poll(0.3, 10)
        producer.commit_transaction(20)
        assert len(reader.poll(2.0, 10)) == 1
    reader.close()


def test_a_pruned_offset_is_a_lost_position_at_the_start(topic: Topic) -> None:
    topic.write(*(heartbeat(number) for number in range(10)))
    assert topic.topics.prune(topic.name, below=5) == 5
    reader = topic.reader()
    with pytest.raises(PositionLost, match="begins at offset 5, wanted 2: 3 offsets were deleted"):
        reader.assign(2)
    reader.close()


def test_an_offset_beyond_the_end_is_a_lost_position(topic: Topic) -> None:
    topic.write(heartbeat(1))
    reader = topic.reader()
    with pytest.raises(PositionLost, match="its end was cut off"):
        reader.assign(7)
    reader.close()


def test_records_pruned_under_a_reader_stop_it_instead_of_being_jumped_over(topic: Topic) -> None:
    reader = topic.reader()
    topic.write(*(heartbeat(number) for number in range(10)))
    topic.topics.prune(topic.name, below=5)
    # Behind the check of the start, as if the log were pruned right after it.
    reader._topics.offsets = lambda _: (0, 10)  # type: ignore[method-assign]
    reader.assign(2)
    wait_until(fails(reader, PositionLost), timeout_s=20, what="the lost position to be reported")
    with pytest.raises(PositionLost):
        reader.poll(0.1, 10)
    reader.close()


def test_a_topic_made_again_under_the_same_name_is_another_topic(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seamline.adapters.kafka.log_reader._IDENTITY_EVERY_S", 0.0)
    topic.write(heartbeat(1))
    reader = topic.reader()
    reader.assign(0)
    assert len(read(reader, 1)) == 1
    topic.topics.delete(topic.name)
    wait_until(lambda: not topic.topics.topic_id(topic.name), timeout_s=20, what="the topic to be gone")
    topic.topics.ensure_log(topic.name)
    topic.write(heartbeat(1), heartbeat(2))
    error = wait_until(fails(reader, PositionLost), timeout_s=20, what="the other topic to be noticed")
    assert "created again" in str(error) or "was deleted" in str(error)
    reader.close()


def test_records_before_a_corrupt_one_are_handed_over_first(topic: Topic) -> None:
    topic.write(heartbeat(1), heartbeat(2), b"garbage", heartbeat(3))
    reader = topic.reader()
    reader.assign(0)
    assert [record.offset for record in read(reader, 2)] == [0, 1]
    error = wait_until(fails(reader, LogCorrupted), timeout_s=20, what="the corrupt record to be reported")
    assert "offset 2" in str(error)
    reader.close()


def test_a_record_that_was_damaged_on_the_brokers_disk_is_reported_and_never_read(
    topic: Topic, stack: RunningStack
) -> None:
    topic.write(heartbeat(1), heartbeat(2))
    topic.write(heartbeat(3))
    topic.write(heartbeat(4))
    (segment,) = (stack.settings.data / "kafka" / "log" / f"{topic.name}-0").glob("*.log")
    place = segment.read_bytes().index(heartbeat(3)) + len(heartbeat(3)) - 2
    with segment.open("r+b") as file:
        file.seek(place)
        file.write(b"7")
    reader = topic.reader()
    reader.assign(0)
    assert [record.offset for record in read(reader, 2)] == [0, 1]
    error = wait_until(fails(reader, LogCorrupted), timeout_s=20, what="the damaged record to be reported")
    assert "CRC" in str(error)
    assert "stream restart" in str(error)
    with pytest.raises(LogCorrupted):
        reader.poll(0.1, 10)
    reader.close()


def test_a_reader_is_assigned_once(topic: Topic) -> None:
    reader = topic.reader()
    reader.assign(0)
    with pytest.raises(InvariantViolated):
        reader.assign(0)
    reader.close()


def test_a_topic_that_does_not_exist_is_a_lost_position(topic: Topic) -> None:
    missing = Topic(f"{topic.name}.missing", topic.settings)
    with pytest.raises(PositionLost, match="does not exist"):
        missing.reader()


def test_a_broker_that_is_away_is_trouble_that_may_pass(topic: Topic) -> None:
    away = {**topic.settings, "bootstrap.servers": "127.0.0.1:1"}
    with pytest.raises(TransientError):
        CaptureTopics(away, request_timeout_s=1.0).topic_id(topic.name)
