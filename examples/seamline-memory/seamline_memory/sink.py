"""The sink: each commit is one transaction of the store over all tables and the ledger."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import cast

import pyarrow as pa

from seamline.domain.catalogue import Table
from seamline.domain.changes import Finding, TableChanges
from seamline.domain.cutover import Boundary
from seamline.domain.errors import Fenced, GateFailed, InvariantViolated, NotCaughtUp, Refused
from seamline.domain.ledger import LedgerRow, StreamId, refuse_one_that_went_back
from seamline.plan.list_change import kept_name
from seamline.plan.model import INCREMENTAL, DestinationPlan, SyncPlan
from seamline.ports import Commit, Failpoints, Joining, Lease, Load, Progress, Publication, Staged, Unarmed
from seamline.values.build import rows_of
from seamline.values.changes import ChangeBatch, ChangeDecoder, change_batch
from seamline_memory.apply import apply
from seamline_memory.store import KeptFinding, Rows, State, Store, identity_of


class MemorySink:
    """`ports.Sink`. Nothing of a staged batch is in the store before its commit, so there is nothing to clear away."""

    def __init__(
        self,
        plan: SyncPlan,
        destination: DestinationPlan,
        *,
        store: Store,
        decoder: ChangeDecoder,
        failpoints: Failpoints | None = None,
    ) -> None:
        self._tables = {entry.name: entry.definition for entry in plan.tables}
        # The tables of an incremental snapshot lie beside the live ones.
        self._schema = destination.namespace if plan.is_incremental else ""
        self._store = store
        self._decoder = decoder
        self._failpoints = failpoints or Unarmed()
        self._confirmed: LedgerRow | None = None

    def read_ledger(self, stream: StreamId) -> LedgerRow | None:
        return self._store.state.ledgers.get(stream)

    def acquire(self, stream: StreamId, *, after_epoch: int | None = None) -> Lease:
        with self._store.transaction() as state:
            row = state.ledgers.get(stream)
            if row is None:
                raise Refused(f"the destination holds no ledger of {stream}", hint="onboard the sync first")
            if after_epoch is not None:
                refuse_one_that_went_back(row, confirmed=self._confirmed or row)
                if row.epoch != after_epoch:
                    raise Fenced(f"{stream}: epoch {after_epoch} is over, the ledger's is {row.epoch}")
            row = state.ledgers[stream] = replace(row, epoch=row.epoch + 1)
        self._confirmed = row
        return Lease(stream, row.epoch, row)

    def stage(self, lease: Lease, changes: TableChanges) -> Staged:
        return Staged(changes.table, change_batch(self._tables[changes.table], changes, self._decoder))

    def commit(self, lease: Lease, staged: Sequence[Staged], *, progress: Progress) -> Commit:
        findings: list[Finding] = []
        with self._store.transaction() as state:
            before = state.ledgers.get(lease.stream)
            if before is None:
                raise Fenced(f"{lease.stream}: epoch {lease.epoch} is over, its ledger is gone")
            refuse_one_that_went_back(before, confirmed=self._confirmed or lease.ledger)
            if is_done(before, lease, progress):
                return Commit(before)
            row = state.ledgers[lease.stream] = advanced(before, progress)
            for number, name in enumerate(dict.fromkeys(one.table for one in staged)):
                place = place_of(self._schema, name)
                batches = [cast(ChangeBatch, one.batch) for one in staged if one.table == name]
                applied = apply(self._tables[name], state.tables.get(place, {}), batches)
                state.tables[place] = applied.rows
                findings += applied.findings
                if number == 0:
                    self._failpoints.reach("app.dml_half")
            state.findings += [KeptFinding(lease.stream, one) for one in findings]
        self._confirmed = row
        return Commit(row, tuple(findings), len(findings))

    def publish(self, stream: StreamId, loads: Sequence[Load], *, publication: Publication) -> Commit:
        with self._store.transaction() as state:
            known = state.ledgers.get(stream)
            if known is not None and (stream, publication.run_id) in state.runs:
                return Commit(known)
            names = {boundary.table for boundary in publication.boundaries}
            left = {b.table: kept_name(b.table, publication.run_id) for b in _boundaries(known) if b.table not in names}
            _rename(state, left)
            for load in loads:
                state.tables[place_of(self._schema, load.table.name)] = _loaded(state, load)
            row = LedgerRow(
                stream,
                publication.topic,
                publication.topic_id,
                publication.next_offset,
                publication.position,
                known.epoch + 1 if known else 1,
                known.applied_transactions if known else 0,
                committed_ms=0,
                boundaries=_boundaries(known),
            )
            row = _put_in_place(state, row, publication.boundaries, left=left, run_id=publication.run_id)
        return Commit(row)

    def join(self, stream: StreamId, joining: Joining) -> Commit:
        with self._store.transaction() as state:
            known = state.ledgers.get(stream)
            if known is None:
                raise Refused(f"nothing was published for {stream}", hint="onboard the sync first")
            if (stream, joining.run_id) in state.runs:
                return Commit(known)
            snapshot = state.ledgers.get(joining.incremental_stream) if joining.incremental_stream else None
            if joining.incremental_stream and not is_caught_up(snapshot, known):
                raise NotCaughtUp(f"{stream} stands at {known.next_offset}, its incremental snapshot elsewhere")
            names = {table.name for table in joining.tables}
            entered = {place_of(joining.incremental_namespace, name): name for name in names}
            _rename(state, {**joining.kept_as, **entered})
            entering = [boundary for boundary in _boundaries(snapshot) if boundary.table in names]
            row = replace(known, epoch=known.epoch + 1)
            row = _put_in_place(state, row, entering, left=joining.kept_as, run_id=joining.run_id)
            for over in [one for one in state.ledgers if one.sync.startswith(f"{stream.sync}{INCREMENTAL}")]:
                forget(state, over)
        return Commit(row)

    def close(self) -> None:
        return


def is_done(row: LedgerRow, lease: Lease, progress: Progress) -> bool:
    """Compare: whether this very commit was done before and only its answer was lost; False to go on with it."""
    span = progress.span
    if row.epoch != lease.epoch:
        raise Fenced(f"{lease.stream}: epoch {lease.epoch} is over, the ledger's is {row.epoch}")
    if row.topic_id == lease.ledger.topic_id and row.next_offset in (span.start, span.end):
        return row.next_offset != span.start
    raise InvariantViolated(f"{lease.stream}: the ledger stands at {row.next_offset}, not at {span.start}")


def advanced(before: LedgerRow, progress: Progress) -> LedgerRow:
    """And set."""
    span = progress.span
    return replace(
        before,
        next_offset=span.end,
        position=span.position,
        applied_transactions=before.applied_transactions + span.transactions,
        committed_ms=span.committed_ms,
        last_marker=progress.last_marker or before.last_marker,
        boundaries=tuple(replace(b, ended=b.ended or b.table in progress.ended) for b in before.boundaries),
    )


def is_caught_up(snapshot: LedgerRow | None, stream: LedgerRow) -> bool:
    """Whether the incremental snapshot has read the stream's log exactly as far as the stream has."""
    if snapshot is None:
        return False
    return (snapshot.topic_id, snapshot.next_offset) == (stream.topic_id, stream.next_offset)


