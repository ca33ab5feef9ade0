"""Seeded schedules of a stream into change files beside maintenance, and every planted bug found by its check."""

import os
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from seamline.sinks.files.changes import compaction, maintenance
from seamline.sinks.files.changes.compaction import Swap
from seamline.sinks.files.changes.log import ChangesLog, Seen
from seamline.sinks.files.changes.state import ChangeFile, ChangesState, HeldTable
from seamline.sinks.files.two_phase import ManifestLog
from tests.fault.simulator.change_files import run_change_files
from tests.fault.simulator.schedule import Violation
from tests.fault.simulator.seeds import require_all_right

# ruff: noqa: SLF001 (bugs are planted where the code hides what it does)
# `SEAMLINE_CHANGE_FILES=500 python -m pytest tests/fault/simulator/test_change_files.py` runs so many.
SEEDS = int(os.environ.get("SEAMLINE_CHANGE_FILES", "24"))  # noqa: TID251 (a test's own switch)
PLANTED_MAX = 500
# A run in which one of these never happened has checked less than it says.
MET = (
    "answer of a commit lost",
    "committed",
    "crash at put_if_absent",
    "crash at write, half of it",
    "ended by Fenced",
    "file torn",
    "files merged",
    "files removed",
    "manifests gone",
    "sleep",
)


def test_every_schedule_of_change_files_has_each_change_once_at_every_step() -> None:
    require_all_right(run_change_files, seeds=SEEDS, met=MET)


def _does_not_read_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ChangesLog, "require_written", lambda self, files: None)


def _swaps_beside_the_old_files(patch: pytest.MonkeyPatch) -> None:
    swapped = HeldTable.swapped
    patch.setattr(compaction.HeldTable, "swapped", lambda self, old, new: swapped(self, old, (*old, *new)))


def _takes_a_number_that_is_taken(patch: pytest.MonkeyPatch) -> None:
    decide = ChangesLog._decided

    def anyway(self: ChangesLog, seen: Seen, state: ChangesState, how: Any) -> Seen:
        return decide(self, seen, state, how) or Seen(seen.manifest, state)

    patch.setattr(ChangesLog, "_decided", anyway)


def _trusts_the_answer_of_a_number_that_was_removed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ManifestLog, "_counts", lambda self, number, names=(): True)


def _removes_without_a_count(patch: pytest.MonkeyPatch) -> None:
    removed = ChangesLog.removed

    def uncounted(self: ChangesLog, seen: Seen, paths: set[str]) -> ChangesState:
        made = removed(self, seen, paths)
        return ChangesState(made.streams, made.leaving, seen.state.sweeps)

    patch.setattr(ChangesLog, "removed", uncounted)


def _drops_what_it_takes_for_late(patch: pytest.MonkeyPatch) -> None:
    """A compaction whose manifest was removed before it looked for it."""
    merged, swap, made = compaction._merged, compaction.swap, list[ChangeFile]()

    def noted(*given: Any) -> list[ChangeFile]:
        made[:] = merged(*given)
        return list(made)

    def dropping(log: ChangesLog, seen: Seen, due: Swap) -> int:
        count = swap(log, seen, due)
        for file in () if count else list(made):
            log.store.remove(file.path)
        return count

    patch.setattr(compaction, "_merged", noted)
    patch.setattr(maintenance, "swap", dropping)


# A bug that few schedules meet is looked for from one that does.
BEGINS_AT = {_drops_what_it_takes_for_late: 91, _does_not_read_back: 16}
PLANTED: Mapping[Callable[[pytest.MonkeyPatch], None], tuple[str, ...]] = {
    _does_not_read_back: ("torn",),
    _swaps_beside_the_old_files: ("once",),
    _takes_a_number_that_is_taken: ("lost", "once", "gone"),
    _trusts_the_answer_of_a_number_that_was_removed: ("lost",),
    _removes_without_a_count: ("gone",),
    _drops_what_it_takes_for_late: ("gone",),
}


@pytest.mark.parametrize("plant", list(PLANTED), ids=lambda plant: plant.__name__.lstrip("_"))
def test_a_planted_bug_of_change_files_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    for seed in range(BEGINS_AT.get(plant, 0), PLANTED_MAX):
        try:
            run_change_files(seed)
        except Violation as found:
            print(f"{plant.__name__}: seed {seed}, {found}")
            assert found.check in PLANTED[plant], f"seed {seed} found it by {found}"
            return
    pytest.fail(f"not found in {PLANTED_MAX} seeds")
