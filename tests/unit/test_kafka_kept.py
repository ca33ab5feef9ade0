"""Which topics still hold what they ever said, and how far a capture has to come before a read is of now."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from seamline.adapters.connect.endpoint import CaptureEndpoint, Start
from seamline.adapters.kafka.topics import TopicFacts
from seamline.domain.errors import LogCorrupted, Refused, TransientError
from seamline.ports import Problem
from seamline.sources.kafka import kept, source, state
from seamline.sources.kafka.connector import CONNECTOR
from seamline.sources.kafka.layout import layout_of
from seamline.sources.kafka.messages import Messages
from seamline.sources.kafka.position import KafkaPosition, TopicPlace
from seamline.sources.kafka.rows import Given
from seamline.sources.kafka.source import KafkaSource
from tests.unit.test_kafka_source import ACCOUNT, NOTE, PRODUCTS, RATE, ROW, E, declared, envelope

FOREVER = {"retention.ms": "-1", "retention.bytes": "-1", "delete.retention.ms": "604800000"}


def problems(table: Mapping[str, Any], first: int = 0, **settings: str) -> list[Problem]:
    topic = str(table["topic"])
    facts = TopicFacts(topic, "id", 1, {**FOREVER, **{name.replace("_", "."): text for name, text in settings.items()}})
    return list(kept.problems(layout_of(declared(table)).tables[0], facts, (first,)))


@pytest.mark.parametrize("policy", ["delete", "compact", "compact,delete", ""])
def test_a_topic_that_has_lost_its_beginning_is_refused_whatever_its_policy(policy: str) -> None:
    (lost,) = problems(RATE, 3, cleanup_policy=policy, min_compaction_lag_ms="3600000")
    assert lost.is_fatal
    assert "topic rate begins at 3" in lost.what
    assert "into a topic of another name" in lost.cure


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_a_topic_that_will_lose_its_beginning_is_warned_of(policy: str) -> None:
    (will,) = problems(RATE, cleanup_policy=policy, min_compaction_lag_ms="3600000", retention_ms="604800000")
    assert (will.is_fatal, "deletes what is old" in will.what) == (False, True)
    assert problems(RATE, cleanup_policy=policy, min_compaction_lag_ms="3600000") == []
    assert problems(RATE, cleanup_policy="compact", min_compaction_lag_ms="3600000", retention_ms="1") == []


@pytest.mark.parametrize(
    ("table", "settings", "what"),
    [
        (NOTE, {}, "note has no key"),
        (E, {}, "messages of maxwell"),
        (PRODUCTS, {}, "messages of canal"),
        (RATE, {"min_compaction_lag_ms": "0"}, "compacted at once"),
        (RATE, {"delete_retention_ms": "86400000"}, "drops messages without a value"),
    ],
)
def test_a_compacted_topic_that_cannot_be_folded_is_named(
    table: Mapping[str, Any], settings: Mapping[str, str], what: str
) -> None:
    (one,) = problems(table, **{"cleanup_policy": "compact", "min_compaction_lag_ms": "3600000", **settings})
    assert what in one.what
    assert one.is_fatal is ("delete_retention_ms" not in settings)


@pytest.mark.parametrize(
    ("table", "value", "key", "why"),
    [
        (RATE, '{"currency":"EUR","rate":1}', "EUR", ""),
        (RATE, None, '{"currency":"EUR"}', ""),
        (ACCOUNT, json.dumps(envelope("c", None, ROW)), '{"id":1}', ""),
        (
            {**RATE, "message_key": "other"},
            '{"currency":"EUR","rate":1}',
            "1",
            "its key is not the declared key of its row",
        ),
        (RATE, '{"currency":"EUR","rate":1}', None, "of its key: it has no key"),
        (RATE, '{"currency":"EUR","rate":1}', '{"currency":"EUR","rate":1}', "it has rate beside the declared key"),
        (ACCOUNT, json.dumps(envelope("c", None, ROW)), '{"number":1}', "it has number beside the declared key"),
    ],
)
def test_what_is_compacted_by_another_key_than_the_rows_is_refused(
    table: Mapping[str, Any], value: str | None, key: str | None, why: str
) -> None:
    given = Given(str(table["topic"]), 0, 7, key, value)
    messages = Messages(layout_of(declared(table)), "others")
    found = messages.said(given, partitions=1)
    if not why:
        messages.require_key(given, found)
        return
    with pytest.raises(LogCorrupted, match="its topic is compacted") as refused:
        messages.require_key(given, found)
    assert why in refused.value.message


class Cluster:
    """The topic of others as a capture meets it. `reads`: the places that the capture has come to, one per look;
    `marked`: likewise where the first transaction begins that is not marked as ended, `end` where none is open.
    `last_record`: the offset behind the last record; a transaction's marker may lie between it and the end."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        *,
        end: int,
        reads: Sequence[int],
        last_record: int | None = None,
        marked: Sequence[int] | None = None,
    ) -> None:
        self._last = end if last_record is None else last_record
        self._reads = list(reads)
        for where in (source, state):
            monkeypatch.setattr(where, "CaptureTopics", lambda _: self)
        monkeypatch.setattr(source, "client_settings", lambda _: {})
        monkeypatch.setattr(source, "resolve", lambda _: None)
        self._marked = [end] if marked is None else list(marked)
        monkeypatch.setattr(source, "written_ends", lambda *_: (end,))
        monkeypatch.setattr(source, "committed_ends", lambda *_: (self._next(self._marked),))
        monkeypatch.setattr(source, "committed", self._committed)
        monkeypatch.setattr(KafkaSource, "newest", lambda _: self._newest())
        monkeypatch.setattr(source, "_PAUSE_S", 0.0)
        monkeypatch.setattr(source, "_WAIT_S", 0.01)

    def facts(self, topic: str) -> TopicFacts:
        return TopicFacts(topic, "idR", 1, {"cleanup.policy": "compact,delete"})

    def _newest(self) -> KafkaPosition:
        return KafkaPosition({"rate": TopicPlace("idR", (self._next(self._reads),))})

    @staticmethod
    def _next(looks: list[int]) -> int:
        return looks.pop(0) if len(looks) > 1 else looks[0]

    def _committed(self, *_: object, starts: Sequence[int]) -> Iterator[list[object]]:
        if starts[0] < self._last:
            yield [object()]


