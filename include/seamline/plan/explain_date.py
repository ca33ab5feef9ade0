"""The bounds of one business date of a sync, in words: which instants belong to it, when its night begins, what it
waits for, what it reads and what that guarantees."""

import textwrap
from collections.abc import Iterator
from datetime import UTC, date, datetime, tzinfo
from typing import Any

from seamline.domain.business_dates import WEEKDAYS, BusinessDates, Is
from seamline.domain.calendar import moment_in_words, zone
from seamline.domain.cut_state import Headline
from seamline.domain.errors import Refused
from seamline.domain.made_from import LOOKS_ON, MadeFrom
from seamline.domain.staged_cut import CutSource
from seamline.plan.deadlines import night_deadlines
from seamline.plan.model import NightlyPlan, SyncPlan, TablePlan
from seamline.plan.night import Night, next_night, night_of
from seamline.plan.not_picked import log_not_picked, not_picked

WIDTH = 118
_NAME = 15
_READ = "read: one snapshot of the source at one position P of its log, for all tables"
_OF_LOG = (
    "log: the newest cut before it, and the log up to the last transaction before the cut-off, or before the one that"
    " moves the system date on; P is there"
)
# By `nightly.from`; what is below counts where the date is read.
_MODES = {
    MadeFrom.READ: _READ,
    MadeFrom.INCREMENTAL: f"{_READ}. Of tables with a `cursor`, or whose key begins with a whole number,"
    " only the rows behind the newest cut; the others are those of that cut. All of them are compared with the source:"
    " where one has changed, gone or come late, the tables are read whole, and the report says so",
    MadeFrom.DAY_SLICE: f"{_READ}, of the rows of this date alone. They take the place of those that the date had, in"
    " one commit; other dates stay as they are. A date without rows is cut too, and the report says that it has none",
    MadeFrom.LOG: f"{_OF_LOG}. The very first date is read; one that cannot be made so is refused",
    MadeFrom.AUTO: f"{_OF_LOG}. Where that cannot be, the verdict says why, and it is {_READ}",
}


def explain_date(plan: SyncPlan, day: date, *, now: datetime) -> str:
    """Text of several lines, ending in a newline. Refused for a sync without nights."""
    nightly = plan.nightly
    if nightly is None:
        raise Refused(
            f"sync {plan.sync} makes no cuts, so no date has bounds", hint="add `nightly:` to the sync", sync=plan.sync
        )
    lines = [f"{plan.sync}, {day} ({WEEKDAYS[day.weekday()]}), by the declarations of now"]
    lines += [*_is_it_one(nightly.dates, day)]
    if nightly.dates.look(day).is_ is Is.OPEN:
        lines += [*_bounds(nightly, night_of(nightly, day)), *_mode(plan, nightly, night_of(nightly, day))]
        lines += [*_kept(nightly, day)]
    lines += [*_calendars(nightly.dates), *_next(nightly, now)]
    return "\n".join(lines) + "\n"


def date_document(plan: SyncPlan, day: date, *, now: datetime) -> dict[str, Any]:
    """The same for a program: the bounds as values, and every line. Refused for a sync without nights."""
    lines = explain_date(plan, day, now=now).splitlines()
    nightly = plan.nightly
    assert nightly is not None
    said = nightly.dates.look(day)
    found: dict[str, Any] = {"sync": plan.sync, "business_date": day, "is": said.is_.value, "why": said.why}
    found |= {"before": nightly.dates.before(day), "after": nightly.dates.after(day), "timezone": nightly.timezone}
    if said.is_ is Is.OPEN:
        night = night_of(nightly, day)
        bounds = {"from": night.day.start, "until": night.day.end, "night": night.starts_at, "due": night.due}
        found |= {**bounds, "waits_for": [one.in_words for one in nightly.closed_when]}
    return {**found, "lines": lines}


def _line(name: str, said: str) -> str:
    indent = " " * (_NAME + 2)
    wrapped = textwrap.wrap(said, WIDTH, initial_indent=f"  {name:<{_NAME}}", subsequent_indent=indent)
    return "\n".join(wrapped)


