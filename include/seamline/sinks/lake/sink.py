"""LakeSink: tables of a lake as the destination of one stream, whatever their format.

Files first, pointers last: what a commit needs is written first, then the ledger and the pointers of all its tables
move in one transaction of the catalogue's database. What the files are is the matter of `LakeTables`.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

from seamline.domain.catalogue import Table
from seamline.domain.changes import Finding, TableChanges
from seamline.domain.errors import Diverged, NotCaughtUp, Refused, SeamlineError, TransientError
from seamline.domain.ledger import LedgerRow, StreamId
from seamline.kinds.ledger_rules import commit_of_publish, fenced_or, resolved
from seamline.plan.list_change import kept_name
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.ports import Commit, Failpoints, Joining, Lease, Load, Progress, Publication, Staged, Unarmed
from seamline.sinks.lake.chunks import ChunkFolder, StagedBatch, in_order
from seamline.sinks.lake.files import translated
from seamline.sinks.lake.store import CatalogueChanges, LakeStore, PointerMove, PointerMoved, Seen, repeated
from seamline.values.changes import ChangeBatch, ChangeDecoder, change_batch

_FOREIGN = "foreign write"


@dataclass(frozen=True, slots=True)
class Mark:
    """Who writes: a stream at an epoch of its ledger. Its text stands in names of files."""

    stream: StreamId
    epoch: int

    def __str__(self) -> str:
        return f"{self.stream.sync}-e{self.epoch}"


class StagedTable(Protocol):
    """A table as a commit would leave it."""

    @property
    def move(self) -> PointerMove: ...

    def land(self) -> None:
        """Return once the pointer may move there. PointerMoved: the table is to be staged again."""

    def drop(self) -> None:
        """The pointer does not move there."""

    def keep(self) -> None:
        """The pointer has moved there: the next commit goes on from it."""


class LakeTables(Protocol):
    """The tables of one stream in one format. `undoing`: by what people put a table back that somebody else wrote."""

    @property
    def undoing(self) -> str: ...

    def forget(self) -> None:
        """A new owner begins: nothing of what is known of the tables is sure any more."""

    def close(self) -> None: ...

    def take_over(self, tables: Sequence[str], seen: Seen, *, mark: Mark) -> None:
        """Let no commit of an older epoch come to these tables any more, and undo what one has left half done."""

    def foreign(self, table: str, seen: Seen, stream: StreamId) -> str:
        """What somebody else has done to a table of the catalogue, in words; "" for nothing."""

    def edited(
        self, name: str, seen: Seen, batches: Iterable[ChangeBatch], *, mark: Mark
    ) -> tuple[StagedTable | None, list[Finding]]:
        """A table with the changes of a span; None where nothing changes. Nothing of it is seen before `land`.

        Diverged: a row that must be there is not.
        """

    def changes_of_publish(
        self, loads: Sequence[Load], heads: Mapping[str, str], aside: Mapping[str, str], *, mark: Mark
    ) -> CatalogueChanges:
        """New tables, and other rows for those that `heads` has already. `aside`: table → the name of one that leaves.

        SchemaConflict: a table has other columns. GateFailed: other rows are staged than were compared.
        """

    def changes_of_join(
        self, joining: Joining, heads: Mapping[str, str], arriving: Mapping[str, str], *, mark: Mark
    ) -> CatalogueChanges:
        """The tables of an incremental snapshot, `arriving`, become the stream's. NotCaughtUp: one is not there yet."""

    def require_staged(self, loads: Sequence[Load]) -> None:
        """Refused where a staged table is gone; GateFailed where it does not hold what was staged or compared."""


