"""What a topic still holds of all that it ever said, by its settings and its first offsets. Pure."""

from collections.abc import Iterator, Sequence

from seamline.adapters.kafka.topics import TopicFacts, set_by
from seamline.ports import Problem
from seamline.sources.kafka.layout import CANAL, MAXWELL, TopicTable

# How a topic is made whole again: its first offset never goes back.
SENT_ANEW = (
    "let its writer send the table anew into a topic of another name, which keeps all records (`retention.ms=-1`,"
    " `retention.bytes=-1`) or is compacted, and declare that one; a stream that runs already goes on"
)
_LAG_MS_MIN = 3_600_000
_TOMBSTONES_MS_MIN = 7 * 86_400_000
_DAY_MS = "86400000"


def is_compacted(facts: TopicFacts) -> bool:
    return "compact" in _policies(facts)


def lost_beginning(topic: str, first: Sequence[int]) -> str:
    """ "" where it is all there. Compaction alone moves no first offset."""
    if not any(first):
        return ""
    return (
        f"topic {topic} begins at {', '.join(map(str, first))}: what it said before is deleted, so nobody knows what"
        " its rows are"
    )


def problems(table: TopicTable, facts: TopicFacts, first: Sequence[int]) -> Iterator[Problem]:
    name, topic = table.definition.name, facts.name
    if lost := lost_beginning(topic, first):
        yield Problem(lost, SENT_ANEW, table=name)
    elif "delete" in _policies(facts) and _is_bounded(facts):
        yield Problem(
            f"topic {topic} deletes what is old: from then on nothing can be compared with it, and no load begins",
            "set `retention.ms=-1` and `retention.bytes=-1`, or `cleanup.policy=compact` alone; the stream goes on in"
            " any case",
            is_fatal=False,
            table=name,
        )
    yield from uncompactable(table, facts)
    if is_compacted(facts):
        yield from _of_times(name, facts)


def uncompactable(table: TopicTable, facts: TopicFacts) -> Iterator[Problem]:
    """Why its rows cannot be known from its topic, where that is compacted."""
    if not is_compacted(facts):
        return
    name, topic = table.definition.name, table.topic
    if not table.definition.is_keyed:
        yield Problem(f"topic {topic} is compacted, and {name} has no key", "declare its `key`", table=name)
    if table.format in (MAXWELL, CANAL):
        yield Problem(
            f"topic {topic} is compacted, and messages of {table.format} say that a row goes by one that compaction"
            " keeps or drops as any other",
            f"let it keep all records (`cleanup.policy=delete`, `retention.ms=-1`), and {SENT_ANEW}",
            table=name,
        )


def _of_times(name: str, facts: TopicFacts) -> Iterator[Problem]:
    if int(facts.settings.get("min.compaction.lag.ms", "0")) < _LAG_MS_MIN:
        yield Problem(
            f"topic {facts.name} is compacted at once: what a comparison is about to read may be gone by then",
            f"set its `min.compaction.lag.ms` to {_LAG_MS_MIN} or more:"
            f" {set_by(facts.name, {'min.compaction.lag.ms': _LAG_MS_MIN})}",
            table=name,
        )
    if int(facts.settings.get("delete.retention.ms", _DAY_MS)) < _TOMBSTONES_MS_MIN:
        yield Problem(
            f"topic {facts.name} drops messages without a value soon: a capture that stands still for longer does not"
            " see that their rows went",
            f"set its `delete.retention.ms` to {_TOMBSTONES_MS_MIN} or more:"
            f" {set_by(facts.name, {'delete.retention.ms': _TOMBSTONES_MS_MIN})}",
            is_fatal=False,
            table=name,
        )


def _policies(facts: TopicFacts) -> set[str]:
    return {one.strip() for one in facts.settings.get("cleanup.policy", "delete").split(",")}


def _is_bounded(facts: TopicFacts) -> bool:
    return any(facts.settings.get(name, "-1") != "-1" for name in ("retention.ms", "retention.bytes"))
