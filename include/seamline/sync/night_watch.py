"""What of a sync's nights a person must know of: stages that are not through by their hour, a verdict that is not there
by its own, and calendars that end."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo

from seamline.domain.alarms import AlarmKind
from seamline.domain.business_dates import BusinessDates
from seamline.domain.calendar import date_at, moment_in_words, zone
from seamline.domain.day_closed import CLOSED
from seamline.domain.duration import duration
from seamline.domain.runs import EXPECTATIONS, PUBLISH, STAGE, Json, RunState
from seamline.plan.deadlines import night_deadlines, onboard_limits
from seamline.plan.model import NightlyPlan, Run
from seamline.plan.night import night_of

STAGE_LATE = AlarmKind.STAGE_LATE
VERDICT_LATE = AlarmKind.VERDICT_LATE
ONBOARD_LATE = AlarmKind.ONBOARD_LATE
CALENDAR_ENDS = AlarmKind.CALENDAR_ENDS
# Those that end as soon as a look does not find them. A late verdict ends with the verdict, whatever date is looked at.
NIGHT_ALARMS = (STAGE_LATE, ONBOARD_LATE, CALENDAR_ENDS)
_SAID = {
    "closed": "the source has not closed its day",
    "cut": "it is not staged",
    "checks": "it is not checked",
    "publish": "it is not published",
}


@dataclass(frozen=True, slots=True)
class NightTrouble:
    kind: AlarmKind
    subject: str
    message: str


def late_stages(
    sync: str, nightly: NightlyPlan, day: date, newest: Run | None, now: datetime
) -> Iterator[NightTrouble]:
    """At most one: that of the first stage whose hour has passed without it. `newest`: the newest run of the date. By a
    default a stage is late only in a run that has begun: whether one begins at all is the matter of the verdict."""
    where = zone(nightly.timezone)
    for one in night_deadlines(nightly, day):
        is_expected = one.is_declared or (newest is not None and newest.state is not RunState.SUCCEEDED)
        if is_expected and now.astimezone(UTC) >= one.at.astimezone(UTC) and not _is_through(one.stage, newest):
            due = f"was due at {moment_in_words(one.at, where)}{'' if one.is_declared else ' by default'}"
            yield NightTrouble(
                STAGE_LATE, f"{sync} {day}", f"{day}: {_SAID[one.stage]}, which {due}; {_why(newest, where)}"
            )
            return


def late_onboarding(
    sync: str, newest: Run | None, declared: Mapping[str, timedelta], now: datetime, where: tzinfo
) -> Iterator[NightTrouble]:
    """At most one, of the newest onboarding or change of the tables: that its stage takes longer than it may."""
    stage = (newest.result.get(STAGE) or {}) if newest is not None and newest.state is RunState.RUNNING else {}
    if newest is None or not stage:
        return
    since = datetime.fromisoformat(stage["since"])
    for name, within, is_declared in onboard_limits(declared):
        if name == stage["task"] and now - since > within:
            limit = f"{duration(within)}{'' if is_declared else ' by default'}"
            message = f"{newest.kind.value}: stage {name} since {moment_in_words(since, where)}, which may take {limit}"
            yield NightTrouble(ONBOARD_LATE, f"{sync} {newest.kind.value}", message)


def late_verdict(
    sync: str, nightly: NightlyPlan, day: date, has_verdict: Callable[[date], bool], now: datetime
) -> Iterator[NightTrouble]:
    """At most one. Asks only once the hour has passed."""
    due = night_of(nightly, day).due
    if now.astimezone(UTC) >= due.astimezone(UTC) and not has_verdict(day):
        yield NightTrouble(VERDICT_LATE, f"{sync} {day}", lateness_of(day))


def lateness_of(named: object) -> str:
    """What the alarm says of a date, whoever raises it."""
    return f"the cut of {named} has no verdict yet, and its hour has passed"


def ending_calendars(sync: str, dates: BusinessDates, today: date) -> Iterator[NightTrouble]:
    for calendar, left in dates.ending(today):
        when = f"ends on {calendar.last}, in {left} days" if left >= 0 else f"has ended on {calendar.last}"
        message = f"calendar {calendar.name} {when}: continue include/calendars/{calendar.name}.yaml"
        yield NightTrouble(CALENDAR_ENDS, f"{sync} {calendar.name}", message)


def troubles_of(
    sync: str,
    nightly: NightlyPlan,
    newest_of: Callable[[date], Run | None],
    has_verdict: Callable[[date], bool],
    now: datetime,
    *,
    since: datetime | None,
) -> list[NightTrouble]:
    """`newest_of`: the newest run of a date, None where it has none. `since`: when the sync was onboarded, None where
    it is not: of a date that had ended before nobody expects a night."""
    found = list(ending_calendars(sync, nightly.dates, date_at(now, timezone=nightly.timezone)))
    day = nightly.last_ended(now)
    if day is None or since is None:
        return found
    # The hour of a verdict may lie behind the end of the next date, which is the newest one by then.
    before = nightly.dates.before(day)
    expected = [one for one in (day, before) if one is not None and since < nightly.day_of(one).end]
    if day in expected:
        found += late_stages(sync, nightly, day, newest_of(day), now)
    for one in expected:
        found += late_verdict(sync, nightly, one, has_verdict, now)
    return found


def _is_through(stage: str, run: Run | None) -> bool:
    """What comes behind a stage says that it is through, too."""
    if run is None:
        return False
    result: Json = run.result
    published = set(run.result.get(PUBLISH) or {})
    is_published = bool(published) and published >= run.taking.plan.destination_names
    is_checked = is_published or bool(result.get(EXPECTATIONS))
    is_cut = is_checked or bool(result.get("cut"))
    closed = run.result.get(CLOSED) or {}
    is_closed = is_cut or not run.plan.nightly or not run.plan.nightly.closed_when or closed.get("waits_for") == ""
    return {"closed": is_closed, "cut": is_cut, "checks": is_checked, "publish": is_published}[stage]


def _why(run: Run | None, where: tzinfo) -> str:
    if run is None:
        return "no run of this date has begun"
    if waits := (run.result.get(CLOSED) or {}).get("waits_for"):
        return f"it waits for {waits}"
    stage = run.result.get(STAGE) or {}
    since = f", task {stage['task']} since {_moment(stage['since'], where)}" if stage else ""
    return f"its run is {run.state.value}{since}"


def _moment(text: str, where: tzinfo) -> str:
    return moment_in_words(datetime.fromisoformat(text), where)
