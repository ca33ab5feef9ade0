"""`ports.LoggedSource` over topics of others. Markers go into a topic of our own, which the same capture reads."""

import difflib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import Any, TypeVar

from seamline.adapters.connections import resolve
from seamline.adapters.kafka.client import client_settings
from seamline.adapters.kafka.committed import begins, committed, committed_end, committed_ends, written_ends
from seamline.adapters.kafka.lines import KafkaLines
from seamline.adapters.kafka.topics import CaptureTopics, TopicFacts
from seamline.adapters.marker_row import marker_row
from seamline.domain.catalogue import Table, alterations
from seamline.domain.errors import InvariantViolated, Refused, TransientError
from seamline.kinds.bulk import ArrowRows, BulkRead, CopyTasks, OpenedSource, Wanted
from seamline.plan.model import SourcePlan
from seamline.ports import Marker, Problem, Survey
from seamline.sources.kafka import kept, newest, ours
from seamline.sources.kafka.layout import TopicTable, layout_of, markers_topic
from seamline.sources.kafka.log import read_record
from seamline.sources.kafka.position import KafkaPosition, TopicPlace, written_by_kafka
from seamline.sources.kafka.state import TopicStates, TopicView
from seamline.values.arrow import schema_of
from seamline.values.segments import in_segment

FoundT = TypeVar("FoundT")

# The end of a transaction is looked for in so many of the newest records, then in more.
_TAIL = 200
# So long a read waits for the capture, which takes what it can in parts of a second.
_WAIT_S = 60.0
_PAUSE_S = 0.2
# A broker marks the partitions of a committed transaction within moments. What is not marked by then counts as open.
_MARKED_S = 10.0


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
        facts = {one.topic: topics.facts(one.topic) for one in declared}
        found = [problem for one in declared for problem in _of_topic(one, facts[one.topic], settings)]
        there = [one for one in facts.values() if one is not None]
        found += [
            problem for one in there for problem in newest.problems(self._layout, self._source.name, one, settings)
        ]
        return tuple(found)

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
        """Where the markers end now. Each topic begins at its end when the capture begins: what is before is read from
        the topic itself, and those that no table is taken from need not even be there."""
        markers, settings = markers_topic(self._source), self._ours
        KafkaLines(markers, settings)
        facts = CaptureTopics(settings).facts(markers)
        if facts is None:
            raise TransientError(f"topic {markers} is not there yet", hint="try again: it was made just now")
        end = committed_end(settings, markers)
        return KafkaPosition({markers: TopicPlace(written_by_kafka(facts.topic_id), (end,))})

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

    def newest_of_all(self, tables: Sequence[Table]) -> tuple[KafkaPosition, datetime]:
        """A position behind all that is committed in the topics of these tables, and a time that is not behind it, UTC.

        Waits for the capture. TransientError: it does not come so far in a minute, as one that stands still.
        """
        settings, now = self._theirs, datetime.now(UTC)
        topics = self._layout.topics(table.name for table in tables)
        behind = _marked_ends(settings, sorted(topics))
        until = time.monotonic() + _WAIT_S
        while True:
            position = self.newest()
            behind = {topic: ends for topic, ends in behind.items() if _is_behind(settings, topic, position, ends)}
            if not behind:
                return position, now
            if time.monotonic() >= until:
                raise _capture_behind(position, behind)
            time.sleep(_PAUSE_S)

    def states(self, position: KafkaPosition) -> TopicStates:
        return TopicStates(self._theirs, self._layout, self._source.name, position)


@contextmanager
def open_for_tasks(source: SourcePlan, wanted: Wanted, tasks: CopyTasks) -> Iterator[OpenedSource]:
    """Tasks fold their tables' topics themselves, up to the same offsets."""
    opened = KafkaSource(source)
    position, moment = opened.newest_of_all(wanted.tables)
    with closing(TopicView(opened.states(position), wanted.tables)) as view:
        tasks.start(json.dumps(position.to_json()))
        yield OpenedSource([view] * wanted.views, position, moment, str(position))


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


def _marked_ends(settings: dict[str, Any], topics: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """By topic the committed ends, once all is marked that was written when this began.

    A broker says that a transaction is committed before it has marked each partition of it, so what is marked may be
    half of one that ended before now. One that stays open is not waited for: nothing of it is committed.
    """
    partitions = {topic: _partitions(settings, topic) for topic in topics}
    written = {topic: _there(topic, written_ends(settings, topic, count)) for topic, count in partitions.items()}
    until = time.monotonic() + _MARKED_S
    while True:
        marked = {topic: _there(topic, committed_ends(settings, topic, count)) for topic, count in partitions.items()}
        if all(_is_past(marked[topic], written[topic]) for topic in topics) or time.monotonic() >= until:
            return marked
        time.sleep(_PAUSE_S)


def _partitions(settings: dict[str, Any], topic: str) -> int:
    return _there(topic, CaptureTopics(settings).facts(topic)).partitions


def _there(topic: str, found: FoundT | None) -> FoundT:
    if found is None:
        raise Refused(f"topic {topic} is not there any more", hint="give the capture up and onboard again")
    return found


def _is_past(ends: Sequence[int], others: Sequence[int]) -> bool:
    return all(mine >= other for mine, other in zip(ends, others, strict=True))


def _is_behind(settings: dict[str, Any], topic: str, position: KafkaPosition, ends: Sequence[int]) -> bool:
    """Whether there are records below the ends that are not below the position. Behind the last record may be the
    marker of its transaction alone, which takes an offset and is none."""
    place = position.topics.get(topic)
    if place is None or len(place.ends) != len(ends):
        # The state refuses both by name.
        return False
    if _is_past(place.ends, ends):
        return False
    with closing(committed(settings, topic, ends, starts=place.ends)) as found:  # type: ignore[type-var]
        return next(found, None) is not None


def _capture_behind(position: KafkaPosition, behind: Mapping[str, Sequence[int]]) -> TransientError:
    said = "; ".join(f"{topic} to {','.join(map(str, ends))}" for topic, ends in behind.items())
    return TransientError(
        f"the capture stands at {position}, and has not come to what its topics held {_WAIT_S:.0f} s ago: {said}",
        hint="is it stopped, paused or slowed, or does it catch up? `./seamline status` shows it",
    )


def _of_topic(table: TopicTable, facts: TopicFacts | None, settings: dict[str, Any]) -> Iterator[Problem]:
    if facts is None:
        what = f"there is no topic {table.topic}, or its login may not describe it"
        yield Problem(what, "correct `topic`", table=table.definition.name)
    else:
        yield from kept.problems(table, facts, begins(settings, table.topic, facts.partitions) or ())
        yield from ours.problems(table, facts.partitions, settings)


def _unknown(name: str, known: Sequence[str], source: str) -> Problem:
    near = difflib.get_close_matches(name, known, n=1)
    guess = f"Did you mean `{near[0]}`?" if near else f"Declare it in `tables` of sources/{source}.yaml"
    return Problem(f"no topic of table {name} is declared", guess, table=name)
