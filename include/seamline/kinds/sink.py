"""What a kind of destination is: all that the rest of Seamline asks of it by name."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, Protocol, runtime_checkable

from seamline.domain.catalogue import NAME_BYTES_MAX, Column, Table
from seamline.domain.changes import Finding, FindingsReported
from seamline.domain.date_before import PublishedTable
from seamline.domain.digest import Segment
from seamline.domain.ledger import StreamId
from seamline.domain.load_splits import Split, SplitRead
from seamline.domain.names import NameLimit, NameUnit
from seamline.domain.phrase import phrase
from seamline.domain.position import Position
from seamline.domain.staged_cut import StagedCut
from seamline.domain.verdict import TableVerdict
from seamline.kinds.bulk import LoadArea, SplitArea, StagedPlace, TableRows
from seamline.kinds.derived import StagedPart
from seamline.kinds.live_columns import Misfit
from seamline.kinds.logins import DestinationLogins
from seamline.kinds.reading import SyncTables
from seamline.plan.model import DerivedTablePlan, DestinationPlan, SyncPlan
from seamline.ports import Load, Problem, ReadView, Sink, StagedView
from seamline.ports.cuts import Cuts, CutStore, PinnedTables
from seamline.ports.maintenance import DestinationMaintenance
from seamline.ports.separate import SeparateSide

if TYPE_CHECKING:
    import pyarrow as pa

    from seamline.ports.certificates import ProbeDestination
    from seamline.spec.destination import Destination
    from seamline.values.changes import ChangeBatch, ChangeDecoder

AT_LEAST_ONCE = "at_least_once"


class Atomic(StrEnum):
    """What one commit moves at once."""

    SYNC = "sync"  # all tables and the ledger
    TABLE = "table"  # one table; the ledger follows
    NONE = "none"


_COMMITS = {
    Atomic.SYNC: phrase("one commit moves all tables of the sync and the ledger"),
    Atomic.TABLE: phrase("each table exactly once; all tables at one position by the ledger's versions"),
    Atomic.NONE: phrase("writes become visible one by one; exact once the stream stands still"),
}
# Of kinds that keep each change beside the others, as topics and files of changes do.
EACH_CHANGE_KEPT = phrase(
    "one commit moves all tables of the sync and the ledger; a change that the source's writer repeats is there again"
)
_PUBLISHES = {
    Atomic.SYNC: phrase("a publish shows all tables of a date at once"),
    Atomic.TABLE: phrase(
        "a publish shows each table at once; all tables of a date stand at one position by the cut's rows"
    ),
    Atomic.NONE: phrase("a publish shows its tables bit by bit; a date is whole once its cut says so"),
}


@dataclass(frozen=True, slots=True)
class SinkPowers:
    """What a kind of destination can do.

    `keyless`: it keeps a table without a key as a multiset. `deletes`, `truncates`: it applies them; one that does not
    raises Refused at the first. `native_copy`: it takes `PostgresCopy`. `names`: how long its tables' names may be.
    `keeps_versions`: it can store the cuts of a table as versions, `DestinationPlan.versioned`.
    `streams`: it has live tables that a stream keeps current; one without takes cuts only (`open_sink` and `open_live`
    raise Refused), is neither loaded nor streamed to by an onboarding, and its `atomic` is that of a publish.
    `published`: what a publish shows, of a kind that does something else than its `atomic` says; "" of others.
    `at_least_once`: what readers may rely on where a sync says so, of a kind that then does less; "" of others.
    `over_repeats`: the same where the source's log may say a change twice (`kinds.source.MayRepeat`), of a kind that
    keeps each change; "" of others, whose rows are the same in the end.
    """

    atomic: Atomic
    keyless: bool = True
    deletes: bool = True
    truncates: bool = True
    native_copy: bool = False
    names: NameLimit = NameLimit(NAME_BYTES_MAX, NameUnit.BYTES)
    streams: bool = True
    keeps_versions: bool = False
    published: str = ""
    at_least_once: str = ""
    over_repeats: str = ""

    def level_under(self, guarantee: str) -> str:
        """`level`, of a sync that declares this guarantee."""
        return self.at_least_once if guarantee == AT_LEAST_ONCE and self.at_least_once else self.level

    def level_over_repeats(self, guarantee: str) -> str:
        """The same of a source whose log may say a change twice."""
        is_less = guarantee == AT_LEAST_ONCE and self.at_least_once
        return self.over_repeats if self.over_repeats and not is_less else self.level_under(guarantee)

    @property
    def level(self) -> str:
        """What readers may rely on, for people: of what a commit, or of cuts alone a publish, moves at once."""
        return _COMMITS[self.atomic] if self.streams else self.level_of_cuts

    @property
    def level_of_cuts(self) -> str:
        """The same of cuts alone, as where a source has no log."""
        return self.published or _PUBLISHES[self.atomic]

    def described(self) -> tuple[str, ...]:
        """For people, one line each."""
        limit = f"the name of a table has at most {self.names}"
        if not self.streams:
            return ("no live tables and no stream: cuts only", self.level, limit)
        cannot = {
            "a table without a key is refused": self.keyless,
            "deletes are refused": self.deletes,
            "TRUNCATE is refused": self.truncates,
        }
        less = (f"with `guarantee: at_least_once`: {self.at_least_once}",) if self.at_least_once else ()
        if self.over_repeats:
            less = (*less, f"of a source whose log may say a change twice: {self.over_repeats}")
        return (self.level, *less, *(words for words, can in cannot.items() if not can), limit)


class SinkKind(Protocol):
    """A kind of destination that streams write to and snapshots are loaded into."""

    name: ClassVar[str]
    powers: ClassVar[SinkPowers]

    def spec(self) -> "type[Destination]":
        """The model of its declaration."""

    def open_sink(self, plan: SyncPlan, destination: DestinationPlan, *, decoder: "ChangeDecoder") -> Sink:
        """`decoder` is that of the source: `values.changes.change_batch` makes of it what a span does to a table."""

    def problems(self, plan: SyncPlan, destination: DestinationPlan) -> Sequence[Problem]:
        """What would keep it from taking the plan's tables. Changes nothing."""

    def grant_script(self, destination: DestinationPlan, database: str, *, logins: DestinationLogins) -> str:
        """What the owner of its database runs once. `database`: the one that its connection leads to, where it names
        one."""

    def load_area(self, destination: DestinationPlan, *, run_id: str) -> LoadArea: ...

    def load(self, destination: DestinationPlan, place: StagedPlace, rows: TableRows) -> int:
        """Write all rows of a table into its place, which is emptied first; how many. Called in tasks.

        An error of `rows` leaves as it is.
        """

    def open_maintenance(self, destination: DestinationPlan) -> DestinationMaintenance: ...


