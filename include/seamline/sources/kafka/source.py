"""`ports.LoggedSource` over topics of others. Markers go into a topic of our own, which the same capture reads."""

import difflib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import Any

from seamline.adapters.connections import resolve
from seamline.adapters.kafka.client import client_settings
from seamline.adapters.kafka.committed import begins, committed, committed_ends
from seamline.adapters.kafka.lines import KafkaLines
from seamline.adapters.kafka.topics import CaptureTopics, TopicFacts
from seamline.adapters.marker_row import marker_row
from seamline.domain.catalogue import Table, alterations
from seamline.domain.errors import InvariantViolated, TransientError
from seamline.kinds.bulk import ArrowRows, BulkRead, CopyTasks, OpenedSource, Wanted
from seamline.plan.model import SourcePlan
from seamline.ports import Marker, Problem, Survey
from seamline.sources.kafka.layout import TopicTable, layout_of, markers_topic
from seamline.sources.kafka.log import read_record
from seamline.sources.kafka.position import KafkaPosition, TopicPlace, written_by_kafka
from seamline.sources.kafka.state import TopicStates, TopicView
from seamline.values.arrow import schema_of
from seamline.values.segments import in_segment

# The end of a transaction is looked for in so many of the newest records, then in more.
_TAIL = 200
_LAG_MS_MIN = 3_600_000


class KafkaSource:
    """Nothing is held between calls."""

    def __init__(self, source: SourcePlan) -> None:
        self._source = source
        self._layout = layout_of(source)

    @property
    def _theirs(self) -> dict[str, Any]:
        return client_settings(resolve(self._source.reader))

    @property
    def _ours(self) -> dict[str, Any]:
        return client_settings(resolve("kafka"))

    def survey(self, tables: Sequence[str]) -> Survey:
        found = [(name, self._layout.of(name)) for name in tables]
        known = [one.definition.name for one in self._layout.tables]
        problems = tuple(_unknown(name, known, self._source.name) for name, one in found if one is None)
        return Survey(tuple(one.definition for _, one in found if one is not None), problems)

    def catalogue(self, tables: Sequence[str]) -> tuple[Table, ...]:
        return self.survey(tables).whole()

    def altered(self, planned: Sequence[Table]) -> list[str]:
        now = self.catalogue([table.name for table in planned])
        return [text for old, new in zip(planned, now, strict=True) for text in alterations(old, new)]

    def preflight(self, tables: Sequence[Table]) -> tuple[Problem, ...]:
        settings = self._theirs
        topics = CaptureTopics(settings)
        declared = [one for one in (self._layout.of(table.name) for table in tables) if one is not None]
        return tuple(problem for one in declared for problem in _of_topic(one, topics.facts(one.topic), settings))

    def commit_marker(self, marker: Marker) -> None:
        """A repeat writes it once more, which means the same."""
        marker_id, kind, payload = marker_row(marker)
        row = {"id": marker_id, "kind": kind, "payload": payload, "at": int(time.time() * 1000)}
        KafkaLines(markers_topic(self._source), self._ours).append(json.dumps(row))

    def prune_markers(self, *, older_than_s: float, rows_max: int) -> int:  # noqa: ARG002 (a topic is cut at an offset)
        topics, topic = CaptureTopics(self._ours), markers_topic(self._source)
        first, _ = topics.offsets(topic)
        below = topics.young_from(topic, keep_s=older_than_s)
        return topics.prune(topic, below=below) - first if below > first else 0

    def seed_position(self) -> KafkaPosition:
        """Where all topics end now. What is before it is read from the topics themselves."""
        markers = markers_topic(self._source)
        KafkaLines(markers, self._ours)
        theirs = {one.topic: self._theirs for one in self._layout.tables}
        found = {topic: _end_of(topic, settings) for topic, settings in {**theirs, markers: self._ours}.items()}
        return KafkaPosition({topic: found[topic] for topic in sorted(found) if found[topic] is not None})  # type: ignore[misc]

    def let_go(self) -> None:
        """The topic of markers goes with the capture."""
        CaptureTopics(self._ours).delete(markers_topic(self._source))

    def open_views(self, count: int) -> Sequence[TopicView]:
        view = TopicView(self.states(self.newest()), [one.definition for one in self._layout.tables])
        return [view] * count

    def newest(self) -> KafkaPosition:
        """Where the log's newest whole transaction ends: of each one a view has all or nothing."""
        topic, settings = self._source.log_topic, self._ours
        low, end = CaptureTopics(settings).offsets(topic)
        tail = _TAIL
        while end > low:
            start = max(low, end - tail)
            if (found := _newest_end(settings, topic, start, end)) is not None:
                return found
            if start == low:
                break
            tail *= 10
        raise TransientError(
            f"log topic {topic} holds no transaction yet", hint="is the capture running? `seamline status` shows it"
        )

    def states(self, position: KafkaPosition) -> TopicStates:
        return TopicStates(self._theirs, self._layout, self._source.name, position)


