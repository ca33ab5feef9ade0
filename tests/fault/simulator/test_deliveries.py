"""Hundreds of seeded schedules of the two-phase commit of files, and every planted bug found by its check."""

import io
import os
from collections.abc import Callable, Mapping

import pytest

from seamline.sinks.files.two_phase import DeliveredFile, Delivery, ManifestLog
from tests.fault.simulator.deliveries import run_deliveries
from tests.fault.simulator.file_places import Place
from tests.fault.simulator.schedule import Violation
from tests.fault.simulator.seeds import require_all_right

# ruff: noqa: SLF001 (bugs are planted where the code hides what it does)
# `SEAMLINE_DELIVERIES=5000 python -m pytest tests/fault/simulator/test_deliveries.py` runs so many.
SEEDS = int(os.environ.get("SEAMLINE_DELIVERIES", "500"))  # noqa: TID251 (a test's own switch)
PLANTED_MAX = 2_000
# A run in which one of these never happened has checked less than it says.
MET = (
    "attempts swept",
    "crash at place",
    "crash at put_if_absent",
    "crash at write, half of it",
    "ended by GateFailed",
    "ended by Refused",
    "file of somebody else",
    "file torn",
    "found by a repeat",
    "lost answer: place",
    "lost answer: put_if_absent",
    "manifests gone",
    "overtaken",
    "sleep",
)


def test_every_schedule_of_deliveries_is_seen_whole_and_once() -> None:
    require_all_right(run_deliveries, seeds=SEEDS, met=MET)


def _decides_before_reading_back(patch: pytest.MonkeyPatch) -> None:
    def prepare(self: ManifestLog, delivery: Delivery, *, check: object) -> None:  # noqa: ARG001
        self._store.write(self._of(delivery.attempt, "_prepared"), io.BytesIO())

    patch.setattr(ManifestLog, "prepare", prepare)


def _puts_the_flag_first(patch: pytest.MonkeyPatch) -> None:
    real = ManifestLog._place

    def place(self: ManifestLog, delivery: Delivery, file: DeliveredFile) -> None:
        self._put_flag(delivery, delivery.files[-1])
        real(self, delivery, file)

    patch.setattr(ManifestLog, "_place", place)


def _overwrites_by_its_rename(patch: pytest.MonkeyPatch) -> None:
    real = Place.__init__

    def made(self: Place, *args: object) -> None:
        real(self, *args)  # type: ignore[arg-type]
        self.overwrites = True

    patch.setattr(Place, "__init__", made)


def _gives_a_number_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ManifestLog, "_is_decided", lambda self, manifest: self._is_there(manifest))


def _forgets_the_newest_number(patch: pytest.MonkeyPatch) -> None:
    real = ManifestLog.compact

    def compact(self: ManifestLog, *, keep: int) -> int:
        gone = real(self, keep=keep)
        for number in self._numbers():
            self._store.remove(self._path(number))
        return gone

    patch.setattr(ManifestLog, "compact", compact)


def _sweeps_without_a_manifest(patch: pytest.MonkeyPatch) -> None:
    def sweep(self: ManifestLog, attempts: list[str], own: str, state: object) -> int:  # noqa: ARG001
        for attempt in attempts:
            self.abort(attempt)
        return len(attempts)

    patch.setattr(ManifestLog, "sweep", sweep)


def _shows_nothing_of_the_dead(patch: pytest.MonkeyPatch) -> None:
    def settle(self: ManifestLog, once: Callable[[object], object]) -> object:
        while True:
            if (found := once(self.newest())) is not None:
                return found

    patch.setattr(ManifestLog, "settle", settle)


PLANTED: Mapping[Callable[[pytest.MonkeyPatch], None], tuple[str, ...]] = {
    # A torn file is met at the latest when it is shown: there it stops the delivery that was decided.
    _decides_before_reading_back: ("half seen", "once"),
    _puts_the_flag_first: ("half seen",),
    _overwrites_by_its_rename: ("overwritten", "changed", "half seen"),
    _gives_a_number_again: ("decided",),
    _forgets_the_newest_number: ("decided", "once", "changed"),
    _sweeps_without_a_manifest: ("stuck", "once"),
    _shows_nothing_of_the_dead: ("once",),
}


@pytest.mark.parametrize("plant", list(PLANTED), ids=lambda plant: plant.__name__.lstrip("_"))
def test_a_planted_bug_of_a_delivery_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    for seed in range(PLANTED_MAX):
        try:
            run_deliveries(seed)
        except Violation as found:
            print(f"{plant.__name__}: seed {seed}, {found}")
            assert found.check in PLANTED[plant], f"seed {seed} found it by {found}"
            return
    pytest.fail(f"not found in {PLANTED_MAX} seeds")
