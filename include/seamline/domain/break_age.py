"""How old breaks are: bands of days, and what stands in each."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from seamline.domain.phrase import phrase
from seamline.domain.verdict import ControlTotal

# The last day of each band but the last one, which has no end.
DAYS = (1, 5, 30, 60, 90, 180)


def band_in_words(number: int, bounds: Sequence[int] = DAYS) -> str:
    if number == len(bounds):
        return phrase(">%(days)s days", days=bounds[-1])
    first = bounds[number - 1] + 1 if number else 0
    days = str(first) if first == bounds[number] else f"{first}–{bounds[number]}"
    return phrase("%(days)s days", days=days)


@dataclass(frozen=True, slots=True)
class AgedAmount:
    """What the breaks of a band differ by in a summed column, without signs. `group` None: the rows do not say it."""

    table: str
    column: str
    group: tuple[str, ...] | None
    breaks: int
    gross: Decimal


@dataclass(frozen=True, slots=True)
class Aged:
    """The breaks of one band. `open`: those that nobody has explained and nothing tolerates. `carried`: those of
    earlier business dates that still stand and that this cut does not look at."""

    band: int
    breaks: int
    open: int
    carried: int
    amounts: tuple[AgedAmount, ...] = ()


def with_groups(aged: Iterable[Aged], totals: Iterable[ControlTotal]) -> tuple[Aged, ...]:
    """Where all control totals of a column are of one group, its breaks are too."""
    groups: dict[tuple[str, str], set[tuple[str, ...]]] = {}
    for total in totals:
        groups.setdefault((total.table, total.column), set()).add(total.group)

    def known(one: AgedAmount) -> AgedAmount:
        only = groups.get((one.table, one.column), set())
        return replace(one, group=next(iter(only))) if one.group is None and len(only) == 1 else one

    return tuple(replace(one, amounts=tuple(map(known, one.amounts))) for one in aged)
