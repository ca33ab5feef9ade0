"""How far two sides are apart: destination less source, exactly. No digit is rounded away. Pure."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, Inexact

from seamline.domain.measure import is_plain_sum
from seamline.domain.verdict import ControlTotal

# Wider than every number that a server keeps (PostgreSQL: 131,072 digits before the point, 16,383 behind it).
_EXACT = Context(prec=200_000, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[Inexact])
# As `cdg1` writes numbers. A text with a zero in front, as a code of a bank, is none.
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?")
_ZERO = Decimal(0)


@dataclass(frozen=True, slots=True)
class GroupDifference:
    """The control totals of one group, as of one currency, over all tables and columns.

    `rows`: each table counted once. `net`: the differences of the sums added up; `absolute`: added up without their
    signs, so that one does not hide another. Both are None where a difference is no number.
    """

    group: tuple[str, ...]
    unequal: int
    rows: int
    net: Decimal | None
    absolute: Decimal | None


def of_sums(total: ControlTotal) -> Decimal | None:
    """None where no column is summed, and where the difference is no number: one side alone has NaN or an infinity. The
    sum of no rows counts as 0."""
    source, destination = total.source_sum, total.destination_sum
    if source is None and destination is None:
        return None
    mine, theirs = source or _ZERO, destination or _ZERO
    if mine == theirs or (mine.is_nan() and theirs.is_nan()):
        return _ZERO
    return _EXACT.subtract(theirs, mine) if mine.is_finite() and theirs.is_finite() else None


def of_rows(total: ControlTotal) -> int:
    return total.destination_rows - total.source_rows


def by_group(totals: Iterable[ControlTotal]) -> list[GroupDifference]:
    """Of each group with a plain sum these together, in the order of the groups' texts; how many differ is of all its
    totals."""
    of_groups: dict[tuple[str, ...], list[ControlTotal]] = {}
    for total in totals:
        if total.column:
            of_groups.setdefault(total.group, []).append(total)
    summed = (group for group, found in of_groups.items() if any(is_plain_sum(one.column) for one in found))
    return [_of_group(group, of_groups[group]) for group in sorted(summed)]


def added(numbers: Iterable[Decimal | None]) -> Decimal | None:
    """Their sum, exactly; None where one of them is None. Of nothing: 0."""
    total = _ZERO
    for number in numbers:
        if number is None:
            return None
        total = _EXACT.add(total, number)
    return total


def delta(source: str | None, destination: str | None) -> Decimal | None:
    """Destination less source where both texts are numbers."""
    if source is None or destination is None or not (_NUMBER.fullmatch(source) and _NUMBER.fullmatch(destination)):
        return None
    return _EXACT.subtract(Decimal(destination), Decimal(source))


def _of_group(group: tuple[str, ...], totals: list[ControlTotal]) -> GroupDifference:
    differences = [of_sums(total) for total in totals if is_plain_sum(total.column)]
    return GroupDifference(
        group=group,
        unequal=sum(not total.is_equal for total in totals),
        rows=sum({total.table: of_rows(total) for total in totals}.values()),
        net=added(differences),
        absolute=added(one and one.copy_abs() for one in differences),
    )
