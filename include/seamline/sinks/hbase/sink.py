"""HBaseSink: tables of HBase as the destination of one stream.

HBase changes one row at a time. A commit says in the ledger what it is about to write, writes the rows, and moves the
ledger last (`ledger.py`): rows may be ahead of the ledger for a moment, and are exact wherever the stream stands still.
"""

from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import cast

from seamline import settings
from seamline.adapters import connections, failpoints
from seamline.adapters.connections import Connection
from seamline.domain.changes import TableChanges
from seamline.domain.errors import CommitUnknown, Diverged, Fenced, Refused, SeamlineError, TransientError
from seamline.domain.ledger import LedgerRow, StreamId, refuse_one_that_went_back
from seamline.kinds.ledger_rules import advanced, fenced_or, resolved
from seamline.kinds.spilled import SpilledBatches, read_spilled
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.ports import Commit, Failpoints, Joining, Lease, Load, Progress, Publication, Staged, Unarmed
from seamline.sinks.hbase.applying import TableSpan
from seamline.sinks.hbase.findings import keep_findings
from seamline.sinks.hbase.gateway import Store, open_store
from seamline.sinks.hbase.ledger import Known, Ledgers, State, require_placed
from seamline.sinks.hbase.places import Places
from seamline.sinks.hbase.placing import Placing
from seamline.sinks.hbase.undo import forget_rows, forget_unnamed, keep_rows, put_back
from seamline.values.changes import ChangeBatch, ChangeDecoder, change_batch

# What a commit keeps of one span.
_FINDINGS_MAX = 1_000


def open_sink(plan: SyncPlan, destination: DestinationPlan, *, decoder: ChangeDecoder) -> "HBaseSink":
    """The sink of a plan's destination; failpoints as the process environment arms them."""
    armed = failpoints.from_environment(settings.process_environment())
    return HBaseSink(plan, destination, decoder=decoder, failpoints=armed)


