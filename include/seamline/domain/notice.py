"""Notices by mail, or posted to a URL: which events there are, and what is said of them. That is names that are
declared, dates, counts and links; no value, key or amount of a row, and no words of a person or of a server."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import StrEnum
from html import escape
from urllib.parse import urlencode

from seamline.domain.alarms import AlarmKind
from seamline.domain.duration import duration

LINES_MAX = 20


class Event(StrEnum):
    """Of what a mail is sent, as the declaration names it."""

    BREAKS = "breaks"
    SIGNATURE = "signature"
    LATE = "late"
    LATE_POSTINGS = "late_postings"
    ESCALATED = "escalated"
    PROVEN = "proven"
    ALARMS = "alarms"
    ALIVE = "alive"


_SUBJECTS = {
    Event.BREAKS: "breaks were found",
    Event.SIGNATURE: "waits for a person",
    Event.LATE: "a verdict is late",
    Event.LATE_POSTINGS: "rows came late for a signed date",
    Event.ESCALATED: "breaks are late and escalated",
    Event.PROVEN: "all is proven",
    Event.ALARMS: "alarms have opened or ended",
    Event.ALIVE: "it is looked at",
}


@dataclass(frozen=True, slots=True)
class Happened:
    """One event. `about`: its identity in the sync, the same each time that it is looked at. `link`: of the page, below
    its own address."""

    sync: str
    event: Event
    about: str
    what: str
    link: str


@dataclass(frozen=True, slots=True)
class Mail:
    """`message_id`: the same for the same notices to the same recipient, so that a second copy can be known. `lines`:
    the same as `html`, each as its text and its link."""

    subject: str
    html: str
    message_id: str
    lines: tuple[tuple[str, str], ...] = ()


def breaks_found(sync: str, destination: str, day: date | None, run_id: str, breaks: int) -> Happened:
    """By one comparison: of the cut of a date, or of live tables where `day` is None."""
    where = f"in the cut of {day}" if day else "in the live tables"
    return Happened(
        sync,
        Event.BREAKS,
        f"{run_id} {destination} {day or 'live'}",
        f"{_counted(breaks, 'break')} {where} in {destination}",
        _page(sync, day, run_id),
    )


def waits_for_signature(sync: str, destination: str, day: date, version: int, acts: int) -> Happened:
    """`acts`: signatures and re-openings of this version so far; after another one it is another event."""
    what = f"version {version} of {day} in {destination} waits for a signature"
    return Happened(sync, Event.SIGNATURE, f"{destination} {day} {version} {acts}", what, _page(sync, day))


def waits_for_answer(sync: str, destination: str, day: date, run_id: str, since: str) -> Happened:
    """The gate asks whether the cut is published. `since`: of the question; a question that is asked again is another
    event."""
    what = f"the cut of {day} in {destination} waits for an answer"
    return Happened(sync, Event.SIGNATURE, f"{run_id} {destination} {since}", what, _page(sync, day, run_id))


def verdict_late(sync: str, day: date) -> Happened:
    return Happened(sync, Event.LATE, str(day), f"the verdict of {day} is not there by its hour", _page(sync, day))


def verdict_still_late(sync: str, day: date, minutes: int) -> Happened:
    """`minutes`: those of the declared step, which is an event of its own, and not those of now."""
    after = duration(timedelta(minutes=minutes))
    what = f"the verdict of {day} is not there {after} after its hour"
    return Happened(sync, Event.LATE, f"{day} +{minutes}min", what, _page(sync, day))


def verdict_came(sync: str, day: date, due: datetime, came: datetime) -> Happened:
    """It ends what `verdict_late` and `verdict_still_late` began. `came`: when the last destination was compared."""
    late = duration(came - due) if came > due else ""
    when = f"{late} after its hour" if late else "by its hour"
    return Happened(sync, Event.LATE, f"{day} {_CAME}", f"the verdict of {day} has come, {when}", _page(sync, day))


_CAME = "came"
_LATE_VERDICT = re.compile(rf"(\d{{4}}-\d\d-\d\d)(?: (?:\+\d+min|{_CAME}))?")


def late_verdict_of(about: str) -> tuple[date, bool] | None:
    """Of an event `LATE` by its identity: the date whose verdict it is about, and whether it says that it has come;
    None where it is about something else."""
    found = _LATE_VERDICT.fullmatch(about)
    return (date.fromisoformat(found[1]), about.endswith(_CAME)) if found else None


def proven(sync: str, day: date, run_ids: Sequence[str]) -> Happened:
    """Its cut is published and clean in all of its destinations. A date that was taken again is another event."""
    what = f"{day} is proven in every destination"
    return Happened(sync, Event.PROVEN, " ".join([str(day), *sorted(set(run_ids))]), what, _page(sync, day))


def postings_late(sync: str, destination: str, day: date, version: int) -> Happened:
    """One event of a signed version, however many rows come: the page says how many there are by now."""
    what = f"rows came late for version {version} of {day} in {destination}, which is signed"
    return Happened(sync, Event.LATE_POSTINGS, f"{destination} {day} {version}", what, _page(sync, day))


# What of nights is an alarm before a verdict is late, as a mail says it of a date or a calendar.
_OF_NIGHTS: Mapping[str, str] = {
    AlarmKind.LATE_INPUT: "the source has not closed {about}",
    AlarmKind.STAGE_LATE: "a stage of the night of {about} is late",
    AlarmKind.ONBOARD_LATE: "a stage of the run {about} is late",
    AlarmKind.CALENDAR_ENDS: "calendar {about} ends",
}


def night_alarm(sync: str, kind: str, about: str, since: str) -> Happened | None:
    """Of an open alarm about nights; None of any other. `about`: the date or the calendar; `since`: when it was raised,
    for one that comes again is another event."""
    if kind not in _OF_NIGHTS:
        return None
    what = _OF_NIGHTS[kind].format(about=about)
    return Happened(sync, Event.LATE, f"{kind} {about} {since}", what, f"page?{_query(sync)}")


# What is said of a date is an event of its own: it is late, or it waits for a person.
_OF_DATES = frozenset({*_OF_NIGHTS, AlarmKind.VERDICT_LATE, AlarmKind.CUT_NOT_CLEAN})
_ENDED = " ended"


def alarm_opened(sync: str, kind: str, subject: str, title: str, since: str) -> Happened | None:
    """Of an open alarm about a stream, a source, its capture or log, or a stream host; None of one about nights, which
    `night_alarm` and others say. `title`: of the kind; the message may be a server's words. `since`: when it was
    raised, for one that comes again is another event."""
    if kind in _OF_DATES:
        return None
    about = alarm_known_by(kind, subject, since)
    return Happened(sync, Event.ALARMS, about, f"{title}: {subject}", f"page?{_query(sync)}")


def alarm_known_by(kind: str, subject: str, since: str) -> str:
    """The identity of what `alarm_opened` says."""
    return f"{kind} {subject} {since}"


def alarm_ended(opened: Happened) -> Happened:
    """`opened`: what `alarm_opened` has said."""
    return Happened(opened.sync, opened.event, f"{opened.about}{_ENDED}", f"is over: {opened.what}", opened.link)


def is_end_of_alarm(happened: Happened) -> bool:
    """Of an event `ALARMS`, by its identity."""
    return happened.about.endswith(_ENDED)


def alive(sync: str, at: datetime) -> Happened:
    """The platform database was read and what there is to say of the sync was sent, or tried."""
    about = at.isoformat(timespec="seconds")
    return Happened(sync, Event.ALIVE, about, f"streams and nights were looked at, {about}", f"page?{_query(sync)}")


def break_escalated(sync: str, break_id: str, severity: str, due: str) -> Happened:
    """`severity`: its class; `due`: when it was due, as a text. A break that is late once more is another event."""
    what = f"a break of the class {severity} is late"
    return Happened(sync, Event.ESCALATED, f"{break_id} {severity} {due}", what, f"break?{_query(sync, id=break_id)}")


def mail_of(found: Sequence[Happened], *, recipient: str, page: str) -> Mail:
    """About events of one kind of one sync, at least one. `page`: the address of the page, with a slash behind it."""
    sync, event = found[0].sync, found[0].event
    shown = tuple((one.what, page + one.link) for one in found[:LINES_MAX])
    lines = [f'<li><a href="{escape(link)}">{escape(what)}</a></li>' for what, link in shown]
    if len(found) > LINES_MAX:
        lines.append(f"<li>and {len(found) - LINES_MAX:,} more</li>")
    here = escape(f"{page}page?{_query(sync)}")
    known = "\n".join([recipient, *(f"{one.sync} {one.event} {one.about}" for one in found)])
    return Mail(
        subject=f"[Seamline] {sync}: {_SUBJECTS[event]} ({len(found):,})",
        html=f'<p><a href="{here}">{escape(sync)}</a>: {_SUBJECTS[event]}</p>\n<ul>\n' + "\n".join(lines) + "\n</ul>\n",
        message_id=f"<{hashlib.sha256(known.encode()).hexdigest()[:40]}@seamline>",
        lines=shown,
    )


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def _page(sync: str, day: date | None, run_id: str = "") -> str:
    said = {"business_date": str(day) if day else "", "run": run_id}
    return f"page?{_query(sync, **{name: value for name, value in said.items() if value})}"


def _query(sync: str, **rest: str) -> str:
    return urlencode({"sync": sync, **rest})
