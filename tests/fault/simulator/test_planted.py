"""The simulator finds every planted bug, by the check that is there for it."""

import pytest

from tests.fault.simulator.planted import PLANTED, Plant
from tests.fault.simulator.schedule import Violation
from tests.fault.simulator.simulation import run_seed

SEEDS_MAX = 1_000


def first_found() -> tuple[int, Violation]:
    """The first seed that finds what is wrong, and by what."""
    for seed in range(SEEDS_MAX):
        try:
            run_seed(seed)
        except Violation as found:
            return seed, found
    pytest.fail(f"not found in {SEEDS_MAX} seeds")


@pytest.mark.parametrize("plant", list(PLANTED), ids=lambda plant: plant.__name__)
def test_a_planted_bug_of_the_protocol_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    seed, found = first_found()
    print(f"{plant.__name__}: seed {seed}, {found}")
    assert found.check in PLANTED[plant], f"seed {seed} found it by {found}"
