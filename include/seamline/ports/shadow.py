"""Shadow copies: some rows of a compared table, changed in known ways, for the self-test of comparisons."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from seamline.domain.catalogue import Table
from seamline.ports import ReadView


@dataclass(frozen=True, slots=True)
class ShadowCopy:
    """The rows of `table` with these canonical keys, and no others. Nothing is written anywhere.

    `changed`: key → column → canonical text, None for NULL; never a column of the key. `doubled`: keys whose row stands
    there twice. Both name keys of `keys` only, and no key is in both.
    """

    table: Table
    keys: tuple[str, ...]
    changed: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)
    doubled: tuple[str, ...] = ()


@runtime_checkable
class Shadows(Protocol):
    """A view that also answers for shadow copies of its tables, in the way in which it answers for the tables."""

    def sample(self, table: str, *, rows: int, key_from: int | None = None) -> Sequence[str]:
        """Canonical keys of at most so many rows, whichever are found first: without a pass over the table. Row texts
        where the table has no key. `key_from`: as of a Segment."""

    def shadow(self, wanted: ShadowCopy) -> ReadView:
        """A view of that copy alone, of a table that has a key. It lives in this view's session and ends with it."""
