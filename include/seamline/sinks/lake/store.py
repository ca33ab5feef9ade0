"""What a lake's sink needs of the database that holds its catalogue and its ledger.

All tables of a sync and its ledger move in one transaction there: the pointers of the tables are rows beside the
ledger. What the pointers lead to is the sink's own matter.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from seamline.domain.changes import Finding
from seamline.domain.errors import TransientError
from seamline.domain.ledger import LedgerRow, StreamId
from seamline.ports import Joining, Lease, Progress, Publication

# How often a table is staged again because its pointer had moved, as by a compaction, before the span is read again.
_ATTEMPTS = 20
DoneT = TypeVar("DoneT")


class PointerMoved(Exception):
    """A pointer no longer stands where the staged files go on from. Nothing was committed; the table is to be staged
    again. Never leaves a sink."""


@dataclass(frozen=True, slots=True)
class PointerMove:
    """A table's next metadata file. `old` "": the table is not in the catalogue yet."""

    table: str
    old: str
    new: str
    snapshot_id: int


@dataclass(frozen=True, slots=True)
class CatalogueChanges:
    """What a publish or a join does beside the ledger.

    `set_aside`: table → the name under which its rows are kept. `taken_from`: the namespace of an incremental snapshot;
    `taken`: its tables that leave the catalogue there, each with the metadata file that it must still have.
    """

    moves: Sequence[PointerMove] = ()
    set_aside: Mapping[str, str] = field(default_factory=dict)
    taken_from: str = ""
    taken: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Seen:
    """What is committed, by one look. `heads`: table → metadata file, of all tables of the namespace. `snapshots`:
    table → snapshot id, as the stream's newest commit has left them."""

    ledger: LedgerRow | None = None
    heads: Mapping[str, str] = field(default_factory=dict)
    snapshots: Mapping[str, int] = field(default_factory=dict)


# Writes the files of a publish or a join that go on from what was seen.
Staging = Callable[[Seen], CatalogueChanges]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The ledger after a commit. `is_new`: by this commit; else an earlier one was found, whose answer was lost."""

    ledger: LedgerRow
    is_new: bool = True


class LakeStore(Protocol):
    """Catalogue and ledger. `CommitUnknown`, `Fenced`, `WentBack` and the like mean what they mean in `ports.Sink`."""

    def read_ledger(self, stream: StreamId) -> LedgerRow | None: ...

    def acquire(self, stream: StreamId, *, after_epoch: int | None, confirmed: LedgerRow | None) -> Lease:
        """`confirmed`: the ledger as it was reported before; None where nothing was."""

    def look(self, stream: StreamId, namespace: str) -> Seen: ...

    def commit(
        self,
        lease: Lease,
        moves: Sequence[PointerMove],
        findings: Sequence[Finding],
        *,
        progress: Progress,
        confirmed: LedgerRow,
    ) -> Outcome:
        """The ledger first, then the pointers in the order of the tables' names. PointerMoved."""

    def keep_foreign(self, lease: Lease, findings: Sequence[Finding]) -> None:
        """Keep findings beside no commit, each once. Fenced where the lease is over."""

    def published(self, stream: StreamId, run_id: str) -> bool:
        """Whether this run has published, or let join, already."""

    def publish(self, stream: StreamId, staging: Staging, *, publication: Publication) -> LedgerRow:
        """Staged again where a pointer has moved, also where somebody has made a table of a name meanwhile.
        TransientError: they move all the time."""

    def join(self, stream: StreamId, staging: Staging, *, joining: Joining) -> LedgerRow:
        """As `publish`. All incremental snapshots into the stream end."""

    def close(self) -> None: ...


def require_carried(seen: Seen, carried: Collection[str]) -> None:
    """PointerMoved where other tables are the stream's than when its files were staged: what stays and what leaves by a
    publish is then something else. `carried`: now, behind the ledger's lock or at its snapshot."""
    before = {boundary.table for boundary in seen.ledger.boundaries} if seen.ledger else set()
    if changed := before ^ set(carried):
        raise PointerMoved(min(changed))


def repeated(attempt: Callable[[int], DoneT]) -> DoneT:
    """Again from the pointers that stand now, where one has moved. `attempt` gets its number, from 0."""
    for number in range(_ATTEMPTS):
        try:
            return attempt(number)
        except PointerMoved as moved:
            table = str(moved)
    raise TransientError(
        f"the pointer of {table} has moved {_ATTEMPTS} times while the table was staged",
        hint="somebody else writes it all the time, as a compaction in a loop: let that end",
        table=table,
    )
