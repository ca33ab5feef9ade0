"""Topics that a destination of Seamline writes, as a source: rows without a key count by them alone where no record may
be repeated, and all copies of one row lie in one partition."""

import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from seamline.adapters.kafka.topics import TopicFacts
from seamline.domain.catalogue import Table, fingerprint
from seamline.domain.errors import ConfigError, Diverged, Refused
from seamline.ports import Problem
from seamline.sinks.kafka.options import topic_of
from seamline.sinks.kafka.table_writer import partition_of
from seamline.sources.kafka import ours, state
from seamline.sources.kafka.grants import grant_script
from seamline.sources.kafka.layout import layout_of
from seamline.sources.kafka.position import KafkaPosition, TopicPlace
from seamline.sources.kafka.state import TopicStates
from tests.fault.simulator.kafka_topics import TABLES, TopicsRun
from tests.memory_topics import Cluster
from tests.unit.test_kafka_source import ACCOUNT, declared

COLUMNS = [{"name": "actor", "type": "text"}, {"name": "action", "type": "text"}]
AUDIT: dict[str, Any] = {"table": "audit", "topic": "t.audit", "format": "json", "columns": COLUMNS}
OF_DEBEZIUM = {**AUDIT, "format": "debezium", "schemas": False}
OURS = [("op", b"c"), ("span", b"3/0-10")]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster(random.Random(1), partitions=3)
    with made.in_place():
        yield made


def problems(table: Any, *, partitions: int = 3) -> list[Problem]:
    return list(ours.problems(layout_of(declared(table)).tables[0], partitions, {}))


def say(cluster: Cluster, stream: str = "feed@t", **said: Any) -> None:
    value = json.dumps({"ends": {}, "generations": {}, **said}).encode()
    cluster.append(("t.control", 0), (stream.encode(), value, []), None)


def write(cluster: Cluster, headers: Sequence[tuple[str, bytes]] = OURS) -> None:
    cluster.append(("t.audit", 2), (None, b'{"actor":"x","action":"y"}', list(headers)), None)


def test_every_table_is_known_by_the_name_that_its_topic_spells() -> None:
    for name in ("account", "a_b", "a.b", "a-b", "a%b", "a-2db", "客户", "客-户", "A"):
        assert ours.table_in(topic_of("bank", name)) == name
    assert (ours.control_of("bank.audit"), ours.control_of("audit")) == ("bank.control", "")


@pytest.mark.parametrize(
    ("said", "is_refused"),
    [
        ({"ends": {"audit": [0, 0, 1]}}, False),
        ({"ends": {"audit": [0, 0, 1]}, "may_repeat": False, "repeated": {}}, False),
        ({"ends": {"audit": [0, 0, 1]}, "may_repeat": True}, True),
        ({"ends": {"audit": [0, 0, 1]}, "repeated": {"audit": [[2, 0, 1, None]]}}, True),
        ({"generations": {"audit": 1}, "repeated": {"audit": [[2, 0, 1, None]]}}, True),
        ({"generations": {"audit": 1}}, False),
        ({"ends": {"audit": [0, 0, 1]}, "repeated": {"account": [[2, 0, 1, 20]]}}, False),
    ],
)
def test_rows_without_a_key_are_refused_where_the_control_topic_says_that_records_may_be_repeated(
    cluster: Cluster, said: Any, is_refused: bool
) -> None:
    write(cluster)
    say(cluster, **said)
    say(cluster, "other@t", ends={"account": [0]}, may_repeat=True)
    cluster.append(("t.control", 0), (b"no stream", b"no json", []), None)
    found = problems(AUDIT)
    assert [one.is_fatal for one in found] == [True] * is_refused
    if is_refused:
        assert "is written by feed@t with `guarantee: at_least_once`" in found[0].what
        assert "`guarantee: exactly_once`" in found[0].cure
    assert problems({**AUDIT, "key": ["actor"]}) == []


def test_what_a_stream_is_says_its_newest_owner_whatever_one_before_it_says_late(cluster: Cluster) -> None:
    write(cluster)
    late = {"ends": {"audit": [0, 0, 1]}, "may_repeat": True, "epoch": 3}
    say(cluster, "feed@t#3", **late)
    (refused,) = problems(AUDIT)
    assert "is written by feed@t with" in refused.what
    say(cluster, ends={"audit": [0, 0, 1]}, epoch=4)
    say(cluster, "feed@t#3", **late)
    cluster.append(("t.control", 0), (b"feed@t#3", None, []), None)
    assert problems(AUDIT) == []


