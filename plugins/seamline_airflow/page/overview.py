"""What a person sees first in the morning: the verdicts of all syncs by business date, what waits for them, what is
late. Values only, no HTML."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from seamline.domain.cut_state import CutState, Headline, has_verdict, of_live, worst_headline
from seamline.domain.escalation import owners_in_words
from seamline.domain.late_input import SOURCE_BACK_AFTER, Acknowledged, length_in_words
from seamline.domain.phrase import phrase
from seamline.domain.runs import Reconciliation, RunKind
from seamline.domain.sign_off import SignOff, SignState
from seamline.domain.verdict import Verdict
from seamline.plan.model import NightlyPlan
from seamline.plan.night import night_of
from seamline.platform.notices import Unsent
from seamline.platform.reconciliations import Detail
from seamline.sync import headline
from seamline.sync.capture_watch import CAPTURE_FAILED, CAPTURE_STOPPED, CAPTURE_UNREACHABLE
from seamline.sync.missing import Missing
from seamline.sync.source_watch import SOURCE_UNREACHABLE
from seamline_airflow import late_verdicts, parts
from seamline_airflow.page import reading, reports, waiting
from seamline_airflow.page.alarm_words import alarm_in_words
from seamline_airflow.page.reports import SyncReport
from seamline_airflow.stream_health import Look, look, look_at_readable

AnswerT = TypeVar("AnswerT")
log = logging.getLogger(__name__)
# In place of a verdict: it is none, and never looks like one.
UNREADABLE = phrase("UNREADABLE")
# As many as the word for a sync looks at, so that every date that counts in it is on the first page.
DATES = headline.DATES
# While such an alarm is open, a source cannot be read, or its changes do not come.
_SOURCE_AWAY = (SOURCE_UNREACHABLE, CAPTURE_FAILED, CAPTURE_STOPPED, CAPTURE_UNREACHABLE)


@dataclass(frozen=True, slots=True)
class Cell:
    """One business date of a sync: its newest take, in each destination. At least one."""

    states: tuple[CutState, ...]
    sign_offs: tuple[SignOff, ...] = ()

    @property
    def signed(self) -> str:
        """What is marked of its signatures; "" where nobody has signed anything yet."""
        in_force = [one for one in self.sign_offs if one.version == one.in_force]
        states = {one.state for one in in_force}
        if states & {SignState.REOPENED, SignState.VOID}:
            return phrase("signature void") if SignState.VOID in states else phrase("re-opened")
        if any(one.is_overtaken for one in in_force):
            return phrase("signed, late rows")
        if any(one.waits and one.earlier for one in in_force):
            return phrase("restated")
        return phrase("signed") if states == {SignState.SIGNED} else ""

    @property
    def word(self) -> Headline:
        """The worst over the destinations."""
        return worst_headline(one.shown for one in self.states)

    @property
    def is_waiting(self) -> bool:
        return any(one.is_waiting for one in self.states)

    @property
    def is_partial(self) -> bool:
        return any(one.partial for one in self.states)

    @property
    def breaks(self) -> int:
        return sum(table.breaks_total for one in self.states if one.found for table in one.found.tables)

    @property
    def about(self) -> CutState:
        """The one that the word is from."""
        return next(one for one in self.states if one.shown is self.word)


@dataclass(frozen=True, slots=True)
class Row:
    """One sync. `cells`: one for each date of the overview; None where there is no cut of it."""

    report: SyncReport
    cells: tuple[Cell | None, ...]

    @property
    def live(self) -> Reconciliation | None:
        """The worst of the newest comparisons of the live tables; None where they were not compared."""
        found = self.report.newest_live()
        worst = worst_headline(map(of_live, found)) if found else None
        return next((one for one in found if of_live(one) is worst), None)


@dataclass(frozen=True, slots=True)
class Awaited:
    """A verdict that is to be there by an hour and is not. `due`: with the sync's zone; `is_declared`: by the sync's
    `verdict_by`; `why`: what is known of the reasons; `acknowledged`: by whom, where it is late; `owners`: whose
    matter it is by then, in words."""

    sync: str
    business_date: date
    due: datetime
    is_late: bool
    is_declared: bool = True
    why: tuple[str, ...] = ()
    acknowledged: Acknowledged | None = None
    owners: str = ""

    def in_words(self, now: datetime) -> str:
        """How late, or how long it still may take, to the minute."""
        return length_in_words(self.due, now)


@dataclass(frozen=True, slots=True)
class Away:
    """A source of the sync that cannot be read, or whose changes do not come. `why`: as its alarm says. `due`: when it
    is to be back, by who has acknowledged it where somebody has."""

    sync: str
    source: str
    since: datetime
    due: datetime
    why: str
    acknowledged: Acknowledged | None = None

    def is_late(self, now: datetime) -> bool:
        return now >= self.due

    def in_words(self, now: datetime) -> str:
        return length_in_words(self.due, now)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A sync of which something that is stored cannot be read, so nothing is known of it. `why`: what, as an error says
    it."""

    sync: str
    why: str

    @property
    def word(self) -> str:
        return UNREADABLE


