"""How the files of a table are laid out: its partitions and its order, in the words of Spark's DDL (`PARTITIONED BY`,
`WRITE ORDERED BY`). Knows no client: declarations are made of it.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from seamline.domain.canonical import FLOAT_KINDS
from seamline.domain.catalogue import Kind, Table

_WITH_WIDTH = re.compile(r"(bucket|truncate)\(\s*(\d+)\s*,\s*(.+?)\s*\)", re.IGNORECASE)
_DAYS = re.compile(r"days?\(\s*(.+?)\s*\)", re.IGNORECASE)
_ORDERED = re.compile(r"(.+?)(?:\s+(asc|desc))?(?:\s+nulls\s+(first|last))?", re.IGNORECASE)
_SUFFIXES = {"bucket": "_bucket", "truncate": "_trunc", "day": "_day", "identity": ""}
_WIDTH_MAX = 2**31 - 1

_MOMENTS = frozenset({Kind.DATE, Kind.DATETIME, Kind.INSTANT})
# The least number of a type, truncated, is no number of that type.
_TEXTS = frozenset(
    {Kind.CHAR, Kind.STRING, Kind.ENUM, Kind.SET, Kind.JSON, Kind.JSONB, Kind.NATIVE, Kind.BINARY, Kind.BYTES}
)
# Of Spark a uuid is a text, and what a text is hashed to is another number. Floats that differ may be shown alike.
_NEVER = FLOAT_KINDS | {Kind.UUID}
TAKEN = {
    "identity": frozenset(Kind) - _NEVER,
    "bucket": frozenset(Kind) - _NEVER - {Kind.BOOLEAN},
    "truncate": _TEXTS,
    "day": _MOMENTS,
}
Fault = tuple[tuple[str, int], str, str]


@dataclass(frozen=True, slots=True)
class Partitioned:
    """One field of a partition. `width`: of `bucket` and `truncate`; else 0."""

    transform: str
    column: str
    width: int = 0

    @classmethod
    def parse(cls, text: str) -> "Partitioned":
        """ValueError: it is none of the forms."""
        text = text.strip()
        if found := _WITH_WIDTH.fullmatch(text):
            width = int(found[2])
            if not 0 < width <= _WIDTH_MAX:
                raise ValueError(f"{found[2]} is no number of buckets or letters: it is from 1 to {_WIDTH_MAX}")
            return cls(found[1].lower(), found[3], width)
        if found := _DAYS.fullmatch(text):
            return cls("day", found[1])
        if not text or "(" in text:
            raise ValueError(
                f"{text!r} is none of `column`, `bucket(16, column)`, `truncate(4, column)` and `days(column)`"
            )
        return cls("identity", text)

    @property
    def name(self) -> str:
        """Of the field, as Spark names it."""
        return f"{self.column}{_SUFFIXES[self.transform]}"


@dataclass(frozen=True, slots=True)
class Ordered:
    """One field of an order. Unless said, NULL comes first where it ascends and last where it descends."""

    column: str
    is_descending: bool = False
    are_nulls_first: bool = True

    @classmethod
    def parse(cls, text: str) -> "Ordered":
        found = _ORDERED.fullmatch(text.strip())
        if found is None:
            raise ValueError(f"{text!r} is none of `column`, `column desc` and `column desc nulls last`")
        is_descending = (found[2] or "").lower() == "desc"
        return cls(found[1], is_descending, found[3].lower() == "first" if found[3] else not is_descending)


@dataclass(frozen=True, slots=True)
class TableLayout:
    partitioned_by: tuple[Partitioned, ...] = ()
    sorted_by: tuple[Ordered, ...] = ()

    @classmethod
    def of(cls, said: Mapping[str, Sequence[str]]) -> "TableLayout":
        """Of what a declaration says, entry by entry. ValueError: one is none of the forms."""
        partitions = map(Partitioned.parse, said.get("partitioned_by", ()))
        return cls(tuple(partitions), tuple(map(Ordered.parse, said.get("sorted_by", ()))))

    @property
    def is_by_values(self) -> bool:
        """Whether rows lie apart by values of columns alone, in no order."""
        return not self.sorted_by and all(one.transform == "identity" for one in self.partitioned_by)

    def misfits(self, table: Table) -> Iterator[Fault]:
        """Key and number of each entry that does not fit the table, cause and cure."""
        known = {column.name: column for column in table.columns}
        named = [(("partitioned_by", number), one.column) for number, one in enumerate(self.partitioned_by)]
        named += [(("sorted_by", number), one.column) for number, one in enumerate(self.sorted_by)]
        for place, column in named:
            if column not in known:
                yield place, f"table {table.name} has no column {column}", f"It has {', '.join(known)}"
        for number, one in enumerate(self.partitioned_by):
            found = known.get(one.column)
            if found is not None and found.kind not in TAKEN[one.transform]:
                forms = [f"`{name}`" for name, kinds in TAKEN.items() if found.kind in kinds]
                cure = f"It can have {', '.join(forms)}" if forms else "Take another column"
                cause = f"column {one.column} is {found.source_type}, which cannot have the partition `{one.transform}`"
                yield ("partitioned_by", number), cause, cure
            elif one.transform != "identity" and one.name in known:
                cause = f"table {table.name} has a column {one.name}, as the partition would be called"
                yield ("partitioned_by", number), cause, "Partition it by another column, or in another way"
