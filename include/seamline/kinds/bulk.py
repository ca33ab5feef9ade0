"""A bulk load: a kind of source opens sessions at one position, a kind of sink has a place for each table's rows."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from seamline.domain.catalogue import Table
from seamline.domain.digest import Segment
from seamline.domain.position import Position
from seamline.ports import ReadView

if TYPE_CHECKING:
    import pyarrow as pa


class Form(StrEnum):
    """In what form the rows of a table are read."""

    TYPED = "typed"  # `ArrowRows`
    NATIVE = "native"  # `PostgresCopy`, where the kind of source has it


@dataclass(frozen=True, slots=True)
class BulkRead:
    """One table to read; `session` is its number among all reads of the run. `form`: native only where every
    destination takes that."""

    table: Table
    segment: Segment
    session: int
    form: Form = Form.TYPED


@dataclass(frozen=True, slots=True)
class ArrowRows:
    """The rows of a table as batches of `values.arrow.schema_of`; every source gives them and every sink takes them."""

    schema: "pa.Schema"
    batches: "Iterator[pa.RecordBatch]"


@dataclass(frozen=True, slots=True)
class PostgresCopy:
    """The rows of a table as the blocks of one binary COPY of all its columns, in types of PostgreSQL.

    A native form: only a sink that says so takes it.
    """

    blocks: Iterator[bytes]


TableRows = ArrowRows | PostgresCopy


class TableReaders(Protocol):
    """The tables of one participant, read one after another by a process that does nothing else."""

    def open_at_barrier(self) -> None:
        """Open all sessions at the position of the others."""

    def rows(self, number: int, *, proven: Callable[[str], None]) -> TableRows:
        """The rows of a table; before the first of them the reading session's place is `proven`, by its own word."""

    def close(self) -> None: ...


@runtime_checkable
class ReadsTypedRows(Protocol):
    """A view of a source that also gives rows in the typed form, at its position: where they have to be transformed
    before they can be compared."""

    def typed_rows(self, table: Table, segment: Segment) -> "Iterator[pa.RecordBatch]":
        """Read to its end, before the view is asked for anything else."""


class CopyTasks(Protocol):
    """The participants, run elsewhere. `barrier` is what they need to find the coordinating side's position."""

    def start(self, barrier: str) -> None: ...

    def is_running(self) -> bool: ...

    def result(self) -> object:
        """Raises the first error of any."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What shall stand at one position: `views` sessions here for `tables`, and those of `participants` elsewhere.
    `attempt` is unique. `business_date`: of the run; None of a read that is for no date."""

    attempt: str
    views: int
    tables: tuple[Table, ...]
    participants: int
    business_date: date | None = None


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


@dataclass(frozen=True, slots=True)
class StagedPlace:
    """Where a sink stages a table of an attempt. Crosses to the tasks that fill it; both names are the sink's own."""

    table: Table
    schema: str
    name: str


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """`open` are the staged tables that a session is at; one that builds an index, say, `is_working`, one that waits
    for the next rows is not."""

    written_bytes: int
    open: tuple[str, ...]
    is_working: bool


class LoadArea(Protocol):
    """The staged tables of one attempt of one run in one destination."""

    def create(self, tables: Sequence[Table]) -> Mapping[str, StagedPlace]:
        """An empty place for each, by table name."""

    def progress(self) -> LoadProgress:
        """What has come so far of the tables of this attempt."""

    def drop(self) -> None:
        """Drop the tables of this attempt."""