@dataclass(frozen=True, slots=True)
class Overview:
    """`dates`: the newest first. `questions`: cuts that wait for a person, the longest first. `mine`: open breaks that
    wait for who looks, the late ones first; `assigned`: how many are assigned in all. `unsent`: mails
    that could not be sent. `missing`: business dates without a published cut, the newest first. `unreadable`: syncs
    of which nothing else stands here."""

    dates: tuple[date, ...]
    rows: tuple[Row, ...]
    questions: tuple[CutState, ...]
    awaited: tuple[Awaited, ...]
    away: tuple[Away, ...]
    unsigned: Mapping[str, tuple[SignOff, ...]]
    now: datetime
    mine: tuple[waiting.Waits, ...] = ()
    are_more: bool = False
    assigned: int = 0
    unsent: tuple[Unsent, ...] = ()
    missing: tuple[Missing, ...] = ()
    unreadable: tuple[Unreadable, ...] = ()

    @property
    def undecided(self) -> tuple[Missing, ...]:
        """Dates of which nobody knows whether they are right, each with why and what to do: INCONCLUSIVE, and nobody is
        asked about it."""
        return tuple(one for one in self.missing if one.word == Headline.INCONCLUSIVE)

    @property
    def with_acts(self) -> set[str]:
        """The syncs of which something waits for an act of the page."""
        return {*self.unsigned, *(one.sync for one in self.awaited if one.is_late), *(one.sync for one in self.away)}

    @property
    def zones(self) -> dict[str, Any]:
        unknown = {one.sync: ZoneInfo("UTC") for one in self.unreadable}
        return unknown | {row.report.sync: row.report.zone for row in self.rows}


def read(
    syncs: Sequence[str], *, before: date | None, now: datetime, who: str = "", looked: Look | None = None
) -> Overview:
    """Of these syncs. `before`: the dates before it; what stands beside them is as of now. `who`: whose breaks.
    `looked`: at all streams, where somebody has just done so."""
    seen = looked or look_at_readable()
    known = _Readable(syncs, seen)
    with reading.platform() as store, parts.signatures() as signatures:
        read = known.each(lambda sync: _of_sync(store, sync, seen, before, now))
        cuts = {sync: one.cuts for sync, one in read.items()}
        dates = _dates(cuts.values(), [] if before else [one.expected[0] for one in read.values() if one.expected])
        signs = known.together(lambda names: signatures.kept(names, since=min(dates, default=date.max)))
    missing = () if before else known.together(lambda names: _missing([read[sync].report for sync in names], now))
    judged = known.together(lambda names: [waiting.of(who, names, now)]) if who else ()
    readable = {sync: read[sync] for sync in known.syncs}
    found = [one.report for one in readable.values()]
    return Overview(
        dates=dates,
        rows=tuple(Row(one.report, _cells(one.cuts, dates, signs)) for one in readable.values()),
        questions=_questions(found),
        awaited=_with_acknowledgements(
            [
                awaited
                for one in readable.values()
                if one.expected and (awaited := _awaited(one.report, *one.expected, now)) is not None
            ]
        ),
        away=_with_deadlines(_away(syncs, seen)),
        unsigned=_unsigned(signs),
        now=now,
        mine=tuple(one for found in judged for one in found.waits),
        are_more=any(one.are_more for one in judged),
        assigned=waiting.assigned(who, syncs) if who else 0,
        unsent=_unsent(syncs) if who else (),
        missing=missing,
        unreadable=known.left_out,
    )


