"""The source suite is run over sources that are wrong in one way each: the behaviour that holds it must not pass."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from seamline.domain.catalogue import Table
from seamline.domain.measure import Measure
from seamline.ports import Marker, Survey
from seamline.sources.files.position import FilesPosition
from seamline.sources.files.source import FilesSource
from seamline_memory import source as memory
from seamline_memory.bank import Bank
from seamline_memory.images import MemoryDecoder
from seamline_memory.log import MemoryLogDecoder
from seamline_memory.position import MemoryPosition
from seamline_memory.read_view import MemoryView
from tests.contract import source_suite as suite
from tests.contract.source_suite import SourceBehaviour
from tests.contract.source_worlds import Opens, memory_world
from tests.contract.unlogged_worlds import parquet_world

Plant = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Planted:
    """A source that is wrong, and the behaviour that must say so."""

    plant: Plant
    found_by: SourceBehaviour
    opens: Opens = memory_world


def tables_in_another_order(patch: pytest.MonkeyPatch) -> None:
    survey = memory.MemorySource.survey

    def found(self: Any, tables: Sequence[str]) -> Survey:
        return survey(self, sorted(tables))

    patch.setattr(memory.MemorySource, "survey", found)


def an_unknown_table_is_left_out(patch: pytest.MonkeyPatch) -> None:
    survey = memory.MemorySource.survey
    patch.setattr(memory.MemorySource, "survey", lambda self, tables: replace(survey(self, tables), problems=()))


def nothing_is_ever_altered(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(memory.MemorySource, "altered", lambda *_: [])


class LiveView:
    """It says where it was opened, and shows what is there now."""

    def __init__(self, bank: Bank) -> None:
        self._bank, self.position = bank, bank.contents.position

    def __getattr__(self, name: str) -> Any:
        return getattr(memory.view_of(self._bank.tables.values(), self._bank.contents), name)

    def close(self) -> None: ...


def a_view_moves(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(memory.MemorySource, "open_views", lambda self, count: [LiveView(self._bank)] * count)


def each_view_has_its_own_rows(patch: pytest.MonkeyPatch) -> None:
    def opened(self: Any, count: int) -> list[MemoryView]:
        contents = self._bank.contents
        return [
            memory.view_of(self._bank.tables.values(), without_the_last(contents, "audit", number))
            for number in range(count)
        ]

    patch.setattr(memory.MemorySource, "open_views", opened)


def without_the_last(contents: memory.Contents, table: str, rows: int) -> memory.Contents:
    kept = contents.rows[table]
    return replace(contents, rows={**contents.rows, table: kept[: len(kept) - rows]})


def half_of_a_transaction_is_seen(patch: pytest.MonkeyPatch) -> None:
    def opened(self: Any, count: int) -> list[MemoryView]:
        contents = without_the_last(self._bank.contents, "audit", 1)
        return [memory.view_of(self._bank.tables.values(), contents)] * count

    patch.setattr(memory.MemorySource, "open_views", opened)


def a_value_is_read_otherwise(patch: pytest.MonkeyPatch) -> None:
    batch_of = memory.batch_of

    def rounded(table: Table, rows: Sequence[tuple[Any, ...]]) -> Any:
        made = [tuple(round(value, 3) if isinstance(value, float) else value for value in row) for row in rows]
        return batch_of(table, made)

    patch.setattr(memory, "batch_of", rounded)


def a_measure_is_left_out(patch: pytest.MonkeyPatch) -> None:
    totals = MemoryView.totals
    patch.setattr(MemoryView, "totals", lambda *given, measure=Measure.SUM, **more: totals(*given, **more))  # noqa: ARG005


def a_task_leaves_a_row_out(patch: pytest.MonkeyPatch) -> None:
    rows = memory.MemoryReaders.rows

    def fewer(self: Any, number: int, **more: Any) -> memory.ArrowRows:
        found = rows(self, number, **more)
        return replace(found, batches=(batch.slice(1) for batch in found.batches))

    patch.setattr(memory.MemoryReaders, "rows", fewer)


def a_task_proves_another_place(patch: pytest.MonkeyPatch) -> None:
    rows = memory.MemoryReaders.rows

    def elsewhere(self: Any, number: int, *, proven: Callable[[str], None]) -> memory.ArrowRows:
        return rows(self, number, proven=lambda _: proven("elsewhere"))

    patch.setattr(memory.MemoryReaders, "rows", elsewhere)


def an_odd_record_is_passed_over(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MemoryLogDecoder, "decode", lambda *_: None)


def an_odd_image_is_passed_over(patch: pytest.MonkeyPatch) -> None:
    rows = MemoryDecoder.rows
    patch.setattr(MemoryDecoder, "rows", lambda self, table, images: rows(self, table, images[:1]))


def every_position_covers_every_other(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MemoryPosition, "covers", lambda *_: True)


def a_position_of_another_kind_is_taken(patch: pytest.MonkeyPatch) -> None:
    for ask in ("covers", "sees", "reaches"):
        patch.setattr(MemoryPosition, ask, lambda *_: False)


def a_position_comes_back_as_the_next_one(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MemoryPosition, "from_json", classmethod(lambda cls, fields: cls(fields["number"] + 1)))


def a_marker_is_written_twice(patch: pytest.MonkeyPatch) -> None:
    commit = memory.MemorySource.commit_marker

    def twice(self: Any, marker: Marker) -> None:
        commit(self, replace(marker, id=f"{marker.id}, {marker.kind}"))

    patch.setattr(memory.MemorySource, "commit_marker", twice)


def all_markers_are_pruned(patch: pytest.MonkeyPatch) -> None:
    prune = memory.MemorySource.prune_markers
    patch.setattr(memory.MemorySource, "prune_markers", lambda self, **_: prune(self, older_than_s=-60, rows_max=2))


def markers_are_pruned_at_once(patch: pytest.MonkeyPatch) -> None:
    prune = memory.MemorySource.prune_markers

    def pruned(self: Any, *, older_than_s: float, rows_max: int) -> int:  # noqa: ARG001
        return prune(self, older_than_s=older_than_s, rows_max=1_000)

    patch.setattr(memory.MemorySource, "prune_markers", pruned)


def each_delivery_covers_every_other(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FilesPosition, "covers", lambda *_: True)


def a_file_s_key_is_left_out(patch: pytest.MonkeyPatch) -> None:
    survey = FilesSource.survey

    def keyless(self: Any, tables: Sequence[str]) -> Survey:
        found = survey(self, tables)
        return replace(found, tables=tuple(replace(table, key=()) for table in found.tables))

    patch.setattr(FilesSource, "survey", keyless)


PLANTED = [
    Planted(tables_in_another_order, suite.tables_are_described_in_the_order_asked_with_their_keys),
    Planted(a_file_s_key_is_left_out, suite.tables_are_described_in_the_order_asked_with_their_keys, parquet_world),
    Planted(
        an_unknown_table_is_left_out,
        suite.an_unknown_table_is_a_problem_with_a_guess_beside_those_that_are_there,
    ),
    Planted(nothing_is_ever_altered, suite.a_table_is_altered_where_a_column_is_another_than_planned),
    Planted(each_view_has_its_own_rows, suite.all_views_show_all_tables_at_one_position_while_somebody_writes),
    Planted(half_of_a_transaction_is_seen, suite.a_view_shows_all_of_a_transaction_or_nothing_while_somebody_writes),
    Planted(a_view_moves, suite.a_view_stays_where_it_was_opened),
    Planted(a_value_is_read_otherwise, suite.each_kind_and_edge_value_is_read_as_it_was_written),
    Planted(a_value_is_read_otherwise, suite.what_the_log_says_of_every_kind_and_edge_value_is_what_a_snapshot_holds),
    Planted(a_measure_is_left_out, suite.each_measure_of_a_control_total_is_what_the_rows_of_the_view_give),
    Planted(a_task_leaves_a_row_out, suite.a_task_reads_the_rows_that_the_views_show),
    Planted(a_task_proves_another_place, suite.a_task_reads_the_rows_that_the_views_show),
    Planted(an_odd_image_is_passed_over, suite.a_row_image_of_another_schema_is_refused_with_the_name_of_its_table),
    Planted(an_odd_record_is_passed_over, suite.a_record_that_no_capture_writes_stops_by_its_offset),
    Planted(every_position_covers_every_other, suite.positions_are_ordered_by_what_they_cover),
    Planted(
        each_delivery_covers_every_other,
        suite.a_position_without_a_log_covers_its_own_read_and_no_other,
        parquet_world,
    ),
    Planted(a_position_comes_back_as_the_next_one, suite.a_position_comes_back_from_its_json),
    Planted(a_position_of_another_kind_is_taken, suite.a_position_of_another_kind_is_no_position_here),
    Planted(a_marker_is_written_twice, suite.a_marker_committed_again_is_the_same_marker),
    Planted(all_markers_are_pruned, suite.old_markers_are_deleted_and_new_ones_stay),
    Planted(markers_are_pruned_at_once, suite.old_markers_are_deleted_a_few_at_a_time),
]


def _called(value: Any) -> str:
    return str(value.plant.__name__)


@pytest.mark.parametrize("planted", PLANTED, ids=_called)
def test_a_source_that_is_wrong_does_not_pass(planted: Planted, monkeypatch: pytest.MonkeyPatch) -> None:
    with planted.opens("source_suite_planted") as world:
        for amount in (3, 5):
            world.transfer(amount)
        planted.found_by(world)
        planted.plant(monkeypatch)
        suite.tables_of.cache_clear()
        # An error of value: there are more or fewer than were unpacked.
        with pytest.raises((AssertionError, ValueError, pytest.fail.Exception)):
            planted.found_by(world)


def test_each_behaviour_of_sources_has_a_planted_bug() -> None:
    assert {one.found_by for one in PLANTED} == set(suite.SOURCE_BEHAVIOURS)