class HBaseSink:
    """`ports.Sink`. One connection, opened again by whoever finds it lost."""

    def __init__(
        self,
        plan: SyncPlan,
        destination: DestinationPlan,
        *,
        decoder: ChangeDecoder,
        resolve: Callable[[str], Connection] = connections.resolve,
        failpoints: Failpoints | None = None,
    ) -> None:
        self._tables = {entry.name: entry.definition for entry in plan.tables if entry.table is not None}
        self._destination = destination
        self._places = Places.of(destination)
        self._decoder = decoder
        self._resolve = resolve
        self._failpoints = failpoints or Unarmed()
        self._store: Store | None = None
        self._row: LedgerRow | None = None
        self._spilled = SpilledBatches()

    # ---- ports.Sink -------------------------------------------------------------------------------------------------

    def read_ledger(self, stream: StreamId) -> LedgerRow | None:
        with closing(self._open(self._destination.writer)) as store:
            known = Ledgers(store, self._places).read(stream)
        return known.state.row if known else None

    def acquire(self, stream: StreamId, *, after_epoch: int | None = None) -> Lease:
        self.close()
        ledgers = self._ledgers()
        known = ledgers.read(stream)
        if known is None:
            raise Refused(
                f"destination {self._destination.name} holds no ledger of {stream}: nothing was published there",
                hint="onboard the sync first",
                sync=stream.sync,
            )
        if after_epoch is not None and self._row is not None:
            refuse_one_that_went_back(known.state.row, confirmed=self._row)
        require_placed(known.state)
        taken = ledgers.changed(known, _next_epoch) if after_epoch in (None, known.state.row.epoch) else None
        if taken is None:
            raise Fenced(f"another owner took {stream} meanwhile", sync=stream.sync)
        forget_unnamed(self._connected(), self._places, taken)
        self._row = taken.state.row
        return Lease(stream, self._row.epoch, self._row)

    def stage(self, lease: Lease, changes: TableChanges) -> Staged:  # noqa: ARG002 (nothing is sent before its commit)
        batch = change_batch(self._tables[changes.table], changes, self._decoder)
        return Staged(changes.table, self._spilled.put(batch) if batch.chunk else batch)

    def commit(self, lease: Lease, staged: Sequence[Staged], *, progress: Progress) -> Commit:
        try:
            return self._commit(lease, staged, progress)
        except (TransientError, Diverged, Refused) as exc:
            raise fenced_or(exc, lease, self.read_ledger) from exc
        except SeamlineError as exc:
            exc.position = exc.position or f"offsets [{progress.span.start}, {progress.span.end})"
            raise

    def publish(self, stream: StreamId, loads: Sequence[Load], *, publication: Publication) -> Commit:
        return self._place(lambda placing: placing.publish(loads, publication), stream, "pub.commit_sent")

    def join(self, stream: StreamId, joining: Joining) -> Commit:
        return self._place(lambda placing: placing.join(joining), stream, "addtable.joined")

    def close(self) -> None:
        self._spilled.drop()
        if self._store is not None:
            self._store.close()
            self._store = None

    # ---- one span ---------------------------------------------------------------------------------------------------

    def _commit(self, lease: Lease, staged: Sequence[Staged], progress: Progress) -> Commit:
        ledgers = self._ledgers()
        known = ledgers.read(lease.stream)
        if known is None or known.state.place != self._place_of(lease, progress):
            return self._resolved(known, lease, progress)
        self._failpoints.reach("app.dest_begin")
        known = put_back(self._connected(), ledgers, self._places, known)
        if known is None:
            return self._resolved(ledgers.read(lease.stream), lease, progress)
        spans = self._looked_at(staged)
        met = [one for span in spans for one in span.findings]
        known = self._prepared(ledgers, known, spans, progress) if spans else known
        if known is None:
            return self._resolved(ledgers.read(lease.stream), lease, progress)
        self._failpoints.reach("app.position_written")
        self._write(spans, known.state.first_number(1))
        self._failpoints.reach("app.dml_done")
        if progress.ended:
            self._failpoints.reach("cut.overlap_ended")
        kept = met[:_FINDINGS_MAX]
        keep_findings(self._connected(), self._places, known.state, kept)
        moved = self._send_commit(ledgers, known, lambda state: _moved(state, progress, len(kept)), "app.commit_sent")
        if moved is None:
            return self._resolved(ledgers.read(lease.stream), lease, progress)
        with suppress(TransientError):  # the next owner forgets them
            forget_rows(self._connected(), self._places, moved, known.state.before)
        self._row = moved.state.row
        return Commit(self._row, tuple(kept), len(met))

    def _looked_at(self, staged: Sequence[Staged]) -> list[TableSpan]:
        spans = []
        for name in dict.fromkeys(one.table for one in staged):
            batches = [_batch_of(one) for one in staged if one.table == name]
            span = TableSpan(self._tables[name], self._places.live(self._destination.namespace, name))
            span.look(self._connected(), batches)
            spans += [] if span.is_empty else [span]
        return spans

    def _prepared(self, ledgers: Ledgers, known: Known, spans: Sequence[TableSpan], progress: Progress) -> Known | None:
        """The ledger once it says that these rows come; None where it has moved. From here on rows may be ahead."""
        before = keep_rows(self._connected(), self._places, known, spans)
        return ledgers.changed(known, lambda state: replace(state.reserving(1), ahead=progress.span.end, before=before))

    def _write(self, spans: Sequence[TableSpan], number: int) -> None:
        for span in spans:
            for _ in span.write(self._connected(), number):
                self._failpoints.reach("app.dml_half")

    def _place_of(self, lease: Lease, progress: Progress) -> tuple[str, int, int]:
        return lease.ledger.topic_id, progress.span.start, lease.epoch

    def _resolved(self, known: Known | None, lease: Lease, progress: Progress) -> Commit:
        confirmed = self._row if self._row and self._row.epoch == lease.epoch else lease.ledger
        return Commit(resolved(known.state.row if known else None, lease, progress, confirmed=confirmed))

    def _send_commit(
        self, ledgers: Ledgers, known: Known, change: Callable[[State], State], failpoint: str
    ) -> Known | None:
        """The only place where the outcome may be unknown: from its sending until its answer."""
        try:
            moved = ledgers.changed(known, change)
            self._failpoints.reach(failpoint)
        except (TransientError, OSError) as exc:
            self.close()
            raise CommitUnknown(
                f"the ledger of {self._destination.name} was written, the answer is lost: {exc}"
            ) from exc
        return moved

    # ---- whole tables -----------------------------------------------------------------------------------------------

    def _place(self, place: Callable[[Placing], Commit], stream: StreamId, failpoint: str) -> Commit:
        with closing(self._open(self._destination.connection)) as store:
            ledgers = Ledgers(store, self._places)
            return place(Placing(store, ledgers, stream, self._destination, send=self._sender(ledgers, failpoint)))

    def _sender(self, ledgers: Ledgers, failpoint: str) -> Callable[[Known | None, State], Known | None]:
        def send(known: Known | None, state: State) -> Known | None:
            if known is not None:
                return self._send_commit(ledgers, known, lambda _: state, failpoint)
            return self._send_first(ledgers, state, failpoint)

        return send

    def _send_first(self, ledgers: Ledgers, state: State, failpoint: str) -> Known | None:
        try:
            first = ledgers.exchange(None, state)
            self._failpoints.reach(failpoint)
        except (TransientError, OSError) as exc:
            raise CommitUnknown(f"the first ledger was written, the answer is lost: {exc}") from exc
        return first

    # ---- connections ------------------------------------------------------------------------------------------------

    def _open(self, connection_id: str) -> Store:
        return open_store(self._resolve(connection_id))

    def _connected(self) -> Store:
        if self._store is None:
            self._store = self._open(self._destination.writer)
        return self._store

    def _ledgers(self) -> Ledgers:
        return Ledgers(self._connected(), self._places)


def _next_epoch(state: State) -> State:
    after = state.reserving(1)
    return replace(after, row=replace(state.row, epoch=state.row.epoch + 1))


def _moved(state: State, progress: Progress, kept: int) -> State:
    applied = state.row.applied_transactions + progress.span.transactions
    row = advanced(state.row, progress, applied, progress.last_marker or state.row.last_marker)
    return replace(state.reserving(1).with_findings(kept), row=row, ahead=0, before="")


def _batch_of(staged: Staged) -> ChangeBatch:
    return read_spilled(staged.batch) if isinstance(staged.batch, Path) else cast(ChangeBatch, staged.batch)
