"""What a kind of source offers to a bulk read: all sessions at one position, and tables as chunks of a binary COPY."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from seamline.domain.catalogue import Table
from seamline.domain.digest import Segment
from seamline.domain.position import Position
from seamline.plan.model import SourcePlan
from seamline.ports import ReadView


@dataclass(frozen=True, slots=True)
class BulkRead:
    """One table to read; `session` is its number among all reads of the run."""

    table: Table
    segment: Segment
    session: int


class TableReaders(Protocol):
    """The tables of one participant, read one after another by a process that does nothing else."""

    def meet(self) -> None:
        """Open all sessions at the position of the others."""

    def chunks(self, number: int, *, proven: Callable[[str], None]) -> Iterator[bytes]:
        """The rows of a table as one binary COPY in the destination's types; before the first chunk the reading
        session's own position is `proven`."""

    def close(self) -> None: ...


class CopyTasks(Protocol):
    """The participants, run elsewhere. `barrier` is what they need to find the coordinating side's position."""

    def start(self, barrier: str) -> None: ...

    def is_running(self) -> bool: ...

    def result(self) -> object:
        """Raises the first error of any."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What shall stand at one position: `views` sessions here for `tables`, and the sessions of `participants`
    elsewhere, `reads` of them together. `attempt` is unique."""

    attempt: str
    views: int
    tables: tuple[Table, ...]
    participants: int
    reads: int


@dataclass(frozen=True, slots=True)
class OpenedSource:
    """`opened_at`: the source's clock just after the views were open, UTC. `proof`: what a reader says that stands
    here. `read_here`: set where the tasks' sessions could not be brought here; then this process reads all tables,
    before it uses the views, which are the same session."""

    views: Sequence[ReadView]
    position: Position
    opened_at: datetime
    proof: str
    read_here: Callable[[Sequence[BulkRead]], TableReaders] | None = None


class OpenSource(Protocol):
    """Views here and the tasks' sessions at one position, for as long as the context is open."""

    def __call__(
        self, source: SourcePlan, wanted: Wanted, tasks: CopyTasks
    ) -> AbstractContextManager[OpenedSource]: ...


class OpenReaders(Protocol):
    def __call__(
        self, source: SourcePlan, reads: Sequence[BulkRead], *, barrier: str, participant: int
    ) -> TableReaders: ...
