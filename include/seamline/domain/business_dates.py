"""Which days are business dates, by calendars that are data: holidays, half days, make-up days, ends of months.

Business dates cover time without gap or overlap, as days do: what is booked on a day that is no business date belongs
to the next one. A day that no calendar knows any more is never guessed. Pure.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import StrEnum
from typing import Any

from seamline.domain.calendar import MIDNIGHT, last_ended
from seamline.domain.errors import ConfigError, Refused
from seamline.domain.phrase import joined, phrase

_DAY = timedelta(days=1)
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_NAMES = {
    "monday": phrase("Monday"),
    "tuesday": phrase("Tuesday"),
    "wednesday": phrase("Wednesday"),
    "thursday": phrase("Thursday"),
    "friday": phrase("Friday"),
    "saturday": phrase("Saturday"),
    "sunday": phrase("Sunday"),
}
Named = tuple[tuple[date, str], ...]


class Rule(StrEnum):
    """When a day is a business date, where there are several calendars."""

    ALL = "all"  # each of them is open
    ANY = "any"  # one of them is


class Is(StrEnum):
    OPEN = "open"
    CLOSED = "closed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class HalfDay:
    """A business day that closes early. `closes_at`: local time as "HH:MM"."""

    day: date
    closes_at: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class Said:
    """What is known of a day, and why; `half`: the half days that it is."""

    is_: Is
    why: str
    half: tuple[HalfDay, ...] = ()


@dataclass(frozen=True, slots=True)
class Calendar:
    """One exchange's or bank's. It knows the days from `first` to `last`, both included. `weekend`: names of weekdays;
    `working_days`: those that are business days although their weekday is closed; `month_ends`: () for the last
    business day of each month; `alarm_days`: so many days before its end it is to be continued."""

    name: str
    first: date
    last: date
    weekend: tuple[str, ...] = ("saturday", "sunday")
    holidays: Named = ()
    working_days: Named = ()
    half_days: tuple[HalfDay, ...] = ()
    month_ends: tuple[date, ...] = ()
    alarm_days: int = 30

    def look(self, day: date) -> Said:
        if not self.first <= day <= self.last:
            return Said(
                Is.UNKNOWN,
                phrase(
                    "calendar %(name)s knows the days from %(first)s to %(last)s only",
                    name=self.name,
                    first=self.first,
                    last=self.last,
                ),
            )
        half = tuple(one for one in self.half_days if one.day == day)
        if (why := dict(self.working_days).get(day)) is not None:
            return Said(Is.OPEN, self._says(phrase("make-up day"), why), half)
        if (why := dict(self.holidays).get(day)) is not None:
            return Said(Is.CLOSED, self._says(phrase("holiday"), why))
        weekday = WEEKDAYS[day.weekday()]
        is_ = Is.CLOSED if weekday in self.weekend else Is.OPEN
        return Said(is_, self._says(_NAMES[weekday], half[0].name if half else ""), half)

    def _says(self, what: str, name: str) -> str:
        return joined("", [what, f" ({name})" if name else "", phrase(" by calendar %(name)s", name=self.name)])


@dataclass(frozen=True, slots=True)
class BusinessDates:
    """Of a sync. Without calendars every day is a business date."""

    calendars: tuple[Calendar, ...] = ()
    rule: Rule = Rule.ALL

    def look(self, day: date) -> Said:
        """A calendar that has run out counts only where the others do not decide."""
        if not self.calendars:
            return Said(Is.OPEN, phrase("every day is a business date: the sync names no calendar"))
        found = [one.look(day) for one in self.calendars]
        decides = Is.CLOSED if self.rule is Rule.ALL else Is.OPEN
        other = Is.OPEN if self.rule is Rule.ALL else Is.CLOSED
        is_ = next((word for word in (decides, Is.UNKNOWN) if any(one.is_ is word for one in found)), other)
        counted = [one for one in found if one.is_ is is_]
        half = tuple(early for one in counted for early in one.half) if is_ is Is.OPEN else ()
        return Said(is_, joined("; ", [one.why for one in counted]), half)

    def before(self, day: date) -> date | None:
        """The business date before; None where the calendars do not go back that far."""
        return self._next(day, -_DAY)

    def after(self, day: date) -> date | None:
        """The next business date; None where the calendars end before one."""
        return self._next(day, _DAY)

    def first_day(self, business_date: date) -> date:
        """The first day whose rows belong to a business date: that after the business date before it."""
        day = business_date
        while self.look(day - _DAY).is_ is Is.CLOSED:
            day -= _DAY
        return day

    def days_of(self, business_date: date) -> Iterator[date]:
        """The days whose rows belong to a business date, as `first_day` bounds them."""
        day = self.first_day(business_date)
        while day <= business_date:
            yield day
            day += _DAY

    def last_ended(self, now: datetime, *, timezone: str, cut_off: str = MIDNIGHT) -> date | None:
        """The newest business date that has ended at `now`; None where none is known. Days that are not known are
        passed over: whoever asks for one of them gets the reason."""
        if not self.calendars:
            return last_ended(now, timezone=timezone, cut_off=cut_off)
        earliest = min(one.first for one in self.calendars)
        day = min(last_ended(now, timezone=timezone, cut_off=cut_off), max(one.last for one in self.calendars))
        while day >= earliest:
            if self.look(day).is_ is Is.OPEN:
                return day
            day -= _DAY
        return None

    def require(self, day: date) -> None:
        """Refused for a day that is no business date; ConfigError where that is not known."""
        said = self.look(day)
        if said.is_ is Is.OPEN:
            return
        if said.is_ is Is.UNKNOWN:
            raise ConfigError(
                f"it is not known whether {day} is a business date: {said.why}",
                hint="continue the calendar in include/calendars: its `until`, and the holidays until then",
            )
        near = [f"the one before it is {before}"] if (before := self.before(day)) else []
        near += [f"the next one is {after}"] if (after := self.after(day)) else []
        raise Refused(
            f"{day} is no business date: {said.why}", hint=", ".join(near) or "name another date, or mend the calendar"
        )

    def month_end(self, day: date) -> date | None:
        """The last business date of the month that a day lies in; None where that is not known. A calendar that lists
        its ends of months has its own months."""
        declared = sorted({end for one in self.calendars for end in one.month_ends if end >= day})
        if declared:
            return declared[0]
        last = (day.replace(day=1) + timedelta(days=31)).replace(day=1) - _DAY
        while last >= day.replace(day=1):
            is_ = self.look(last).is_
            if is_ is not Is.CLOSED:
                return last if is_ is Is.OPEN else None
            last -= _DAY
        return None

    def ending(self, today: date) -> list[tuple[Calendar, int]]:
        """The calendars that are to be continued, each with the days that it still knows after today; less than 0
        where it has run out."""
        left = [(one, (one.last - today).days) for one in self.calendars]
        return [(one, days) for one, days in left if days <= one.alarm_days]

    def _next(self, day: date, step: timedelta) -> date | None:
        while (said := self.look(day := day + step)).is_ is Is.CLOSED:
            continue
        return day if said.is_ is Is.OPEN else None


EVERY_DAY = BusinessDates()


def to_json(dates: BusinessDates) -> dict[str, Any]:
    return {"rule": dates.rule.value, "calendars": [_calendar_to_json(one) for one in dates.calendars]}


def from_json(document: Mapping[str, Any]) -> BusinessDates:
    """The inverse of `to_json`."""
    return BusinessDates(tuple(map(_calendar_from_json, document["calendars"])), Rule(document["rule"]))


def _calendar_to_json(one: Calendar) -> dict[str, Any]:
    return {
        "name": one.name,
        "first": one.first.isoformat(),
        "last": one.last.isoformat(),
        "weekend": list(one.weekend),
        "holidays": [[day.isoformat(), name] for day, name in one.holidays],
        "working_days": [[day.isoformat(), name] for day, name in one.working_days],
        "half_days": [[half.day.isoformat(), half.closes_at, half.name] for half in one.half_days],
        "month_ends": [day.isoformat() for day in one.month_ends],
        "alarm_days": one.alarm_days,
    }


def _calendar_from_json(entry: Mapping[str, Any]) -> Calendar:
    day = date.fromisoformat
    return Calendar(
        name=entry["name"],
        first=day(entry["first"]),
        last=day(entry["last"]),
        weekend=tuple(entry["weekend"]),
        holidays=_named(entry["holidays"]),
        working_days=_named(entry["working_days"]),
        half_days=tuple(HalfDay(day(at), closes_at, name) for at, closes_at, name in entry["half_days"]),
        month_ends=tuple(map(day, entry["month_ends"])),
        alarm_days=entry["alarm_days"],
    )


def _named(pairs: Sequence[Sequence[str]]) -> Named:
    return tuple((date.fromisoformat(day), name) for day, name in pairs)