@runtime_checkable
class ResumesLoads(Protocol):
    """A kind that knows which splits of a table are staged, so that an interrupted load goes on with them (ADR 87)."""

    def split_area(self, destination: DestinationPlan, *, run_id: str, attempt: str) -> SplitArea:
        """`attempt`: of the run, unique, as of `Split.attempt`."""

    def load_split(
        self,
        destination: DestinationPlan,
        place: StagedPlace,
        rows: TableRows,
        split: Split,
        *,
        proof: Callable[[], str],
    ) -> int:
        """Write the rows of a split beside those of the others, and the record that it is done, in one transaction; how
        many. The last split also gives the table its key. `proof`: where the rows were read, known once they are.

        TransientError: another attempt has staged this split meanwhile, or (LoadTakenOver) has taken the load over.
        """

    def finish_splits(self, destination: DestinationPlan, place: StagedPlace) -> int:
        """Give the table its key unless it has one; how many rows it holds. All splits are done."""

    def bring_forward(
        self,
        destination: DestinationPlan,
        place: StagedPlace,
        changes: "ChangeBatch | None",
        *,
        dates: Segment | None,
        since: SplitRead,
        to: SplitRead,
        attempt: str,
    ) -> None:
        """Let changes happen to the rows of the splits that were read by `since`, keep those of `dates`, and record
        that these splits stand at `to`: one transaction. Of a table without a key the only split is all of it.

        Diverged as `CarriesCutsOn.carry_on` raises it. TransientError: no split stands at `since` any more, for another
        attempt has brought them forward, or (LoadTakenOver) has taken the load over from `attempt`.
        """


