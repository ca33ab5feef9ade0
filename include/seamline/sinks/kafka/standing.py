"""Whether the topics of a stream are those that its ledger knows: made anew, cut, spread or written otherwise, they are
not."""

from collections.abc import Mapping
from typing import Any

from seamline.adapters.kafka.committed import newest_offsets, partitions_of
from seamline.domain.errors import Diverged, Refused
from seamline.sinks.kafka.control import StreamState
from seamline.sinks.kafka.options import KafkaOptions, topic_of

_LOAD = "load the destination again: run the onboarding of its sync, and name it under Destinations to load"


def require_as_counted(
    settings: Mapping[str, Any], namespace: str, options: KafkaOptions, ends: Mapping[str, tuple[int, ...]]
) -> None:
    """`ends`: table → per partition the offset after the last record that the ledger counts.

    Diverged: a topic is gone, has other partitions, or ends before that.
    """
    topics = {topic_of(namespace, table): table for table in ends}
    there = partitions_of(settings)
    for topic, table in topics.items():
        if topic not in there:
            raise Diverged(f"topic {topic} is gone", hint=_LOAD, table=table)
        if there[topic] != options.partitions:
            raise other_partitions(topic, table, f"it has {there[topic]}", wanted=options.partitions)
    newest = newest_offsets(settings, {topic: len(ends[table]) for topic, table in topics.items()})
    for topic, table in topics.items():
        for number, (end, counted) in enumerate(zip(newest[topic], ends[table], strict=True)):
            if end < counted:
                raise lost_records(topic, table, number, end=end, counted=counted)


def require_same_form(state: StreamState | None, options: KafkaOptions) -> None:
    """Refused: the topics of a stream hold records of the other form."""
    if state is not None and state.form not in ("", options.format):
        raise Refused(
            f"the topics of {state.row.stream} hold records of format {state.form}, and {options.format} is declared:"
            " readers would find both in one topic",
            hint=f"write `format: {state.form}` again; for the other form declare a destination of another prefix",
            sync=state.row.stream.sync,
        )


def other_partitions(topic: str, table: str, what: str, *, wanted: int) -> Diverged:
    return Diverged(
        f"topic {topic} has other partitions than its rows were spread over, {wanted}: {what}",
        hint="a key would have rows in two, without an order. Declare as many `partitions` as it has if only the"
        f" declaration was changed; else delete the topic, then {_LOAD}",
        table=table,
    )


def lost_records(topic: str, table: str, number: int, *, end: int, counted: int) -> Diverged:
    return Diverged(
        f"topic {topic} has lost records: its partition {number} goes on at offset {end}, and the ledger has counted up"
        f" to {counted}",
        hint=f"it was made anew, or cut. The records that are left stay; {_LOAD}",
        table=table,
    )
