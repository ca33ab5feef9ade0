"""Bugs for a stream's process of T1, one at a time: the real objects are made wrong before it begins.

`SEAMLINE_T1_PLANT` names one. Who starts the process decides; nothing of this is part of the product.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seamline.adapters.debezium.row_decoder import Typed
from seamline.databases.mysql import row_decoder as mysql_rows
from seamline.databases.postgres import epoch as postgres_epoch
from seamline.databases.postgres import ledger as ledger_tables
from seamline.domain import cutover
from seamline.domain.catalogue import Column, Kind
from seamline.domain.changes import TableChanges
from seamline.domain.cutover import BoundaryGate
from seamline.domain.errors import CommitUnknown, TransientError
from seamline.domain.log import LogRecord, Transaction
from seamline.domain.position import Position
from seamline.ports import Commit, Lease, Progress, Staged
from seamline.sinks.lake import sink as lake_sink
from seamline.sinks.lake.edit import RowEdit
from seamline.sinks.lake.postgres_store import PostgresLakeStore
from seamline.sinks.lake.sink import LakeSink
from seamline.sinks.lake.store import Outcome, PointerMove
from seamline.sinks.postgres.sink import PostgresSink
from seamline.sinks.relational import ledger as relational_ledger
from seamline.sinks.relational.session import execute
from seamline.sinks.relational.sink import RelationalSink
from seamline.sources.mariadb.position import BinlogPosition
from seamline.sources.postgres import row_decoder as postgres_rows
from seamline.sources.postgres.position import PostgresPosition
from seamline.sync import compaction
from seamline.sync.transaction_buffer import TransactionBuffer
from seamline.sync.transactions import TransactionAssembler
from tests.wrong_values import cut_off, later

# ruff: noqa: SLF001 (bugs are planted where the code hides what it does)
VARIABLE = "SEAMLINE_T1_PLANT"
Plant = Callable[[], None]
# In microseconds since 1970.
_1980, _2037 = 315_532_800_000_000, 2_114_380_800_000_000


# ---- the ledger and the epoch ---------------------------------------------------------------------------------------


def offset_before_data() -> None:
    """The ledger moves in a transaction of its own, before that of the rows."""
    right, right_of_mariadb = ledger_tables.compare_and_set, relational_ledger.compare_and_set

    def compare_and_set_in_mariadb(session: Any, at: str, lease: Lease, progress: Progress) -> tuple[int, str] | None:
        step = right_of_mariadb(session, at, lease, progress)
        if step is not None:
            execute(session, "COMMIT")
            execute(session, "START TRANSACTION")
        return step

    def compare_and_set(session: Any, lease: Lease, progress: Progress) -> tuple[int, str] | None:
        step = right(session, lease, progress)
        if step is not None:
            session.execute("COMMIT")
            session.execute("BEGIN")
        return step

    ledger_tables.compare_and_set = compare_and_set
    relational_ledger.compare_and_set = compare_and_set_in_mariadb


def pointers_before_ledger() -> None:
    """The pointers of a lake's tables move in a transaction of their own, before that of the ledger."""
    right = PostgresLakeStore._commit

    def commit(
        store: PostgresLakeStore, session: Any, lease: Lease, moves: Sequence[PointerMove], *more: Any
    ) -> Outcome:
        session.execute("BEGIN")
        store._catalogue.move(session, store._destination.namespace, moves)
        session.execute("COMMIT")
        return right(store, session, lease, [], *more)

    PostgresLakeStore._commit = commit  # type: ignore[method-assign]


def epoch_ignored() -> None:
    """A new owner leaves the sessions of the one before alone, and a commit does not ask whose the ledger is."""
    postgres_epoch.end_older_sessions = lambda *_, **__: None  # type: ignore[assignment]
    _compare_instead("epoch = %s", "%s >= 0")


def lost_answer_taken_for_a_failure() -> None:
    """The span is sent again without a look at the ledger, wherever that stands."""
    _sent_again(PostgresSink)
    _sent_again(RelationalSink)
    # Of a lake: what was staged goes on top of wherever the tables stand.
    _sent_again(LakeSink)
    lake_sink._begins_here = lambda *_: True
    _compare_instead("next_offset = %s AND", "%s >= 0 AND")
    right = relational_ledger.compare_and_set

    def compare_and_set(session: Any, at: str, lease: Lease, progress: Progress) -> tuple[int, str] | None:
        ledger = relational_ledger.read_ledger(session, at, lease.stream)
        assert ledger is not None
        return right(session, at, lease, replace(progress, span=replace(progress.span, start=ledger.next_offset)))

    relational_ledger.compare_and_set = compare_and_set


def _sent_again(kind: type[PostgresSink] | type[RelationalSink] | type[LakeSink]) -> None:
    right: Any = kind.commit

    def commit(sink: Any, lease: Lease, staged: Sequence[Staged], *, progress: Progress) -> Commit:
        try:
            return right(sink, lease, staged, progress=progress)
        except CommitUnknown:
            return right(sink, lease, staged, progress=progress)

    kind.commit = commit  # type: ignore[method-assign]


