"""ChangeFilesSink: files of changes as the destination of one stream.

A commit writes a file per table, reads it back, and puts the next manifest where none is: that is the compare-and-set,
and the manifest is the ledger. Where a sync says `at_least_once`, files are not read back, and the manifest is put
behind the last one that this owner knows, without a look.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from seamline import settings as process
from seamline.adapters import failpoints
from seamline.domain.changes import TableChanges
from seamline.domain.errors import CommitUnknown, Diverged, Fenced, Refused, SeamlineError, TransientError
from seamline.domain.ledger import LedgerRow, StreamId, refuse_one_that_went_back
from seamline.files.stores.store import Store
from seamline.kinds.held_rows import HeldRows
from seamline.kinds.ledger_rules import advanced, fenced_or, resolved
from seamline.kinds.sink import AT_LEAST_ONCE
from seamline.kinds.spilled import SpilledBatches, read_spilled
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.ports import Commit, Failpoints, Joining, Lease, Load, Progress, Publication, Staged, Unarmed
from seamline.sinks.files.changes import placing
from seamline.sinks.files.changes.columns import ChangeForm
from seamline.sinks.files.changes.held import HeldTables
from seamline.sinks.files.changes.log import ChangesLog, Seen, open_changes_store, sync_of
from seamline.sinks.files.changes.rows import changes_of, needs_held
from seamline.sinks.files.changes.state import ChangeFile, StreamState
from seamline.sinks.files.changes.writing import Writing, position_text
from seamline.values.changes import ChangeBatch, ChangeDecoder, change_batch


def open_sink(plan: SyncPlan, destination: DestinationPlan, *, decoder: ChangeDecoder) -> "ChangeFilesSink":
    """The sink of a plan's destination; failpoints as the process environment arms them."""
    armed = failpoints.from_environment(process.process_environment())
    return ChangeFilesSink(plan, destination, decoder=decoder, failpoints=armed)


@dataclass(slots=True)
class _Written:
    """Files of one commit that no manifest names yet, and the removals that had been decided before them."""

    sweeps: int
    commit: int
    by_table: dict[str, ChangeFile] = field(default_factory=dict)

    def files(self) -> list[ChangeFile]:
        return list(self.by_table.values())


