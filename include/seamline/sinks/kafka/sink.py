"""KafkaSink: topics on a Kafka cluster as the destination of one stream.

One commit is one Kafka transaction: the records of all tables, and behind them the control record, which is the ledger.
The stream's transactional id fences: whoever takes the stream makes a new producer of that id, and the old one can
commit nothing any more. Where a sync says `at_least_once`, a span is delivered without a transaction, and its control
record once all rows have arrived; a publish and a join are transactions all the same, and so is who takes the stream.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from seamline import settings as process
from seamline.adapters import connections, failpoints
from seamline.adapters.connections import Connection
from seamline.adapters.kafka.client import client_settings
from seamline.domain.catalogue import Table
from seamline.domain.changes import TableChanges
from seamline.domain.errors import CommitUnknown, Diverged, Fenced, Refused, SeamlineError, TransientError
from seamline.domain.ledger import LedgerRow, StreamId, refuse_one_that_went_back
from seamline.kinds.ledger_rules import advanced, fenced_or, resolved
from seamline.kinds.sink import AT_LEAST_ONCE
from seamline.kinds.spilled import SpilledBatches, read_spilled
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.ports import Commit, Failpoints, Joining, Lease, Load, Progress, Publication, Staged, Unarmed
from seamline.sinks.kafka import publish as publishing
from seamline.sinks.kafka.commit import StreamCommit, where_of
from seamline.sinks.kafka.control import Control, StreamState, read_control, settled_control
from seamline.sinks.kafka.fold import Fold
from seamline.sinks.kafka.repeated import Repeated, found_behind, with_repeated
from seamline.sinks.kafka.standing import require_as_counted, require_own, require_same_form
from seamline.sinks.kafka.topics import DestinationTopics
from seamline.sinks.kafka.transaction import Deliveries, Sending, Transactions
from seamline.values.changes import ChangeBatch, ChangeDecoder, change_batch


def open_sink(plan: SyncPlan, destination: DestinationPlan, *, decoder: ChangeDecoder) -> "KafkaSink":
    """The sink of a plan's destination; failpoints as the process environment arms them."""
    armed = failpoints.from_environment(process.process_environment())
    return KafkaSink(plan, destination, decoder=decoder, failpoints=armed)


