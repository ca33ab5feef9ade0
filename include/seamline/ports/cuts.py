"""Cuts of a destination: staged, published in versions, and let go again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Protocol

from seamline.domain.catalogue import Table
from seamline.domain.cut_keep import KeptCut
from seamline.domain.date_before import PublishedTable
from seamline.domain.staged_cut import Lateness, Published, StagedCut
from seamline.ports import ReadView


class CutPublisher(Protocol):
    """The power of a destination to hold cuts in versions. Any call may be repeated."""

    def publish(self, cut: StagedCut, *, definitions: Mapping[str, Table], signed_by: str) -> Published:
        """Make the staged tables the next version of their date, all in one step; a repeat of the run finds it.

        GateFailed, and nothing published, where a staged table no longer holds what was compared. `definitions`: the
        sync's tables by name; a derived table has none there and is counted only.
        """


class Cuts(CutPublisher, Protocol):
    """The same with what the nightly asks about the cuts that are there."""

    def lateness(self, sync: str, table: str, business_date: date, *, staged_as: str) -> Lateness | None:
        """What the staged rows have beyond the version that counts now, and what they lack; None without one."""

    def date_before(self, sync: str, business_date: date) -> Sequence[PublishedTable]:
        """The tables by business date of the newest date before this one that is published."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class PinnedTables:
    """Live tables that stay as they are for a run, whatever the stream does meanwhile.

    `views` see them at the ledger's position; `staged_as`: by table what a publish finds it by.
    """

    views: Sequence[ReadView]
    staged_as: Mapping[str, str]


class Dropped(Protocol):
    """What left a destination with a cut."""

    @property
    def partitions(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...


class CutStore(Protocol):
    """The cuts of one destination."""

    def kept_cuts(self, sync: str) -> tuple[Sequence[KeptCut], datetime]:
        """Every table of every version that is there, and the destination's time."""

    def expire(self, sync: str, business_date: date, cuts: Sequence[KeptCut]) -> Dropped:
        """Drop these in one transaction. TransientError: they are in use; Refused: somebody builds on them."""

    def expired(self, sync: str) -> Sequence[tuple[date, int]]:
        """(business date, version) of every cut of which nothing is left."""

    def close(self) -> None: ...
