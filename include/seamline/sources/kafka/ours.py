"""Topics that a destination of Seamline writes, as a source of their rows without a key.

Beside them lies its control topic (docs/reference/kafka-destination.md). It says whether records may be repeated, which
nothing in the records themselves says: by a key a repeat changes nothing, without one it is one more row.
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

from seamline.adapters.kafka.committed import committed, committed_ends
from seamline.domain.errors import ConfigError
from seamline.ports import Problem
from seamline.sources.kafka.layout import PLAIN, TopicTable

# The header that every record there has, and by how many of the newest ones of a partition it is known: behind a record
# may be markers of transactions alone.
_SPAN = re.compile(rb"\d+/\d+-\d+")
_LOOKED_AT = 20
_BYTES = re.compile(r"(?:-[0-9a-f]{2})+")
_OTHERWISE = "leave the table out of this sync"


def control_of(topic: str) -> str:
    """The control topic beside this one, were it one of ours; "" where it cannot be."""
    prefix, dot, _ = topic.rpartition(".")
    return f"{prefix}.control" if dot else ""


def table_in(topic: str) -> str:
    """The table's name there: signs that a topic's name cannot hold are spelled in bytes."""
    spelled = topic.rpartition(".")[2]
    return _BYTES.sub(lambda found: bytes.fromhex(found[0].replace("-", "")).decode(errors="replace"), spelled)


def problems(table: TopicTable, partitions: int, settings: Mapping[str, Any]) -> Iterator[Problem]:
    """Why the rows of a table without a key cannot be counted by its topic."""
    if table.definition.is_keyed:
        return
    is_ours = _is_ours(settings, table.topic, partitions)
    if partitions > 1 and table.format != PLAIN and not is_ours:
        yield _without_order(table, partitions)
    try:
        said = _said(settings, table.topic)
    except ConfigError as exc:
        if is_ours:
            yield _unknown(table, exc.message)
        return
    stream = next((one for one, state in said.items() if _repeats(state, table.topic)), "")
    if stream:
        yield _repeated(table, stream)
    elif is_ours and not any(_knows(state, table.topic) for state in said.values()):
        yield _unknown(table, "it says nothing of this table")


def _is_ours(settings: Mapping[str, Any], topic: str, partitions: int) -> bool:
    ends = committed_ends(settings, topic, partitions) or ()
    starts = [max(0, end - _LOOKED_AT) for end in ends]
    with closing(committed(settings, topic, ends, starts=starts)) as reading:  # type: ignore[type-var]
        headers = [dict(message.headers() or ()) for some in reading for message in some]
    return any(isinstance(span := one.get("span"), bytes) and _SPAN.fullmatch(span) for one in headers)


def _said(settings: Mapping[str, Any], topic: str) -> Mapping[str, Mapping[str, Any]]:
    """By stream its newest control record. ConfigError: the login may not read them."""
    control = control_of(topic)
    ends = committed_ends(settings, control, 1) if control else None
    found: dict[str, Mapping[str, Any]] = {}
    for messages in committed(settings, control, ends or ()):
        for message in messages:
            # Behind the stream the key of a commit without a transaction has the owner's epoch.
            stream, _, epoch = (message.key() or b"").decode(errors="replace").partition("#")
            state = _state(message.value())
            if state is None and not epoch:
                found.pop(stream, None)
            elif state is not None and (stream not in found or _epoch(state) >= _epoch(found[stream])):
                found[stream] = state
    return found


def _epoch(state: Mapping[str, Any]) -> int:
    return int(state.get("epoch", 0))


def _state(value: bytes | None) -> Mapping[str, Any] | None:
    """None: it ends a stream, or somebody else has written it, whose topic has that name too."""
    try:
        found = json.loads(value or b"null")
    except ValueError:
        return None
    return found if isinstance(found, dict) and isinstance(found.get("ends"), dict) else None


def _knows(state: Mapping[str, Any], topic: str) -> bool:
    """Also of a table that has left its sync."""
    return any(table_in(topic) in state.get(field, {}) for field in ("ends", "generations", "repeated"))


def _repeats(state: Mapping[str, Any], topic: str) -> bool:
    name = table_in(topic)
    return (bool(state.get("may_repeat")) and name in state["ends"]) or name in state.get("repeated", {})


def _repeated(table: TopicTable, stream: str) -> Problem:
    return Problem(
        f"topic {table.topic} is written by {stream} with `guarantee: at_least_once`: behind a crash it holds"
        f" records that do not count, which {control_of(table.topic)} alone names, and {table.definition.name} has no"
        " key, so they would count here",
        "let that sync say `guarantee: exactly_once` and write into a destination of another `prefix`, or"
        f" {_OTHERWISE}",
        table=table.definition.name,
    )


def _unknown(table: TopicTable, why: str) -> Problem:
    return Problem(
        f"topic {table.topic} is one that Seamline writes, and {table.definition.name} has no key: whether some of its"
        f" records do not count, {control_of(table.topic)} has to say: {why}",
        f"let the login read it (`./seamline grants` prints the ACLs), or {_OTHERWISE}",
        table=table.definition.name,
    )


def _without_order(table: TopicTable, partitions: int) -> Problem:
    return Problem(
        f"topic {table.topic} has {partitions} partitions, and {table.definition.name} has no key: where a row goes in"
        " another partition than the one in which it came, its going may be read first, and stops the stream",
        "declare its `key`, or let its writer send all records of the table into one partition",
        is_fatal=False,
        table=table.definition.name,
    )
