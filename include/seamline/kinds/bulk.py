"""A bulk load: a kind of source opens sessions at one position, a kind of sink has a place for each table's rows."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from seamline.domain.catalogue import Table
from seamline.domain.digest import Segment
from seamline.domain.load_splits import DoneSplit
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


@runtime_checkable
class KnowsRowOrder(Protocol):
    """A view of a source whose rows need not lie in the order of their key: a range of keys may then be spread over the
    whole table."""

    def is_in_key_order(self, table: str) -> bool:
        """Whether rows whose keys are near each other lie near each other, as far as the source knows."""


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
    for the next rows is not. `rows`: of the splits that are done, where a load is divided; else 0."""

    written_bytes: int
    open: tuple[str, ...]
    is_working: bool
    rows: int = 0


class LoadArea(Protocol):
    """The staged tables of one attempt of one run in one destination."""

    def create(self, tables: Sequence[Table]) -> Mapping[str, StagedPlace]:
        """An empty place for each, by table name."""

    def progress(self) -> LoadProgress:
        """What has come so far of the tables of this attempt."""

    def drop(self) -> None:
        """Drop the tables of this attempt."""


@dataclass(frozen=True, slots=True)
class StagedSplits:
    """A table that an earlier attempt of the run has begun to stage by splits. `made_as` and `edges`: as that attempt
    has given them."""

    place: StagedPlace
    made_as: str
    edges: tuple[int, ...]
    done: tuple[DoneSplit, ...]


@dataclass(frozen=True, slots=True)
class SplitTable:
    """A table to stage by splits. `edges`: the keys between them."""

    table: Table
    made_as: str
    edges: tuple[int, ...]


class SplitArea(LoadArea, Protocol):
    """A load area whose tables may outlive the attempt that has begun them. What is known of their splits lies beside
    them in the destination, and so does which attempt of the run has taken them over last. No other one changes
    anything of them, nor what is known of them: `drop` leaves them alone, `create` raises LoadTakenOver."""

    def begun(self, tables: Sequence[Table]) -> Mapping[str, StagedSplits]:
        """Take over what earlier attempts of the run have left, which no such attempt can undo; of these tables what it
        is, by table name."""

    def held(self) -> AbstractContextManager[None]:
        """Nobody takes over meanwhile; for minutes at most. LoadTakenOver: another attempt has."""

    def reads(self) -> Mapping[str, str]:
        """What `note_read` was given by all attempts of the run."""

    def note_read(self, read: str, document: str) -> None: ...

    def keep(self, kept: Sequence[StagedSplits]) -> None:
        """Before `create`, which then leaves these tables alone; they are of this attempt from now on."""

    def create_splits(self, tables: Sequence[SplitTable]) -> Mapping[str, StagedPlace]:
        """An empty place for each, as `create`, of whose splits a record is kept."""

    def forget(self) -> bool:
        """No later attempt goes on with what is staged: it is whole, or not to be trusted. False where another attempt
        has taken it over, which alone may say so."""