def place_of(schema: str, table: str) -> str:
    return f"{schema}.{table}" if schema else table


def forget(state: State, stream: StreamId) -> None:
    """Everything that an incremental snapshot has recorded of itself."""
    del state.ledgers[stream]
    state.runs = {run: True for run in state.runs if run[0] != stream}


def _boundaries(ledger: LedgerRow | None) -> tuple[Boundary, ...]:
    return ledger.boundaries if ledger else ()


def _put_in_place(
    state: State, row: LedgerRow, entering: Iterable[Boundary], *, left: Collection[str], run_id: str
) -> LedgerRow:
    """The ledger with the boundaries of the tables that enter, in their next generation, and without those that left.

    What their rows of before had met is over with them.
    """
    lives = state.generations
    fresh = {b.table: replace(b, generation=lives.get((row.stream, b.table), 0) + 1) for b in entering}
    stay = {b.table: b for b in row.boundaries if b.table not in left}
    row = replace(row, boundaries=tuple({**stay, **fresh}.values()))
    state.ledgers[row.stream] = row
    state.runs[row.stream, run_id] = True
    lives.update({(row.stream, name): boundary.generation for name, boundary in fresh.items()})
    over = fresh.keys() | left
    state.findings = [
        replace(one, is_over=one.is_over or (one.stream == row.stream and one.finding.table in over))
        for one in state.findings
    ]
    return row


def _loaded(state: State, load: Load) -> Rows:
    if load.staged_as not in state.staged:
        raise Refused(f"the staged table {load.staged_as} is gone", table=load.table.name)
    batches = state.staged[load.staged_as]
    if sum(batch.num_rows for batch in batches) != load.rows:
        raise GateFailed(f"the staged table {load.staged_as} does not hold {load.rows} rows")
    return rows_in(load.table, batches)


def rows_in(table: Table, batches: Iterable[pa.RecordBatch]) -> Rows:
    """Identical rows of a table without a key are counted."""
    found: dict[str, tuple[tuple[object, ...], int]] = {}
    for row in (row for batch in batches for row in rows_of(table, batch)):
        known = identity_of(table, row)
        found[known] = row, found.get(known, (row, 0))[1] + 1
    return found


def _rename(state: State, names: Mapping[str, str]) -> None:
    for old, new in names.items():
        if old in state.tables:
            state.tables[new] = state.tables.pop(old)