class ChangeFilesSink:
    """ports.Sink."""

    def __init__(
        self,
        plan: SyncPlan,
        destination: DestinationPlan,
        *,
        decoder: ChangeDecoder,
        failpoints: Failpoints | None = None,
    ) -> None:
        self._tables = {entry.name: entry.definition for entry in plan.tables if entry.table is not None}
        self._destination = destination
        self._sync = sync_of(plan.sync)
        self._is_proven = plan.guarantee != AT_LEAST_ONCE
        self._decoder = decoder
        self._failpoints = failpoints or Unarmed()
        self._opened: Store | None = None
        self._seen: Seen | None = None
        self._confirmed: LedgerRow | None = None
        self._spilled = SpilledBatches()
        self._held = HeldTables()

    # ---- ports.Sink -------------------------------------------------------------------------------------------------

    def read_ledger(self, stream: StreamId) -> LedgerRow | None:
        found = self._log.look().state.streams.get(stream)
        return found.row if found else None

    def acquire(self, stream: StreamId, *, after_epoch: int | None = None) -> Lease:
        self._let_go()

        def once(seen: Seen) -> Lease | None:
            known = self._takable(seen, stream, after_epoch)
            after = placing.moved(replace(known, row=replace(known.row, epoch=known.row.epoch + 1)))
            if not self._decided(seen, after):
                return None
            return Lease(stream, after.row.epoch, after.row)

        try:
            return self._log.settle(once)
        except CommitUnknown as exc:
            raise TransientError(f"{stream}: whether a new epoch was taken is not known: {exc.message}") from exc

    def stage(self, lease: Lease, changes: TableChanges) -> Staged:  # noqa: ARG002 (nothing is written before its commit)
        batch = change_batch(self._tables[changes.table], changes, self._decoder)
        return Staged(changes.table, self._spilled.put(batch) if batch.chunk else batch)

    def commit(self, lease: Lease, staged: Sequence[Staged], *, progress: Progress) -> Commit:
        try:
            return self._commit(lease, staged, progress)
        except (TransientError, Diverged) as exc:
            raise fenced_or(exc, lease, self.read_ledger) from exc
        except SeamlineError as exc:
            exc.position = exc.position or f"offsets [{progress.span.start}, {progress.span.end})"
            raise

    def publish(self, stream: StreamId, loads: Sequence[Load], *, publication: Publication) -> Commit:
        new: placing.Loaded | None = None

        def once(seen: Seen) -> Commit | None:
            nonlocal new
            known = seen.state.streams.get(stream)
            if known is not None and publication.run_id in known.runs:
                return Commit(known.row)
            # A stream that goes on meanwhile has the next number before large files are written again.
            if new is None or new.sweeps != seen.state.sweeps:
                new = placing.loaded(self._writing, seen, stream, loads, publication)
            self._failpoints.reach("pub.swapped")
            return self._put(seen, placing.published(stream, known, new, publication), "pub.commit_sent")

        done = self._log.settle(once)
        self._failpoints.reach("pub.commit_acked")
        return done

    def join(self, stream: StreamId, joining: Joining) -> Commit:
        def once(seen: Seen) -> Commit | None:
            known = seen.state.streams.get(stream)
            if known is not None and joining.run_id in known.runs:
                return Commit(known.row)
            after, ending = placing.joined(seen.state, stream, joining)
            return self._put(seen, after, "addtable.joined", without=ending)

        return self._log.settle(once)

    def close(self) -> None:
        self._let_go()
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    # ---- one span ---------------------------------------------------------------------------------------------------

    def _commit(self, lease: Lease, staged: Sequence[Staged], progress: Progress) -> Commit:
        written: _Written | None = None
        seen = self._known(lease, progress) or self._log.look()
        for _ in range(_ROUNDS):
            known = _following(seen, lease, progress)
            if known is None:
                # Where this very span was committed before, its files are named; else maintenance removes them.
                return self._resolved(seen, lease, progress)
            if written is None or written.sweeps != seen.state.sweeps:
                if written is not None:
                    # What was read has followed the files that are written once more.
                    self._held.close()
                written = self._written(seen, known, staged, progress)
            decided = self._decide_span(seen, known, written, progress)
            if decided is not None:
                self._drop_spilled(staged)
                return Commit(decided.row)
            seen = self._log.look()
        raise TransientError(f"others decide in the log of {self._sync} all the time", hint="it is tried again")

    def _known(self, lease: Lease, progress: Progress) -> Seen | None:
        """The newest manifest where a look is saved: the last one of this owner, if the span follows it."""
        seen = None if self._is_proven else self._seen
        return seen if seen is not None and _following(seen, lease, progress) is not None else None

    def _written(self, seen: Seen, known: StreamState, staged: Sequence[Staged], progress: Progress) -> _Written:
        self._failpoints.reach("app.dest_begin")
        span, made = progress.span, _Written(seen.state.sweeps, known.commits + 1)
        with self._held.undone_unless_done():
            for name in dict.fromkeys(item.table for item in staged):
                batches = [_batch_of(item) for item in staged if item.table == name]
                form = known.tables[name].form
                held = self._held_of(known, form, batches)
                marks = self._writing.marks(made.commit, position_text(span.position), span.committed_ms)
                changes = changes_of(form, batches, marks, held)
                file = self._writing.file(known.tables[name], changes, marks)
                if file is not None:
                    made.by_table[name] = file
                self._failpoints.reach("app.dml_half")
            if self._is_proven:
                self._log.require_written(made.files())
            self._failpoints.reach("app.dml_done")
        return made

    def _held_of(self, known: StreamState, form: ChangeForm, batches: Sequence[ChangeBatch]) -> HeldRows | None:
        if needs_held(form, batches):
            return self._held.read(self._log, known, form.table)
        return self._held.known(known, form.table)

    def _decide_span(self, seen: Seen, known: StreamState, written: _Written, progress: Progress) -> StreamState | None:
        row = advanced(
            known.row,
            progress,
            known.row.applied_transactions + progress.span.transactions,
            progress.last_marker or known.row.last_marker,
        )
        tables = {
            name: held.with_files([written.by_table[name]]) if name in written.by_table else held
            for name, held in known.tables.items()
        }
        after = placing.moved(replace(known, row=row, tables=tables, commits=written.commit))
        if not self._decided(seen, after, failpoint="app.commit_sent"):
            return None
        self._held.follow(after.commits)
        return after

    def _resolved(self, seen: Seen, lease: Lease, progress: Progress) -> Commit:
        found = seen.state.streams.get(lease.stream)
        confirmed = self._confirmed if self._confirmed and self._confirmed.epoch == lease.epoch else lease.ledger
        return Commit(resolved(found.row if found else None, lease, progress, confirmed=confirmed))

    def _drop_spilled(self, staged: Sequence[Staged]) -> None:
        for item in staged:
            if isinstance(item.batch, Path):
                item.batch.unlink(missing_ok=True)

    # ---- the manifest -----------------------------------------------------------------------------------------------

    def _put(
        self, seen: Seen, after: StreamState, failpoint: str, *, without: Sequence[StreamId] = ()
    ) -> Commit | None:
        return Commit(after.row) if self._decided(seen, after, failpoint=failpoint, without=without) else None

    def _decided(
        self, seen: Seen, after: StreamState, *, failpoint: str = "", without: Sequence[StreamId] = ()
    ) -> bool:
        """The only place where the outcome may be unknown: from its sending until its answer."""
        self._seen = None
        try:
            decided = self._decide(seen, after, without)
        except CommitUnknown:
            self._let_go()
            raise
        if decided is None:
            return False
        self._seen, self._confirmed = decided, after.row
        if failpoint:
            with self._as_unknown():
                self._failpoints.reach(failpoint)
        return True

    def _decide(self, seen: Seen, after: StreamState, without: Sequence[StreamId]) -> Seen | None:
        state = seen.state.with_stream(after, without=without)
        return self._log.decide(seen, state) if self._is_proven else self._log.decide_by_answer(seen, state)

    @contextmanager
    def _as_unknown(self) -> Iterator[None]:
        try:
            yield
        except SeamlineError as exc:
            self._let_go()
            what = f"a commit was sent to {self._destination.name}, its answer is lost: {exc}"
            raise CommitUnknown(what) from exc

    def _takable(self, seen: Seen, stream: StreamId, after_epoch: int | None) -> StreamState:
        known = seen.state.streams.get(stream)
        if known is None:
            raise Refused(
                f"destination {self._destination.name} holds no ledger of {stream}: nothing was published there",
                hint="onboard the sync first",
                sync=stream.sync,
            )
        if after_epoch is not None:
            refuse_one_that_went_back(known.row, confirmed=self._confirmed or known.row)
            if known.row.epoch != after_epoch:
                raise Fenced(f"another owner took {stream} meanwhile", sync=stream.sync)
        return known

    @property
    def _log(self) -> ChangesLog:
        if self._opened is None:
            self._opened = open_changes_store(self._destination)
        return ChangesLog(self._opened, self._sync)

    @property
    def _writing(self) -> Writing:
        return Writing(self._log, self._destination)

    def _let_go(self) -> None:
        self._seen = None
        self._held.close()
        self._spilled.drop()


_ROUNDS = 8


def _following(seen: Seen, lease: Lease, progress: Progress) -> StreamState | None:
    """The stream's state if this span follows it under this lease."""
    known = seen.state.streams.get(lease.stream)
    if known is None:
        return None
    found = (known.row.epoch, known.row.topic_id, known.row.next_offset)
    return known if found == (lease.epoch, lease.ledger.topic_id, progress.span.start) else None


def _batch_of(staged: Staged) -> ChangeBatch:
    return read_spilled(staged.batch) if isinstance(staged.batch, Path) else cast(ChangeBatch, staged.batch)
