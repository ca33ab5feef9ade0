"""Some of the newest messages of a topic, and what the declaration does not foresee in them. Nothing is changed there.

A stream, a load and a comparison stop at the first such message. Here it is found before anything is set up.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, NamedTuple

from confluent_kafka import Message

from seamline.adapters.kafka.committed import begins, committed, committed_ends
from seamline.adapters.kafka.topics import TopicFacts
from seamline.domain.errors import LogCorrupted
from seamline.ports import Problem
from seamline.sources.kafka.layout import Layout
from seamline.sources.kafka.messages import Messages, cure_of, given_by, not_taken

# So many of the newest records of each partition are looked at: behind a row that goes is one without a value.
_LOOKED_AT = 20
# Of different reasons in one topic.
_REASONS_MAX = 5


def newest(settings: Mapping[str, Any], topic: str, partitions: int) -> Sequence[Message]:
    """Of each partition some of the newest that are committed, the newest first. None of a topic that is not there."""
    ends, firsts = (ask(settings, topic, partitions) or () for ask in (committed_ends, begins))
    starts = [max(first, end - _LOOKED_AT) for first, end in zip(firsts, ends, strict=True)]
    with closing(committed(settings, topic, ends, starts=starts)) as reading:  # type: ignore[type-var]
        messages = [message for some in reading for message in some]
    return sorted(messages, key=lambda one: (one.timestamp()[1], one.offset()), reverse=True)


def problems(layout: Layout, source: str, facts: TopicFacts, settings: Mapping[str, Any]) -> Iterator[Problem]:
    """Of one topic. What stops a stream is fatal; that there is no message to look at is not."""
    number, table = next((n, one) for n, one in enumerate(layout.tables) if one.topic == facts.name)
    name, place = table.definition.name, ("tables", number)
    messages = newest(settings, facts.name, facts.partitions)
    if not messages:
        yield Problem(
            f"topic {facts.name} holds no message yet, so nobody knows whether its messages are as they are declared",
            "Nothing is wrong where its writer has sent none; else correct `topic`",
            is_fatal=False,
            table=name,
        )
    declared, found = Messages(layout, source), dict[str, list[Departure]]()
    for one in (_departure(declared, message, facts, source) for message in messages):
        if one is not None:
            found.setdefault(one.why, []).append(one)
    for same in list(found.values())[:_REASONS_MAX]:
        what = f"{same[0].what} ({len(same)} of the {len(messages)} newest messages)"
        yield Problem(what, same[0].cure, table=name, place=place)


class Departure(NamedTuple):
    """Of one message. `why`: without its place."""

    why: str
    what: str
    cure: str


def _departure(declared: Messages, message: Message, facts: TopicFacts, source: str) -> Departure | None:
    try:
        given = given_by(message)
    except LogCorrupted as exc:
        return Departure(exc.hint, exc.message, exc.hint)
    why = declared.departure(given, facts)
    return Departure(why, not_taken(given, why), cure_of(source)) if why else None
