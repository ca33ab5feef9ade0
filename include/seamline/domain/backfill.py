"""A backfill as people follow it: what each date has come to, how far it is, how long it may still take. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from enum import IntEnum
from typing import Any

from seamline.domain.cut_state import CutState, Headline, worst_headline
from seamline.domain.duration import duration

PROVEN = frozenset({Headline.MATCH, Headline.PARTIAL})
BROKEN = frozenset({Headline.BREAK, Headline.CHECKS_FAILED, Headline.ALTERED})
_OVER = frozenset({"success", "failed"})
# What a date shows while nothing is known of it.
NOTHING_YET = "-"


class Exit(IntEnum):
    """The exit code of a command that follows cuts or comparisons to their end."""

    PROVEN = 0
    BREAK = 1
    MISTAKE = 2
    NOT_PROVEN = 3


@dataclass(frozen=True, slots=True)
class DateRun:
    """One business date. `state`: Airflow's word for its run. `found`: the worst of its destinations, None where there
    is no cut. `version`: the one that readers see, the oldest of the destinations'; None where one has none.
    """

    business_date: date
    run_id: str = ""
    state: str = ""
    found: Headline | None = None
    version: int | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None

    @property
    def is_over(self) -> bool:
        return self.state in _OVER

    @property
    def is_proven(self) -> bool:
        """Whether readers see a clean cut of the date, and its run has ended well."""
        return self.state == "success" and self.found in PROVEN

    @property
    def word(self) -> str:
        return self.found.value if self.found is not None else NOTHING_YET

    def as_json(self) -> dict[str, Any]:
        seconds = (self.ended_at - self.started_at).total_seconds() if self.started_at and self.ended_at else None
        return {
            "business_date": self.business_date.isoformat(),
            "run": self.run_id,
            "state": self.state,
            "verdict": self.word,
            "version": self.version,
            "seconds": seconds,
        }


@dataclass(frozen=True, slots=True)
class Progress:
    """`dates` in the order in which they are made. `is_over`: Airflow starts no more of them."""

    dates: tuple[DateRun, ...]
    is_paused: bool = False
    is_over: bool = False

    @property
    def left(self) -> int:
        return sum(not one.is_over for one in self.dates)

    @property
    def remaining(self) -> timedelta | None:
        """By the pace so far; None before the first date has ended, and while it is paused."""
        ends = [one.ended_at for one in self.dates if one.is_over and one.ended_at]
        starts = [one.started_at for one in self.dates if one.started_at]
        if self.is_paused or not ends or not starts:
            return None
        return (max(ends) - min(starts)) / len(ends) * self.left

    @property
    def exit_code(self) -> Exit:
        """A break of any date outweighs what is not proven of others."""
        if any(one.found in BROKEN for one in self.dates):
            return Exit.BREAK
        return Exit.PROVEN if self.dates and all(one.is_proven for one in self.dates) else Exit.NOT_PROVEN

    def in_words(self) -> str:
        """One line: how far, of what, how long still."""
        done = len(self.dates) - self.left
        counted = Counter(one.word for one in self.dates if one.is_over)
        of_them = f" ({', '.join(f'{number} {word}' for word, number in sorted(counted.items()))})" if counted else ""
        how = ", paused" if self.is_paused and not self.is_over else ""
        still = f", about {duration(self.remaining)} left" if self.left and self.remaining is not None else ""
        return f"{done} of {len(self.dates)} dates{of_them}{how}{still}"

    def as_json(self) -> dict[str, Any]:
        remaining = self.remaining
        return {
            "dates": [one.as_json() for one in self.dates],
            "done": len(self.dates) - self.left,
            "left": self.left,
            "paused": self.is_paused,
            "over": self.is_over,
            "remaining_s": None if remaining is None else round(remaining.total_seconds()),
            "exit_code": int(self.exit_code),
        }


def with_cuts(one: DateRun, cuts: Iterable[CutState]) -> DateRun:
    """The date with what its cuts say, once its run is over: before that, an older cut says nothing of it. `cuts`: the
    newest take of the date in each destination."""
    found = list(cuts)
    if not found or not one.is_over:
        return one
    versions = [cut.publication.in_force for cut in found]
    known = [version for version in versions if version is not None]
    return replace(
        one,
        found=worst_headline(cut.headline for cut in found),
        version=min(known) if len(known) == len(versions) else None,
    )


def by_date(states: Iterable[CutState]) -> Mapping[date, list[CutState]]:
    out: dict[date, list[CutState]] = {}
    for state in states:
        out.setdefault(state.business_date, []).append(state)
    return out
