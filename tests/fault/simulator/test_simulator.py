"""Thousands of seeded schedules of the real protocol, checked after every commit."""

import os
import random
import re
from collections import Counter

import pytest

from tests.fault.simulator.checks import COVERED_IN_DISORDER
from tests.fault.simulator.ports import FAILPOINTS
from tests.fault.simulator.seeds import violations
from tests.fault.simulator.simulation import run_seed
from tests.fault.simulator.topic import Loss

# About 100 s of one core, and the fewest that are a proof. A night runs more of them, from another first seed.
SEEDS = 2_000
NAMED_MAX = 10
# `SEAMLINE_SEED=17 python -m pytest tests/fault/simulator/test_simulator.py` repeats one schedule, nothing is random;
# `SEAMLINE_SEED=2000-20000` runs those from 2000 on and before 20000.
ASKED = os.environ.get("SEAMLINE_SEED", "")  # noqa: TID251 (a test's own switch, no setting of the product)


def seeds_of(asked: str) -> range:
    """The seeds that are asked for; where nothing is, the first 2,000."""
    if not asked:
        return range(SEEDS)
    match = re.fullmatch("([0-9]+)(?:-([0-9]+))?", asked)
    seeds = range(int(match[1]), int(match[2] or int(match[1]) + 1)) if match else range(0)
    if not seeds:
        raise ValueError(f"SEAMLINE_SEED={asked} names no seed: give one, as 17, or a range, as 2000-20000")
    return seeds


def met_too_seldom(tally: Counter[str], count: int) -> list[str]:
    """What so many schedules must have met and compared, as often, and have not."""
    least = dict.fromkeys(MET, count / SEEDS)
    least |= {"states compared": 10 * count, "crash": count / 2, "zombie fenced": count / 10}
    return [f"{name}: {tally[name]} times, not {few:g}" for name, few in least.items() if tally[name] < few]


def test_every_schedule_keeps_the_invariants_and_none_was_idle() -> None:
    tally: Counter[str] = Counter()
    seeds = seeds_of(ASKED)
    found = violations(run_seed, seeds, tally, named="SEAMLINE_SEED=")
    print("\n".join(f"{count:8} {name}" for name, count in sorted(tally.items())))
    assert not found, f"{len(found)} schedules fail, repeat one alone:\n" + "\n".join(found[:NAMED_MAX])
    if len(seeds) < SEEDS:
        pytest.skip(f"no violation in {len(seeds)} schedules, which prove nothing: it takes {SEEDS:,}")
    assert not (seldom := met_too_seldom(tally, len(seeds))), f"{len(seeds):,} schedules: {seldom}"
    assert tally[f"ended early: {COVERED_IN_DISORDER}"] < len(seeds) / 50


@pytest.mark.parametrize(
    ("asked", "seeds"), [("", range(SEEDS)), ("17", range(17, 18)), ("0-20000", range(20_000)), ("7-9", range(7, 9))]
)
def test_the_seeds_that_are_asked_for_are_run(asked: str, seeds: range) -> None:
    assert seeds_of(asked) == seeds


@pytest.mark.parametrize("asked", ["20000-0", "17-17", "17-", "-17", "1-2-3", "seventeen", " 17"])
def test_what_names_no_seed_is_an_error_and_no_run_of_nothing(asked: str) -> None:
    with pytest.raises(ValueError, match=f"SEAMLINE_SEED={asked} names no seed"):
        seeds_of(asked)


@pytest.mark.parametrize("name", ["ends compared", "states compared", "crash"])
def test_a_run_that_has_met_something_too_seldom_says_so(name: str) -> None:
    often = Counter(dict.fromkeys((*MET, "states compared", "crash", "zombie fenced"), 1_000_000))
    assert met_too_seldom(often, 20_000) == []
    seldom = often | Counter()
    seldom[name] = 9
    assert [said.partition(":")[0] for said in met_too_seldom(seldom, 20_000)] == [name]


# A run in which one of these never happened has checked less than it says.
MET = (
    "BEGIN repeated",
    "barriers compared",
    "commit in another thread",
    "ends compared",
    "fenced by a run",
    "heartbeat inside",
    "idle streams checked",
    "hold expired",
    "hold extended",
    "joinings compared",
    "late commit of a dead process",
    "lost answer: applied",
    "lost answer: late",
    "lost answer: not applied",
    "moved behind a chunk",
    "not caught up",
    "incremental snapshot published, generation 1",
    "chunk staged",
    "published, generation 1",
    "published, generation 2",
    "repeated request",
    "started by the plan of before",
    "states of an incremental snapshot compared",
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
