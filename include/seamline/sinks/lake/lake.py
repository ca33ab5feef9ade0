"""A lake as one destination has it: what its format of tables does its own way."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from seamline.databases.postgres.client import Session
from seamline.domain.catalogue import Column, Table
from seamline.kinds.live_columns import Misfit
from seamline.kinds.reading import PinnedTable
from seamline.sinks.lake.cuts import LakeCuts
from seamline.sinks.lake.derived import PinnedFiles
from seamline.sinks.lake.pointers import Pointers
from seamline.sinks.lake.read_back import Live, OpenAt
from seamline.sinks.lake.storage import RowStorage
from seamline.sinks.lake.stores import FilePath


class LakeTable(PinnedTable, PinnedFiles, Protocol):
    """A table at one snapshot, for people and for Spark's tasks."""


class OpenTable(Protocol):
    def __call__(self, name: str, location: str, number: int, columns: Sequence[str] = (), /) -> LakeTable:
        """By where its pointer leads, and the number of a snapshot. `columns`: the ones to read; all without any."""


@dataclass(frozen=True, slots=True)
class Lake:
    """`loads_in`: the namespace that loads are staged in. `at`: reads a table at the number by which a run or a cut
    holds it. `misfit`: whether a table, by where its pointer leads, would not take a load of this one. `sweep`: drops
    files that nothing needs any more; how many. `type_of`: what a column is stored as, for people."""

    catalogue: Pointers
    warehouse: str | FilePath
    loads_in: str
    storage: RowStorage
    live: Live
    at: OpenAt
    open_table: OpenTable
    misfit: Callable[[Table, str], Misfit | None]
    open_cuts: Callable[[], LakeCuts]
    sweep: Callable[[Session], int]
    type_of: Callable[[Column], str]
