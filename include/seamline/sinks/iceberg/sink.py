"""IcebergSink: a catalogue of Iceberg tables as the destination of one stream, written without a JVM.

Files first, pointers last: what a commit needs is written where nobody looks, then the ledger and the pointers of all
its tables move in one transaction of the catalogue's database.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

from seamline import settings
from seamline.adapters import failpoints as armed_failpoints
from seamline.domain.catalogue import Table
from seamline.domain.changes import Finding, TableChanges
from seamline.domain.errors import Diverged, NotCaughtUp, Refused, SeamlineError, TransientError
from seamline.domain.ledger import LedgerRow, StreamId
from seamline.kinds.ledger_rules import commit_of_publish, fenced_or, resolved
from seamline.plan.list_change import kept_name
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.ports import Commit, Failpoints, Joining, Lease, Load, Progress, Publication, Staged, Unarmed
from seamline.sinks.iceberg.chunks import ChunkFolder, StagedBatch, in_order
from seamline.sinks.iceberg.edit import TableEdit
from seamline.sinks.iceberg.files import NewFiles, translated
from seamline.sinks.iceberg.loads import require_as_compared, staged_files
from seamline.sinks.iceberg.manifests import Head, read_head, read_metadata
from seamline.sinks.iceberg.options import options_of
from seamline.sinks.iceberg.placing import changes_of_join, changes_of_publish
from seamline.sinks.iceberg.rows import FileRows, RowIndex
from seamline.sinks.iceberg.snapshot import obsolete, own_snapshot
from seamline.sinks.lake.catalogue import Catalogue
from seamline.sinks.lake.postgres_store import PostgresLakeStore
from seamline.sinks.lake.store import LakeStore, PointerMove, PointerMoved, Seen
from seamline.values.changes import ChangeDecoder, change_batch

# How often a table is staged again because its pointer had moved, as by a compaction, before the span is read again.
_ATTEMPTS = 20
_FOREIGN = "foreign write"
DoneT = TypeVar("DoneT")


def open_sink(plan: SyncPlan, destination: DestinationPlan, *, decoder: ChangeDecoder) -> "IcebergSink":
    """The sink of a plan's destination; failpoints as the process environment arms them."""
    armed = armed_failpoints.from_environment(settings.process_environment())
    catalogue = Catalogue(options_of(destination).catalog)
    store = PostgresLakeStore(destination, catalogue, failpoints=armed)
    return IcebergSink(plan, destination, decoder=decoder, store=store, failpoints=armed)


@dataclass(frozen=True, slots=True)
class _StagedTable:
    """A table as this commit would leave it. `rows`: by file, for the index."""

    before: Head
    after: Head
    rows: dict[str, FileRows]
    files: NewFiles


