"""Records that do not count: a commit without a transaction has delivered them and ended before its control record.

Nobody takes them back. The next owner begins where the control record stands and delivers the same changes again. It
writes down where the others lie, so that what a topic holds at a position is known to the row all the same.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from confluent_kafka import Message

from seamline.adapters.kafka.committed import committed, written_ends
from seamline.domain.catalogue import Table

_SPAN = re.compile(rb"\d+/\d+-(\d+)")


@dataclass(frozen=True, slots=True)
class Repeated:
    """Offsets from `first` to `end`, exclusive, of a partition. `until`: the offset of the source's log behind which
    every key in them has a newer record, so that they need no mark. None: of a table without a key, where they never
    count."""

    partition: int
    first: int
    end: int
    until: int | None

    def has(self, message: Message) -> bool:
        return message.partition() == self.partition and self.first <= (message.offset() or 0) < self.end


def with_repeated(known: Sequence[Repeated], found: Sequence[Repeated], *, ends: Sequence[int]) -> tuple[Repeated, ...]:
    """`found`: what was looked for from `ends` on. What is known of a table without a key stays wherever it lies: once
    the stream has passed the spans of its records, nobody finds them again."""
    stays = [one for one in known if one.until is None or one.first < ends[one.partition]]
    joined = list[Repeated]()
    for one in sorted((*stays, *found), key=lambda one: (one.partition, one.first)):
        last = joined[-1] if joined else None
        if last and one.until is None is last.until and one.partition == last.partition and one.first <= last.end:
            joined[-1] = replace(last, end=max(last.end, one.end))
        else:
            joined.append(one)
    return tuple(joined)


def found_behind(
    settings: Mapping[str, Any], topic: str, table: Table, ends: Sequence[int], *, position: int
) -> list[Repeated]:
    """The records behind `ends` of a commit that never ended, for the one who owns the stream. `position`: the next
    offset of the source's log.

    What somebody else has written is not marked, and what an owner that is over has delivered late is not either: it is
    in the topic as all readers see it, and the comparison says what it did.
    """
    written = written_ends(settings, topic, len(ends)) or ends
    found: dict[int, list[Repeated]] = {}
    for messages in committed(settings, topic, written, starts=ends):
        for message in messages:
            until = _end_of_span(message)
            if until > position:
                _append(found.setdefault(message.partition() or 0, []), message, until if table.is_keyed else None)
    return [one for runs in found.values() for one in runs]


def _append(runs: list[Repeated], message: Message, until: int | None) -> None:
    partition, offset = message.partition() or 0, message.offset() or 0
    first = offset
    if runs and runs[-1].end == offset:
        last = runs.pop()
        first, until = last.first, None if until is None else max(until, last.until or 0)
    runs.append(Repeated(partition, first, offset + 1, until))


def _end_of_span(message: Message) -> int:
    """-1 of a record that is nobody's span."""
    span = dict(message.headers() or ()).get("span")
    found = _SPAN.fullmatch(span) if isinstance(span, bytes) else None
    return int(found[1]) if found else -1
