"""What Spark's statements make of changes, over real files and a catalogue in memory: the suite of every sink as far as
it is about rows, and the same history written by both writers.
"""

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from seamline.domain.errors import SeamlineError
from seamline.sinks.iceberg import merging
from seamline.sinks.iceberg.manifests import read_metadata
from seamline.sinks.iceberg.merging import TableMerge
from seamline_spark.frames import SparkFrames
from tests.contract.behaviours import BEHAVIOURS, Behaviour
from tests.contract.joining_behaviours import JOINING_BEHAVIOURS
from tests.contract.lake_worlds import MemoryCatalogueWorld
from tests.contract.truncate_behaviours import TRUNCATE_BEHAVIOURS
from tests.contract.unavailable_value_behaviours import LEFT_OUT_BEHAVIOURS
from tests.log_topic import TABLES
from tests.toast_log import NOTE

# Each statement costs a good part of a second. What is about ledger, leases and publishes is the same code as without
# Spark and proven there; so are long random histories.
ABOUT_ROWS = (
    "rows_and_ledger_are_committed_together",
    "a_failure_in_the_middle_leaves_nothing_and_can_be_tried_again",
    "a_second_publish_replaces_rows_fences_the_stream_and_begins_a_generation",
    "inserts_updates_and_deletes_reach_their_rows",
    "a_key_change_moves_the_row_also_in_a_chain",
    "keys_of_several_columns_are_kept_apart",
    "a_truncate_removes_all_rows_and_keeps_what_comes_after",
    "what_meets_the_unexpected_is_applied_counted_and_kept",
    "thousands_of_identical_rows_are_counted_exactly",
    "rows_that_a_loose_comparison_would_join_are_kept_apart",
    "equal_rows_written_differently_are_one_row",
    "a_removal_of_more_rows_than_there_are_stops_and_applies_nothing",
    "chunks_of_a_large_transaction_are_seen_by_nobody_and_committed_once",
    "a_truncate_between_chunks_undoes_those_before_it",
    "a_table_that_is_loaded_again_becomes_what_its_snapshot_says_and_begins_a_generation",
)
ABOUT_MISSING_VALUES = (
    "an_update_that_lacks_values_keeps_the_stored_ones",
    "rows_that_exchange_their_keys_take_what_they_lack_from_each_other",
    "a_change_that_lacks_values_of_a_row_that_is_not_there_stops_and_applies_nothing",
    "chunks_of_a_large_transaction_take_what_they_lack_from_chunks_before_them",
)
ABOUT_PLACES = (
    "a_second_publish_replaces_rows_fences_the_stream_and_begins_a_generation",
    "a_table_enters_a_stream_that_stands_where_its_incremental_snapshot_does_and_the_others_are_untouched",
    "a_table_that_is_loaded_again_becomes_what_its_snapshot_says_and_begins_a_generation",
)
LAYOUTS = {
    "account": {"partitioned_by": ["bucket(2, id)"], "sorted_by": ["name desc"]},
    "transfer": {"partitioned_by": ["tx", "leg"], "sorted_by": []},
    "audit": {"partitioned_by": ["truncate(1, actor)"], "sorted_by": ["action"]},
}
KNOWN: dict[str, Behaviour] = {
    one.__name__: one for one in (*BEHAVIOURS, *TRUNCATE_BEHAVIOURS, *JOINING_BEHAVIOURS, *LEFT_OUT_BEHAVIOURS)
}


@pytest.mark.parametrize("name", ABOUT_ROWS)
def test_spark_s_statements_keep_the_contract(name: str, frames: SparkFrames, tmp_path: Path) -> None:
    KNOWN[name](MemoryCatalogueWorld(TABLES, tmp_path, frames=frames))


@pytest.mark.parametrize("format_version", ["2", "3"])
@pytest.mark.parametrize("name", ABOUT_PLACES)
def test_tables_with_partitions_are_loaded_replaced_and_joined(
    name: str, format_version: str, frames: SparkFrames, tmp_path: Path
) -> None:
    options = {"format_version": format_version, "layouts": json.dumps(LAYOUTS)}
    world = MemoryCatalogueWorld(TABLES, tmp_path, frames=frames, options=options)
    KNOWN[name](world)
    for table, location in world.seen().heads.items():
        metadata = read_metadata(location)
        assert metadata.format_version == int(format_version)
        assert len(metadata.spec().fields) == len(LAYOUTS[table]["partitioned_by"])


@pytest.mark.parametrize("name", ABOUT_MISSING_VALUES)
def test_spark_s_statements_find_the_values_that_a_log_left_out(name: str, frames: SparkFrames, tmp_path: Path) -> None:
    KNOWN[name](MemoryCatalogueWorld([NOTE], tmp_path, frames=frames))


def _insert_again(patch: pytest.MonkeyPatch) -> None:
    right = TableMerge._add  # noqa: SLF001

    def add(self: TableMerge, rows: pa.RecordBatch) -> None:
        right(self, rows)
        right(self, rows)

    patch.setattr(TableMerge, "_add", add)


def _a_delete_is_dropped(patch: pytest.MonkeyPatch) -> None:
    right = TableMerge._remove  # noqa: SLF001
    patch.setattr(TableMerge, "_remove", lambda self, places: right(self, places.slice(1)))


PLANTED: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], str]] = {
    "what is staged is staged again": (_insert_again, "inserts_updates_and_deletes_reach_their_rows"),
    "a delete is dropped": (_a_delete_is_dropped, "inserts_updates_and_deletes_reach_their_rows"),
    "one copy too few is removed": (
        lambda patch: patch.setattr(
            TableMerge,
            "_copies",
            lambda self, wanted, right=TableMerge._copies: right(self, wanted).slice(1),  # noqa: SLF001
        ),
        "thousands_of_identical_rows_are_counted_exactly",
    ),
    "a truncate is passed over": (
        lambda patch: patch.setattr(TableMerge, "_empty", lambda _: None),
        "a_truncate_removes_all_rows_and_keeps_what_comes_after",
    ),
    "nothing is a finding": (
        lambda patch: patch.setattr(merging, "findings_of", lambda *_: []),
        "what_meets_the_unexpected_is_applied_counted_and_kept",
    ),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_the_suite_catches_a_planted_bug(
    bug: str, frames: SparkFrames, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant, name = PLANTED[bug]
    plant(monkeypatch)
    with pytest.raises((AssertionError, SeamlineError)):
        KNOWN[name](MemoryCatalogueWorld(TABLES, tmp_path, frames=frames))