@runtime_checkable
class ReadsBack(Protocol):
    """A kind whose tables can be compared with the source."""

    def open_live(self, plan: SyncPlan, destination: DestinationPlan, count: int) -> Sequence[ReadView]:
        """`count` views of the live tables, at the ledger's position as these views see it."""

    def open_staged(
        self, plan: SyncPlan, destination: DestinationPlan, loads: Sequence[Load], count: int, *, position: Position
    ) -> Sequence[StagedView]:
        """`count` views of staged tables, which stand where they were read."""

    def findings(
        self, destination: DestinationPlan, stream: StreamId, *, after: FindingsReported
    ) -> tuple[tuple[Finding, ...], FindingsReported]:
        """What the stream met that its log did not promise, beyond `after`, and how far all of it goes."""


@runtime_checkable
class ReadsAlone(Protocol):
    """A kind whose tables can be compared although some other tool writes them (ADR 63), and whose name no kind of
    source has (`kinds.source.ReadsSeparately`)."""

    def separate_side(self, destination: DestinationPlan) -> SeparateSide: ...

    def separate_rights(self, destination: DestinationPlan, tables: Sequence[str]) -> str:
        """What its login needs for that, as the end of the sentence "it needs …"."""


@runtime_checkable
class HoldsCuts(Protocol):
    """A kind that holds cuts in versions."""

    def open_cuts(self, destination: DestinationPlan) -> Cuts: ...

    def open_cut_expiry(self, destination: DestinationPlan) -> CutStore: ...

    def open_published(
        self, plan: SyncPlan, destination: DestinationPlan, tables: Sequence[PublishedTable], *, position: Position
    ) -> ReadView:
        """A view of tables of a published cut, to be held against the source at `position`."""


@runtime_checkable
class CarriesCutsOn(HoldsCuts, Protocol):
    """A kind that makes the tables of a cut of those of an earlier one, where both lie: no row leaves it."""

    def published_tables(
        self, destination: DestinationPlan, sync: str, business_date: date, version: int
    ) -> Sequence[PublishedTable]:
        """Every table of a published cut, whatever its mode; () of one that is not there."""

    def carry_on(
        self,
        destination: DestinationPlan,
        place: StagedPlace,
        base: PublishedTable,
        changes: "ChangeBatch | None",
        *,
        dates: Segment | None,
    ) -> int:
        """Fill a place, which is emptied first, with the rows of `base`, let the changes happen to them, and keep those
        of `dates`; how many these are.

        Without `dates`, Diverged where a change meets something else than it expects: the base is not what the log
        builds on. With them the base has but a part of the rows that the log knows, and of a table without a key the
        changes are those of `dates` alone. Diverged also where a change needs
        a stored value, or a copy to remove, that is not there.
        """

    def take_over(self, destination: DestinationPlan, load: Load, base: PublishedTable, *, read: Segment) -> int:
        """Put the rows of `base` that are not in the part `read`, and whose key no staged row has, beside what is
        staged; how many. Not to be repeated: the same rows would be refused for their key, or be there twice."""

    def newest_in(self, destination: DestinationPlan, base: PublishedTable, column: Column) -> str:
        """The newest date or time (of UTC) in a column, as the bound of a Segment; "" where it has none."""


@runtime_checkable
class CutsLiveTables(HoldsCuts, Protocol):
    """A kind whose cuts are its live tables. Its declaration's `cut_source` is `CutSource.LIVE`."""

    def pin_live(self, plan: SyncPlan, destination: DestinationPlan, count: int, *, run_id: str) -> PinnedTables:
        """Keep hold of the live tables as they stand now, in place of what the run has held before; `count` views."""


@runtime_checkable
class ReadsAtOnePosition(Protocol):
    """A kind whose tables people can read as Arrow, all of a sync at one position."""

    def open_tables(self, destination: DestinationPlan, stream: StreamId, at: date | str) -> SyncTables:
        """`at`: a business date, the tag of a cut, `proven` or `live`. Refused: there is no such cut, or its rows are
        gone. What is opened may be pickled, and asks again where it is read whether its rows are still those."""


