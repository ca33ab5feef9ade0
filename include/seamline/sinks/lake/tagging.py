"""How the snapshots of a table get names: what the cuts of a lake need of a format of tables."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

# What the tag of a run begins with, which holds the snapshots until its cut is published.
OF_RUNS = "seamline_run_"


@dataclass(frozen=True, slots=True)
class Tag:
    """`until`: when other clients may let go of the snapshot, though the tag is still there."""

    name: str
    snapshot_id: int
    until: datetime


@dataclass(frozen=True, slots=True)
class TableTags:
    """What becomes of the tags of a table in one commit. A tag that is there moves to its new snapshot."""

    put: Sequence[Tag] = ()
    dropped: Collection[str] = ()


class Tagged(Protocol):
    """A table with other tags as its new metadata file says it. Nobody sees it until the pointer moves there."""

    @property
    def location(self) -> str: ...

    @property
    def snapshot_id(self) -> int:
        """Of the head, which tags do not change."""

    def drop(self) -> None:
        """Its pointer will not move there."""

    def drop_unneeded(self) -> None:
        """Its pointer has moved there: delete what nobody names any more."""


class Tagging(Protocol):
    def heads(self, locations: dict[str, str]) -> dict[str, int]:
        """Table → snapshot id of its head, by metadata files."""

    def staged(self, table: str, location: str, tags: TableTags, *, mark: str) -> Tagged | None:
        """The table with these tags; None where nothing changes. Refused: a snapshot is gone."""
