"""The loop of one stream: read the log, close a span at an END, apply it in one commit, report, obey, again.

Plain Python over ports, so the whole of it runs in tests in milliseconds. It keeps nothing that matters: after any
trouble the next loop starts from what the destination's ledger says. The caller is the one owner of retries
(TransientError ends the loop); `Fenced` is final.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import takewhile

from seamline.domain.changes import TableChanges
from seamline.domain.cutover import is_covered
from seamline.domain.errors import (
    CommitUnknown,
    Diverged,
    Fenced,
    InvariantViolated,
    PositionLost,
    SeamlineError,
    SourceAway,
    TransientError,
)
from seamline.domain.ledger import LedgerRow
from seamline.domain.log import Span, Transaction
from seamline.domain.position import Position
from seamline.plan.model import SyncPlan
from seamline.ports import (
    Commit,
    Failpoints,
    Lease,
    LogReader,
    Orders,
    Progress,
    SchemaGuard,
    Sink,
    Staged,
    StreamControl,
    StreamReport,
    Unarmed,
)
from seamline.sync.boundaries import gate_of
from seamline.sync.clock import Clock, SystemClock
from seamline.sync.compaction import compact
from seamline.sync.gc_tuning import ManualCollector, short_switch_interval
from seamline.sync.pace import EmptyCommits, Pace
from seamline.sync.schema_proof import OpenLog, SchemaProof, is_to_be_proven
from seamline.sync.stop_conditions import marker_fields, stands_alone, stop_condition
from seamline.sync.stream_reports import StreamReporter
from seamline.sync.transaction_buffer import BufferLimits, TransactionBuffer

# A stream that was quiet for this many seconds may wait one.
_QUIET_FACTOR = 30.0
_Submit = Callable[[Callable[[], Commit]], "Future[Commit]"]


def run_stream(
    plan: SyncPlan,
    destination: str,
    *,
    reader: LogReader,
    sink: Sink,
    control: StreamControl,
    schema_guard: SchemaGuard | None = None,
    open_log: OpenLog | None = None,
    failpoints: Failpoints | None = None,
    clock: Clock | None = None,
    pace: Pace | None = None,
) -> StreamReport:
    """Stream a sync into one destination until it is no longer wanted; returns the last report, state `stopped`, or
    `idle` where it is at the end of the log and `pace.idle_after_s` have brought no change.

    Takes a new epoch at once, unless the first orders are that the stream is not wanted. Raises Fenced (another owner:
    never start this again by yourself), TransientError (the caller may start it again after a while), TerminalError (a
    person must look; everything before it is applied).
    The caller opens and closes reader, sink and `schema_guard`, which is asked before each commit of changes. With
    `open_log` (another reader of the same log) it waits where `schema_guard` does not answer; without, that ends it.
    """
    loop = _SpanLoop(
        plan,
        destination,
        reader=reader,
        sink=sink,
        control=control,
        schema_guard=schema_guard,
        open_log=open_log,
        failpoints=failpoints or Unarmed(),
        clock=clock or SystemClock(),
        pace=pace or Pace(),
    )
    with ManualCollector() as collector, short_switch_interval():
        return loop.run(collector)


@dataclass(slots=True)
class _Draft:
    """The next span, or the part of it that is there: all that was passed since the last commit was sent.

    `transactions` are kept until the commit is answered: after a lost answer they may be needed again.
    """

    start: int
    end: int
    transactions: list[Transaction] = field(default_factory=list)
    committed_ms: int = 0
    last_marker: str = ""
    ended: list[str] = field(default_factory=list)
    changes: int = 0
    # A marker wants the ledger to say so now.
    is_urgent: bool = False


@dataclass(slots=True)
class _Sent:
    """A commit on its way, in another thread or already answered."""

    draft: _Draft
    answer: "Future[Commit]"


class _SpanLoop:
    def __init__(
        self,
        plan: SyncPlan,
        destination: str,
        *,
        reader: LogReader,
        sink: Sink,
        control: StreamControl,
        schema_guard: SchemaGuard | None,
        open_log: OpenLog | None,
        failpoints: Failpoints,
        clock: Clock,
        pace: Pace,
    ) -> None:
        self._plan = plan
        self._stream = plan.stream_id(destination)
        self._planned = {entry.name: entry for entry in plan.tables}
        self._tables = {entry.name: entry.definition for entry in plan.tables}
        self._places = plan.source.places
        self._reader = reader
        self._sink = sink
        self._control = control
        self._proof = SchemaProof(schema_guard, open_log, marker_table=plan.source.marker_table, clock=clock)
        self._failpoints = failpoints
        self._clock = clock
        self._pace = pace
        self._empty_commits = EmptyCommits(pace)
        self._reporter = StreamReporter(self._stream, control, reader, clock)
        self._committed_at = -math.inf
        self._every_s = max(plan.stream.commit_every_ms, plan.destination(destination).commit_every_ms) / 1000
        # What lies before this offset waited when the interval was over.
        self._due_before = 0
        # When it last had nothing to do but wait.
        self._free_at = self._changed_at = self._clock.now()
        self._reached_hold = ""
        # The position up to which the last hold was applied, until the barrier's marker is passed.
        self._beyond: Position | None = None
        self._sent: _Sent | None = None
        self._committer = ThreadPoolExecutor(1, thread_name_prefix=f"commit {self._stream}")

    # ---- life -----------------------------------------------------------------------------------------------------

    def run(self, collector: ManualCollector) -> StreamReport:
        try:
            # Read before the orders: a worker that sleeps after them must not take the stream from a newer one.
            ledger = self._sink.read_ledger(self._stream)
            orders = self._control.orders()
            if not orders.wanted:
                # Another worker may run it. A new epoch would end that one for good, and its report is the one that
                # counts.
                return replace(self._reporter.last, state="stopped")
            if ledger is not None:
                # Nor may a worker with an older plan end the epoch of one with a newer plan.
                gate_of(self._stream, ledger, self._planned)
            self._begin(None if ledger is None else ledger.epoch)
            while True:
                collector.collect_if_due(self._clock.now())
                try:
                    if not orders.wanted:
                        self._commit_draft()
                        self._report("stopped")
                        return self._reporter.last
                    self._obey(orders)
                    if self._is_idle(orders):
                        self._report("streaming")
                        return replace(self._reporter.last, state="idle")
                except (CommitUnknown, SourceAway) as trouble:
                    self._recover(trouble)
                orders = self._control.orders()
        except SeamlineError as error:
            error.sync = error.sync or self._plan.sync
            raise
        finally:
            # Whatever ends the loop, a commit on its way is not left behind.
            self._committer.shutdown(wait=True)
            self._proof.close()

    def _begin(self, epoch: int | None) -> None:
        """Take the right to write from the owner that was known when the orders were read; start from the ledger."""
        try:
            self._take_lease(after_epoch=epoch)
        except Fenced as error:
            # Not final: if this worker is still the wanted one, its next attempt takes the stream.
            raise TransientError(f"{self._stream} was taken by another owner while this one began") from error
        position = self._ledger.position
        self._buffer = TransactionBuffer(
            self._reader,
            self._tables,
            marker_table=self._plan.source.marker_table,
            # Until the first transaction beyond a snapshot is applied, transactions from before it are expected; later
            # none may come twice.
            after=position.start_of_log() if self._gate.expects_covered(position) else position,
            known=position,
            limits=BufferLimits(
                self._plan.stream.span_changes_max,
                self._pace.span_bytes_max,
                self._pace.poll_records_max,
                self._pace.chunk_rows_max,
                self._pace.chunk_bytes_max,
            ),
        )
        self._reader.assign(self._ledger.next_offset)

    def _take_lease(self, *, after_epoch: int | None = None) -> None:
        lease = self._sink.acquire(self._stream, after_epoch=after_epoch)
        self._failpoints.reach("app.epoch_taken")
        ledger = lease.ledger
        if ledger.topic_id != self._reader.topic_id:
            raise PositionLost(
                f"the ledger of {self._stream} belongs to topic {ledger.topic} with id {ledger.topic_id}, but "
                f"{self._reader.topic} now has id {self._reader.topic_id}: the log topic was recreated",
                hint="onboard the sync again",
                position=str(ledger.position),
            )
        self._lease: Lease = lease
        self._ledger: LedgerRow = ledger
        self._gate = gate_of(self._stream, ledger, self._planned)
        self._tracker = ledger.position.tracker()
        self._chunks: list[Staged] = []
        # A fault in them. Raised after END has shown that the log has the whole transaction.
        self._chunks_trouble: Diverged | None = None
        self._draft = _Draft(ledger.next_offset, ledger.next_offset)

    def _recover(self, unknown: CommitUnknown | SourceAway) -> None:
        """The answer is lost, not the commit: a new epoch waits for it or fences it, then the ledger is final. While
        the source is away no commit was sent; its transactions are passed again."""
        if isinstance(unknown, SourceAway):
            self._proof.lose(unknown)
        sent, draft, had_chunks = self._sent, self._draft, bool(self._chunks or self._chunks_trouble)
        self._sent = None
        if sent is None:
            raise InvariantViolated(f"{self._stream}: an answer is lost although no commit was sent") from unknown
        self._take_lease(after_epoch=self._lease.epoch)
        stands_at = self._ledger.next_offset
        if stands_at not in (sent.draft.start, sent.draft.end):
            raise InvariantViolated(
                f"{self._stream}: the ledger stands at {stands_at}, neither before nor after the span "
                f"[{sent.draft.start}, {sent.draft.end}) whose answer was lost"
            ) from unknown
        if had_chunks:
            # The new epoch dropped them. Reading the transaction again needs a reader that begins at its start.
            raise TransientError(
                f"{self._stream}: a large transaction has to be read again from offset {stands_at}"
            ) from unknown
        self._buffer.put_back(draft.transactions)
        if stands_at != sent.draft.end:
            self._buffer.put_back(sent.draft.transactions)

    # ---- orders ---------------------------------------------------------------------------------------------------

    def _obey(self, orders: Orders) -> None:
        if orders.paused:
            self._stand_still("paused", "")
        elif orders.hold_id:
            # The control reports a hold only while its lease lasts, by the database's clock.
            if orders.apply_to is None or self._reached_hold == orders.hold_id:
                self._stand_still("held", orders.hold_id)
            else:
                self._apply_up_to(orders.hold_id, orders.apply_to)
        else:
            self._reached_hold = ""
            self._stream_on()

    def _is_idle(self, orders: Orders) -> bool:
        """Whether all that the log has is applied, nothing came for long, and nobody waits for an answer."""
        return (
            self._clock.now() - self._changed_at >= self._pace.idle_after_s
            and self._reporter.last.state == "streaming"
            and not (orders.paused or orders.hold_id or orders.are_old)
            and not (
                self._buffer.found_records
                or self._buffer
                or self._buffer.has_open_transaction
                or self._draft.transactions
            )
            and self._sent is None
            and not self._reporter.last.lag_s
        )

    def _stand_still(self, state: str, hold_id: str) -> None:
        """Between spans the stream is at an END by itself; it only has to say where, and not to move."""
        if self._reporter.is_news(state, hold_id):
            self._commit_draft()
            self._failpoints.reach("app.hold")
        self._report_if_due(state, self._pace.idle_report_every_s, hold_id=hold_id)
        self._clock.sleep(self._pace.standing_wait_s)
        self._free_at = self._clock.now()

    def _apply_up_to(self, hold_id: str, position: Position) -> None:
        """Apply every transaction that `position` covers and stop before the first that it does not."""
        self._read(0.0 if self._buffer else self._pace.standing_wait_s)
        while self._buffer and is_covered(self._buffer.first.position, position):
            if not self._proof.covers(self._buffer.first):
                self._wait_for_source()
                return
            self._apply(
                list(takewhile(lambda transaction: is_covered(transaction.position, position), self._next_span()))
            )
        if not self._buffer:
            self._raise_trouble()
            self._report_if_due(self._reporter.last.state, self._pace.idle_report_every_s)
            return
        # A transaction beyond the position was seen, so everything covered is applied: the state *is* that position,
        # unless the stream had gone beyond it before; then its report shows where it stands.
        self._settle()
        self._require_beyond(self._buffer.waiting, position)
        self._commit_draft(at=position if position.reaches(self._tracker.position) else None)
        # Not before: after a lost answer what is covered may be passed once more.
        self._beyond = position
        self._reached_hold = hold_id
        self._report("held", hold_id=hold_id)

    def _require_beyond(self, transactions: Iterable[Transaction], position: Position | None) -> None:
        """Coverage flips once: behind the first transaction that a hold's position does not cover none is covered."""
        early = next(
            (
                transaction
                for transaction in transactions
                if position is not None and is_covered(transaction.position, position)
            ),
            None,
        )
        if early is not None:
            self._commit_draft()
            raise InvariantViolated(
                f"{self._stream}: transaction {early.id} at offset {early.start} is part of the state at"
                f" {position}, up to which the stream was asked to apply, and the log has it behind one that is not:"
                " the source committed in another order than its log",
                hint="keep the log topic and the source's log from around this offset, and report it; a new want of the"
                " stream goes on behind it",
                position=str(early.position),
            )

    def _stream_on(self) -> None:
        wait_s = self._wait_s()
        self._read(wait_s)
        if wait_s:
            self._free_at = self._clock.now()
        if self._buffer and not self._proof.covers(self._buffer.first):
            self._wait_for_source()
            return
        if self._buffer and self._wait_for_interval_s() <= 0:
            if self._buffer.first.start >= self._due_before:
                self._due_before = self._buffer.last.end
            self._apply(self._next_span())
        elif not self._buffer:
            self._settle()
            self._raise_trouble()
        if self._draft.transactions and self._is_draft_due():
            self._commit_draft()
        if not self._buffer.found_records and not self._buffer:
            self._reporter.catch_up(self._ledger)
        every = self._pace.report_every_s if self._buffer.found_records else self._pace.idle_report_every_s
        self._report_if_due("catching_up" if self._gate.is_open else "streaming", every)

    def _wait_for_source(self) -> None:
        """What comes next is proven neither by the source, which is away, nor by the log."""
        self._settle()
        self._commit_draft()
        self._report_if_due("waiting", self._pace.idle_report_every_s)
        self._clock.sleep(self._pace.idle_wait_s)
        self._free_at = self._clock.now()

    # ---- reading --------------------------------------------------------------------------------------------------

    def _wait_s(self) -> float:
        """How long the next poll may wait for a record: a record that comes wakes it at once."""
        if self._sent is not None:
            return 0.0
        if self._buffer:
            wait_s = self._wait_for_interval_s()
        elif self._draft.transactions:
            wait_s = self._wait_for_draft_s()
        else:
            quiet_s = self._clock.now() - self._changed_at
            return max(self._pace.idle_wait_s, min(self._pace.quiet_wait_s, quiet_s / _QUIET_FACTOR))
        # Not less than a clock surely moves on by.
        return min(self._pace.idle_wait_s, max(0.001, wait_s)) if wait_s > 0 else 0.0

    def _wait_for_interval_s(self) -> float:
        """Seconds until `commit_every_ms` allows the next commit; what lets nothing more be read does not wait.

        Nor does what waited when the interval was over: some of it stands alone, as every heartbeat, and a stream that
        waited for each would never come to the end of the log.
        """
        if not self._every_s or self._buffer.is_full or self._buffer.first.start < self._due_before:
            return 0.0
        return self._committed_at + self._every_s - self._clock.now()

    def _wait_for_draft_s(self) -> float:
        """Seconds until transactions without changes may cost a commit of their own."""
        return self._committed_at + self._empty_commits.wait_s - self._clock.now()

    def _is_draft_due(self) -> bool:
        draft = self._draft
        # They are kept until their commit is answered, so they are bounded too.
        is_large = len(draft.transactions) >= self._plan.stream.span_changes_max
        return draft.is_urgent or is_large or self._wait_for_draft_s() <= 0

    def _read(self, wait_s: float) -> None:
        """Take in up to a full span; an open transaction that outgrows memory is spilled in chunks."""
        self._take_in(wait_s)
        # What is complete goes first, so that the transaction of the chunks is the next one.
        while self._buffer.has_large_open_transaction and not self._buffer and self._buffer.trouble is None:
            self._settle()
            transaction, number = self._buffer.take_chunk()
            changes = compact([transaction], tables=self._tables, gate=self._gate, chunk=number)
            try:
                self._chunks += [] if self._chunks_trouble else self._stage(changes)
            except Diverged as trouble:
                self._chunks_trouble = trouble
            self._failpoints.reach("app.chunk_staged")
            self._draft.changes += sum(found.changes_in for found in changes.values())
            self._take_in(0.0)

    def _take_in(self, wait_s: float) -> None:
        self._buffer.read(wait_s)
        if self._buffer.forget_lost_chunks():
            # A new epoch drops them; what was passed beside them and is in no commit yet is passed again.
            self._settle()
            passed = self._draft.transactions
            self._take_lease(after_epoch=self._lease.epoch)
            self._buffer.put_back(passed)

    def _raise_trouble(self) -> None:
        """Once everything before it is applied, what was wrong in the log stops the stream."""
        if self._buffer.trouble is not None:
            self._commit_draft()
            raise self._buffer.trouble

    # ---- spans ----------------------------------------------------------------------------------------------------

    def _next_span(self) -> list[Transaction]:
        """The next transactions that make one span: whole, capped, odd ones alone. Never empty, still waiting.

        Raises the stop condition if the next transaction is one.
        """
        first = self._buffer.first
        stop = stop_condition(first, self._tables, self._gate, places=self._places)
        if stop is not None:
            self._commit_draft()
            raise stop
        if stands_alone(first):
            return [first]
        may_follow = self._proof.covers
        return list(
            takewhile(
                lambda transaction: not stands_alone(transaction) and may_follow(transaction),
                self._buffer.first_within_limits(),
            )
        )

    def _apply(self, transactions: Sequence[Transaction]) -> None:
        """Pass these transactions, the first of those that wait, and commit what they change."""
        self._failpoints.reach("app.tx_assembled")
        self._require_beyond(transactions, self._beyond)
        if transactions[0].chunks and self._chunks_trouble is not None:
            self._commit_draft()
            raise self._chunks_trouble
        # While a full span is encoded and applied the next one is read and decoded; a small one is not worth a thread.
        submit = self._committer.submit if self._buffer.is_full else _run_now
        changes = compact(transactions, tables=self._tables, gate=self._gate)
        chunks = self._chunks if transactions[0].chunks else []
        for transaction in transactions:
            self._pass(transaction)
        self._draft.changes += sum(found.changes_in for found in changes.values())
        self._failpoints.reach("app.fetched")
        is_empty = not chunks and all(found.is_empty for found in changes.values())
        if not is_empty or self._draft.is_urgent or self._is_draft_due():
            through = next(
                (transaction.position for transaction in reversed(transactions) if is_to_be_proven(transaction)), None
            )
            self._send(None if is_empty else lambda: [*chunks, *self._stage_proven(changes, through)], submit)

    def _pass(self, transaction: Transaction) -> None:
        draft = self._draft
        draft.transactions.append(self._buffer.pop())
        for marker in transaction.markers:
            row = marker_fields(marker)
            if row["kind"] != "heartbeat":
                draft.last_marker = row["id"]
                if row["kind"] == "barrier":
                    # It was committed when the hold's views were open: nothing behind it can be in them.
                    self._beyond = None
                draft.ended.extend(self._gate.end_at_marker(row["id"]))
                draft.is_urgent = True
        self._tracker.advance_to(transaction.position)
        draft.end = transaction.end
        draft.committed_ms = transaction.committed_ms or draft.committed_ms

    def _stage_proven(self, changes: dict[str, TableChanges], through: Position | None) -> list[Staged]:
        if through is not None:
            self._proof.require(through)
        return self._stage(changes)

    def _stage(self, changes: dict[str, TableChanges]) -> list[Staged]:
        return [self._sink.stage(self._lease, found) for found in changes.values() if not found.is_empty]

    # ---- commit ---------------------------------------------------------------------------------------------------

    def _commit_draft(self, *, at: Position | None = None) -> None:
        """Write passed transactions without changes into the ledger; `at` names the position that the state is known to
        be."""
        self._settle()
        if self._draft.transactions or at not in (None, self._ledger.position):
            self._send(None, _run_now, at=at)
            self._settle()

    def _send(self, stage: Callable[[], list[Staged]] | None, submit: "_Submit", *, at: Position | None = None) -> None:
        """Begin the commit of the draft with what `stage` gives; at most one is on its way."""
        self._settle()
        draft = self._draft
        position = at or self._tracker.position
        span = Span(
            draft.start, draft.end, len(draft.transactions), position, draft.committed_ms or self._ledger.committed_ms
        )
        progress = Progress(span, draft.last_marker, tuple(draft.ended))
        if at is not None:
            self._tracker = at.tracker()
        self._draft = _Draft(draft.end, draft.end)
        self._sent = _Sent(draft, submit(lambda: self._commit(stage, progress)))
        if self._sent.answer.done():
            self._settle()

    def _commit(self, stage: Callable[[], list[Staged]] | None, progress: Progress) -> Commit:
        staged = [] if stage is None else stage()
        commit = self._sink.commit(self._lease, staged, progress=progress)
        self._failpoints.reach("app.commit_acked")
        return commit

    def _settle(self) -> None:
        """Wait for the commit on its way and take its answer; raises what it raised."""
        if self._sent is None:
            return
        commit = self._sent.answer.result()
        draft, self._sent = self._sent.draft, None
        if commit.ledger.next_offset != draft.end:
            raise InvariantViolated(
                f"the ledger of {self._stream} stands at {commit.ledger.next_offset}, not {draft.end}"
            )
        self._ledger = commit.ledger
        if draft.transactions and draft.transactions[-1].chunks:
            self._chunks = []
        busy_since, self._committed_at = max(self._committed_at, self._free_at), self._clock.now()
        if draft.changes:
            self._changed_at = self._committed_at
        if draft.changes or draft.is_urgent:
            self._empty_commits.start_over()
        else:
            self._empty_commits.slow_down()
        self._reporter.count(
            commit,
            transactions=len(draft.transactions),
            changes=draft.changes,
            records=draft.end - draft.start,
            busy_s=self._committed_at - busy_since,
        )

    # ---- reports --------------------------------------------------------------------------------------------------

    def _report(self, state: str, *, hold_id: str = "") -> None:
        waits_for = self._proof.trouble if state == "waiting" else ""
        self._reporter.report(state, self._ledger, epoch=self._lease.epoch, hold_id=hold_id, waits_for=waits_for)
        self._failpoints.reach("app.reported")

    def _report_if_due(self, state: str, every_s: float, *, hold_id: str = "") -> None:
        if self._reporter.is_due(state, every_s=every_s, hold_id=hold_id):
            self._report(state, hold_id=hold_id)


def _run_now(work: Callable[[], Commit]) -> "Future[Commit]":
    answer: Future[Commit] = Future()
    try:
        answer.set_result(work())
    except SeamlineError as error:
        answer.set_exception(error)
    return answer