class KafkaSink:
    """ports.Sink. One producer writes; it is made by `acquire`, or by a commit that lost it.

    The connection id is resolved at each use, so a changed password needs no restart.
    """

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
        self._where = where_of(plan, destination)
        self._may_repeat = plan.guarantee == AT_LEAST_ONCE
        self._decoder = decoder
        self._resolve = resolve
        self._failpoints = failpoints or Unarmed()
        self._transactions: Sending | None = None
        self._owned: StreamId | None = None
        self._control = Control()
        self._confirmed: LedgerRow | None = None
        self._folds: dict[str, Fold] = {}
        self._spilled = SpilledBatches()

    # ---- ports.Sink -------------------------------------------------------------------------------------------------

    def read_ledger(self, stream: StreamId) -> LedgerRow | None:
        found = self._look().states.get(stream)
        return found.row if found else None

    def acquire(self, stream: StreamId, *, after_epoch: int | None = None) -> Lease:
        self._let_go()
        # A look may be older than what is committed. It is enough to say that somebody else has taken the stream.
        seen = self._look().states.get(stream)
        if seen is None or (after_epoch is not None and seen.row.epoch != after_epoch):
            self._takable(stream, after_epoch)
        require_same_form(seen, self._where.options)
        transactions = self._open(stream)
        known = self._takable(stream, after_epoch)
        require_as_counted(self._settings, self._where.namespace, self._where.options, known.ends)
        known = self._marked(known)
        row = replace(known.row, epoch=known.row.epoch + 1)
        after = replace(known, row=row, may_repeat=self._may_repeat)
        try:
            with self._begun(transactions):
                commit = StreamCommit(transactions, self._where, after, start=after.row.next_offset)
                self._send_commit(commit, "")
        except CommitUnknown as exc:
            raise TransientError(f"{stream}: whether a new epoch was taken is not known: {exc.message}") from exc
        if self._may_repeat:
            self._transactions = Deliveries(self._settings)
        return Lease(stream, after.row.epoch, after.row)

    def stage(self, lease: Lease, changes: TableChanges) -> Staged:  # noqa: ARG002 (nothing is sent before its commit)
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
        known = self._look().states.get(stream)
        if known is not None and publication.run_id in known.runs:
            return Commit(known.row)
        settings = self._settings
        require_same_form(known, self._where.options)
        publishing.require_staged(settings, loads)
        topics = DestinationTopics(settings, self._where.options)
        topics.ensure_control()
        self._require_own(stream, [load.table for load in loads], topics)
        topics.ensure(self._where.namespace, [load.table for load in loads])
        transactions = self._open(stream)
        known = self._settled().states.get(stream)
        if known is not None and publication.run_id in known.runs:
            return Commit(known.row)
        after = publishing.published(stream, known, publication)
        with self._begun(transactions):
            commit = StreamCommit(transactions, self._where, after, start=after.row.next_offset)
            publishing.PutInPlace(settings, self._where).loads(commit, loads)
            self._failpoints.reach("pub.swapped")
            self._send_commit(commit, "pub.commit_sent")
        self._failpoints.reach("pub.commit_acked")
        return Commit(after.row)

    def join(self, stream: StreamId, joining: Joining) -> Commit:
        control = self._settled()
        known = control.states.get(stream)
        if known is not None and joining.run_id in known.runs:
            return Commit(known.row)
        require_same_form(known, self._where.options)
        # Before anybody is fenced: a stream that is not there yet goes on.
        publishing.joined(control, stream, joining)
        settings = self._settings
        topics = DestinationTopics(settings, self._where.options)
        self._require_own(stream, joining.tables, topics)
        topics.ensure(self._where.namespace, joining.tables)
        ending = list(publishing.incremental_streams(control, stream))
        transactions = self._open(stream)
        for one in ending:
            self._fence(one)
        control = self._settled()
        after, snapshot = publishing.joined(control, stream, joining)
        ended = [control.states[one] for one in ending if one in control.states]
        with self._begun(transactions):
            commit = StreamCommit(transactions, self._where, after, start=after.row.next_offset)
            if snapshot is not None:
                place = publishing.PutInPlace(settings, self._where)
                place.snapshot(commit, joining.tables, joining.incremental_namespace, snapshot)
            self._send_commit(commit, "addtable.joined", forgotten=ended)
        for one in ending:
            topics.delete(topics.names(f"{publishing.namespace_of(self._destination, one)}."))
        return Commit(after.row)

    def close(self) -> None:
        self._let_go()

    # ---- one span ---------------------------------------------------------------------------------------------------

    def _commit(self, lease: Lease, staged: Sequence[Staged], progress: Progress) -> Commit:
        known = self._following(lease, progress)
        if known is None or self._transactions is None or self._owned != lease.stream:
            return self._resolved(lease, progress)
        row = advanced(
            known.row,
            progress,
            known.row.applied_transactions + progress.span.transactions,
            progress.last_marker or known.row.last_marker,
        )
        with self._begun(self._transactions) as transactions:
            self._failpoints.reach("app.dest_begin")
            commit = StreamCommit(transactions, self._where, known.followed_by(row), start=progress.span.start)
            for name in dict.fromkeys(item.table for item in staged):
                table = self._tables[name]
                batches = [_batch_of(item) for item in staged if item.table == name]
                commit.table(table, partial(self._held, table, known.repeated.get(name, ()))).apply(batches)
                self._failpoints.reach("app.dml_half")
            self._failpoints.reach("app.dml_done")
            self._send_commit(commit, "app.commit_sent")
        for item in staged:
            if isinstance(item.batch, Path):
                item.batch.unlink(missing_ok=True)
        return Commit(row)

    def _following(self, lease: Lease, progress: Progress) -> StreamState | None:
        """The stream's state if this span follows it under this lease, with a producer that is ours."""
        known = self._followed(lease, progress)
        if known is not None and (self._transactions is None or self._owned != lease.stream):
            self._reopen(lease.stream)
            found = self._followed(lease, progress)
            known = self._marked(found) if found is not None else None
        return known

    def _followed(self, lease: Lease, progress: Progress) -> StreamState | None:
        known = self._look().states.get(lease.stream)
        if known is None:
            return None
        found = (known.row.epoch, known.row.topic_id, known.row.next_offset)
        return known if found == (lease.epoch, lease.ledger.topic_id, progress.span.start) else None

    def _resolved(self, lease: Lease, progress: Progress) -> Commit:
        found = self._control.states.get(lease.stream)
        confirmed = self._confirmed if self._confirmed and self._confirmed.epoch == lease.epoch else lease.ledger
        return Commit(resolved(found.row if found else None, lease, progress, confirmed=confirmed))

    def _marked(self, state: StreamState) -> StreamState:
        """With the records that an owner without transactions has left behind its last commit."""
        if not state.may_repeat:
            return state
        settings, marks = self._settings, dict(state.repeated)
        for name in state.ends.keys() & self._tables.keys():
            table, ends = self._tables[name], state.ends[name]
            found = found_behind(settings, self._where.topic(name), table, ends, position=state.row.next_offset)
            marks[name] = with_repeated(marks.get(name, ()), found, ends=ends)
        return replace(state, repeated={name: some for name, some in marks.items() if some})

    def _held(self, table: Table, repeated: Sequence[Repeated]) -> Fold:
        """Rows that are looked at once are read on from there the next time."""
        known, markers = self._folds.get(table.name), self._transactions.markers if self._transactions else 0
        fold = publishing.held_rows(self._settings, self._where, table, repeated, known, markers=markers)
        self._folds[table.name] = fold
        return fold

    def _require_own(self, stream: StreamId, tables: Sequence[Table], topics: DestinationTopics) -> None:
        names = [table.name for table in tables]
        require_own(self._control, stream, names, lambda name: topics.is_there(self._where.topic(name)))

    # ---- transactions -----------------------------------------------------------------------------------------------

    def _send_commit(self, commit: StreamCommit, failpoint: str, *, forgotten: Sequence[StreamState] = ()) -> None:
        """The only place where the outcome may be unknown: from its sending until its answer."""
        state = commit.close(forgotten=forgotten)
        try:
            self._commit_at_broker(commit.transactions, failpoint)
        except CommitUnknown:
            self._let_go()
            raise
        state = replace(state, offset=commit.transactions.sealed_at)
        self._control = self._control.with_own(state, forgotten=forgotten)
        self._confirmed = state.row
        for name in commit.looked_at & self._folds.keys():
            self._folds[name].ends = state.ends[name]

    def _commit_at_broker(self, transactions: Sending, failpoint: str) -> None:
        transactions.commit()
        try:
            if failpoint:
                self._failpoints.reach(failpoint)
        except SeamlineError as exc:
            raise CommitUnknown(f"a commit was sent to {self._destination.name}, its answer is lost: {exc}") from exc

    @contextmanager
    def _begun(self, transactions: Sending) -> Iterator[Sending]:
        """A commit that is aborted where the block does not end."""
        transactions.begin()
        try:
            yield transactions
        except BaseException:
            if self._transactions is transactions:
                self._drop_folds()
                self._transactions = transactions if transactions.abort() else None
            raise

    def _open(self, stream: StreamId) -> Transactions:
        """The stream's one producer from now on."""
        made = self._transactions_of(stream)
        self._transactions, self._owned = made, stream
        return made

    def _reopen(self, stream: StreamId) -> None:
        """For spans."""
        if self._may_repeat:
            self._transactions, self._owned = Deliveries(self._settings), stream
        else:
            self._open(stream)

    def _fence(self, stream: StreamId) -> None:
        self._transactions_of(stream)

    def _transactions_of(self, stream: StreamId) -> Transactions:
        options = self._where.options
        name = options.transactional_id(stream)
        return Transactions(self._settings, name, timeout_s=options.transaction_timeout_s)

    def _let_go(self) -> None:
        self._transactions = None
        self._drop_folds()
        self._spilled.drop()

    def _drop_folds(self) -> None:
        for fold in self._folds.values():
            fold.close()
        self._folds = {}

    # ---- the ledger -------------------------------------------------------------------------------------------------

    @property
    def _settings(self) -> dict[str, Any]:
        return client_settings(self._resolve(self._destination.connection))

    def _look(self) -> Control:
        self._control = read_control(self._settings, self._where.options.control_topic, self._control)
        return self._control

    def _settled(self) -> Control:
        self._control = settled_control(self._settings, self._where.options.control_topic)
        return self._control

    def _takable(self, stream: StreamId, after_epoch: int | None) -> StreamState:
        known = self._settled().states.get(stream)
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


def _batch_of(staged: Staged) -> ChangeBatch:
    return read_spilled(staged.batch) if isinstance(staged.batch, Path) else cast(ChangeBatch, staged.batch)
