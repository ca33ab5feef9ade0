"""Which business dates have no cut that readers see, why, and what to do: one list for page, REST and command line."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta, tzinfo
from enum import StrEnum
from typing import Any, Protocol

from seamline.domain.business_dates import BusinessDates, Is
from seamline.domain.calendar import date_at, moment_in_words, zone
from seamline.domain.cut_state import CutState, Headline, has_verdict
from seamline.domain.escalation import Step, owners_in_words
from seamline.domain.late_input import length_in_words
from seamline.domain.phrase import joined, phrase
from seamline.domain.runs import RunKind
from seamline.domain.verdict import Verdict, reasons_of
from seamline.plan.model import NightlyPlan, Run
from seamline.plan.night import night_of
from seamline.sync.repetition import NEEDS_A_PERSON

_DAY = timedelta(days=1)
# Each is a question to the platform database; who has more, has another list to read first.
SHOWN_MAX = 100
# Where these end a run, what it has compared is the cause.
_BEHIND_A_COMPARISON = ("cut", "verdicts", "gate", "complete")


class Awaits(StrEnum):
    """What a date is of which no headline of a cut says it."""

    EXPECTED = "EXPECTED"
    WAITS_FOR_INPUT = "WAITS FOR INPUT"
    LATE_INPUT = "LATE INPUT"
    UNKNOWN = "UNKNOWN"  # no calendar knows the day


@dataclass(frozen=True, slots=True)
class Missing:
    """A date without a published cut in a destination. `word`: what it is, in one; `since`: of what is waited for;
    `due`: when its verdict was, or is, to be there; None for a day that no calendar knows. `owners`: whose matter it is
    while its verdict is late, in words; "" where nobody is declared."""

    sync: str
    destination: str
    business_date: date
    word: str
    why: str
    next_step: str
    since: datetime | None = None
    due: datetime | None = None
    owners: str = ""

    def is_late(self, now: datetime) -> bool:
        return self.due is None or now.astimezone(UTC) >= self.due.astimezone(UTC)

    def lateness(self, now: datetime) -> str:
        return length_in_words(self.due, now) if self.due else phrase("not known")


class Records(Protocol):
    """What the list asks of the platform database."""

    def latest_run(self, sync: str, *kinds: str, with_result: str = "") -> Run | None: ...

    def published_into(self, sync: str) -> Mapping[str, Run]: ...

    def published_dates(self, sync: str) -> Mapping[str, frozenset[date]]: ...

    def states_of_dates(self, sync: str, days: Sequence[date]) -> tuple[CutState, ...]: ...


def missing_dates(
    records: Records,
    sync: str,
    *,
    now: datetime,
    dates: BusinessDates | None = None,
    alarms: Collection[Any] = (),
    steps: Sequence[Step] = (),
) -> list[Missing]:
    """The newest first; of each destination since its first cut, or its onboarding where it has none. `dates`: as they
    are declared now; None: as the newest run had them. `alarms`: the open ones that concern the sync. `steps`: by which
    a late verdict escalates."""
    newest = records.latest_run(sync, *RunKind)
    if newest is None or newest.plan.nightly is None:
        return []
    nightly = newest.plan.nightly if dates is None else replace(newest.plan.nightly, dates=dates)
    published, onboarded = records.published_dates(sync), records.published_into(sync)
    wanted = {name: _first(name, nightly, published, onboarded) for name in newest.plan.cut.destination_names}
    without = [
        (day, name)
        for name, first in wanted.items()
        if first is not None
        for day in _days(nightly, first, now)
        if day not in published.get(name, ())
    ]
    shown = sorted(without, key=lambda one: (-one[0].toordinal(), one[1]))[:SHOWN_MAX]
    states = records.states_of_dates(sync, sorted({day for day, _ in shown})) if shown else ()
    known = {(one.business_date, one.destination): one for one in states}
    where = zone(nightly.timezone)
    found = [_missing(sync, nightly, day, name, known.get((day, name)), now, where, alarms) for day, name in shown]
    return [
        replace(one, owners=owners_in_words(steps, one.due, now, where))
        if one.due and not has_verdict([known[key]] if (key := (one.business_date, one.destination)) in known else [])
        else one
        for one in found
    ]


def _first(
    destination: str, nightly: NightlyPlan, published: Mapping[str, frozenset[date]], onboarded: Mapping[str, Run]
) -> date | None:
    if days := published.get(destination):
        return min(days)
    run = onboarded.get(destination) or next(iter(onboarded.values()), None)
    return date_at(run.started_at, timezone=nightly.timezone) if run and run.started_at else None


def _days(nightly: NightlyPlan, first: date, now: datetime) -> Iterator[date]:
    """From `first` on those that have ended and are business dates, or may be."""
    today = date_at(now, timezone=nightly.timezone)
    days = (first + number * _DAY for number in range(max((today - first).days, 0)))
    return (day for day in days if nightly.dates.look(day).is_ is not Is.CLOSED)


def _missing(
    sync: str,
    nightly: NightlyPlan,
    day: date,
    destination: str,
    state: CutState | None,
    now: datetime,
    where: tzinfo,
    alarms: Collection[Any],
) -> Missing:
    said = nightly.dates.look(day)
    if said.is_ is Is.UNKNOWN:
        mend = phrase("continue the calendar in include/calendars, then run the date")
        return Missing(sync, destination, day, Awaits.UNKNOWN.value, said.why, mend)
    night = night_of(nightly, day)
    word, why, step, since = _of_state(sync, state, where)
    if state is None and now < night.starts_at:
        at = moment_in_words(night.starts_at, where)
        why = phrase("its night begins at %(at)s", at=at)
        return Missing(sync, destination, day, Awaits.EXPECTED.value, why, phrase("nothing to do"), due=night.due)
    # What is wrong at this very date, such as a late stage; and of a date without a run also what else is wrong.
    others = [one for one in alarms if state is None and not _is_about_a_date(one)]
    mine = [one for one in alarms if one.subject == f"{sync} {day}" and one.message not in why]
    reasons = [f"{one.kind}: {one.message}" for one in [*mine, *others]]
    return Missing(sync, destination, day, word, joined("; ", [why, *reasons]), step, since, night.due)


def _is_about_a_date(alarm: Any) -> bool:
    return re.search(r" \d{4}-\d\d-\d\d$", alarm.subject) is not None


def _of_state(sync: str, state: CutState | None, where: tzinfo) -> tuple[str, str, str, datetime | None]:
    """Word, reason, next step, and since when it waits."""
    if state is None:
        step = phrase("run %(dag)s for it, or backfill it", dag=f"{sync}__nightly")
        return Headline.NOT_RUN.value, phrase("no run of this date has begun"), step, None
    if state.input is not None and (state.failure is None or state.failure.task == "ready"):
        return _waits_for_input(state, where)
    if state.is_waiting and state.decision is not None:
        step = phrase("answer the question in Airflow: the page of the date leads to it")
        since = datetime.fromisoformat(state.decision.since) if state.decision.since else None
        return Headline.WAITING.value, state.decision.in_words(where), step, since
    if state.is_running:
        return Headline.RUNNING.value, phrase("its run is under way"), phrase("wait, or look at its log"), None
    return _ended(state, where)


def _inconclusive(state: CutState, where: tzinfo) -> tuple[str, str, str, datetime | None]:
    """Nobody knows whether this cut is right. What a person has to do first is in the evidence."""
    tables = state.found.tables if state.found else ()
    reasons: list[str] = [
        phrase("%(reason)s (tables: %(tables)s)", reason=reason, tables=", ".join(names))
        for reason, names in reasons_of(tables).items()
    ]
    evidence = state.found.evidence if state.found else {}
    first = str(evidence.get(NEEDS_A_PERSON) or "")
    step = (
        phrase("%(cure)s; then run the date again", cure=first)
        if first
        else phrase("run the date again: INCONCLUSIVE may be tried again")
    )
    return Headline.INCONCLUSIVE.value, joined("; ", [*reasons, state.publication.in_words(where)]), step, None


def _waits_for_input(state: CutState, where: tzinfo) -> tuple[str, str, str, datetime | None]:
    assert state.input is not None
    if state.failure is not None:
        step = phrase("ask whoever closes the source's day, then clear the task `ready` of its run")
        return Awaits.LATE_INPUT.value, state.failure.error, step, state.input.since
    until = moment_in_words(state.input.until, where) if state.input.until else "-"
    why = phrase("waits for %(what)s, until %(until)s", what=state.input.for_what, until=until)
    return Awaits.WAITS_FOR_INPUT.value, why, phrase("ask whoever closes the source's day"), state.input.since


def _ended(state: CutState, where: tzinfo) -> tuple[str, str, str, datetime | None]:
    if state.compared is Verdict.INCONCLUSIVE and (state.failure is None or state.failure.task in _BEHIND_A_COMPARISON):
        return _inconclusive(state, where)
    if state.failure is not None:
        step = state.failure.cure or phrase("see the task's log, then clear it with those after it")
        return Headline.FAILED.value, state.failure.lines(where)[0], step, state.failure.at
    word, why = state.shown.value, state.publication.in_words(where)
    if state.is_compare_only:
        return word, why, phrase("run the date again, with the mode `publish`"), None
    return word, why, phrase("see the report of the date, mend the cause, run the date again"), None
