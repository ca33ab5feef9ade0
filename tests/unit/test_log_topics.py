"""What a capture's topics must be, and how a topic's bytes are asked for."""

import socket
import ssl
import struct
from typing import Any

import pytest

from seamline.adapters.connections import Connection
from seamline.adapters.kafka import log_dirs, one_request, sasl
from seamline.adapters.kafka.client import client_settings
from seamline.adapters.kafka.log_dirs import Space, partition_space
from seamline.adapters.kafka.topics import CONNECTOR_OFFSETS, LOG, SCHEMA_HISTORY, TopicFacts, TopicRule, faults
from seamline.domain.errors import ConfigError, SeamlineError, TransientError
from seamline.sinks.kafka import loads, topics
from seamline.sinks.kafka.options import KafkaOptions


def facts(rule: TopicRule, partitions: int = 1, **changed: str) -> TopicFacts:
    settings = {**rule.settings(), **{name.replace("_", "."): value for name, value in changed.items()}}
    return TopicFacts("seamline.core_bank.log", "id", partitions, settings)


@pytest.mark.parametrize("rule", [LOG, SCHEMA_HISTORY, CONNECTOR_OFFSETS])
def test_a_topic_made_by_its_rule_keeps_it(rule: TopicRule) -> None:
    assert faults(facts(rule), rule) == ()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"cleanup_policy": "compact"}, "cleanup.policy is compact, wanted delete"),
        ({"retention_ms": "604800000"}, "retention.ms is 604800000, wanted -1"),
        ({"retention_bytes": "1000"}, "retention.bytes is 1000, wanted -1"),
        ({"segment_bytes": "1073741824"}, "segment.bytes is 1073741824, wanted 67108864"),
        ({"max_message_bytes": "1048588"}, "max.message.bytes is 1048588, wanted at least 33554432"),
    ],
)
def test_each_setting_that_could_lose_the_log_is_named(changed: dict[str, str], said: str) -> None:
    assert faults(facts(LOG, **changed), LOG) == (said,)


def test_a_log_topic_has_one_partition_because_a_log_has_one_order() -> None:
    (said,) = faults(facts(LOG, partitions=3), LOG)
    assert "it has 3 partitions, one is wanted" in said


def test_a_connectors_offsets_are_compacted() -> None:
    assert faults(facts(CONNECTOR_OFFSETS, cleanup_policy="delete"), CONNECTOR_OFFSETS)


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def partition(index: int, size: int, *, is_moving: bool = False) -> bytes:
    return struct.pack(">iqqb", index, size, 0, is_moving)


def test_the_answer_about_log_folders_is_read_field_by_field(monkeypatch: pytest.MonkeyPatch) -> None:
    log_topic = text("log") + struct.pack(">i", 2) + partition(0, 1000) + partition(0, 400, is_moving=True)
    other = text("other") + struct.pack(">i", 1) + partition(0, 7)
    first_folder = struct.pack(">h", 0) + text("/disk1") + struct.pack(">i", 2) + log_topic + other
    offline_folder = struct.pack(">h", 56) + text("/disk2") + struct.pack(">i", 0)
    answer = struct.pack(">ii", 0, 2) + first_folder + offline_folder
    asked = answering(monkeypatch, {1: answer})
    assert partition_space("broker", 9092, "log", settings={}) == Space(1000)
    assert asked == [4, 1], "a broker that does not know version 4 closes the connection"


def answering(monkeypatch: pytest.MonkeyPatch, by_version: dict[int, bytes]) -> list[int]:
    """A broker that knows these versions of the request; the versions that it was asked by."""
    asked: list[int] = []

    def ask(_: object, request: tuple[int, int, bytes], **__: Any) -> bytes:
        asked.append(request[1])
        if request[1] not in by_version:
            raise one_request.HungUp("the broker closed the connection")
        return by_version[request[1]]

    monkeypatch.setattr(log_dirs, "ask_broker", ask)
    return asked


def compact(value: str) -> bytes:
    return bytes([len(value) + 1]) + value.encode()


def folder(name: str, *topics: bytes, free: int) -> bytes:
    listed = bytes([len(topics) + 1]) + b"".join(topics)
    return struct.pack(">h", 0) + compact(name) + listed + struct.pack(">qqb", 10_000, free, 0)