@dataclass(frozen=True, slots=True)
class _Read:
    """What is read of one sync by itself. `cuts`: those that the page shows."""

    report: SyncReport
    cuts: Sequence[CutState]
    expected: tuple[date, NightlyPlan] | None


def _of_sync(store: Any, sync: str, seen: Look, before: date | None, now: datetime) -> _Read:
    report = reports.report_of(store, sync, seen, dates=headline.DATES, detail=Detail.VERDICTS)
    older = store.cut_states(sync, DATES, before=before, detail=Detail.VERDICTS) if before else report.cuts
    return _Read(report, older, _expected(store, sync, now))


class _Readable:
    """The syncs of which everything could be read so far; the others are left out, each with the reason."""

    def __init__(self, syncs: Sequence[str], seen: Look) -> None:
        self._why = {
            stream.sync: phrase("the report of %(stream)s cannot be read: %(why)s", stream=stream, why=why)
            for stream, why in seen.unreadable.items()
        }
        self._asked = tuple(syncs)

    @property
    def syncs(self) -> list[str]:
        return [sync for sync in self._asked if sync not in self._why]

    @property
    def left_out(self) -> tuple[Unreadable, ...]:
        return tuple(Unreadable(sync, self._why[sync]) for sync in self._asked if sync in self._why)

    def each(self, ask: Callable[[str], AnswerT]) -> dict[str, AnswerT]:
        """By sync. One about which there is no answer is left out from here on."""
        found = {}
        for sync in self.syncs:
            try:
                found[sync] = ask(sync)
            except reading.UNREADABLE as exc:
                self._why[sync] = reading.why_unreadable(exc)
                log.warning("what is stored of sync %s cannot be read: %s", sync, self._why[sync])
        return found

    def together(self, ask: Callable[[Sequence[str]], Iterable[AnswerT]]) -> tuple[AnswerT, ...]:
        """Of all with one question; where that has no answer, of one after the other."""
        try:
            return tuple(ask(self.syncs))
        except reading.UNREADABLE:
            return tuple(one for found in self.each(lambda sync: tuple(ask([sync]))).values() for one in found)


def _missing(found: Iterable[SyncReport], now: datetime) -> tuple[Missing, ...]:
    mine = (one for report in found for one in reports.missing(report, now))
    return tuple(sorted(mine, key=lambda one: (-one.business_date.toordinal(), one.sync, one.destination)))


def _unsent(syncs: Sequence[str]) -> tuple[Unsent, ...]:
    with parts.notices() as notices:
        return tuple(notices.unsent(syncs))


def _dates(cuts: Iterable[Sequence[CutState]], expected: Iterable[date]) -> tuple[date, ...]:
    known = {state.business_date for of_sync in cuts for state in of_sync} | set(expected)
    return tuple(sorted(known, reverse=True)[:DATES])


def _unsigned(signs: Iterable[SignOff]) -> dict[str, tuple[SignOff, ...]]:
    """By sync what waits for a signature, and what came late for one, the oldest date first."""
    found: dict[str, tuple[SignOff, ...]] = {}
    for one in sorted(
        (one for one in signs if one.waits or one.is_overtaken), key=lambda one: (one.business_date, one.destination)
    ):
        found[one.sync] = (*found.get(one.sync, ()), one)
    return found


def _cells(states: Sequence[CutState], dates: Sequence[date], signs: Sequence[SignOff]) -> tuple[Cell | None, ...]:
    of_dates: dict[date, list[CutState]] = {}
    for one in states:
        of_dates.setdefault(one.business_date, []).append(one)
    signs_of: dict[tuple[str, date], tuple[SignOff, ...]] = {}
    for sign in signs:
        signs_of[sign.sync, sign.business_date] = (*signs_of.get((sign.sync, sign.business_date), ()), sign)
    return tuple(
        Cell(tuple(mine), signs_of.get((mine[0].sync, day), ())) if (mine := of_dates.get(day)) else None
        for day in dates
    )