def test_what_nobody_says_or_may_read_of_our_topics_is_refused_and_of_others_is_not(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(cluster, [])
    assert problems(AUDIT) == []
    write(cluster)
    (unknown,) = problems(AUDIT)
    assert (unknown.is_fatal, "it says nothing of this table" in unknown.what) == (True, True)

    def refuse(*_: object) -> None:
        raise ConfigError("not authorized")

    monkeypatch.setattr(ours, "_said", refuse)
    (unknown,) = problems(AUDIT)
    assert (unknown.is_fatal, "t.control has to say: not authorized" in unknown.what) == (True, True)
    monkeypatch.setattr(ours, "_is_ours", lambda *_: False)
    assert problems(AUDIT) == []


def test_rows_of_others_without_a_key_in_several_partitions_are_warned_of(cluster: Cluster) -> None:
    (warned,) = problems(OF_DEBEZIUM)
    assert (warned.is_fatal, "has 3 partitions, and audit has no key" in warned.what) == (False, True)
    assert problems(OF_DEBEZIUM, partitions=1) == problems(AUDIT) == problems(ACCOUNT) == []
    write(cluster)
    say(cluster, ends={"audit": [0, 0, 1]})
    assert problems(OF_DEBEZIUM) == []


def test_equal_rows_lie_in_one_partition_as_the_page_says_it() -> None:
    # The check value of CRC-32 in its catalogue (reveng.sourceforge.io).
    assert partition_of(b"123456789", 1 << 32) == 0xCBF43926
    assert {partition_of(b"%d" % number, 6) for number in range(99)} == set(range(6))


def taken(states: TopicStates, table: Table) -> Counter[str] | None:
    """None: more copies went than had come."""
    try:
        return Counter(row for batch in states.batches(table) for row in batch.column(1).to_pylist())
    except Diverged:
        return None


@pytest.mark.parametrize("seed", [6, 10])
@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_a_second_sync_takes_the_rows_that_the_first_one_holds_or_none(
    guarantee: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind a schedule with kills, over the very topics, in either format."""
    first = TopicsRun(seed, guarantee, 3)
    first.run()
    assert first.tally["killed"]
    form = {"format": first.form, **({"schemas": False} if first.form == "debezium" else {})}
    layout = layout_of(declared({**AUDIT, **form}))
    table = layout.tables[0]

    class Topics:
        def __init__(self, _: object) -> None: ...

        def facts(self, topic: str) -> TopicFacts:
            return TopicFacts(topic, "id", 3, {"cleanup.policy": "delete"})

    monkeypatch.setattr(state, "CaptureTopics", Topics)
    monkeypatch.setattr(state, "written_by_kafka", lambda _: "id")
    ends = tuple(len(first.cluster.log((table.topic, number))) for number in range(3))
    states = TopicStates({}, layout, "others", KafkaPosition({table.topic: TopicPlace("id", ends)}))
    with first.cluster.in_place():
        if guarantee == "at_least_once":
            with pytest.raises(Refused, match="would count here"):
                list(states.batches(table.definition))
            monkeypatch.setattr(ours, "problems", lambda *_: ())
        # What is refused would be wrong.
        assert (taken(states, table.definition) == first.wanted.audits) is (guarantee == "exactly_once")
    states.close()


def test_the_acls_name_the_control_topic_where_a_table_has_no_key() -> None:
    script = grant_script(declared(AUDIT), ["audit"], login="reader")
    assert "--topic t.control" in script
    assert "control" not in grant_script(declared(ACCOUNT), ["account"], login="reader")


def test_each_record_says_the_position_of_its_span_and_the_schema_of_its_table() -> None:
    run = TopicsRun(6, "exactly_once", 3)
    run.run()
    # The newest control records: the topic was compacted.
    said = [json.loads(one.value() or b"{}") for one in run.cluster.readable(("t.control", 0))]
    positions = {"{}/{}-{}".format(one["epoch"], *one["span"]): one["position"] for one in said}
    found = [
        (table, dict(record.headers()))
        for table in TABLES
        for number in range(3)
        for record in run.cluster.readable((f"t.{table.name}", number))
    ]
    assert {headers["schema"].decode() == fingerprint(table) for table, headers in found} == {True}
    of_spans = [(headers["span"].decode(), json.loads(headers["position"])) for _, headers in found]
    known = [(positions[span], position) for span, position in of_spans if span in positions]
    assert known
    assert [one for one, other in known if one != other] == []