def commit_error_swallowed() -> None:
    """A span that was rolled back is taken for one that arrived."""
    right = PostgresSink.commit

    def commit(sink: PostgresSink, lease: Lease, staged: Sequence[Staged], *, progress: Progress) -> Commit:
        try:
            return right(sink, lease, staged, progress=progress)
        except TransientError:
            return Commit(replace(lease.ledger, next_offset=progress.span.end))

    PostgresSink.commit = commit  # type: ignore[method-assign]


def _compare_instead(right: str, wrong: str) -> None:
    statement = ledger_tables._COMPARE_AND_SET
    assert right in statement, "the planted bug no longer fits the statement"
    ledger_tables._COMPARE_AND_SET = statement.replace(right, wrong)


# ---- the boundary ---------------------------------------------------------------------------------------------------


def boundary_off_by_one() -> None:
    """The first transaction behind the read view is taken for one inside."""

    def is_covered(transaction: Position, snapshot: Position) -> bool:
        assert isinstance(transaction, BinlogPosition)
        assert isinstance(snapshot, BinlogPosition)
        return int(transaction.gtid.rpartition("-")[2]) <= int(snapshot.gtid.rpartition("-")[2]) + 1

    cutover.is_covered = is_covered


def boundary_by_the_lsn_of_rows() -> None:
    """A row that was written before the snapshot is taken for one inside, whenever its transaction was committed."""
    right, right_rows = compaction._dropped_tables, TransactionAssembler._rows
    position_of_row: dict[str, Position | None] = {}

    def rows(assembler: TransactionAssembler, record: LogRecord) -> None:
        position_of_row[record.transaction_id] = record.position
        right_rows(assembler, record)

    def dropped_tables(transaction: Transaction, gate: BoundaryGate) -> frozenset[str]:
        names = set(right(transaction, gate))
        for row in transaction.rows:
            at_row, at = position_of_row[transaction.id], gate.boundaries[row.table].position
            assert isinstance(at_row, PostgresPosition)
            assert isinstance(at, PostgresPosition)
            names |= {row.table} if at_row.lsn < at.lsn else set()
        return frozenset(names)

    TransactionAssembler._rows = rows  # type: ignore[method-assign]
    compaction._dropped_tables = dropped_tables


# ---- what is read ---------------------------------------------------------------------------------------------------


def repeats_not_dropped() -> None:
    """What the log topic holds a second time is applied a second time."""

    def take_in(buffer: TransactionBuffer, transactions: Sequence[Transaction]) -> None:
        buffer._transactions.extend(transactions)
        buffer._changes += sum(len(transaction.rows) for transaction in transactions)
        buffer.trouble = buffer._assembler.trouble

    TransactionBuffer._take_in = take_in  # type: ignore[method-assign]


# ---- what a span does -----------------------------------------------------------------------------------------------


def deletes_dropped() -> None:
    _stage_instead(lambda changes: replace(changes, keyed=[one for one in changes.keyed if not one.is_delete]))


def one_copy_too_few_removed() -> None:
    """Of equal rows in a lake."""
    right = RowEdit._remove_copies
    RowEdit._remove_copies = lambda edit, wanted, copies: right(  # type: ignore[method-assign]
        edit, wanted, np.maximum(copies - 1, 0)
    )


def equal_rows_joined() -> None:
    """A set where there should be a multiset."""
    _stage_instead(lambda changes: replace(changes, net={row: max(-1, min(1, n)) for row, n in changes.net.items()}))


def _stage_instead(wrong: Callable[[TableChanges], TableChanges]) -> None:
    right = PostgresSink.stage
    PostgresSink.stage = lambda sink, lease, changes: right(sink, lease, wrong(changes))  # type: ignore[method-assign]


# ---- values ---------------------------------------------------------------------------------------------------------


def instants_shifted() -> None:
    """As if a moment were read in the zone of whoever reads it. Not at the edges of the type, which would not fit."""

    def wrong(_: Column, found: pa.Array) -> pa.Array:
        numbers = found.view(pa.int64())
        is_shifted = pc.and_(pc.greater(numbers, _1980), pc.less(numbers, _2037))
        return pc.if_else(is_shifted, later(found, microseconds=-3_600_000_000), found)

    _read_instead(Kind.INSTANT, wrong)


def decimals_cut() -> None:
    """As if every amount had two places."""
    _read_instead(Kind.DECIMAL, lambda column, found: cut_off(column, found, places=2))


def _read_instead(kind: Kind, wrong: Callable[[Column, pa.Array], pa.Array]) -> None:
    for module in (mysql_rows, postgres_rows):
        right = module._TYPED[kind]

        def typed(column: Column, values: pa.Array, right: Typed = right) -> pa.Array:
            return wrong(column, right(column, values))

        module._TYPED[kind] = typed  # type: ignore[index]


PLANTS: Mapping[str, Plant] = {
    plant.__name__: plant
    for plant in (
        offset_before_data,
        pointers_before_ledger,
        epoch_ignored,
        lost_answer_taken_for_a_failure,
        commit_error_swallowed,
        boundary_off_by_one,
        boundary_by_the_lsn_of_rows,
        repeats_not_dropped,
        deletes_dropped,
        one_copy_too_few_removed,
        equal_rows_joined,
        instants_shifted,
        decimals_cut,
    )
}


def make_wrong(environment: Mapping[str, str]) -> None:
    """Plant the bug that the environment names. Without a name, which is the rule, nothing is touched."""
    name = environment.get(VARIABLE, "")
    if name:
        PLANTS[name]()
