"""Business dates: which instants, and which stored values, belong to one.

A business date is one calendar day of the sync's time zone, as a half-open interval `[first instant of the day, first
instant of the next day)`. So the days of a zone cover time without gap or overlap, also when the clock is moved: such
a day has 23 or 25 hours, and a day that a zone left out (Samoa, 30 December 2011) is empty.

With a cut-off other than midnight a business date ends when the clock first shows that time: at or before noon it is
the next day's, after noon that of the day itself. It begins where the one before it ends.

Bounds are values to compare the bare column with; no query ever puts a function around the column.
"""

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from enum import StrEnum
from zoneinfo import ZoneInfo

from seamline.domain.digest import Segment
from seamline.domain.errors import ConfigError

_SECOND = timedelta(seconds=1)
_DAY = timedelta(days=1)
MIDNIGHT = "00:00"
_NOON = time(12)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECONDS = re.compile(r"-?\d+")
_EIGHT_DIGITS = re.compile(r"[0-9]{8}")


class Holds(StrEnum):
    """What the business date column of a table holds."""

    DATE = "date"  # the business date itself
    LOCAL = "local"  # a wall clock time in the sync's time zone, without a zone
    INSTANT = "instant"  # a moment, kept in UTC
    DIGITS = "digits"  # the business date itself as YYYYMMDD, a number or a text


# What counts rows by the clock, and not by the date that is written in them.
MOMENTS = frozenset({Holds.LOCAL, Holds.INSTANT})


@dataclass(frozen=True, slots=True)
class Day:
    """The instants `[start, end)` of one business date, both in UTC with whole seconds."""

    business_date: date
    start: datetime
    end: datetime


def zone(name: str) -> ZoneInfo:
    """The time zone with this IANA name, as `Asia/Shanghai`."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as exc:
        raise ConfigError(f"{name!r} is not a time zone", hint="write an IANA name, as Asia/Shanghai or UTC") from exc


def day_of(business_date: date, *, timezone: str, first: date | None = None, cut_off: str = MIDNIGHT) -> Day:
    """The instants of a business date in a time zone. `first`: its first day, where days before it that are no
    business dates belong to it. `cut_off`: local time at which it ends, "HH:MM"."""
    where = zone(timezone)
    start = _first_instant(first or business_date, where, cut_off)
    return Day(business_date, start, _first_instant(business_date + _DAY, where, cut_off))


def date_at(instant: datetime, *, timezone: str, cut_off: str = MIDNIGHT) -> date:
    """The business date that an instant belongs to. `instant` carries a zone."""
    where = zone(timezone)
    day = instant.astimezone(where).date() - _DAY
    # Where a clock falls back across midnight a date is shown twice; the bounds decide, so that days never overlap.
    while instant >= _first_instant(day + _DAY, where, cut_off):
        day += _DAY
    return day


def last_ended(now: datetime, *, timezone: str, cut_off: str = MIDNIGHT) -> date:
    """The newest business date that has ended at `now`."""
    today = date_at(now, timezone=timezone, cut_off=cut_off)
    where = zone(timezone)
    ended = today - _DAY
    while _first_instant(ended, where, cut_off) == _first_instant(ended + _DAY, where, cut_off):
        ended -= _DAY
    return ended


def bounds(
    business_date: date, *, holds: str, timezone: str, first: date | None = None, cut_off: str = MIDNIGHT
) -> tuple[str, str]:
    """The half-open bounds of a business date as texts in the column's own terms. `first` and `cut_off` as for
    `day_of`.

    date: `YYYY-MM-DD`. digits: `YYYYMMDD`. local: `YYYY-MM-DD HH:MM:SS`, wall clock. instant: the same in UTC, to be
    compared in a session whose time zone is UTC. Every engine reads these texts as literals of the column's type.
    """
    since = first or business_date
    match Holds(holds):
        case Holds.DATE:
            return since.isoformat(), (business_date + _DAY).isoformat()
        case Holds.DIGITS:
            return _digits(since), _digits(business_date + _DAY)
        case Holds.LOCAL:
            return f"{_shown_at(since, cut_off)}", f"{_shown_at(business_date + _DAY, cut_off)}"
        case Holds.INSTANT:
            day = day_of(business_date, timezone=timezone, first=since, cut_off=cut_off)
            return f"{day.start:%Y-%m-%d %H:%M:%S}", f"{day.end:%Y-%m-%d %H:%M:%S}"


def segment_of(
    table: str,
    *,
    column: str,
    holds: str,
    business_date: date,
    timezone: str,
    first: date | None = None,
    cut_off: str = MIDNIGHT,
) -> Segment:
    """The rows of one business date of a table. `first` and `cut_off` as for `day_of`."""
    start, end = bounds(business_date, holds=holds, timezone=timezone, first=first, cut_off=cut_off)
    return Segment(table, column, start, end)


def date_of(text: str, *, holds: str, timezone: str, cut_off: str = MIDNIGHT) -> date | None:
    """The business date of a row by the canonical text of its column: a date in ISO 8601, as eight digits, or
    microseconds since the epoch. None for what no calendar has, as a date before the year 1."""
    try:
        if Holds(holds) is Holds.DIGITS:
            return date.fromisoformat(text) if _EIGHT_DIGITS.fullmatch(text) else None
        if not _MICROSECONDS.fullmatch(text):
            return date.fromisoformat(text)
        moment = _EPOCH + timedelta(microseconds=int(text))
    except (ValueError, OverflowError):
        return None
    # What holds the wall clock has no zone: its dates are those of a clock that is never moved.
    in_zone = timezone if Holds(holds) is Holds.INSTANT else "UTC"
    return date_at(moment, timezone=in_zone, cut_off=cut_off)


def _digits(day: date) -> str:
    return day.isoformat().replace("-", "")


def _shown_at(day: date, cut_off: str) -> datetime:
    """What the clock shows when the business date `day` begins, and that of the day before ends."""
    shown = time.fromisoformat(cut_off)
    return datetime.combine(day if shown <= _NOON else day - _DAY, shown)


def _first_instant(day: date, where: ZoneInfo, cut_off: str) -> datetime:
    """The first instant of a business date: when the clock of a zone first shows its time, or a later one where the
    zone left that out."""
    shown = _shown_at(day, cut_off)
    # fold=0: the first of two such moments; for one that the clock jumps over, the offset before the jump.
    candidate = shown.replace(tzinfo=where).astimezone(UTC)
    if candidate.astimezone(where).replace(tzinfo=None) == shown:
        return candidate
    # The jump lies between the two readings of the missing moment; the day begins with it.
    earliest = shown.replace(tzinfo=where, fold=1).astimezone(UTC)
    while candidate - earliest > _SECOND:
        middle = (earliest + (candidate - earliest) / 2).replace(microsecond=0)
        if middle.astimezone(where).replace(tzinfo=None) >= shown:
            candidate = middle
        else:
            earliest = middle
    return earliest if earliest.astimezone(where).replace(tzinfo=None) >= shown else candidate


def moment_in_words(value: datetime, zone: tzinfo) -> str:
    """To the second, with the zone's offset, which its short name ("CST") would leave open."""
    text = value.astimezone(zone).isoformat(sep=" ", timespec="seconds")
    return f"{text[:19]} {text[19:]}"