def test_a_broker_says_what_is_free_on_the_disk_that_holds_the_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    def topic(name: str, *partitions: bytes) -> bytes:
        return compact(name) + bytes([len(partitions) + 1]) + b"".join(one + b"\x00" for one in partitions) + b"\x00"

    mine, other = topic("log", partition(0, 1000)), topic("log", partition(0, 400, is_moving=True))
    # A tagged field that nobody here knows is passed over.
    head = b"\x01\x07\x02ab" + struct.pack(">ih", 0, 0)
    for free, known in ((77, 77), (-1, None)):
        folders = folder("/disk1", mine, free=free) + folder("/disk2", other, free=5)
        answering(monkeypatch, {4: head + b"\x03" + folders + b"\x00"})
        assert partition_space("broker", 9092, "log", settings={}) == Space(1000, known)
    answering(monkeypatch, {4: b"\x00" + struct.pack(">ih", 0, 31) + b"\x01\x00"})
    with pytest.raises(ConfigError, match="may not report the size of topic log"):
        partition_space("broker", 9092, "log", settings={})


def test_client_settings_take_everything_that_the_connection_says() -> None:
    connection = Connection(
        "kafka", "kafka", "broker", 9093, "me", "secret", extra={"security.protocol": "SASL_SSL", "linger.ms": 5}
    )
    settings = client_settings(connection)
    assert settings["bootstrap.servers"] == "broker:9093"
    assert settings["security.protocol"] == "SASL_SSL"
    assert settings["linger.ms"] == "5"
    assert (settings["sasl.username"], settings["sasl.password"]) == ("me", "secret")


def folders(monkeypatch: pytest.MonkeyPatch, answer: bytes) -> int:
    answering(monkeypatch, {1: answer})
    return log_dirs.partition_bytes("broker", 9092, "log", settings={})


def test_a_login_that_may_not_ask_for_sizes_is_refused_and_its_topic_is_not_empty(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its answer names no folder at all: the topic had 0 bytes then, and `log.max_gb` never gave an alarm."""
    with pytest.raises(ConfigError, match="may not report the size of topic log") as refused:
        folders(monkeypatch, struct.pack(">ii", 0, 0))
    assert "--operation Describe --cluster" in refused.value.hint
    empty_folder = struct.pack(">h", 0) + text("/disk1") + struct.pack(">i", 0)
    assert folders(monkeypatch, struct.pack(">ii", 0, 1) + empty_folder) == 0


def test_how_far_a_load_into_topics_is_needs_no_right_on_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was the size of the topics: 0 all along where the login has what `grants` prints, so the load was ended."""
    ends = {"a": (7,), "b": (5,), "gone": None}
    monkeypatch.setattr(topics, "written_ends", lambda _, topic: ends[topic])
    monkeypatch.setattr(topics, "begins", lambda _, topic, __: (2,) if ends[topic] else None)
    of_feed = topics.DestinationTopics.__new__(topics.DestinationTopics)
    of_feed._settings, of_feed._options = {}, KafkaOptions("bank", "json", 1, -1, 900)  # noqa: SLF001
    assert [of_feed.records(topic) for topic in ends] == [5, 3, 0]
    area = loads.KafkaLoadArea.__new__(loads.KafkaLoadArea)
    area._topics, area._names = of_feed, list(ends)  # noqa: SLF001
    before = area.progress()
    ends["b"] = (6,)
    assert area.progress().written_bytes > before.written_bytes > 0


@pytest.mark.parametrize(
    ("error", "kind", "cure"),
    [
        (ssl.SSLCertVerificationError(1, "certificate verify failed"), ConfigError, "the CA that signed"),
        (ssl.SSLError(1, "certificate required"), ConfigError, "certificates and ACLs of its connection"),
        (ssl.SSLEOFError(8, "EOF occurred"), TransientError, "is the broker up?"),
        (ConnectionRefusedError(111, "refused"), TransientError, "is the broker up?"),
    ],
)
def test_a_refused_certificate_is_no_broker_that_is_down(
    error: OSError, kind: type[SeamlineError], cure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> socket.socket:
        raise error

    monkeypatch.setattr(socket, "create_connection", refuse)
    with pytest.raises(kind) as said:
        one_request.ask_broker(("broker", 9093), (35, 1, b""), settings={}, doing="report the size of topic log")
    assert cure in said.value.hint and "broker:9093" in said.value.message


def test_a_refused_login_names_no_connection_that_was_not_asked() -> None:
    """It may be a destination's own connection."""
    answers = {(17, "no mechanism"): 33, (36, "no login"): 58}
    for refused, mechanism in (("no mechanism", "PLAIN"), ("no login", "PLAIN"), ("no login", "GSSAPI")):

        def ask(key: int, _: int, __: bytes, refused: str = refused) -> bytes:
            return struct.pack(">hh", answers.get((key, refused), 0), 0)

        with pytest.raises(ConfigError) as said:
            sasl.log_in(ask, {"sasl.mechanism": mechanism, "sasl.username": "me", "sasl.password": "pw"})
        assert "connection" in said.value.hint and "`kafka`" not in said.value.hint
