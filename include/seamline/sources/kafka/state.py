"""The rows that the messages of topics make, up to an offset of each partition: what this source has for a snapshot.

A topic is read whole and folded into a temporary file, once for all tables that share it, when one of them is first
asked for. Whether all of it is still there is looked at before and behind that.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from threading import Lock
from typing import Any

import pyarrow as pa

from seamline.adapters.kafka.committed import begins, committed
from seamline.adapters.kafka.topics import CaptureTopics, TopicFacts
from seamline.domain.catalogue import Table
from seamline.domain.digest import Segment
from seamline.domain.errors import Refused
from seamline.kinds.arrow_view import ArrowView
from seamline.kinds.held_rows import Changed, HeldRows
from seamline.ports import Problem
from seamline.sources.kafka import kept, ours
from seamline.sources.kafka.images import DECODER
from seamline.sources.kafka.layout import Layout, TopicTable
from seamline.sources.kafka.messages import Messages, given_by
from seamline.sources.kafka.position import KafkaPosition, TopicPlace, written_by_kafka
from seamline.sources.kafka.rows import ALTERS, CHANGES, COMES, EMPTIES, GOES, Given, Said
from seamline.values.segments import in_segment


class TopicStates:
    """At one position. Each call reads the same rows, also from other threads. Close it: temporary files go."""

    def __init__(self, settings: Mapping[str, Any], layout: Layout, source: str, position: KafkaPosition) -> None:
        self.position = position
        self._settings = settings
        self._layout = layout
        self._messages = Messages(layout, source)
        self._lock = Lock()
        self._folds: dict[str, Mapping[str, HeldRows]] = {}

    def batches(self, table: Table) -> Iterator[pa.RecordBatch]:
        """Refused: the topic does not hold its beginning any more. LogCorrupted: a message cannot be read."""
        for images in self._fold(table.name).rows(table.name):
            yield DECODER.rows(table, images)[0]

    def close(self) -> None:
        with self._lock:
            for fold in (one for folds in self._folds.values() for one in folds.values()):
                fold.close()
            self._folds = {}

    def _fold(self, table: str) -> HeldRows:
        declared = self._layout.of(table)
        if declared is None:
            raise Refused(f"table {table} is not declared any more", hint="onboard the sync again", table=table)
        with self._lock:
            if declared.topic not in self._folds:
                self._folds[declared.topic] = self._folded(declared.topic)
            return self._folds[declared.topic][table]

    def _folded(self, topic: str) -> Mapping[str, HeldRows]:
        place = self.position.topics.get(topic)
        if place is None:
            raise Refused(f"the capture does not read topic {topic} yet", hint="onboard the sync that needs it")
        tables = self._layout.of_topic(topic)
        folds = {one.definition.name: HeldRows(keyed=one.definition.is_keyed) for one in tables}
        keys = {name: _Keys(topic) for name in folds if len(place.ends) > 1}
        facts = required_beginning(self._settings, topic, place)
        take = self._said_by_key if kept.is_compacted(facts) else self._said
        for problem in (one for table in tables for one in self._uncountable(table, facts) if one.is_fatal):
            raise Refused(problem.what, hint=problem.cure, table=problem.table)
        for messages in committed(self._settings, topic, place.ends):
            said = [(given, one) for given in map(given_by, messages) for one in take(given, len(place.ends))]
            for name, fold in folds.items():
                mine = [(given, one) for given, one in said if one.table == name]
                if name in keys:
                    keys[name].take(mine)
                _take_in(fold, [one for _, one in mine])
        for one in keys.values():
            one.close()
        required_beginning(self._settings, topic, place)
        return folds

    def _uncountable(self, table: TopicTable, facts: TopicFacts) -> Iterator[Problem]:
        yield from kept.uncompactable(table, facts)
        yield from ours.problems(table, facts.partitions, self._settings)

    def _said(self, given: Given, partitions: int) -> Sequence[Said]:
        return self._messages.said(given, partitions=partitions)

    def _said_by_key(self, given: Given, partitions: int) -> Sequence[Said]:
        found = self._messages.said(given, partitions=partitions)
        self._messages.require_key(given, found)
        return found


class _Keys:
    """In which partition each key of a table lies, also of rows that went: messages of two partitions have no order, so
    of a key in two of them nobody knows which message is the newest."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._held = HeldRows(keyed=True)

    def take(self, said: Iterable[tuple[Given, Said]]) -> None:
        """Refused: a key lies in two partitions."""
        found = dict[bytes, bytes]()
        for given, one in said:
            if one.key is None:
                continue
            partition = b"%d" % given.partition
            if one.key not in found:
                found[one.key] = self._held.row(one.key) or partition
            if found[one.key] != partition:
                raise self._in_two(given, one.key, found[one.key])
        self._held.put(found.items())

    def close(self) -> None:
        self._held.close()

    def _in_two(self, given: Given, key: bytes, other: bytes) -> Refused:
        return Refused(
            f"topic {self._topic} holds the key {key.decode()} in partitions {other.decode()} and {given.partition}"
            f" (offset {given.offset}): they have no order, so nobody knows which message is the newest",
            hint=f"were partitions added, or does its writer choose them by more than the key? {kept.SENT_ANEW}",
        )


class TopicView(ArrowView):
    """`ports.ReadView`, and `kinds.bulk.ReadsTypedRows`."""

    def __init__(self, states: TopicStates, tables: Sequence[Table]) -> None:
        super().__init__(states.position, {table: _batches_of(states, table) for table in tables})
        self._states = states

    def typed_rows(self, table: Table, segment: Segment) -> Iterator[pa.RecordBatch]:
        return (in_segment(segment, table, rows, run_key="") for rows in self._states.batches(table))

    def close(self) -> None:
        self._states.close()


def _batches_of(states: TopicStates, table: Table) -> Any:
    return lambda: states.batches(table)


def required_beginning(settings: Mapping[str, Any], topic: str, place: TopicPlace) -> TopicFacts:
    """Refused: what the topic said first is deleted, or it is another topic."""
    facts = CaptureTopics(dict(settings)).facts(topic)
    if facts is None or written_by_kafka(facts.topic_id) != place.topic_id or facts.partitions != len(place.ends):
        raise Refused(f"topic {topic} is not the one that was read", hint="give the capture up and onboard again")
    if lost := kept.lost_beginning(topic, begins(settings, topic, facts.partitions) or ()):
        raise Refused(lost, hint=kept.SENT_ANEW)
    return facts


def _take_in(fold: HeldRows, said: Sequence[Said]) -> None:
    rows = list[Said]()
    for one in said:
        if one.op == EMPTIES:
            rows = []
            fold.empty()
        elif one.op != ALTERS:
            rows.append(one)
    if any(one.key is not None for one in rows):
        fold.put(_keyed(one) for one in rows)
    elif rows:
        fold.count(_copies(rows))


def _keyed(one: Said) -> Changed:
    return one.key or b"", None if one.op == GOES else one.after


def _copies(rows: Sequence[Said]) -> Counter[bytes]:
    found = Counter[bytes]()
    for one in rows:
        if one.op in (CHANGES, GOES):
            found[one.before or b""] -= 1
        if one.op in (CHANGES, COMES):
            found[one.after or b""] += 1
    return found
