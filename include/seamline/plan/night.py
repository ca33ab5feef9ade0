"""When the night of a business date begins and by when its verdict is due, and which night is next. Pure."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from seamline.domain.business_dates import Is
from seamline.domain.calendar import Day, date_at, day_of, zone
from seamline.domain.late_input import verdict_due
from seamline.plan.model import NightlyPlan

_DAY = timedelta(days=1)
_INSTANT = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Night:
    """`day`: the instants that belong to the date. `starts_at` and `due` carry the sync's zone."""

    business_date: date
    day: Day
    starts_at: datetime
    due: datetime


def night_of(nightly: NightlyPlan, business_date: date) -> Night:
    where, day = zone(nightly.timezone), nightly.day_of(business_date)
    due = verdict_due(business_date, where, run_at_minutes=nightly.run_at_delay_minutes, verdict_by=nightly.verdict_by)
    # As the timetable has it: so many minutes behind midnight, also where a clock is moved in between.
    midnight = day_of(business_date, timezone=nightly.timezone).end
    starts_at = (midnight + timedelta(minutes=nightly.run_at_delay_minutes)).astimezone(where)
    return Night(business_date, day, starts_at, due)


def date_begun_at(nightly: NightlyPlan, starts_at: datetime) -> date:
    """The date whose night begins at this moment."""
    midnight = starts_at - timedelta(minutes=nightly.run_at_delay_minutes)
    return date_at(midnight - _INSTANT, timezone=nightly.timezone)


def next_night(nightly: NightlyPlan, now: datetime) -> Night | None:
    """The first that begins after `now`; None where the calendars end before one."""
    day = date_at(now, timezone=nightly.timezone) - 2 * _DAY
    while (following := _following(nightly, day)) is not None:
        night = night_of(nightly, following)
        if night.starts_at.astimezone(UTC) > now:
            return night
        day = following
    return None


def _following(nightly: NightlyPlan, day: date) -> date | None:
    """The business date after a day, which may be one that no calendar knows."""
    following = nightly.dates.after(day)
    if following is None and nightly.dates.look(day + _DAY).is_ is Is.UNKNOWN and nightly.dates.calendars:
        first = min(one.first for one in nightly.dates.calendars)
        following = nightly.dates.after(max(day, first - _DAY)) if day < first else None
    return following
