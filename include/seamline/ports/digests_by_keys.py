"""Digests of the rows of some keys, for the proof of a cut that was carried on."""

from collections.abc import Sequence
from enum import Enum
from typing import Protocol, runtime_checkable

from seamline.domain.digest import SegmentDigest


class Others(Enum):
    """What is asked of the rows whose key is not among the named ones."""

    APART = "apart"
    LEFT_OUT = "left out"


@runtime_checkable
class DigestsByKeys(Protocol):
    """A view that digests the rows of some keys and all others apart, in one pass over the table."""

    def digests_by_keys(
        self, table: str, keys: Sequence[int], *, run_keys: Sequence[str], others: Others
    ) -> tuple[Sequence[SegmentDigest], Sequence[SegmentDigest]]:
        """The digest of the rows with these keys under each run key, and that of all other rows under each.

        A row is hashed as by `ReadView.digests`. The table's key is one integer, or `keys` is empty. Of others that are
        left out the digests are empty, and only rows with these keys are read."""
