"""Protocol bugs, planted into the real code one at a time: the simulator has to find each by the check named here."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from seamline.domain import cutover
from seamline.domain.changes import KeyedChange
from seamline.domain.cutover import BoundaryGate
from seamline.domain.errors import CommitUnknown
from seamline.domain.ledger import LedgerRow, StreamId
from seamline.domain.log import LogRecord, RecordKind, RowChange, Transaction
from seamline.domain.position import Position
from seamline.plan.model import INCREMENTAL, TablePlan
from seamline.ports import Commit, Joining, Lease, Load, Orders, Progress, Publication, Staged
from seamline.sources.mariadb.position import BinlogPosition, BinlogTracker
from seamline.sources.postgres.position import PostgresPosition, widen_xid
from seamline.sync import boundaries, compaction, incremental_snapshot, span_loop, transactions
from seamline.sync.incremental_snapshot import ReaderBehind
from seamline.sync.log_listener import LogListener
from seamline.sync.span_loop import _SpanLoop
from seamline.sync.transaction_buffer import TransactionBuffer
from seamline.sync.transactions import TransactionAssembler
from seamline_memory import sink as memory
from tests.contract import test_planted_bugs as contract
from tests.fault.simulator import runs, simulation
from tests.fault.simulator.ports import SteppedSink
from tests.memory_sink import MemorySink

# ruff: noqa: SLF001 (bugs are planted where the code hides what it does)
Plant = Callable[[pytest.MonkeyPatch], None]


def _sink(patch: pytest.MonkeyPatch, kind: type[MemorySink]) -> None:
    """The wrong sink lies between the simulator's and the right one."""
    planted = type("Planted", (SteppedSink, kind), {})
    for user in (simulation, runs):
        patch.setattr(user, "SteppedSink", planted)


# ---- the ledger and the epoch ---------------------------------------------------------------------------------------


class OffsetBeforeData(MemorySink):
    """Two transactions where there should be one: the ledger's, then that of the rows."""

    def commit(self, lease: Lease, staged: Sequence[Staged], *, progress: Progress) -> Commit:
        ledgers, before = self._store.ledgers, self._store.ledgers.get(lease.stream)
        if before is not None and not memory.is_done(before, lease, progress):
            ledgers[lease.stream] = memory.advanced(before, progress)
            self._failpoints.reach("app.dml_half")
            ledgers[lease.stream] = before
        return super().commit(lease, staged, progress=progress)


def offset_before_data(patch: pytest.MonkeyPatch) -> None:
    _sink(patch, OffsetBeforeData)


def epoch_ignored(patch: pytest.MonkeyPatch) -> None:
    _sink(patch, contract.EpochIgnored)


def start_offset_ignored(patch: pytest.MonkeyPatch) -> None:
    _sink(patch, contract.LedgerNotCompared)


def unknown_commit_taken_for_done_by_the_sink(patch: pytest.MonkeyPatch) -> None:
    _sink(patch, contract.CommitErrorSwallowed)


def unknown_commit_taken_for_done(patch: pytest.MonkeyPatch) -> None:
    """The stream goes on behind the span, from wherever the ledger stands."""

    def recover(loop: Any, unknown: CommitUnknown) -> None:
        draft, loop._sent = loop._draft, None
        loop._take_lease()
        loop._chunks = []
        loop._buffer.put_back(draft.transactions)

    patch.setattr(_SpanLoop, "_recover", recover)


def unknown_commit_taken_for_failed(patch: pytest.MonkeyPatch) -> None:
    """The span is sent again although it may have arrived."""

    def recover(loop: Any, unknown: CommitUnknown) -> None:
        sent, draft, loop._sent = loop._sent, loop._draft, None
        loop._take_lease()
        loop._chunks = []
        loop._buffer.put_back(draft.transactions)
        loop._buffer.put_back(sent.draft.transactions)

    patch.setattr(_SpanLoop, "_recover", recover)


