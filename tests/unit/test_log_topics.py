"""What a capture's topics must be, and how a topic's bytes are asked for."""

import struct

import pytest

from seamline.adapters.connections import Connection
from seamline.adapters.kafka.client import client_settings
from seamline.adapters.kafka.log_dirs import _partitions
from seamline.adapters.kafka.topics import CONNECTOR_OFFSETS, LOG, SCHEMA_HISTORY, TopicFacts, TopicRule, faults


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


def test_the_answer_about_log_folders_is_read_field_by_field() -> None:
    log_topic = text("log") + struct.pack(">i", 2) + partition(0, 1000) + partition(0, 400, is_moving=True)
    other = text("other") + struct.pack(">i", 1) + partition(0, 7)
    first_folder = struct.pack(">h", 0) + text("/disk1") + struct.pack(">i", 2) + log_topic + other
    offline_folder = struct.pack(">h", 56) + text("/disk2") + struct.pack(">i", 0)
    answer = struct.pack(">ii", 0, 2) + first_folder + offline_folder
    assert list(_partitions(answer)) == [("log", 0, 1000), ("other", 0, 7)]


def test_client_settings_take_everything_that_the_connection_says() -> None:
    connection = Connection(
        "kafka", "kafka", "broker", 9093, "me", "secret", extra={"security.protocol": "SASL_SSL", "linger.ms": 5}
    )
    settings = client_settings(connection)
    assert settings["bootstrap.servers"] == "broker:9093"
    assert settings["security.protocol"] == "SASL_SSL"
    assert settings["linger.ms"] == "5"
    assert (settings["sasl.username"], settings["sasl.password"]) == ("me", "secret")