def newest_of_all() -> tuple[KafkaPosition, datetime]:
    plan = declared(RATE, NOTE)
    return KafkaSource(plan).newest_of_all([layout_of(plan).tables[0].definition])


def test_a_read_waits_until_the_capture_has_all_that_its_topics_held(monkeypatch: pytest.MonkeyPatch) -> None:
    Cluster(monkeypatch, end=9, reads=[5, 7, 9, 20])
    before = datetime.now(UTC)
    position, moment = newest_of_all()
    assert str(position) == "offsets rate 9"
    assert before <= moment <= datetime.now(UTC)


def test_a_read_has_the_whole_of_a_transaction_that_its_broker_has_not_marked_everywhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Cluster(monkeypatch, end=9, reads=[5, 9], marked=[5, 9])
    assert str(newest_of_all()[0]) == "offsets rate 9"


def test_a_transaction_that_stays_open_keeps_no_read_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    Cluster(monkeypatch, end=9, reads=[5], marked=[5])
    monkeypatch.setattr(source, "_MARKED_S", 0.01)
    assert str(newest_of_all()[0]) == "offsets rate 5"


def test_behind_the_last_record_may_be_a_marker_that_no_capture_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    Cluster(monkeypatch, end=9, reads=[7, 8], last_record=8)
    assert str(newest_of_all()[0]) == "offsets rate 8"


def test_a_capture_that_stands_still_gives_no_position_that_would_count_as_now(monkeypatch: pytest.MonkeyPatch) -> None:
    Cluster(monkeypatch, end=9, reads=[5])
    with pytest.raises(TransientError, match="the capture stands at offsets rate 5, .*: rate to 9"):
        newest_of_all()


def test_a_compacted_topic_without_its_beginning_gives_no_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    Cluster(monkeypatch, end=9, reads=[9])
    monkeypatch.setattr(state, "begins", lambda *_: (4,))
    with pytest.raises(Refused, match="topic rate begins at 4"):
        state.required_beginning({}, "rate", TopicPlace("idR", (9,)))
    with pytest.raises(Refused, match="topic rate is not the one that was read"):
        state.required_beginning({}, "rate", TopicPlace("idR", (9, 9)))


def test_a_capture_drops_no_topic_that_an_older_plan_does_not_know() -> None:
    endpoint = CaptureEndpoint("theirs", 9092, "queue", "", "ours:9092")
    settings = CONNECTOR.settings(declared(RATE), ["rate", "seamline_marker"], endpoint, Start.AGAIN)
    assert settings["seamline.topics"] == "rate"
    with pytest.raises(Refused, match="carries declared_later"):
        CONNECTOR.settings(declared(RATE), ["declared_later", "rate", "seamline_marker"], endpoint, Start.AGAIN)