def _is_it_one(dates: BusinessDates, day: date) -> Iterator[str]:
    said = dates.look(day)
    word = {Is.OPEN: "yes", Is.CLOSED: "no", Is.UNKNOWN: "not known"}[said.is_]
    yield _line("business date", f"{word}: {said.why}")
    for half in said.half:
        yield _line("half day", f"closes at {half.closes_at}{f', {half.name}' if half.name else ''}")
    before, after = dates.before(day), dates.after(day)
    yield _line("before, after", f"{before or 'not known'}, {after or 'not known'}")
    if said.is_ is Is.CLOSED and after is not None:
        yield _line("belongs to", f"{after}: what is booked on a day that is no business date belongs to the next one")


def _bounds(nightly: NightlyPlan, night: Night) -> Iterator[str]:
    where, day = zone(nightly.timezone), night.day
    hours = (day.end - day.start).total_seconds() / 3600
    yield _line(
        "covers",
        f"from {moment_in_words(day.start, where)} up to, and not with, {moment_in_words(day.end, where)}:"
        f" {hours:g} h in {nightly.timezone}",
    )
    yield _line("", f"in UTC from {_utc(day.start)} up to {_utc(day.end)}")
    yield _line("cut-off", f"{nightly.cut_off} {nightly.timezone}, the end of the date")
    for one in nightly.closed_when:
        yield _line("waits for", f"{one.in_words}, looked at every {one.every_s:g} s, until the verdict is due")
    yield _line("night begins", _both(night.starts_at, where))
    for stage in night_deadlines(nightly, night.business_date):
        yield _line(f"{stage.stage} due", f"{_both(stage.at, where)}{'' if stage.is_declared else ', by default'}")
    by = "" if nightly.verdict_by else ", 6 h after that: no `verdict_by` is declared"
    yield _line("verdict due", f"{_both(night.due, where)}{by}")


def _mode(plan: SyncPlan, nightly: NightlyPlan, night: Night) -> Iterator[str]:
    live = [one.name for one in plan.destinations if one.cut_source is CutSource.LIVE]
    if len(live) < len(plan.destinations):
        yield _line("mode", _MODES[nightly.made_from])
    if why := log_not_picked(plan):
        yield _line("", why)
    if live:
        yield _line("", f"in {', '.join(live)} the live tables of the stream, held at one P and compared whole there")
    for table in plan.tables:
        yield _line("table", _reads(nightly, table, night))
        if why := not_picked(plan, table):
            yield _line("", why)
    if nightly.made_from.uses_log:
        yield _line("looks on", LOOKS_ON)
    yield _line(
        "guarantees",
        f"all tables at one P, compared with the source at that P; {Headline.MATCH} is said only where every row is"
        " equal. Readers see all of the date or none of it.",
    )


def _reads(nightly: NightlyPlan, table: TablePlan, night: Night) -> str:
    segment = nightly.segment_of(table, night.business_date)
    if nightly.is_delivered:
        return f"{table.name}: whole, as it was delivered for the date"
    if not segment.date_column:
        return (
            f"{table.name}: whole, as of P; it counts for the date only while P lies within"
            f" {nightly.as_of_max_s / 3600:g} h of its end"
            + (", or of when the source has closed it" if nightly.closed_when else "")
        )
    return (
        f"{table.name}: the rows with {segment.date_column} from {segment.date_from} up to {segment.date_to}, as they"
        " stand at P; one that is committed after P is late, and the next night finds it"
    )


def _kept(nightly: NightlyPlan, day: date) -> Iterator[str]:
    end = nightly.dates.month_end(day)
    if end == day:
        yield _line("kept", f"as an end of a month: {nightly.keep_month_ends} of these are kept")
    else:
        said = f"; its month ends on {end}" if end else ""
        yield _line("kept", f"while it is among the newest {nightly.keep_days} dates with a cut{said}")


def _calendars(dates: BusinessDates) -> Iterator[str]:
    for one in dates.calendars:
        yield _line("calendar", f"{one.name} knows {one.first} to {one.last}")
    if len(dates.calendars) > 1:
        yield _line("", f"a business date is one on which {dates.rule.value} of them are open")


def _next(nightly: NightlyPlan, now: datetime) -> Iterator[str]:
    night = next_night(nightly, now)
    where = zone(nightly.timezone)
    said = f"{_both(night.starts_at, where)}, for {night.business_date}" if night else "not known: the calendars end"
    yield _line("next night", said)


def _both(moment: datetime, where: tzinfo) -> str:
    return f"{moment_in_words(moment, where)}, in UTC {_utc(moment)}"


def _utc(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S}"
