"""A lake's catalogue and ledger in memory, so that its sink is tested without a server: the files are real ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

from seamline.domain.changes import Finding
from seamline.domain.errors import Fenced, NotCaughtUp, Refused
from seamline.domain.ledger import LedgerRow, StreamId, refuse_one_that_went_back
from seamline.kinds.ledger_rules import advanced, resolved
from seamline.plan.model import INCREMENTAL
from seamline.ports import Failpoints, Joining, Lease, Progress, Publication, Unarmed
from seamline.sinks.lake.store import CatalogueChanges, Outcome, PointerMove, PointerMoved, Seen, Staging, repeated
from seamline_memory import sink
from seamline_memory.store import KeptFinding, State
from tests.memory_sink import MemoryDestination


@dataclass(slots=True)
class LakeState(State):
    """`heads`: (namespace, table) → metadata file."""

    heads: dict[tuple[str, str], str] = field(default_factory=dict)
    snapshots: dict[StreamId, Mapping[str, int]] = field(default_factory=dict)

    def copy(self) -> "LakeState":
        return LakeState(*(getattr(self, part.name).copy() for part in fields(self)))


class LakeDatabase(MemoryDestination):
    def __init__(self) -> None:
        super().__init__()
        self.state: LakeState = LakeState()


class MemoryLakeStore:
    """`LakeStore`."""

    def __init__(self, database: LakeDatabase, namespace: str, *, failpoints: Failpoints | None = None) -> None:
        self._database = database
        self._namespace = namespace
        self._failpoints = failpoints or Unarmed()

    def read_ledger(self, stream: StreamId) -> LedgerRow | None:
        return self._database.state.ledgers.get(stream)

    def acquire(self, stream: StreamId, *, after_epoch: int | None, confirmed: LedgerRow | None) -> Lease:
        with self._database.transaction() as state:
            row = state.ledgers.get(stream)
            if row is None:
                raise Refused(f"the destination holds no ledger of {stream}", hint="onboard the sync first")
            if confirmed is not None:
                refuse_one_that_went_back(row, confirmed=confirmed)
            if after_epoch not in (None, row.epoch):
                raise Fenced(f"another owner took {stream} meanwhile")
            row = state.ledgers[stream] = replace(row, epoch=row.epoch + 1)
        return Lease(stream, row.epoch, row)

    def look(self, stream: StreamId, namespace: str) -> Seen:
        state = self._database.state
        heads = {table: location for (one, table), location in state.heads.items() if one == namespace}
        return Seen(state.ledgers.get(stream), heads, state.snapshots.get(stream, {}))

    def commit(
        self,
        lease: Lease,
        moves: Sequence[PointerMove],
        findings: Sequence[Finding],
        *,
        progress: Progress,
        confirmed: LedgerRow,
    ) -> Outcome:
        with self._database.transaction() as state:
            found = state.ledgers.get(lease.stream)
            span = progress.span
            if found is None or (found.epoch, found.next_offset) != (lease.epoch, span.start):
                return Outcome(resolved(found, lease, progress, confirmed=confirmed), is_new=False)
            marker = progress.last_marker or found.last_marker
            row = advanced(found, progress, found.applied_transactions + span.transactions, marker)
            state.ledgers[lease.stream] = row
            self._move(state, moves)
            self._keep(state, lease.stream, moves)
            state.findings += [KeptFinding(lease.stream, one) for one in findings]
        return Outcome(row)

    def keep_foreign(self, lease: Lease, findings: Sequence[Finding]) -> None:
        with self._database.transaction() as state:
            new = [KeptFinding(lease.stream, one) for one in findings]
            state.findings += [one for one in new if one not in state.findings]

    def published(self, stream: StreamId, run_id: str) -> bool:
        return (stream, run_id) in self._database.state.runs

    def publish(self, stream: StreamId, staging: Staging, *, publication: Publication) -> LedgerRow:
        return repeated(lambda _: self._publish(stream, staging(self.look(stream, self._namespace)), publication))

    def join(self, stream: StreamId, staging: Staging, *, joining: Joining) -> LedgerRow:
        return repeated(lambda _: self._join(stream, staging(self.look(stream, self._namespace)), joining))

    def close(self) -> None:
        return

    def _publish(self, stream: StreamId, changes: CatalogueChanges, publication: Publication) -> LedgerRow:
        with self._database.transaction() as state:
            known = state.ledgers.get(stream)
            self._apply(state, changes)
            row = LedgerRow(
                stream,
                publication.topic,
                publication.topic_id,
                publication.next_offset,
                publication.position,
                known.epoch + 1 if known else 1,
                known.applied_transactions if known else 0,
                committed_ms=0,
                boundaries=known.boundaries if known else (),
            )
            row = sink._put_in_place(  # noqa: SLF001
                state, row, publication.boundaries, left=changes.set_aside, run_id=publication.run_id
            )
            self._keep(state, stream, changes.moves, gone=changes.set_aside)
        return row

    def _join(self, stream: StreamId, changes: CatalogueChanges, joining: Joining) -> LedgerRow:
        with self._database.transaction() as state:
            known = state.ledgers.get(stream)
            if known is None:
                raise Refused(f"nothing was published for {stream}", hint="onboard the sync first")
            snapshot = state.ledgers.get(joining.incremental_stream) if joining.incremental_stream else None
            if joining.incremental_stream and not sink.is_caught_up(snapshot, known):
                raise NotCaughtUp(f"{stream} stands at {known.next_offset}, its incremental snapshot elsewhere")
            self._apply(state, changes)
            names = {table.name for table in joining.tables}
            entering = [one for one in snapshot.boundaries if one.table in names] if snapshot else []
            row = replace(known, epoch=known.epoch + 1)
            row = sink._put_in_place(  # noqa: SLF001
                state, row, entering, left=joining.kept_as, run_id=joining.run_id
            )
            for over in [one for one in state.ledgers if one.sync.startswith(f"{stream.sync}{INCREMENTAL}")]:
                sink.forget(state, over)
            state.heads = {at: where for at, where in state.heads.items() if "_incremental_" not in at[0]}
            self._keep(state, stream, changes.moves, gone=joining.kept_as)
        return row

    def _apply(self, state: LakeState, changes: CatalogueChanges) -> None:
        for old, new in changes.set_aside.items():
            if (self._namespace, old) in state.heads:
                state.heads[self._namespace, new] = state.heads.pop((self._namespace, old))
        for table, location in changes.taken.items():
            if state.heads.pop((changes.taken_from, table), "") != location:
                raise PointerMoved(table)
        self._move(state, changes.moves)

    def _move(self, state: LakeState, moves: Sequence[PointerMove]) -> None:
        for number, move in enumerate(sorted(moves, key=lambda move: move.table)):
            if state.heads.get((self._namespace, move.table), "") != move.old:
                raise PointerMoved(move.table)
            state.heads[self._namespace, move.table] = move.new
            if number == 0:
                self._failpoints.reach("app.dml_half")

    def _keep(
        self, state: LakeState, stream: StreamId, moves: Sequence[PointerMove], *, gone: Mapping[str, str] | None = None
    ) -> None:
        known = {name: number for name, number in state.snapshots.get(stream, {}).items() if name not in (gone or {})}
        state.snapshots[stream] = {**known, **{move.table: move.snapshot_id for move in moves}}