class LakeSink:
    """ports.Sink over a `LakeStore` and the tables of one format."""

    def __init__(
        self,
        plan: SyncPlan,
        destination: DestinationPlan,
        *,
        decoder: ChangeDecoder,
        store: LakeStore,
        tables: LakeTables,
        failpoints: Failpoints | None = None,
    ) -> None:
        self._destination = destination
        self._decoder = decoder
        self._store = store
        self._failpoints = failpoints or Unarmed()
        self._tables = tables
        self._definitions = {entry.name: entry.definition for entry in plan.tables if entry.table is not None}
        self._chunks = ChunkFolder()
        self._confirmed: LedgerRow | None = None

    # ---- ports.Sink -------------------------------------------------------------------------------------------------

    def read_ledger(self, stream: StreamId) -> LedgerRow | None:
        return self._store.read_ledger(stream)

    def acquire(self, stream: StreamId, *, after_epoch: int | None = None) -> Lease:
        confirmed = self._confirmed if after_epoch is not None else None
        lease = self._store.acquire(stream, after_epoch=after_epoch, confirmed=confirmed)
        self._chunks.empty()
        self._tables.forget()
        self._confirmed = lease.ledger
        with translated("read the tables"):
            seen = self._store.look(stream, self._destination.namespace)
            carried = [boundary.table for boundary in lease.ledger.boundaries]
            self._require_own(lease, seen, tables=carried)
            self._tables.take_over(carried, seen, mark=Mark(stream, lease.epoch))
        return lease

    def stage(self, lease: Lease, changes: TableChanges) -> Staged:  # noqa: ARG002 (nothing of it is anybody's yet)
        batch = change_batch(self._definitions[changes.table], changes, self._decoder)
        return Staged(changes.table, self._chunks.put(batch) if batch.chunk else StagedBatch.of(batch))

    def commit(self, lease: Lease, staged: Sequence[Staged], *, progress: Progress) -> Commit:
        with translated("write the files of a span"):
            return repeated(lambda _: self._commit(lease, staged, progress))

    def publish(self, stream: StreamId, loads: Sequence[Load], *, publication: Publication) -> Commit:
        if self._store.published(stream, publication.run_id):
            return commit_of_publish(stream, self._store.read_ledger(stream))
        with translated("read what is staged"):
            self._tables.require_staged(loads)

        def staging(seen: Seen) -> CatalogueChanges:
            carried = {boundary.table for boundary in seen.ledger.boundaries} if seen.ledger else set()
            self._require_not_of_others(stream, [load.table for load in loads], seen, carried)
            left = carried - {load.table.name for load in loads}
            aside = {name: kept_name(name, publication.run_id) for name in left}
            return self._tables.changes_of_publish(loads, seen.heads, aside, mark=_mark(stream, seen))

        with translated("publish tables"):
            return Commit(self._store.publish(stream, staging, publication=publication))

    def join(self, stream: StreamId, joining: Joining) -> Commit:
        if self._store.published(stream, joining.run_id):
            return commit_of_publish(stream, self._store.read_ledger(stream))

        def staging(seen: Seen) -> CatalogueChanges:
            arriving = Seen()
            if joining.incremental_stream is not None:
                arriving = self._store.look(joining.incremental_stream, joining.incremental_namespace)
                # The transaction asks again; until then nothing is written for nothing: a version that live Delta or
                # Hudi tables get of a join ends the stream that goes on.
                if seen.ledger is not None and _place(arriving.ledger) != _place(seen.ledger):
                    raise NotCaughtUp(
                        f"{stream} and its incremental snapshot do not stand at one offset yet", sync=stream.sync
                    )
            carried = {boundary.table for boundary in seen.ledger.boundaries} if seen.ledger else set()
            self._require_not_of_others(stream, joining.tables, seen, carried)
            return self._tables.changes_of_join(joining, seen.heads, arriving.heads, mark=_mark(stream, seen))

        with translated("let tables join"):
            return Commit(self._store.join(stream, staging, joining=joining))

    def close(self) -> None:
        self._chunks.empty()
        self._tables.close()
        self._store.close()

    # ---- one span ---------------------------------------------------------------------------------------------------

    def _commit(self, lease: Lease, staged: Sequence[Staged], progress: Progress) -> Commit:
        seen, confirmed = self._seen_by(lease), self._confirmed_of(lease)
        if not _begins_here(seen.ledger, lease, progress):
            return Commit(resolved(seen.ledger, lease, progress, confirmed=confirmed))
        tables, findings = self._staged_tables(lease, seen, staged)
        try:
            for one in tables:
                one.land()
            moves = [one.move for one in tables]
            outcome = self._store.commit(lease, moves, findings, progress=progress, confirmed=confirmed)
        except PointerMoved:
            for one in tables:
                one.drop()
            raise
        self._confirmed = outcome.ledger
        self._chunks.drop(_batches(staged))
        if not outcome.is_new:
            return Commit(outcome.ledger)
        for one in tables:
            one.keep()
        return Commit(outcome.ledger, tuple(findings), len(findings))

    def _seen_by(self, lease: Lease) -> Seen:
        try:
            return self._store.look(lease.stream, self._destination.namespace)
        except TransientError as exc:
            raise fenced_or(exc, lease, self._store.read_ledger) from exc

    def _staged_tables(
        self, lease: Lease, seen: Seen, staged: Sequence[Staged]
    ) -> tuple[list[StagedTable], list[Finding]]:
        tables, findings = list[StagedTable](), list[Finding]()
        try:
            for number, name in enumerate(dict.fromkeys(one.table for one in staged)):
                self._require_own(lease, seen, tables=[name])
                batches = in_order(_batches(staged, of=name))
                table, found = self._tables.edited(name, seen, batches, mark=Mark(lease.stream, lease.epoch))
                findings += found
                if table is not None:
                    tables.append(table)
                if number == 0:
                    self._failpoints.reach("app.dml_half")
        except SeamlineError as exc:
            for one in tables:
                one.drop()
            # A row, or a table, that is not there may have been moved by a new owner.
            raise fenced_or(exc, lease, self._store.read_ledger) from exc
        return tables, findings

    def _confirmed_of(self, lease: Lease) -> LedgerRow:
        """The ledger as this lease read or wrote it last."""
        return self._confirmed if self._confirmed and self._confirmed.epoch == lease.epoch else lease.ledger

    # ---- other writers ----------------------------------------------------------------------------------------------

    def _require_own(self, lease: Lease, seen: Seen, *, tables: Sequence[str]) -> None:
        """Diverged, and a finding, where somebody else has changed rows of these tables."""
        foreign = {name: said for name in tables if (said := self._foreign(name, seen, lease.stream))}
        if not foreign:
            return
        found = [Finding(name, _FOREIGN, said, lease.ledger.next_offset) for name, said in foreign.items()]
        self._store.keep_foreign(lease, found)
        # What is the same of several tables is said once.
        tables_of: dict[str, list[str]] = {}
        for name, said in foreign.items():
            tables_of.setdefault(said, []).append(name)
        described = "; ".join(f"{', '.join(names)}: {said}" for said, names in tables_of.items())
        raise Diverged(
            f"somebody else has written tables of {lease.stream} in {self._destination.name}: {described}",
            hint=f"only the stream writes its tables (a compaction may): put them back by {self._tables.undoing}",
            sync=lease.stream.sync,
            table=",".join(foreign),
        )

    def _foreign(self, table: str, seen: Seen, stream: StreamId) -> str:
        return self._tables.foreign(table, seen, stream) if table in seen.heads else "it is gone from the catalogue"

    def _require_not_of_others(
        self, stream: StreamId, tables: Sequence[Table], seen: Seen, carried: Collection[str]
    ) -> None:
        for table in tables:
            if table.name in seen.heads and table.name not in carried:
                raise Refused(
                    f"table {self._destination.namespace}.{table.name} exists in destination {self._destination.name}"
                    f" and was not made by {stream}",
                    hint="rename it in the catalogue (ALTER TABLE … RENAME TO …), or choose another namespace",
                    sync=stream.sync,
                    table=table.name,
                )


def _batches(staged: Sequence[Staged], *, of: str = "") -> list[StagedBatch]:
    """Of one table, or of all."""
    return [cast(StagedBatch, one.batch) for one in staged if of in ("", one.table)]


def _begins_here(ledger: LedgerRow | None, lease: Lease, progress: Progress) -> bool:
    return ledger is not None and (ledger.epoch, ledger.next_offset, ledger.topic_id) == (
        lease.epoch,
        progress.span.start,
        lease.ledger.topic_id,
    )


def _place(ledger: LedgerRow | None) -> tuple[str, int] | None:
    return (ledger.topic_id, ledger.next_offset) if ledger is not None else None


def _mark(stream: StreamId, seen: Seen) -> Mark:
    """Of what is written before there is a lease."""
    return Mark(stream, seen.ledger.epoch if seen.ledger else 0)
