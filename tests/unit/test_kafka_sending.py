"""Records on their way into topics: what did not arrive is known before the commit."""

from typing import Any

import pytest
from confluent_kafka import KafkaError

from seamline.domain.errors import CommitUnknown, Refused, TransientError
from seamline.sinks.kafka.transaction import BY_KEY, Deliveries, Sending, Transactions

_REFUSED = {
    b"refused": KafkaError(KafkaError.INVALID_RECORD),
    b"too large": KafkaError(KafkaError.MSG_SIZE_TOO_LARGE),
}


class RefusingProducer:
    """A client whose broker refuses one record of several, and says so in that record's callback alone."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Any, Any]] = []

    def init_transactions(self, _: float) -> None: ...
    def begin_transaction(self) -> None: ...
    def poll(self, _: float) -> None: ...

    def produce(self, topic: str, value: bytes, key: bytes, partition: int, *, headers: Any, on_delivery: Any) -> None:
        error = _REFUSED.get(value)
        self._waiting.append((on_delivery, (error, _Sent(topic, len(self._waiting)))))

    def flush(self, _: float) -> int:
        answered, self._waiting = self._waiting, []
        for callback, answer in answered:
            callback(*answer)
        return 0


class _Sent:
    def __init__(self, topic: str, offset: int) -> None:
        self.topic, self.partition, self.offset = (lambda: topic), (lambda: 0), (lambda: offset)


def over_refusing(patch: pytest.MonkeyPatch, guarantee: str) -> Sending:
    patch.setattr(Sending, "_made", lambda self, settings: RefusingProducer())
    made = Transactions({}, "t", timeout_s=10) if guarantee == "exactly_once" else Deliveries({})
    made.begin()
    return made


def _errors_not_counted(patch: pytest.MonkeyPatch) -> None:
    delivered = Sending._delivered
    patch.setattr(Sending, "_delivered", lambda self, error, message: delivered(self, None, message))


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
@pytest.mark.parametrize("is_planted", [False, True])
def test_a_record_that_did_not_arrive_is_known_before_the_commit(
    monkeypatch: pytest.MonkeyPatch, guarantee: str, is_planted: bool
) -> None:
    sending = over_refusing(monkeypatch, guarantee)
    if is_planted:
        _errors_not_counted(monkeypatch)
    sending.send("topic", [(b"k", value, [], BY_KEY) for value in (b"one", b"refused", b"three")])
    if is_planted:
        sending.seal("control", [(b"stream", b"progress")])
        return
    with pytest.raises(TransientError, match=r"did not arrive in Kafka: topic: .*"):
        sending.seal("control", [(b"stream", b"progress")])


def test_a_record_that_its_topic_is_too_small_for_is_not_tried_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    sending = over_refusing(monkeypatch, "exactly_once")
    sending.send("topic", [(b"k", b"too large", [], BY_KEY)])
    with pytest.raises(Refused, match="topic: .*too large") as refused:
        sending.arrived()
    assert "--entity-name topic --add-config max.message.bytes=33554432" in refused.value.hint


def test_without_transactions_a_control_record_that_gets_no_answer_leaves_it_open_whether_it_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sending = over_refusing(monkeypatch, "at_least_once")
    sending.send("topic", [(b"k", b"one", [], BY_KEY)])
    sending.seal("control", [(b"stream", b"refused")])
    with pytest.raises(CommitUnknown, match="its answer is lost"):
        sending.commit()