def no_new_epoch_after_an_unknown_commit(patch: pytest.MonkeyPatch) -> None:
    """The ledger is believed while the commit may still be on its way."""
    right = _SpanLoop._recover

    def recover(loop: Any, unknown: CommitUnknown) -> None:
        lease, acquire = loop._lease, loop._sink.acquire
        loop._sink.acquire = lambda stream, after_epoch: replace(lease, ledger=loop._sink.read_ledger(stream))
        try:
            right(loop, unknown)
        finally:
            loop._sink.acquire = acquire

    patch.setattr(_SpanLoop, "_recover", recover)


def position_of_covered_transactions_moves_the_ledger_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(BinlogTracker, "has_passed", lambda tracker, transaction: False)


# ---- the boundary ---------------------------------------------------------------------------------------------------


def boundary_off_by_one(patch: pytest.MonkeyPatch) -> None:
    """`<=` where `<` should stand: the first transaction after the read view is taken for one inside."""

    def is_covered(transaction: Position, snapshot: Position) -> bool:
        if isinstance(transaction, BinlogPosition) and isinstance(snapshot, BinlogPosition):
            return int(transaction.gtid.rpartition("-")[2]) <= int(snapshot.gtid.rpartition("-")[2]) + 1
        assert isinstance(transaction, PostgresPosition)
        assert isinstance(snapshot, PostgresPosition)
        xid = widen_xid(transaction.xid or 0, snapshot.xmax)
        return xid <= snapshot.xmax and xid not in snapshot.in_progress

    patch.setattr(cutover, "is_covered", is_covered)


def transactions_in_progress_taken_for_seen(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PostgresPosition, "sees_xid", lambda at, xid: widen_xid(xid, at.xmax) < at.xmax)


def xmax_asked_before_xmin(patch: pytest.MonkeyPatch) -> None:
    """As we had it: a snapshot whose xmax lies below its xmin sees more than it says."""

    def sees(at: PostgresPosition, xid: int) -> bool:
        wide = widen_xid(xid, at.xmax)
        return wide < at.xmax and wide not in at.in_progress

    patch.setattr(PostgresPosition, "sees_xid", sees)


def boundary_by_the_lsn_of_rows(patch: pytest.MonkeyPatch) -> None:
    right, right_rows = compaction._dropped_tables, TransactionAssembler._rows
    position_of_row: dict[str, Position | None] = {}

    def rows(assembler: TransactionAssembler, record: LogRecord) -> None:
        position_of_row[record.transaction_id] = record.position
        right_rows(assembler, record)

    def dropped(transaction: Transaction, gate: BoundaryGate) -> frozenset[str]:
        names = set(right(transaction, gate))
        for row in transaction.rows:
            at_row, at = position_of_row[transaction.id], gate.boundaries[row.table].position
            if isinstance(at_row, PostgresPosition) and isinstance(at, PostgresPosition):
                names |= {row.table} if at_row.lsn < at.lsn else set()
        return frozenset(names)

    patch.setattr(TransactionAssembler, "_rows", rows)
    patch.setattr(compaction, "_dropped_tables", dropped)


def xid_of_64_bits_compared_with_one_of_32(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PostgresPosition, "sees_xid", lambda at, xid: xid < at.xmax and xid not in at.in_progress)


def boundary_ends_at_any_marker(patch: pytest.MonkeyPatch) -> None:
    """Transactions before the high marker, which the snapshot covers, are applied once more."""

    def end_at_marker(gate: BoundaryGate, marker: str) -> tuple[str, ...]:
        ending = tuple(name for name in gate.boundaries if name not in gate._ended)
        gate._ended.update(ending)
        return ending

    patch.setattr(BoundaryGate, "end_at_marker", end_at_marker)


