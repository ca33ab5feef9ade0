"""Sets of transactions as MySQL names them: `uuid:1-5:8:tag:1-3`, one sequence of numbers for each uuid and tag.

A transaction is in the set or it is not; no number says what came before it. Text is read and printed as MySQL 9.7
does: sorted, in lower case, neighbours joined; only the line breaks that the server puts behind commas are left out.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from seamline.domain.errors import InvariantViolated

# The server numbers transactions up to here.
LAST_NUMBER = 2**63 - 2
_UUID = re.compile(r"\{?([0-9a-f]{8})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{12})\}?")
_TAG = re.compile(r"[a-z_][a-z0-9_]{0,31}")
_INTERVAL = re.compile(r"(\d+)\s*(?:-\s*(\d+))?")

Sequence = tuple[str, str]
"""Who numbers transactions: uuid of a server and tag, "" for none."""
Intervals = tuple[tuple[int, int], ...]
"""First and last number of each, both included; sorted, with a gap between each two."""


@dataclass(frozen=True, slots=True)
class GtidSet:
    """Equal sets are equal values. `parts` is sorted and holds no sequence without numbers."""

    parts: tuple[tuple[Sequence, Intervals], ...] = ()

    @classmethod
    def parse(cls, text: str) -> "GtidSet":
        """What the server prints or takes; InvariantViolated for anything else."""
        found: dict[Sequence, list[tuple[int, int]]] = {}
        for part in filter(None, (one.strip() for one in text.lower().split(","))):
            for sequence, interval in _intervals_of(part, text):
                found.setdefault(sequence, []).append(interval)
        return _of({sequence: _joined(intervals) for sequence, intervals in found.items()})

    def contains(self, other: "GtidSet") -> bool:
        """Whether every transaction of `other` is in this set."""
        mine = dict(self.parts)
        return all(
            _holds(mine.get(sequence, ()), interval) for sequence, intervals in other.parts for interval in intervals
        )

    def union(self, other: "GtidSet") -> "GtidSet":
        parts = dict(self.parts)
        for sequence, intervals in other.parts:
            parts[sequence] = _joined([*parts.get(sequence, ()), *intervals])
        return _of(parts)

    def minus(self, other: "GtidSet") -> "GtidSet":
        """The transactions of this set that are not in `other`."""
        theirs = dict(other.parts)
        return _of({sequence: _left(intervals, theirs.get(sequence, ())) for sequence, intervals in self.parts})

    @property
    def count(self) -> int:
        return sum(last - first + 1 for _, intervals in self.parts for first, last in intervals)

    def __bool__(self) -> bool:
        return bool(self.parts)

    def __str__(self) -> str:
        servers: dict[str, list[str]] = {}
        for (uuid, tag), intervals in self.parts:
            texts = [f"{first}-{last}" if last > first else str(first) for first, last in intervals]
            servers.setdefault(uuid, [uuid]).extend([tag, *texts] if tag else texts)
        return ",".join(":".join(texts) for texts in servers.values())


def _of(parts: Mapping[Sequence, Intervals]) -> GtidSet:
    return GtidSet(tuple(sorted((sequence, intervals) for sequence, intervals in parts.items() if intervals)))


def _intervals_of(part: str, text: str) -> Iterator[tuple[Sequence, tuple[int, int]]]:
    """The intervals of `uuid:1-5:tag:7`; a tag counts for all that stand behind it."""
    name, *items = (item.strip() for item in part.split(":"))
    uuid = _UUID.fullmatch(name)
    if uuid is None:
        raise _malformed(text)
    tag = ""
    for item in items:
        if _TAG.fullmatch(item):
            tag = item
            continue
        interval = _INTERVAL.fullmatch(item)
        if interval is None:
            raise _malformed(text)
        first, last = int(interval[1]), int(interval[2] or interval[1])
        if not 0 < first <= LAST_NUMBER or last > LAST_NUMBER:
            raise _malformed(text)
        # One that ends before it begins is empty, as it is for the server.
        if first <= last:
            yield ("-".join(uuid.groups()), tag), (first, last)


def _joined(intervals: list[tuple[int, int]]) -> Intervals:
    joined: list[tuple[int, int]] = []
    for first, last in sorted(intervals):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], last))
        else:
            joined.append((first, last))
    return tuple(joined)


def _holds(intervals: Intervals, wanted: tuple[int, int]) -> bool:
    return any(first <= wanted[0] and wanted[1] <= last for first, last in intervals)


def _left(intervals: Intervals, taken: Intervals) -> Intervals:
    left: list[tuple[int, int]] = []
    for first, last in intervals:
        start = first
        for gone_first, gone_last in taken:
            if gone_last < start or gone_first > last:
                continue
            if gone_first > start:
                left.append((start, gone_first - 1))
            start = gone_last + 1
        if start <= last:
            left.append((start, last))
    return tuple(left)


def _malformed(text: str) -> InvariantViolated:
    return InvariantViolated(f"not a set of MySQL GTIDs: {text[:200]!r}")