class IcebergSink:
    """ports.Sink over a `LakeStore`."""

    def __init__(
        self,
        plan: SyncPlan,
        destination: DestinationPlan,
        *,
        decoder: ChangeDecoder,
        store: LakeStore,
        failpoints: Failpoints | None = None,
    ) -> None:
        self._destination = destination
        self._options = options_of(destination)
        self._decoder = decoder
        self._store = store
        self._failpoints = failpoints or Unarmed()
        self._tables = {entry.name: entry.definition for entry in plan.tables if entry.table is not None}
        self._chunks = ChunkFolder()
        self._heads: dict[str, Head] = {}
        self._indexes: dict[str, RowIndex] = {}
        self._confirmed: LedgerRow | None = None

    # ---- ports.Sink -------------------------------------------------------------------------------------------------

    def read_ledger(self, stream: StreamId) -> LedgerRow | None:
        return self._store.read_ledger(stream)

    def acquire(self, stream: StreamId, *, after_epoch: int | None = None) -> Lease:
        confirmed = self._confirmed if after_epoch is not None else None
        lease = self._store.acquire(stream, after_epoch=after_epoch, confirmed=confirmed)
        self._chunks.empty()
        self._heads, self._indexes, self._confirmed = {}, {}, lease.ledger
        with translated("read the tables"):
            self._require_own(lease, self._store.look(stream, self._destination.namespace))
        return lease

    def stage(self, lease: Lease, changes: TableChanges) -> Staged:  # noqa: ARG002 (nothing of it is anybody's yet)
        batch = change_batch(self._tables[changes.table], changes, self._decoder)
        return Staged(changes.table, self._chunks.put(batch) if batch.chunk else StagedBatch.of(batch))

    def commit(self, lease: Lease, staged: Sequence[Staged], *, progress: Progress) -> Commit:
        with translated("write the files of a span"):
            return self._repeated(lambda: self._commit(lease, staged, progress))

    def publish(self, stream: StreamId, loads: Sequence[Load], *, publication: Publication) -> Commit:
        if self._store.published(stream, publication.run_id):
            return commit_of_publish(stream, self._store.read_ledger(stream))
        with translated("read what is staged"):
            staged = {load.table.name: staged_files(self._options, load) for load in loads}
            for load in loads:
                require_as_compared(staged[load.table.name], load)

        def attempt() -> Commit:
            seen = self._store.look(stream, self._destination.namespace)
            carried = {boundary.table for boundary in seen.ledger.boundaries} if seen.ledger else set()
            self._require_not_of_others(stream, [load.table for load in loads], seen, carried)
            left = carried - staged.keys()
            aside = {name: kept_name(name, publication.run_id) for name in left}
            changes = changes_of_publish(loads, staged, seen.heads, aside, mark=_mark(stream, seen))
            return Commit(self._store.publish(stream, changes, publication=publication))

        with translated("publish tables"):
            return self._repeated(attempt)

    def join(self, stream: StreamId, joining: Joining) -> Commit:
        if self._store.published(stream, joining.run_id):
            return commit_of_publish(stream, self._store.read_ledger(stream))

        def attempt() -> Commit:
            seen = self._store.look(stream, self._destination.namespace)
            arriving = Seen()
            if joining.incremental_stream is not None:
                arriving = self._store.look(joining.incremental_stream, joining.incremental_namespace)
                # The transaction asks again; until then no file is written for nothing.
                if seen.ledger is not None and arriving.ledger is None:
                    raise NotCaughtUp(f"{stream}: its incremental snapshot stands nowhere yet", sync=stream.sync)
            carried = {boundary.table for boundary in seen.ledger.boundaries} if seen.ledger else set()
            self._require_not_of_others(stream, joining.tables, seen, carried)
            changes = changes_of_join(joining, seen.heads, arriving.heads, mark=_mark(stream, seen))
            return Commit(self._store.join(stream, changes, joining=joining))

        with translated("let tables join"):
            return self._repeated(attempt)

    def close(self) -> None:
        self._chunks.empty()
        self._store.close()

    # ---- one span ---------------------------------------------------------------------------------------------------

    def _commit(self, lease: Lease, staged: Sequence[Staged], progress: Progress) -> Commit:
        seen, confirmed = self._seen_by(lease), self._confirmed_of(lease)
        if not _begins_here(seen.ledger, lease, progress):
            return Commit(resolved(seen.ledger, lease, progress, confirmed=confirmed))
        tables, findings = self._staged_tables(lease, seen, staged)
        moves = [
            PointerMove(name, one.before.location, one.after.location, _snapshot_of(one.after))
            for name, one in tables.items()
        ]
        for one in tables.values():
            one.files.synced()
        try:
            outcome = self._store.commit(lease, moves, findings, progress=progress, confirmed=confirmed)
        except PointerMoved:
            for one in tables.values():
                one.files.drop()
            raise
        self._confirmed = outcome.ledger
        self._chunks.drop(_batches(staged))
        if not outcome.is_new:
            return Commit(outcome.ledger)
        self._go_on_from(tables)
        return Commit(outcome.ledger, tuple(findings), len(findings))

    def _seen_by(self, lease: Lease) -> Seen:
        try:
            return self._store.look(lease.stream, self._destination.namespace)
        except TransientError as exc:
            raise fenced_or(exc, lease, self._store.read_ledger) from exc

    def _go_on_from(self, tables: Mapping[str, _StagedTable]) -> None:
        """What is committed: nothing of it is read again, and what nobody names any more goes."""
        for name, one in tables.items():
            self._heads[name] = one.after
            self._indexes[name].keep(one.after, one.rows)
            for path in obsolete(one.before.metadata, one.after.metadata):
                path.unlink(missing_ok=True)

    def _staged_tables(
        self, lease: Lease, seen: Seen, staged: Sequence[Staged]
    ) -> tuple[dict[str, _StagedTable], list[Finding]]:
        tables, findings = dict[str, _StagedTable](), list[Finding]()
        written: list[NewFiles] = []
        try:
            for number, name in enumerate(dict.fromkeys(one.table for one in staged)):
                head = self._head_of(lease, name, seen)
                files = NewFiles(head.metadata.location, _mark(lease.stream, seen))
                written.append(files)
                index = self._indexes.setdefault(name, RowIndex(self._tables[name]))
                edit = TableEdit(self._tables[name], head, index, files)
                findings += edit.apply(in_order(_batches(staged, of=name)))
                if (after := edit.staged()) is not None:
                    tables[name] = _StagedTable(head, *after, files)
                if number == 0:
                    self._failpoints.reach("app.dml_half")
        except SeamlineError as exc:
            for files in written:
                files.drop()
            # A row, or a table, that is not there may have been moved by a new owner.
            raise fenced_or(exc, lease, self._store.read_ledger) from exc
        return tables, findings

    def _confirmed_of(self, lease: Lease) -> LedgerRow:
        """The ledger as this lease read or wrote it last."""
        return self._confirmed if self._confirmed and self._confirmed.epoch == lease.epoch else lease.ledger

    def _repeated(self, attempt: Callable[[], DoneT]) -> DoneT:
        """Again from the pointers that stand now, where one has moved."""
        for _ in range(_ATTEMPTS):
            try:
                return attempt()
            except PointerMoved as moved:
                table = str(moved)
        raise TransientError(
            f"the pointer of {table} has moved {_ATTEMPTS} times while the table was staged",
            hint="somebody else writes it all the time, as a compaction in a loop: let that end",
            table=table,
        )

    # ---- other writers ----------------------------------------------------------------------------------------------

    def _head_of(self, lease: Lease, table: str, seen: Seen) -> Head:
        location = seen.heads.get(table, "")
        known = self._heads.get(table)
        if known is None or known.location != location:
            self._require_own(lease, seen, tables=[table])
            known = self._heads[table] = read_head(location)
        return known

    def _require_own(self, lease: Lease, seen: Seen, *, tables: Sequence[str] | None = None) -> None:
        """Diverged, and a finding, where somebody else has changed rows of the stream's tables."""
        carried = [boundary.table for boundary in lease.ledger.boundaries] if tables is None else tables
        foreign = {name: said for name in carried if (said := _foreign(name, seen))}
        if not foreign:
            return
        found = [Finding(name, _FOREIGN, said, lease.ledger.next_offset) for name, said in foreign.items()]
        self._store.keep_foreign(lease, found)
        described = "; ".join(f"{name}: {said}" for name, said in foreign.items())
        raise Diverged(
            f"somebody else has written tables of {lease.stream} in {self._destination.name}: {described}",
            hint="only the stream writes its tables (a compaction may): put them back to the snapshot of before, as"
            " rollback_to_snapshot of Spark does, or onboard the sync again",
            sync=lease.stream.sync,
            table=",".join(foreign),
        )

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


def _foreign(table: str, seen: Seen) -> str:
    """What somebody else has done to a table, in words; "" for nothing."""
    if table not in seen.heads:
        return "it is gone from the catalogue"
    return own_snapshot(read_metadata(seen.heads[table]), seen.snapshots.get(table))


def _begins_here(ledger: LedgerRow | None, lease: Lease, progress: Progress) -> bool:
    return ledger is not None and (ledger.epoch, ledger.next_offset, ledger.topic_id) == (
        lease.epoch,
        progress.span.start,
        lease.ledger.topic_id,
    )


def _snapshot_of(head: Head) -> int:
    assert head.snapshot_id is not None, "what is staged is a snapshot"
    return head.snapshot_id


def _mark(stream: StreamId, seen: Seen) -> str:
    """Stands in the names of files: of which stream and epoch they are."""
    return f"{stream.sync}-e{seen.ledger.epoch if seen.ledger else 0}"
