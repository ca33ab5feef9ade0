"""The suite of every sink over Iceberg tables whose catalogue is in memory: real files, and no server."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from seamline.domain.errors import SeamlineError
from seamline.sinks.iceberg.edit import TableEdit
from seamline.sinks.lake import edit, sink
from tests.contract.behaviours import BEHAVIOURS, Behaviour
from tests.contract.filter_behaviours import FILTER_BEHAVIOURS
from tests.contract.going_back_behaviours import GOING_BACK_BEHAVIOURS
from tests.contract.joining_behaviours import JOINING_BEHAVIOURS
from tests.contract.lake_worlds import MemoryCatalogueWorld
from tests.contract.truncate_behaviours import TRUNCATE_BEHAVIOURS
from tests.contract.unavailable_value_behaviours import LEFT_OUT_BEHAVIOURS
from tests.log_topic import TABLES
from tests.toast_log import NOTE

OVER_ALL_TABLES = [*BEHAVIOURS, *FILTER_BEHAVIOURS, *TRUNCATE_BEHAVIOURS, *JOINING_BEHAVIOURS, *GOING_BACK_BEHAVIOURS]


@pytest.mark.parametrize("behaviour", OVER_ALL_TABLES, ids=lambda behaviour: behaviour.__name__)
def test_the_sink_keeps_the_contract(behaviour: Behaviour, tmp_path: Path) -> None:
    behaviour(MemoryCatalogueWorld(TABLES, tmp_path))


@pytest.mark.parametrize("behaviour", LEFT_OUT_BEHAVIOURS, ids=lambda behaviour: behaviour.__name__)
def test_the_sink_finds_the_values_that_a_log_left_out(behaviour: Behaviour, tmp_path: Path) -> None:
    behaviour(MemoryCatalogueWorld([NOTE], tmp_path))


def _one_copy_less(patch: pytest.MonkeyPatch) -> None:
    right = TableEdit._remove_copies  # noqa: SLF001
    patch.setattr(
        TableEdit, "_remove_copies", lambda self, wanted, copies: right(self, wanted, np.maximum(copies - 1, 0))
    )


# What is wrong in each, and a behaviour that must find it.
PLANTED: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], str]] = {
    "one copy too few is removed": (_one_copy_less, "thousands_of_identical_rows_are_counted_exactly"),
    "position deletes are not written": (
        lambda patch: patch.setattr(TableEdit, "_written_deletes", lambda _: ()),
        "inserts_updates_and_deletes_reach_their_rows",
    ),
    "a truncate is passed over": (
        lambda patch: patch.setattr(TableEdit, "_empty", lambda _: None),
        "a_truncate_between_chunks_undoes_those_before_it",
    ),
    "nothing is a finding": (
        lambda patch: patch.setattr(edit, "findings_of", lambda *_: []),
        "what_meets_the_unexpected_is_applied_counted_and_kept",
    ),
    "chunks come in the order of their staging": (
        lambda patch: patch.setattr(sink, "in_order", lambda staged: [one.read() for one in reversed(staged)]),
        "chunks_of_a_large_transaction_are_seen_by_nobody_and_committed_once",
    ),
    "a table that leaves keeps its name": (
        lambda patch: patch.setattr(sink, "kept_name", lambda name, _: name),
        "a_publish_of_fewer_tables_lets_the_others_leave",
    ),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_the_suite_catches_a_planted_bug(bug: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, name = PLANTED[bug]
    plant(monkeypatch)
    (behaviour,) = (one for one in OVER_ALL_TABLES if one.__name__ == name)
    with pytest.raises((AssertionError, SeamlineError)):
        behaviour(MemoryCatalogueWorld(TABLES, tmp_path))
