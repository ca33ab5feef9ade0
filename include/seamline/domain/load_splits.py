"""A load by splits: which parts of a table an interrupted attempt has staged, and where each was read (ADR 87)."""

import hashlib
import json
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from seamline.domain.catalogue import Kind, Table
from seamline.domain.digest import Segment
from seamline.domain.made_from import LogPlace, place_from_json, place_to_json
from seamline.domain.position import Position, position_from_json, position_to_json

KeyRange = tuple[int | None, int | None]


@dataclass(frozen=True, slots=True)
class Splitting:
    """Into what a load is divided. `rows`: of a split, about; `parts_max`: splits of one table. A load of fewer than
    `rows_min` rows in all is not divided: to read it again takes seconds."""

    rows: int = 100_000
    parts_max: int = 32
    rows_min: int = 200_000

    def parts(self, table: Table) -> int:
        """How many splits a table has. 1 where its key does not begin with a whole number, and where a value has a type
        that only its own server has: such a column gets its type once all rows are there."""
        has_ranges = table.is_keyed and table.key_columns[0].kind in (Kind.INTEGER, Kind.UNSIGNED)
        if not has_ranges or any(column.kind is Kind.NATIVE for column in table.columns):
            return 1
        return max(1, min(table.rows_estimate // self.rows, self.parts_max))


@dataclass(frozen=True, slots=True)
class Split:
    """One of the `of` parts of a table, as the read `read` of the attempt `attempt` reads it."""

    number: int
    of: int
    read: str
    attempt: str


@dataclass(frozen=True, slots=True)
class DoneSplit:
    """A split whose rows are staged. `proof`: the place of the session that read it, by its own word."""

    number: int
    read: str
    proof: str
    rows: int


@dataclass(frozen=True, slots=True)
class SplitRead:
    """One attempt's read of the source. `place`: where the log goes on; the position says which transactions the read
    holds. `proof`: what every session of it said."""

    read: str
    proof: str
    position: Position
    place: LogPlace


def edges_of(span: tuple[int, int] | None, parts: int) -> tuple[int, ...]:
    """The bounds between at most `parts` ranges of equal width from the least to the greatest key; () for one range."""
    if span is None:
        return ()
    least, width = span[0], span[1] - span[0] + 1
    return tuple(sorted({least + width * number // parts for number in range(1, parts)} - {least}))


def ranges_of(edges: Sequence[int]) -> list[KeyRange]:
    """Half-open, the first and the last without an end: every key is in exactly one of them."""
    return list(pairwise([None, *edges, None]))


def made_as(fingerprint: str, segment: Segment, *, source: str, topic_id: str) -> str:
    """What a staged table was begun as: rows of another definition, another part of the table or another log cannot be
    put beside it."""
    text = json.dumps([fingerprint, asdict(segment), source, topic_id], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def read_to_json(read: SplitRead) -> dict[str, Any]:
    return {
        "read": read.read,
        "proof": read.proof,
        "position": position_to_json(read.position),
        "place": place_to_json(read.place),
    }


def read_from_json(document: dict[str, Any]) -> SplitRead:
    return SplitRead(
        document["read"],
        document["proof"],
        position_from_json(document["position"]),
        place_from_json(document["place"]),
    )


def why_not_kept(done: Collection[DoneSplit], reads: dict[str, SplitRead], *, topic_id: str, begins: int) -> str:
    """Why these splits cannot be kept, "" where they can. `begins`: the first offset that the log still has."""
    for one in done:
        read = reads.get(one.read)
        if read is None:
            return "it was interrupted before the place of its read was written down"
        if read.proof != one.proof:
            return f"split {one.number} was read at {one.proof}, not at {read.proof}"
        if read.place.topic_id != topic_id:
            return f"the log topic was created again since {read.position}"
        if read.place.offset < begins:
            return f"the log begins at offset {begins}, behind {read.position}: offset {read.place.offset} is needed"
    return ""
