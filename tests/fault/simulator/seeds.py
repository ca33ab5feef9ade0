"""Many seeds of one kind of schedule: all that broke a rule, and what happened in them."""

from collections import Counter
from collections.abc import Callable, Collection

from tests.fault.simulator.schedule import Violation


def require_all_right(run: Callable[[int], Counter[str]], *, seeds: int, met: Collection[str]) -> Counter[str]:
    """Run each seed from 0 on; what happened in all of them.

    AssertionError: a rule was broken, by seed; or something of `met` never happened, so that less was checked than it
    says.
    """
    tally = Counter[str]()
    found = violations(run, range(seeds), tally)
    print("\n".join(f"{count:8} {name}" for name, count in sorted(tally.items())))
    assert not found, "\n".join(found[:10])
    assert tally["ends compared"] == seeds
    assert not [name for name in met if not tally[name]]
    return tally


def violations(
    run: Callable[[int], Counter[str]], seeds: range, tally: Counter[str], *, named: str = "seed "
) -> list[str]:
    """What broke a rule, each behind its seed. `tally`: what happens is added to it."""
    found = []
    for seed in seeds:
        try:
            tally += run(seed)
        except Violation as violation:
            found.append(f"{named}{seed}: {violation}")
        except BaseException as broken:
            broken.add_note(f"{named}{seed}")
            raise
    return found