def _questions(found: Iterable[SyncReport]) -> tuple[CutState, ...]:
    waiting = [state for one in found for state in one.cuts if state.is_waiting]
    return tuple(sorted(waiting, key=lambda state: state.decision.since if state.decision else ""))


def _expected(store: Any, sync: str, now: datetime) -> tuple[date, NightlyPlan] | None:
    """The newest business date that a night was to cut by now, and how nights are declared; None where none was."""
    newest, onboarded = store.latest_run(sync, *RunKind), store.published_into(sync)
    nightly = newest.plan.nightly if newest else None
    if nightly is None or not onboarded:
        return None
    day = nightly.last_ended(now)
    began = _first_start(onboarded)
    if day is None or began is None:
        return None
    return (day, nightly) if began < nightly.day_of(day).end else None


def _first_start(onboarded: Mapping[str, Any]) -> datetime | None:
    return min((run.started_at for run in onboarded.values() if run.started_at), default=None)


def _awaited(report: SyncReport, day: date, nightly: NightlyPlan, now: datetime) -> Awaited | None:
    if has_verdict([one for one in report.cuts if one.business_date == day]):
        return None
    due = night_of(nightly, day).due
    is_late = now.astimezone(UTC) >= due.astimezone(UTC)
    why = _why_none(report, day) if is_late else ()
    owners = owners_in_words(late_verdicts.steps_of(report.sync), due, now, report.zone)
    return Awaited(report.sync, day, due, is_late=is_late, is_declared=bool(nightly.verdict_by), why=why, owners=owners)


def away(syncs: Sequence[str]) -> tuple[Away, ...]:
    """As the open alarms say now."""
    return _away(syncs, look())


def _away(syncs: Sequence[str], seen: Look) -> tuple[Away, ...]:
    """Sources of these syncs of which an alarm says so, the one that is away for the longest first."""
    alarms = [one for one in seen.alarms if one.kind in _SOURCE_AWAY]
    names = {sync: headline.concerns(sync, seen.wanted) for sync in syncs} if alarms else {}
    found = [
        Away(sync, one.about, one.raised_at, one.raised_at + SOURCE_BACK_AFTER, alarm_in_words(one))
        for sync, about in names.items()
        for one in alarms
        if one.about in about
    ]
    return tuple(sorted(found, key=lambda one: one.since))


def _with_deadlines(away: Sequence[Away]) -> tuple[Away, ...]:
    """Those that a person has acknowledged are due when that person has said."""
    if not away:
        return ()
    with parts.late_inputs() as store:
        known = store.acknowledged_sources([one.sync for one in away])
    found = ((one, known.get((one.sync, one.source, one.since))) for one in away)
    return tuple(replace(one, due=said.until or one.due, acknowledged=said) if said else one for one, said in found)


def _why_none(report: SyncReport, day: date) -> tuple[str, ...]:
    """What is known of the reasons: how far its run is, what has ended it, and open alarms, as of a source away."""
    takes = [one for one in report.cuts if one.business_date == day]
    failed = [line for one in takes if one.failure for line in one.failure.lines(report.zone)]
    if not takes:
        failed = [phrase("no run of this date has begun")]
    elif any(one.is_running for one in takes):
        failed = [phrase("its run is under way")]
    failed += [
        phrase("%(destination)s is INCONCLUSIVE", destination=one.destination)
        for one in takes
        if one.compared is Verdict.INCONCLUSIVE
    ]
    return tuple(dict.fromkeys([*failed, *report.alarms]))


def _with_acknowledgements(awaited: Sequence[Awaited]) -> tuple[Awaited, ...]:
    late = [one for one in awaited if one.is_late]
    if not late:
        return tuple(awaited)
    with parts.late_inputs() as store:
        known = store.acknowledged([one.sync for one in late], [one.business_date for one in late])
    return tuple(
        replace(one, acknowledged=known.get((one.sync, one.business_date))) if one.is_late else one for one in awaited
    )
