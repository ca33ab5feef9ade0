"""The behaviour suite is run over sinks that are wrong in one way each: it must not pass."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from seamline.adapters.connections import Connection
from seamline.databases.postgres import ledger as ledger_tables
from seamline.domain.catalogue import Table
from seamline.domain.changes import TableChanges
from seamline.domain.errors import CommitUnknown, SeamlineError
from seamline.domain.ledger import StreamId
from seamline.ports import Commit, Lease, Load, Progress, Publication, Staged
from seamline.sinks.postgres import encode_changes, joining
from seamline.sinks.postgres import publish as publishing
from seamline.sinks.postgres.apply import SpanApplier
from seamline.sinks.postgres.sink import PostgresSink
from seamline.sinks.postgres.statements import COPIES, DELETED, SpanStatements, TableStatements
from seamline.values import changes
from seamline.values.changes import ChangeBatch
from seamline_memory import apply, sink
from seamline_memory.store import Rows
from tests.contract.behaviours import BEHAVIOURS, Behaviour
from tests.contract.filter_behaviours import FILTER_BEHAVIOURS
from tests.contract.joining_behaviours import JOINING_BEHAVIOURS
from tests.contract.truncate_behaviours import TRUNCATE_BEHAVIOURS
from tests.contract.unavailable_value_behaviours import LEFT_OUT_BEHAVIOURS
from tests.contract.worlds import MemoryWorld, PostgresWorld, World
from tests.log_topic import TABLES
from tests.memory_sink import MemorySink
from tests.toast_log import NOTE


class EpochIgnored(MemorySink):
    def commit(self, lease: Lease, staged: Sequence[Staged], *, progress: Progress) -> Commit:
        newest = self._store.ledgers[lease.stream].epoch
        return super().commit(replace(lease, epoch=newest), staged, progress=progress)


class LedgerNotCompared(MemorySink):
    """Applies the rows wherever the ledger stands, and writes it afterwards."""

    def commit(self, lease: Lease, staged: Sequence[Staged], *, progress: Progress) -> Commit:
        row = self._store.ledgers[lease.stream]
        self._store.ledgers[lease.stream] = replace(row, next_offset=progress.span.start)
        return super().commit(lease, staged, progress=progress)


class CommitErrorSwallowed(MemorySink):
    def commit(self, lease: Lease, staged: Sequence[Staged], *, progress: Progress) -> Commit:
        try:
            return super().commit(lease, staged, progress=progress)
        except CommitUnknown:
            return Commit(replace(lease.ledger, next_offset=progress.span.end))


class DeletesDropped(MemorySink):
    def stage(self, lease: Lease, changes: TableChanges) -> Staged:
        return super().stage(lease, replace(changes, keyed=[c for c in changes.keyed if not c.is_delete]))


class FindingsDropped(MemorySink):
    def commit(self, lease: Lease, staged: Sequence[Staged], *, progress: Progress) -> Commit:
        commit = super().commit(lease, staged, progress=progress)
        self._store.state.findings.clear()
        return replace(commit, findings=(), findings_total=0)


class IdenticalRowsJoined(MemorySink):
    """A set where there should be a multiset."""

    def stage(self, lease: Lease, changes: TableChanges) -> Staged:
        return super().stage(lease, replace(changes, net={row: max(-1, min(1, n)) for row, n in changes.net.items()}))


class TruncateForgotten(MemorySink):
    def stage(self, lease: Lease, changes: TableChanges) -> Staged:
        return super().stage(lease, replace(changes, truncate_first=False))


class BoundariesNeverEnded(MemorySink):
    def commit(self, lease: Lease, staged: Sequence[Staged], *, progress: Progress) -> Commit:
        return super().commit(lease, staged, progress=replace(progress, ended=()))


class StagedRowsNotCounted(MemorySink):
    def publish(self, stream: StreamId, loads: Sequence[Load], *, publication: Publication) -> Commit:
        counted = [
            replace(load, rows=sum(one.num_rows for one in self._store.state.staged.get(load.staged_as, ())))
            for load in loads
        ]
        return super().publish(stream, counted, publication=publication)


class PublishedTwice(MemorySink):
    def publish(self, stream: StreamId, loads: Sequence[Load], *, publication: Publication) -> Commit:
        self._store.state.runs.clear()
        return super().publish(stream, loads, publication=publication)


IN_MEMORY: dict[type[MemorySink], set[str]] = {
    EpochIgnored: {"an_older_lease_can_never_commit_again", "two_leases_of_one_sink_do_not_mix_their_epochs"},
    LedgerNotCompared: {"a_replayed_span_changes_nothing", "a_span_that_does_not_follow_the_ledger_is_our_own_bug"},
    CommitErrorSwallowed: {"a_commit_that_never_arrived_is_found_missing"},
    DeletesDropped: {"inserts_updates_and_deletes_reach_their_rows", "a_key_change_moves_the_row_also_in_a_chain"},
    FindingsDropped: {"what_meets_the_unexpected_is_applied_counted_and_kept"},
    IdenticalRowsJoined: {"thousands_of_identical_rows_are_counted_exactly"},
    TruncateForgotten: {"a_truncate_removes_all_rows_and_keeps_what_comes_after"},
    BoundariesNeverEnded: {"boundaries_end_in_the_commit_that_says_so"},
    StagedRowsNotCounted: {"a_publish_of_a_staged_table_that_lost_a_row_changes_nothing"},
    PublishedTwice: {"a_publish_is_resolved_by_its_run_id"},
}


def caught_by(behaviours: Sequence[Behaviour], make: Callable[[], World]) -> set[str]:
    """Names of the behaviours that fail over such a world."""
    caught = set()
    for behaviour in behaviours:
        world = make()
        try:
            behaviour(world)
        except (AssertionError, SeamlineError, pytest.fail.Exception):
            caught.add(behaviour.__name__)
        finally:
            world.close()
    return caught


@pytest.mark.parametrize("kind", list(IN_MEMORY), ids=lambda kind: kind.__name__)
def test_a_wrong_sink_in_memory_is_caught(kind: type[MemorySink]) -> None:
    assert IN_MEMORY[kind] <= caught_by(BEHAVIOURS, lambda: MemoryWorld(TABLES, kind=kind))


# ---- the same in PostgreSQL's own terms -----------------------------------------------------------------------------


def epoch_not_compared(patch: pytest.MonkeyPatch) -> None:
    _compare_instead(patch, "epoch = %s", "%s >= 0")


def offset_not_compared(patch: pytest.MonkeyPatch) -> None:
    _compare_instead(patch, "next_offset = %s AND", "%s >= 0 AND")


def _compare_instead(patch: pytest.MonkeyPatch, right: str, wrong: str) -> None:
    statement = ledger_tables._COMPARE_AND_SET  # noqa: SLF001
    assert right in statement, "the planted bug no longer fits the statement"
    patch.setattr(ledger_tables, "_COMPARE_AND_SET", statement.replace(right, wrong))


def deletes_dropped(patch: pytest.MonkeyPatch) -> None:
    _say_instead(patch, "merge", f"WHEN MATCHED AND s.{DELETED} THEN DELETE ", "")


def hash_without_text(patch: pytest.MonkeyPatch) -> None:
    """Every row of the same hash is taken for the same row, and all hashes are alike."""
    _say_instead(patch, "remove_copies", "WHERE hashtextextended(", "WHERE gone.hash = gone.hash OR hashtextextended(")


def _say_instead(patch: pytest.MonkeyPatch, name: str, right: str, wrong: str) -> None:
    statement = getattr(SpanStatements, name).func

    def planted(on: SpanStatements) -> str:
        text = str(statement(on))
        assert right in text, "the planted bug no longer fits the statement"
        return text.replace(right, wrong)

    patch.setattr(SpanStatements, name, property(planted))


def copies_not_counted(patch: pytest.MonkeyPatch) -> None:
    _say_instead(patch, "insert_copies", f"generate_series(1, s.{COPIES})", "generate_series(1, 1)")


def commit_error_swallowed(patch: pytest.MonkeyPatch) -> None:
    commit = PostgresSink.commit

    def planted(sink: PostgresSink, lease: Lease, staged: Sequence[Staged], *, progress: Progress) -> Commit:
        try:
            return commit(sink, lease, staged, progress=progress)
        except CommitUnknown:
            return Commit(replace(lease.ledger, next_offset=progress.span.end))

    patch.setattr(PostgresSink, "commit", planted)


def truncate_forgotten(patch: pytest.MonkeyPatch) -> None:
    stage = PostgresSink.stage
    patch.setattr(
        PostgresSink, "stage", lambda sink, lease, changes: stage(sink, lease, replace(changes, truncate_first=False))
    )


def boundaries_never_ended(patch: pytest.MonkeyPatch) -> None:
    commit = PostgresSink.commit

    def planted(sink: PostgresSink, lease: Lease, staged: Sequence[Staged], *, progress: Progress) -> Commit:
        return commit(sink, lease, staged, progress=replace(progress, ended=()))

    patch.setattr(PostgresSink, "commit", planted)


def places_not_compared_at_a_joining(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ledger_tables, "require_caught_up", lambda *_: None)


def stream_not_fenced_at_a_joining(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ledger_tables, "end_epoch", lambda *_: None)


def snapshot_boundary_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ledger_tables, "take_over_boundaries", lambda *_: None)


def table_that_left_still_carried(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ledger_tables, "end_life", lambda *_: None)


def given_up_snapshot_left_behind(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(joining, "_end_incremental_snapshots", lambda *_: None)


def run_of_a_joining_not_kept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ledger_tables, "write_run", lambda *_: None)


def staged_rows_not_looked_at(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(publishing, "require_as_compared", lambda *_, **__: None)


ON_POSTGRES: dict[Callable[[pytest.MonkeyPatch], None], str] = {
    epoch_not_compared: "two_leases_of_one_sink_do_not_mix_their_epochs",
    offset_not_compared: "a_replayed_span_changes_nothing",
    deletes_dropped: "inserts_updates_and_deletes_reach_their_rows",
    hash_without_text: "rows_that_a_loose_comparison_would_join_are_kept_apart",
    copies_not_counted: "thousands_of_identical_rows_are_counted_exactly",
    commit_error_swallowed: "a_commit_that_never_arrived_is_found_missing",
    truncate_forgotten: "a_truncate_removes_all_rows_and_keeps_what_comes_after",
    boundaries_never_ended: "boundaries_end_in_the_commit_that_says_so",
    places_not_compared_at_a_joining: "a_snapshot_that_stands_elsewhere_is_refused_and_changes_nothing",
    stream_not_fenced_at_a_joining: "the_stream_of_before_is_fenced",
    snapshot_boundary_forgotten: "a_table_that_is_loaded_again_becomes_what_its_snapshot_says_and_begins_a_generation",
    table_that_left_still_carried: "a_table_that_leaves_is_carried_no_more_and_comes_back_as_another_generation",
    run_of_a_joining_not_kept: "a_run_that_changes_no_table_is_kept_and_the_stream_goes_on",
    staged_rows_not_looked_at: "a_publish_of_a_staged_table_that_lost_a_row_changes_nothing",
    given_up_snapshot_left_behind: "a_snapshot_given_up_lets_no_old_rows_in_and_is_gone_after_the_next_joining",
}


@pytest.mark.parametrize("plant", list(ON_POSTGRES), ids=lambda plant: plant.__name__)
def test_a_wrong_statement_is_caught(
    plant: Callable[[pytest.MonkeyPatch], None], sink_database: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = ON_POSTGRES[plant]
    every = [*BEHAVIOURS, *JOINING_BEHAVIOURS]
    behaviours = [behaviour for behaviour in every if behaviour.__name__ == expected]
    assert caught_by(behaviours, lambda: PostgresWorld(TABLES, sink_database)) == set()
    plant(monkeypatch)
    assert caught_by(behaviours, lambda: PostgresWorld(TABLES, sink_database)) == {expected}


# ---- values that the log left out -----------------------------------------------------------------------------------


def stand_in_written_in_memory(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(apply, "filled", lambda table, row, lacking, stored: row)


def old_key_forgotten_in_memory(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(apply, "origins", lambda table, batch: [""] * batch.rows.num_rows)


def chunks_passed_over_in_memory(patch: pytest.MonkeyPatch) -> None:
    """Values that are missing come from the rows as they were before the first chunk."""
    _filled_from_before_all_chunks(patch, lambda origin: True)


def chunks_passed_over_by_moved_rows_in_memory(patch: pytest.MonkeyPatch) -> None:
    _filled_from_before_all_chunks(patch, bool)


def _filled_from_before_all_chunks(patch: pytest.MonkeyPatch, is_wrong: Callable[[str], bool]) -> None:
    right, stored_row = apply.apply, apply.stored_row
    first: list[Rows] = []

    def planted(table: Table, rows: Rows, batches: Sequence[ChangeBatch]) -> apply.Applied:
        first[:] = [rows]
        return right(table, rows, batches)

    patch.setattr(sink, "apply", planted)
    patch.setattr(
        apply,
        "stored_row",
        lambda before, key, origin: stored_row(first[0] if is_wrong(origin) else before, key, origin),
    )


def missing_values_not_flagged(patch: pytest.MonkeyPatch) -> None:
    right = encode_changes._missing  # noqa: SLF001
    patch.setattr(encode_changes, "_missing", lambda on, batch: right(on, replace(batch, missing=None, old_key=None)))


def null_written_for_the_missing_value(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SpanStatements, "_newest", lambda on, column: f"s.{column}")


def orphans_not_asked_for(patch: pytest.MonkeyPatch) -> None:
    _say_instead(patch, "orphans", "SELECT count(*)", "SELECT 0")


def old_key_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(encode_changes, "_moved", lambda batch: b"")


def chunks_passed_over(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TableStatements, "fill_moved_from_chunks", lambda *args: "SELECT 1")


def oldest_chunk_taken_for_the_newest(patch: pytest.MonkeyPatch) -> None:
    fill = TableStatements.fill_moved_from_chunks
    patch.setattr(TableStatements, "fill_moved_from_chunks", lambda on, *args: fill(on, *args).replace(" DESC", ""))


def gathered_rows_not_filled(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SpanApplier, "_fill_from_chunks", lambda applier, on, first: None)


def gathered_rows_filled_from_the_oldest_chunk(patch: pytest.MonkeyPatch) -> None:
    fill = TableStatements.fill_from_chunks
    patch.setattr(
        TableStatements, "fill_from_chunks", lambda on, *args, **rest: fill(on, *args, **rest).replace(" DESC", "")
    )


_UPDATED = "an_update_that_lacks_values_keeps_the_stored_ones"
_MOVED = "a_change_of_key_takes_what_it_lacks_from_the_row_under_the_old_key"
_MOVED_BY_CHUNKS = "a_row_that_chunks_touched_and_the_rest_moves_takes_what_it_lacks_from_them"
_GATHERED = "chunks_of_a_large_transaction_take_what_they_lack_from_chunks_before_them"
_ORPHANED = "a_change_that_lacks_values_of_a_row_that_is_not_there_stops_and_applies_nothing"
LEFT_OUT_IN_MEMORY: dict[Callable[[pytest.MonkeyPatch], None], set[str]] = {
    stand_in_written_in_memory: {_UPDATED, _MOVED, _ORPHANED},
    old_key_forgotten_in_memory: {_MOVED},
    chunks_passed_over_in_memory: {_MOVED_BY_CHUNKS},
}
LEFT_OUT_ON_POSTGRES: dict[Callable[[pytest.MonkeyPatch], None], set[str]] = {
    missing_values_not_flagged: {_UPDATED, _ORPHANED},
    null_written_for_the_missing_value: {_UPDATED},
    orphans_not_asked_for: {_ORPHANED},
    old_key_forgotten: {_MOVED},
    chunks_passed_over: {_MOVED_BY_CHUNKS},
    oldest_chunk_taken_for_the_newest: {_MOVED_BY_CHUNKS},
    gathered_rows_not_filled: {_GATHERED},
    gathered_rows_filled_from_the_oldest_chunk: {_GATHERED},
}


def undone_chunks_gathered(patch: pytest.MonkeyPatch) -> None:
    gather = TableStatements.gather_chunks
    patch.setattr(TableStatements, "gather_chunks", lambda on, *, first: gather(on))


def undone_chunks_joined_in_memory(patch: pytest.MonkeyPatch) -> None:
    right = apply.apply

    def planted(table: Table, rows: Rows, batches: Sequence[ChangeBatch]) -> apply.Applied:
        is_emptied = any(batch.truncate_first for batch in batches)
        kept = [replace(batch, truncate_first=False) for batch in batches]
        return right(table, {} if is_emptied else rows, kept)

    patch.setattr(sink, "apply", planted)


def test_chunks_that_a_truncate_has_undone_and_that_come_back_are_caught(
    sink_database: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = {behaviour.__name__ for behaviour in TRUNCATE_BEHAVIOURS}
    assert caught_by(TRUNCATE_BEHAVIOURS, lambda: MemoryWorld(TABLES)) == set()
    undone_chunks_gathered(monkeypatch)
    assert caught_by(TRUNCATE_BEHAVIOURS, lambda: PostgresWorld(TABLES, sink_database)) == every
    undone_chunks_joined_in_memory(monkeypatch)
    assert caught_by(TRUNCATE_BEHAVIOURS, lambda: MemoryWorld(TABLES)) == every


def test_rows_that_a_table_does_not_hold_and_that_stay_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    every = {behaviour.__name__ for behaviour in FILTER_BEHAVIOURS}
    assert caught_by(FILTER_BEHAVIOURS, lambda: MemoryWorld(TABLES)) == set()
    held = changes._held
    monkeypatch.setattr(changes, "_held", lambda *args: (*held(*args)[:2], None))
    assert caught_by(FILTER_BEHAVIOURS, lambda: MemoryWorld(TABLES)) == every


@pytest.mark.parametrize("plant", list(LEFT_OUT_IN_MEMORY), ids=lambda plant: plant.__name__)
def test_a_unavailable_value_that_is_lost_in_memory_is_caught(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    assert LEFT_OUT_IN_MEMORY[plant] <= caught_by(LEFT_OUT_BEHAVIOURS, lambda: MemoryWorld([NOTE]))


@pytest.mark.parametrize("plant", list(LEFT_OUT_ON_POSTGRES), ids=lambda plant: plant.__name__)
def test_a_unavailable_value_that_a_statement_loses_is_caught(
    plant: Callable[[pytest.MonkeyPatch], None], sink_database: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = LEFT_OUT_ON_POSTGRES[plant]
    behaviours = [behaviour for behaviour in LEFT_OUT_BEHAVIOURS if behaviour.__name__ in expected]
    plant(monkeypatch)
    assert caught_by(behaviours, lambda: PostgresWorld([NOTE], sink_database)) == expected