@runtime_checkable
class KeepsLiveTables(Protocol):
    """A kind whose live tables stay when a sync is onboarded again: a load must have the columns that they have."""

    def misfits(self, plan: SyncPlan, destination: DestinationPlan) -> Sequence[Misfit]:
        """All live tables of the stream that would not take a load of the plan's tables. Leaves nothing behind."""


@runtime_checkable
class CertifiesArrivals(Protocol):
    """A kind that can be asked how probe rows arrived."""

    def open_probed(self, plan: SyncPlan, destination: DestinationPlan) -> "ProbeDestination": ...


@runtime_checkable
class ShowsRows(Protocol):
    """A kind whose rows SQLAlchemy can read, and with it Great Expectations."""

    def rows_url(self, destination: DestinationPlan, schema: str) -> str:
        """SQLAlchemy's URL by which the tables of a schema are found without its name. It holds the password."""


@runtime_checkable
class CopiesRows(ShowsRows, Protocol):
    """A kind whose rows no SQL reaches where they lie: what is checked of them is a copy, to which `rows_url` leads."""

    def copied(
        self, plan: SyncPlan, destination: DestinationPlan, cut: StagedCut, tables: Collection[str]
    ) -> AbstractContextManager[StagedCut]:
        """The cut with those of its tables alone that have these names, each staged as its copy, until it is closed.

        GateFailed: what was read are not the rows that were compared. TransientError: they could not be read or
        written, or a copy may have been lost before it was closed.
        """


@runtime_checkable
class Derives(Protocol):
    """A kind whose staged tables can be read by Spark's tasks, which compute other tables from them.

    Where cuts are live tables, a table is staged as what `pin_live` holds of it.
    """

    def staged_parts(self, destination: DestinationPlan, load: Load, *, parts_max: int) -> Sequence[StagedPart]:
        """Parts of the staged rows that leave nothing out and overlap nowhere; at least one."""

    def read_staged(
        self, destination: DestinationPlan, load: Load, columns: Sequence[Column], part: StagedPart
    ) -> "Iterator[pa.RecordBatch]":
        """These columns of the rows of a part, in `kinds.derived.frame_schema`. Called in tasks."""

    def stage_derived(self, destination: DestinationPlan, table: Table, rows: "pa.Table", *, run_id: str) -> Load:
        """Stage the rows of a derived table; what an earlier attempt of the run has staged of it goes."""

    def read_derived(self, destination: DestinationPlan, made: Load) -> "Iterator[pa.RecordBatch]":
        """All rows of a staged derived table, in `kinds.derived.frame_schema`. Called in tasks."""

    def compare_derived(
        self, destination: DestinationPlan, derived: DerivedTablePlan, *, base: Load, made: Load, position: str
    ) -> TableVerdict:
        """The derived table against the staged rows it came from, which the destination adds up itself."""


@runtime_checkable
class KeepsColumnsOfDerived(Protocol):
    """A kind whose derived tables have the same columns in all their cuts."""

    def require_derived(self, destination: DestinationPlan, stream: StreamId, tables: Sequence[Table]) -> None:
        """Ask before anything of a night is read whether its derived tables can be published.

        SchemaConflict: one has other columns than in earlier cuts. Refused: somebody else's table has its name.
        """


def described(kind: SinkKind) -> tuple[str, ...]:
    """What a kind of destination can do and what it cannot, for people, one line each."""
    powers = {
        "reading back, to be compared with the source": isinstance(kind, ReadsBack),
        "cuts by business date, in versions": isinstance(kind, HoldsCuts),
        "cuts stored as what changed": kind.powers.keeps_versions,
        "cuts without a second copy": isinstance(kind, CutsLiveTables),
        "cuts from the one before and the log": isinstance(kind, CarriesCutsOn),
        "checks of rows by Great Expectations": isinstance(kind, ShowsRows),
        "derived tables": isinstance(kind, Derives),
        "tables at one position for Python and Spark": isinstance(kind, ReadsAtOnePosition),
        "loads that go on where they were interrupted": isinstance(kind, ResumesLoads),
        "certificates": isinstance(kind, CertifiesArrivals),
    }
    return (*kind.powers.described(), *(f"{'' if can else 'no '}{words}" for words, can in powers.items()))
