"""How long a name may be, and what a name that is too long becomes."""

import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

_MARK_DIGITS = 8


class NameUnit(StrEnum):
    BYTES = "bytes"  # of UTF-8
    CHARACTERS = "characters"


@dataclass(frozen=True, slots=True)
class NameLimit:
    """Of the names of tables at one kind of destination."""

    length: int
    unit: NameUnit

    def takes(self, name: str) -> bool:
        return (len(name.encode()) if self.unit is NameUnit.BYTES else len(name)) <= self.length

    def __str__(self) -> str:
        return f"{self.length} {self.unit}"


def fitted_name(wanted: str, limits: Collection[NameLimit]) -> str:
    """`wanted` where every limit takes it. Else as much of its beginning as they take, `_` and 8 hex digits of its
    SHA-256: two long names that begin alike stay apart."""
    if all(limit.takes(wanted) for limit in limits):
        return wanted
    mark = f"_{hashlib.sha256(wanted.encode()).hexdigest()[:_MARK_DIGITS]}"
    start = wanted[: min(limit.length for limit in limits)]
    while not all(limit.takes(start + mark) for limit in limits):
        start = start[:-1]
    return start + mark