@contextmanager
def open_for_tasks(source: SourcePlan, wanted: Wanted, tasks: CopyTasks) -> Iterator[OpenedSource]:
    """Tasks fold their tables' topics themselves, up to the same offsets."""
    opened = KafkaSource(source)
    position = opened.newest()
    with closing(TopicView(opened.states(position), wanted.tables)) as view:
        tasks.start(json.dumps(position.to_json()))
        yield OpenedSource([view] * wanted.views, position, datetime.now(UTC), str(position))


class KafkaReaders:
    """`kinds.bulk.TableReaders`."""

    def __init__(self, source: SourcePlan, reads: Sequence[BulkRead], *, barrier: str) -> None:
        self._source = source
        self._reads = reads
        self._position = KafkaPosition.from_json(json.loads(barrier))
        self._states: TopicStates | None = None

    def open_at_barrier(self) -> None:
        self._states = KafkaSource(self._source).states(self._position)

    def rows(self, number: int, *, proven: Callable[[str], None]) -> ArrowRows:
        if self._states is None:
            raise InvariantViolated("the readers have not met yet")
        read = self._reads[number]
        proven(str(self._position))
        batches = (in_segment(read.segment, read.table, one, run_key="") for one in self._states.batches(read.table))
        return ArrowRows(schema_of(read.table), batches)

    def close(self) -> None:
        if self._states is not None:
            self._states.close()


def _newest_end(settings: dict[str, Any], topic: str, start: int, end: int) -> KafkaPosition | None:
    found = None
    for messages in committed(settings, topic, (end,), starts=(start,)):
        for message in messages:
            record = read_record(message.value() or b"{}")
            if record.bracket == "END":
                found = record.after
    return None if found is None else KafkaPosition.of_texts(found)


def _end_of(topic: str, settings: dict[str, Any]) -> TopicPlace | None:
    facts = CaptureTopics(settings).facts(topic)
    ends = committed_ends(settings, topic, facts.partitions) if facts else None
    return TopicPlace(written_by_kafka(facts.topic_id), ends) if facts and ends else None


def _of_topic(table: TopicTable, facts: TopicFacts | None, settings: dict[str, Any]) -> Iterator[Problem]:
    name, topic = table.definition.name, table.topic
    if facts is None:
        yield Problem(f"there is no topic {topic}, or its login may not describe it", "correct `topic`", table=name)
        return
    first = begins(settings, topic, facts.partitions) or ()
    if "compact" in facts.settings.get("cleanup.policy", ""):
        yield from _of_compacted(table, facts)
    elif any(first):
        yield Problem(
            f"topic {topic} begins at {', '.join(map(str, first))}: what it said before is deleted",
            "let it keep all records, or be compacted, and let its writer send the table anew",
            table=name,
        )
    elif facts.settings.get("retention.ms", "-1") != "-1" or facts.settings.get("retention.bytes", "-1") != "-1":
        yield Problem(
            f"topic {topic} deletes what is old: from then on nothing can be compared with it, and no load begins",
            "set `retention.ms=-1` and `retention.bytes=-1`, or let it be compacted; the stream goes on in any case",
            is_fatal=False,
            table=name,
        )


def _of_compacted(table: TopicTable, facts: TopicFacts) -> Iterator[Problem]:
    name = table.definition.name
    if not table.definition.is_keyed:
        yield Problem(f"topic {facts.name} is compacted, and {name} has no key", "declare its `key`", table=name)
    if int(facts.settings.get("min.compaction.lag.ms", "0")) < _LAG_MS_MIN:
        yield Problem(
            f"topic {facts.name} is compacted at once: what a comparison is about to read may be gone by then",
            f"set its `min.compaction.lag.ms` to {_LAG_MS_MIN} or more",
            table=name,
        )


def _unknown(name: str, known: Sequence[str], source: str) -> Problem:
    near = difflib.get_close_matches(name, known, n=1)
    guess = f"Did you mean `{near[0]}`?" if near else f"Declare it in `tables` of sources/{source}.yaml"
    return Problem(f"no topic of table {name} is declared", guess, table=name)
