"""Random histories of two tables, one with a key and one without, whose cuts are stored both ways."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta

FIRST = date(2026, 3, 2)
# The same rows under two names, of which the first is stored as copies and the second as versions.
KEYED, LOOSE = ("entry", "entry_versioned"), ("note", "note_versioned")
VERSIONED = (KEYED[1], LOOSE[1])


@dataclass(frozen=True, slots=True)
class Step:
    """A cut. `keyed`: by id the value. `loose`: rows without a key. `is_half`: its publish stops before readers see it,
    for good. `has_fee`: the tables have gained a column, which holds twice the value."""

    number: int
    day: date
    keyed: dict[int, int | None]
    loose: list[int]
    is_half: bool
    has_fee: bool


def history(seed: int, *, cuts: int = 12) -> Iterator[Step]:
    """Dates come one after another, are cut again at times, and late ones come at last."""
    chance = random.Random(seed)
    keyed: dict[int, int | None] = {number: number % 3 for number in range(1, 21)}
    loose = [chance.randrange(4) for _ in range(10)]
    day = FIRST
    for number in range(cuts):
        for _ in range(chance.randrange(6)):
            key = chance.randrange(1, 26)
            if chance.random() < 0.3:
                keyed.pop(key, None)
            else:
                keyed[key] = chance.choice([None, 0, 1, 2])
        if loose and chance.random() < 0.5:
            loose.pop(chance.randrange(len(loose)))
        loose += [chance.randrange(4) for _ in range(chance.randrange(3))]
        yield Step(number, day, dict(keyed), list(loose), chance.random() < 0.2, has_fee=number > cuts // 2)
        if chance.random() < 0.7:
            day = day + timedelta(days=1) if chance.random() < 0.8 else max(FIRST, day - timedelta(days=2))