def boundary_ends_one_transaction_before_the_last_covered(patch: pytest.MonkeyPatch) -> None:
    """The gate opens when the *next* transaction is no longer covered, as if it had looked ahead and decided too
    soon."""
    right = BoundaryGate.keeps

    def keeps(gate: BoundaryGate, table: str, transaction: Position) -> bool:
        at = gate.boundaries[table].position
        if isinstance(transaction, BinlogPosition) and isinstance(at, BinlogPosition) and table not in gate._ended:
            return int(transaction.gtid.rpartition("-")[2]) >= int(at.gtid.rpartition("-")[2])
        return right(gate, table, transaction)

    patch.setattr(BoundaryGate, "keeps", keeps)


def boundaries_never_ended(patch: pytest.MonkeyPatch) -> None:
    _sink(patch, contract.BoundariesNeverEnded)


# ---- what a span does -----------------------------------------------------------------------------------------------


def deletes_dropped(patch: pytest.MonkeyPatch) -> None:
    _sink(patch, contract.DeletesDropped)


def truncate_ignored(patch: pytest.MonkeyPatch) -> None:
    _sink(patch, contract.TruncateForgotten)


def identical_rows_joined(patch: pytest.MonkeyPatch) -> None:
    _sink(patch, contract.IdenticalRowsJoined)


def delete_of_a_key_change_applied_after_the_insert(patch: pytest.MonkeyPatch) -> None:
    right = compaction._keep_newest

    def keep(newest: dict[bytes, KeyedChange], row: RowChange) -> None:
        known = newest.get(row.key or b"")
        if known is None or not known.is_delete or row.op != "c":
            right(newest, row)

    patch.setattr(compaction, "_keep_newest", keep)


def chunks_of_a_large_transaction_forgotten(patch: pytest.MonkeyPatch) -> None:
    right = _SpanLoop._stage

    def stage(loop: Any, changes: Mapping[str, Any]) -> list[Staged]:
        return [staged for staged in right(loop, dict(changes)) if not staged.batch.chunk]

    patch.setattr(_SpanLoop, "_stage", stage)


# ---- the log --------------------------------------------------------------------------------------------------------


def counts_of_end_not_verified(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(transactions, "_verify_counts", lambda transaction, end: None)


def transaction_applied_before_its_end(patch: pytest.MonkeyPatch) -> None:
    """What has come so far is taken for a whole transaction."""
    right = TransactionAssembler.feed

    def feed(assembler: TransactionAssembler, records: Sequence[LogRecord]) -> list[Transaction]:
        found = right(assembler, records)
        opened = assembler._open
        if opened is not None and opened.rows and records[-1].rows:
            found.append(assembler.take_chunk())
            opened.chunks = 0
        return found

    patch.setattr(TransactionAssembler, "feed", feed)


def end_of_another_transaction_accepted(patch: pytest.MonkeyPatch) -> None:
    """A BEGIN inside of an open transaction closes it as if it were whole."""
    patch.setattr(
        TransactionAssembler,
        "_close_without_end",
        lambda assembler, transaction, record: assembler._whole(
            transaction, end=transaction.last_offset + 1, committed_ms=0
        ),
    )


def transaction_continued_at_its_second_begin(patch: pytest.MonkeyPatch) -> None:
    """As if the connector went on where it was: what it sent before comes twice."""
    patch.setattr(
        TransactionAssembler, "_begin_again", lambda assembler, transaction, record: setattr(transaction, "counts", {})
    )


def chunks_kept_of_a_transaction_that_is_repeated(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TransactionBuffer, "forget_lost_chunks", lambda buffer: False)


def order_of_transactions_not_verified(patch: pytest.MonkeyPatch) -> None:
    def take_in(taken: Any, found: Sequence[Transaction]) -> None:
        taken._transactions.extend(found)
        taken._changes += sum(len(transaction.rows) for transaction in found)
        taken._bytes += sum(transaction.row_bytes for transaction in found)
        taken.trouble = taken._assembler.trouble

    patch.setattr(TransactionBuffer, "_take_in", take_in)


def transaction_before_not_asked_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TransactionBuffer, "_has_come", lambda _buffer, _transaction: True)


