"""Whether the topics of a stream are those that its ledger knows: made anew, cut, spread or written otherwise,
also by somebody else, they are not."""

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from seamline.adapters.kafka.committed import ids_of, newest_offsets, partitions_of
from seamline.domain.errors import Diverged, Refused
from seamline.domain.ledger import StreamId
from seamline.plan.model import INCREMENTAL
from seamline.sinks.kafka.control import Control, StreamState
from seamline.sinks.kafka.options import KafkaOptions, topic_of

_KNOWN_WITHIN_S, _PAUSE_S = 5.0, 0.2


def require_as_counted(
    settings: Mapping[str, Any], namespace: str, options: KafkaOptions, ends: Mapping[str, tuple[int, ...]]
) -> None:
    """`ends`: table → per partition the offset after the last record that the ledger counts.

    Diverged: a topic is gone, has other partitions, or ends before that.
    """
    topics = {topic_of(namespace, table): table for table in ends}
    there = _seen(settings, topics)
    for topic, table in topics.items():
        if topic not in there:
            raise Diverged(
                f"topic {topic} is gone",
                hint="run the onboarding of the sync, and name the destination under Destinations to load",
                table=table,
            )
        wanted = len(ends[table])
        if other := {there[topic], options.partitions} - {wanted}:
            raise other_partitions(topic, table, there=max(other), wanted=wanted)
    newest = newest_offsets(settings, {topic: len(ends[table]) for topic, table in topics.items()})
    for topic, table in topics.items():
        for number, (end, counted) in enumerate(zip(newest[topic], ends[table], strict=True)):
            if end < counted:
                raise lost_records(topic, table, number, end=end, counted=counted)


def ids_as_counted(settings: Mapping[str, Any], topics: Mapping[str, str], known: Mapping[str, str]) -> dict[str, str]:
    """Table → the id of its topic, also of those whose id the ledger does not know yet. `topics`: table → the name.
    `known`: table → the id of the topic whose offsets the ledger counts.

    Diverged: a topic is another one of the same name. That one is gone is not said here: a broker that has just started
    may not know it yet.
    """
    there = ids_of(settings, topics.values())
    found = {table: there.get(topic) or known.get(table, "") for table, topic in topics.items()}
    for table, topic_id in found.items():
        if topic_id != known.get(table, topic_id):
            raise Diverged(
                f"topic {topics[table]} is not the topic that the ledger counts in: it has id {topic_id}, the ledger's"
                f" had id {known[table]}",
                hint="it was deleted and made anew: run the onboarding of the sync, and name the destination under"
                " Destinations to load",
                table=table,
            )
    return {table: topic_id for table, topic_id in found.items() if topic_id}


def _seen(settings: Mapping[str, Any], wanted: Collection[str]) -> Mapping[str, int]:
    """The partitions of topics. A broker that has just started may not know all of them yet, so what is missing is
    looked for again."""
    until = time.monotonic() + _KNOWN_WITHIN_S
    while True:
        there = partitions_of(settings)
        if there.keys() >= set(wanted) or time.monotonic() >= until:
            return there
        time.sleep(_PAUSE_S)


def require_same_form(state: StreamState | None, options: KafkaOptions) -> None:
    """Refused: the topics of a stream hold records of the other form."""
    if state is not None and state.form not in ("", options.format):
        raise Refused(
            f"the topics of {state.row.stream} hold records of format {state.form}, and {options.format} is declared:"
            " readers would find both in one topic",
            hint=f"write `format: {state.form}` again; for the other form declare a destination of another prefix",
            sync=state.row.stream.sync,
        )


def taken(control: Control, stream: StreamId) -> dict[str, StreamId]:
    """Table → the other stream that writes its topic. Topics of incremental snapshots have names of their own."""
    if INCREMENTAL in stream.sync:
        return {}
    others = (one for one in control.states if one != stream and INCREMENTAL not in one.sync)
    return {table: one for one in others for table in control.states[one].ends}


def require_own(control: Control, stream: StreamId, tables: Iterable[str], is_there: Callable[[str], bool]) -> None:
    """Refused: another stream writes the topic of one of these tables. `is_there`: whether a table's topic is."""
    writers = taken(control, stream)
    for table in tables:
        if table in writers and is_there(table):
            what, cure = written_by(table, writers[table])
            raise Refused(what, hint=cure, table=table)


def written_by(table: str, other: StreamId) -> tuple[str, str]:
    """What is wrong, and its cure."""
    return (
        f"the topic of table {table} is there already, and {other} writes it",
        f"choose another prefix for this destination; or take the table out of {other.sync} and run"
        f" `{other.sync}__tables`; or delete the topic, where that sync was given up",
    )


def other_partitions(topic: str, table: str, *, there: int, wanted: int) -> Diverged:
    """`there`: how many it has, at least, or shall have."""
    return Diverged(
        f"topic {topic} has {there} partitions, or as many are declared, and its rows are spread over {wanted}: a key"
        " would have rows in two, without an order",
        hint=f"write `partitions: {wanted}` again if the declaration alone was changed; else delete the topic, then run"
        " the onboarding of the sync, and name the destination under Destinations to load",
        table=table,
    )


def lost_records(topic: str, table: str, number: int, *, end: int, counted: int) -> Diverged:
    return Diverged(
        f"topic {topic} has lost records: its partition {number} goes on at offset {end}, and the ledger has counted up"
        f" to {counted}",
        hint="it was made anew, or cut: run the onboarding of the sync, and name the destination under Destinations to"
        " load",
        table=table,
    )
