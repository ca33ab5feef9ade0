"""How severe a break is, by its amount or its age, and until when somebody has to be done with it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from seamline.domain.differences import delta
from seamline.domain.phrase import phrase
from seamline.domain.verdict import Break

Texts = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Severity:
    """A class with its clock. A break is in it by its amount (from `amount` on, in `currency`; "" in any) or by its
    age (from `age` on). `due`: so long after that it has to be explained, tolerated or gone; then it is the matter of
    `escalate_to` too, "" of nobody."""

    name: str
    due: timedelta
    amount: Decimal | None = None
    currency: str = ""
    age: timedelta | None = None
    escalate_to: str = ""


@dataclass(frozen=True, slots=True)
class Due:
    severity: Severity
    at: datetime

    def is_late(self, now: datetime) -> bool:
        return self.at <= now

    def in_words(self, now: datetime) -> str:
        """How late, or how long it still may take, to the minute."""
        minutes = int(abs(now - self.at).total_seconds()) // 60
        hours, minutes = divmod(minutes, 60)
        length = (
            phrase("%(hours)s h %(minutes)s min", hours=hours, minutes=minutes)
            if hours
            else phrase("%(minutes)s min", minutes=minutes)
        )
        return (
            phrase("late for %(length)s", length=length)
            if self.is_late(now)
            else phrase("due in %(length)s", length=length)
        )


@dataclass(frozen=True, slots=True)
class Differs:
    """By how much a break differs in one summed column, without a sign. `group` None: the row does not say it."""

    amount: Decimal
    group: tuple[str, ...] | None


def differs(found: Break, columns: Iterable[tuple[str, Sequence[str]]]) -> list[Differs]:
    """In each summed column, named with the columns of its groups; a missing side and a NULL as 0. What is no number is
    left out. A row that is of another group on the other side, as of another currency, differs by all of its amount in
    both."""
    return [one for column, by in columns for one in _differs(found, column, by)]


def _differs(found: Break, column: str, by: Sequence[str]) -> list[Differs]:
    sides = (found.source, found.destination)
    mine, theirs = (_value(found, side, column) for side in sides)
    if mine is None and theirs is None:
        return []
    of_mine, of_theirs = (_groups(found, side, other, by) for side, other in (sides, sides[::-1]))
    pairs = [(mine, theirs, of_mine)] if of_mine == of_theirs else [(mine, "0", of_mine), ("0", theirs, of_theirs)]
    apart = [(delta(one or "0", other or "0"), group) for one, other, group in pairs]
    return [Differs(abs(amount), _known(group)) for amount, group in apart if amount]


def judge(classes: Sequence[Severity], amounts: Sequence[Differs], first_at: datetime, now: datetime) -> Due | None:
    """By the first class that it is in; None where it is in none yet. A break whose currency is not known counts in
    each: it may be the one that matters. It is due by the earliest hour of all classes that it is in: one that is late
    stays late when its age brings it into a class whose clock begins only then."""
    within = [(one, start + one.due) for one in classes if (start := _begins(one, amounts, first_at, now)) is not None]
    return Due(within[0][0], min(at for _, at in within)) if within else None


def _begins(one: Severity, amounts: Sequence[Differs], first_at: datetime, now: datetime) -> datetime | None:
    """When its clock began; None where the break is not in the class."""
    if any(_is_as_large(one, amount) for amount in amounts):
        return first_at
    return first_at + one.age if one.age is not None and first_at + one.age <= now else None


def _is_as_large(one: Severity, differing: Differs) -> bool:
    if one.amount is None or differing.amount < one.amount:
        return False
    return not one.currency or differing.group is None or one.currency in differing.group


def _value(found: Break, side: Mapping[str, str | None] | None, column: str) -> str | None:
    return "0" if side is None else {**(found.beside or {}), **side}.get(column)


def _groups(found: Break, side: Texts | None, other: Texts | None, by: Sequence[str]) -> tuple[str | None, ...]:
    """Of one side; None for what is NULL there, or nothing says."""
    known = {**(other or {}), **(found.beside or {}), **(side or {})}
    return tuple(known.get(name) for name in by)


def _known(group: tuple[str | None, ...]) -> tuple[str, ...] | None:
    """None where not all of it is."""
    named = tuple(value for value in group if value is not None)
    return named if len(named) == len(group) else None