class _AnyTopic(str):
    """An identity that is equal to every other."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False


class TopicNotCompared(MemorySink):
    def acquire(self, stream: StreamId, *, after_epoch: int | None = None) -> Lease:
        lease = super().acquire(stream, after_epoch=after_epoch)
        return replace(lease, ledger=replace(lease.ledger, topic_id=_AnyTopic(lease.ledger.topic_id)))


def identity_of_the_topic_not_compared(patch: pytest.MonkeyPatch) -> None:
    _sink(patch, TopicNotCompared)


# ---- values that the log leaves out ---------------------------------------------------------------------------------


def stand_in_written_as_a_value(patch: pytest.MonkeyPatch) -> None:
    contract.stand_in_written_in_memory(patch)


def unavailable_value_taken_from_the_stored_row_though_the_span_has_a_newer_one(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(compaction, "filled", lambda image, older: image)


def unavailable_value_taken_from_whoever_had_the_new_key(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(compaction, "_take_from_old_key", lambda change, old, old_key: None)


def chain_of_key_changes_not_followed(patch: pytest.MonkeyPatch) -> None:
    """The value is looked for under the last of the old keys, where the row never was in the destination."""
    right = compaction._take_from_old_key

    def take(change: KeyedChange, old: KeyedChange | None, old_key: bytes) -> None:
        right(change, old, old_key)
        change.taken_from = change.taken_from and old_key

    patch.setattr(compaction, "_take_from_old_key", take)


def unavailable_values_of_chunks_not_filled(patch: pytest.MonkeyPatch) -> None:
    contract.chunks_passed_over_in_memory(patch)


def unavailable_value_of_a_moved_row_taken_from_before_its_chunks(patch: pytest.MonkeyPatch) -> None:
    contract.chunks_passed_over_by_moved_rows_in_memory(patch)


# ---- tables that join -----------------------------------------------------------------------------------------------


def joined_without_comparing_places(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(memory, "is_caught_up", lambda snapshot, stream: snapshot is not None)


def incremental_snapshot_ahead_of_its_stream(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ReaderBehind, "_may_give", lambda reader, record: True)


class LedgerOfAnIncrementalSnapshotForgotten(MemorySink):
    """Each attempt begins where the snapshot was, beside rows that an attempt before has led on."""

    _published: ClassVar[dict[StreamId, LedgerRow]] = {}

    def publish(self, stream: StreamId, loads: Sequence[Load], *, publication: Publication) -> Commit:
        is_new = (stream, publication.run_id) not in self._store.state.runs
        commit = super().publish(stream, loads, publication=publication)
        if is_new:
            self._published[stream] = commit.ledger
        return commit

    def acquire(self, stream: StreamId, *, after_epoch: int | None = None) -> Lease:
        ledger, first = self._store.ledgers.get(stream), self._published.get(stream)
        if ledger is not None and first is not None and INCREMENTAL in stream.sync:
            self._store.ledgers[stream] = replace(first, epoch=ledger.epoch)
        return super().acquire(stream, after_epoch=after_epoch)


def ledger_of_an_incremental_snapshot_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LedgerOfAnIncrementalSnapshotForgotten, "_published", {})
    _sink(patch, LedgerOfAnIncrementalSnapshotForgotten)


class OldEpochGoesOnAfterAJoining(MemorySink):
    def join(self, stream: StreamId, joining: Joining) -> Commit:
        before = self._store.ledgers[stream]
        commit = super().join(stream, joining)
        if commit.ledger is before:
            return commit
        row = self._store.ledgers[stream] = replace(commit.ledger, epoch=before.epoch)
        return Commit(row)


def old_epoch_goes_on_after_a_joining(patch: pytest.MonkeyPatch) -> None:
    _sink(patch, OldEpochGoesOnAfterAJoining)


def plan_of_before_accepted_by_a_stream_that_starts(patch: pytest.MonkeyPatch) -> None:
    """It passes over the changes of the tables that have joined."""

    def gate_of(stream: StreamId, ledger: LedgerRow, tables: Mapping[str, TablePlan]) -> BoundaryGate:
        known = tuple(boundary for boundary in ledger.boundaries if boundary.table in tables)
        return boundaries.gate_of(stream, replace(ledger, boundaries=known), tables)

    patch.setattr(span_loop, "gate_of", gate_of)


class BoundaryOfATableThatJoinsForgotten(MemorySink):
    """What its snapshot covers is applied once more."""

    def join(self, stream: StreamId, joining: Joining) -> Commit:
        before = self._store.ledgers[stream]
        commit = super().join(stream, joining)
        if commit.ledger is before:
            return commit
        names = {table.name for table in joining.tables}
        boundaries = tuple(replace(b, ended=b.ended or b.table in names) for b in commit.ledger.boundaries)
        row = self._store.ledgers[stream] = replace(commit.ledger, boundaries=boundaries)
        return Commit(row)


def boundary_of_a_table_that_joins_forgotten(patch: pytest.MonkeyPatch) -> None:
    _sink(patch, BoundaryOfATableThatJoinsForgotten)


def transactions_of_before_expected_for_one_table_taken_for_all(patch: pytest.MonkeyPatch) -> None:
    """As we had it: beside a table that joined with a later snapshot, what was sent twice counted twice."""

    def expects_covered(gate: BoundaryGate, position: Position) -> bool:
        still_open = [boundary for name, boundary in gate.boundaries.items() if name not in gate._ended]
        return any(boundary.position.covers(position) for boundary in still_open)

    patch.setattr(BoundaryGate, "expects_covered", expects_covered)


def tables_that_leave_stay_where_they_are(patch: pytest.MonkeyPatch) -> None:
    """The ledger goes on to carry them, so the stream refuses the plan that lacks them."""
    right = incremental_snapshot._joining

    def joining(*about: Any) -> Joining:
        return replace(right(*about), kept_as={})

    patch.setattr(incremental_snapshot, "_joining", joining)


# ---- idle streams ---------------------------------------------------------------------------------------------------


def rows_not_heard_for_an_idle_stream(patch: pytest.MonkeyPatch) -> None:
    right = LogListener.take_in

    def take_in(listener: LogListener, records: Sequence[LogRecord], *, now_s: float) -> None:
        right(listener, [one for one in records if one.kind not in (RecordKind.ROWS, RecordKind.END)], now_s=now_s)

    patch.setattr(LogListener, "take_in", take_in)


# ---- holds ----------------------------------------------------------------------------------------------------------


def hold_ignored(patch: pytest.MonkeyPatch) -> None:
    right = _SpanLoop._obey
    patch.setattr(_SpanLoop, "_obey", lambda loop, orders: right(loop, Orders(paused=orders.paused)))


def hold_reported_and_not_kept(patch: pytest.MonkeyPatch) -> None:
    right = _SpanLoop._stand_still

    def stand(loop: Any, state: str, hold_id: str) -> None:
        right(loop, state, hold_id)
        loop._stream_on()

    patch.setattr(_SpanLoop, "_stand_still", stand)


def one_transaction_too_many_before_a_barrier(patch: pytest.MonkeyPatch) -> None:
    def apply_up_to(loop: Any, hold_id: str, position: Position) -> None:
        loop._read(0.0 if loop._buffer else 0.05)
        while loop._buffer:
            one = loop._buffer.first
            loop._apply([one])
            if not cutover.is_covered(one.position, position):
                loop._settle()
                loop._commit_draft(at=position)
                loop._reached_hold = hold_id
                loop._report("held", hold_id=hold_id)
                return

    patch.setattr(_SpanLoop, "_apply_up_to", apply_up_to)


_SUMS, _LEGS, _STATE, _POSITION, _FINDINGS = "I1 sums", "I2 legs", "I3 state", "I6 position", "findings"
# The product's own guards.
_LEDGER, _BACK, _LOG, _ROWS = (
    f"unexplained stop: {error}" for error in ("InvariantViolated", "WentBack", "LogCorrupted", "Diverged")
)
# Which checks may be the first to see it: where it is more than one, what is wrong first is up to the schedule.
PLANTED: dict[Plant, set[str]] = {
    offset_before_data: {_STATE},
    epoch_ignored: {_LEDGER, "I6 epoch"},
    start_offset_ignored: {_BACK, _FINDINGS, _POSITION, _STATE},
    unknown_commit_taken_for_done_by_the_sink: {_LEDGER},
    unknown_commit_taken_for_done: {_STATE, _FINDINGS},
    unknown_commit_taken_for_failed: {_FINDINGS, _POSITION, _STATE},
    no_new_epoch_after_an_unknown_commit: {_LEDGER},
    position_of_covered_transactions_moves_the_ledger_back: {_LOG},
    boundary_off_by_one: {_STATE},
    transactions_in_progress_taken_for_seen: {_POSITION, _STATE},
    xmax_asked_before_xmin: {_POSITION, _FINDINGS, _STATE, _LEDGER},
    boundary_by_the_lsn_of_rows: {_STATE},
    xid_of_64_bits_compared_with_one_of_32: {_POSITION},
    boundary_ends_at_any_marker: {_FINDINGS, _STATE, _LOG},
    boundary_ends_one_transaction_before_the_last_covered: {_FINDINGS, _STATE},
    boundaries_never_ended: {"I10"},
    deletes_dropped: {_SUMS, _STATE},
    truncate_ignored: {_STATE},
    identical_rows_joined: {_STATE},
    delete_of_a_key_change_applied_after_the_insert: {_SUMS, _LEGS, _STATE},
    # Or the next change of a row that is not there for it.
    chunks_of_a_large_transaction_forgotten: {_FINDINGS, _SUMS, _LEGS, _STATE, _ROWS},
    transaction_continued_at_its_second_begin: {_STATE},
    chunks_kept_of_a_transaction_that_is_repeated: {_STATE, _FINDINGS},
    counts_of_end_not_verified: {"I9 nothing beyond"},
    transaction_applied_before_its_end: {_LOG, _POSITION},
    end_of_another_transaction_accepted: {"I9 nothing beyond", "I9 named stop"},
    order_of_transactions_not_verified: {"I9 nothing beyond"},
    transaction_before_not_asked_for: {"I9 nothing beyond"},
    identity_of_the_topic_not_compared: {"I9 named stop"},
    stand_in_written_as_a_value: {_STATE},
    unavailable_value_taken_from_the_stored_row_though_the_span_has_a_newer_one: {_STATE, _ROWS},
    unavailable_value_taken_from_whoever_had_the_new_key: {_STATE, _ROWS},
    chain_of_key_changes_not_followed: {_ROWS},
    unavailable_values_of_chunks_not_filled: {_STATE, _ROWS},
    unavailable_value_of_a_moved_row_taken_from_before_its_chunks: {_STATE, _ROWS},
    joined_without_comparing_places: {"I10", _STATE},
    incremental_snapshot_ahead_of_its_stream: {"incremental snapshot ahead"},
    ledger_of_an_incremental_snapshot_forgotten: {_BACK, _STATE},
    old_epoch_goes_on_after_a_joining: {"I6 epoch"},
    # Or the last barrier: the boundary of a table that the stream does not carry never ends.
    plan_of_before_accepted_by_a_stream_that_starts: {_STATE, "I10"},
    boundary_of_a_table_that_joins_forgotten: {_FINDINGS, _STATE},
    transactions_of_before_expected_for_one_table_taken_for_all: {"I9 nothing beyond"},
    tables_that_leave_stay_where_they_are: {"I10"},
    rows_not_heard_for_an_idle_stream: {"idle"},
    hold_ignored: {"I10"},
    hold_reported_and_not_kept: {"I10"},
    one_transaction_too_many_before_a_barrier: {_POSITION},
}
