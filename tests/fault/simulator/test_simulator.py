"""Thousands of seeded schedules of the real protocol, checked after every commit."""

import os
import random
from collections import Counter
from collections.abc import Sequence

import pytest

from tests.fault.simulator.ports import FAILPOINTS
from tests.fault.simulator.schedule import Violation
from tests.fault.simulator.simulation import run_seed
from tests.fault.simulator.topic import Loss

# What a minute of one core is enough for. A night runs more of them, from another first seed.
SEEDS = 2_000
NAMED_MAX = 10
# `SEAMLINE_SEED=17 python -m pytest tests/fault/simulator/test_simulator.py` repeats one schedule, nothing is random;
# `SEAMLINE_SEED=2000-20000` runs those from 2000 on and before 20000.
ONLY = os.environ.get("SEAMLINE_SEED", "")  # noqa: TID251 (a test's own switch, no setting of the product)


def seeds() -> Sequence[int]:
    first, _, end = ONLY.partition("-")
    return range(SEEDS) if not ONLY else range(int(first), int(end or first) + (not end))


def violations(tally: Counter[str]) -> list[str]:
    found = []
    for seed in seeds():
        try:
            tally += run_seed(seed)
        except Violation as violation:
            found.append(f"SEAMLINE_SEED={seed}: {violation}")
    return found


def test_every_schedule_keeps_the_invariants_and_none_was_idle() -> None:
    tally: Counter[str] = Counter()
    found = violations(tally)
    print("\n".join(f"{count:8} {name}" for name, count in sorted(tally.items())))
    assert not found, f"{len(found)} schedules fail, repeat one alone:\n" + "\n".join(found[:NAMED_MAX])
    if not ONLY:
        missing = [name for name in MET if not tally[name]]
        assert not missing, f"never met in {SEEDS} schedules: {missing}"
        assert tally["states compared"] > 10 * SEEDS
        assert tally["crash"] > SEEDS / 2
        assert tally["zombie fenced"] > SEEDS / 10
        # They end early.
        assert tally["known: covered units in disorder are dropped"] < SEEDS / 50


# A run in which one of these never happened has checked less than it says.
MET = (
    "BEGIN told again",
    "barriers compared",
    "commit in another thread",
    "ends compared",
    "fenced by a run",
    "heartbeat inside",
    "idle streams checked",
    "hold expired",
    "joinings compared",
    "late commit of a dead process",
    "lost answer: applied",
    "lost answer: late",
    "lost answer: not applied",
    "not abreast",
    "pass published, generation 1",
    "piece staged",
    "published, generation 1",
    "published, generation 2",
    "repeated request",
    "started by the plan of before",
    "states of a pass compared",
    "stopped and wanted again",
    "stops checked",
    "streams idle",
    "tables added",
    "tables loaded again",
    "tables removed",
    "taken over from a sleeper",
    "task overtaken in its sleep",
    "transient",
    "values left out",
    "woken: asked",
    "woken: its listener has ended",
    "woken: news",
    "zombie fenced",
    *(f"loss: {loss.value}" for loss in Loss),
    *(f"reached {name}" for name in FAILPOINTS),
    *(f"crash at {name}" for name in FAILPOINTS),
)


@pytest.mark.parametrize("seed", random.Random(1).sample(range(SEEDS), 5))
def test_a_seed_gives_the_same_schedule_again(seed: int) -> None:
    assert run_seed(seed) == run_seed(seed)
