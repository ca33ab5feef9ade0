"""How long a name may be, and what a name that is too long becomes."""

import hashlib
import re
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

_MARK_DIGITS = 8
# Of file systems 255, of which `.ibd` takes four.
_FILE_BYTES_MAX = 251
_PLAIN = re.compile(r"[A-Za-z0-9_]")


class NameUnit(StrEnum):
    BYTES = "bytes"  # of UTF-8
    CHARACTERS = "characters"
    # Of a table that is a file of its name, in which what is no Latin letter or digit has 5 bytes.
    FILE_CHARACTERS = "file_characters"


@dataclass(frozen=True, slots=True)
class NameLimit:
    """Of the names of tables at one kind of destination."""

    length: int
    unit: NameUnit

    def takes(self, name: str) -> bool:
        if self.unit is NameUnit.FILE_CHARACTERS and _file_bytes(name) > _FILE_BYTES_MAX:
            return False
        return (len(name.encode()) if self.unit is NameUnit.BYTES else len(name)) <= self.length

    def __str__(self) -> str:
        if self.unit is NameUnit.FILE_CHARACTERS:
            return f"{self.length} characters, {_FILE_BYTES_MAX // 5} of other scripts than Latin"
        return f"{self.length} {self.unit}"


def _file_bytes(name: str) -> int:
    """At most: some letters of Latin scripts have 3."""
    return sum(1 if _PLAIN.fullmatch(letter) else 5 for letter in name)


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
