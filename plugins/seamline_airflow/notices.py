"""Mails about what has happened: found by looking, written down, then sent, each step by itself.

Nothing waits for it. A comparison never sends a mail: the next look finds what it has stored. What cannot be sent stays
written down, is tried again, and is shown on the page.
"""

import logging
import smtplib
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowException

from seamline import settings
from seamline.domain import notice
from seamline.domain.cut_state import CutState, Headline
from seamline.domain.errors import ConfigError, TransientError
from seamline.domain.notice import Event, Happened, Mail, mail_of
from seamline.domain.runs import Reconciliation, Scope
from seamline.platform.notices import Notice
from seamline.platform.work import WAITING_FOR_MAILS_MAX
from seamline.spec.notify import declared_notify, declared_steps
from seamline_airflow import late_verdicts, parts
from seamline_airflow.page import overview, reports, waiting
from seamline_airflow.page.alarm_words import TITLES
from seamline_airflow.page.mount import URL_PREFIX
from seamline_airflow.page.overview import Overview
from seamline_airflow.page.reports import SyncReport
from seamline_airflow.stream_health import Look, look_at_readable

# What was found before is no news to whoever is declared today.
_NEWS_FOR = timedelta(days=2)
_AWAY = "does not answer"
_MAIL = "the mail server"
# Sends one mail to one address. OSError and AirflowException: it was not taken.
Send = Callable[[str, Mail], None]
Recipients = Mapping[str, Mapping[Event, tuple[str, ...]]]

log = logging.getLogger(__name__)


def notify(now: datetime, send: Send) -> int:
    """Write down what has happened and send what is due; how many notices were sent.

    TransientError, after all were tried: some were not sent. ConfigError: the page has no address, a declaration does
    not say who gets mails, or what is stored of a sync cannot be read; the others have theirs.
    """
    page = page_address()
    recipients, faults = _recipients()
    with parts.notices() as store, parts.platform() as platform:
        # Before the one look at the alarms: what was sent until then was open before it.
        said = store.alarms_said(list(recipients))
        looked = look_at_readable()
        seen = overview.read(list(recipients), before=None, now=now, looked=looked)
        faults += [f"{one.sync}: {one.why}" for one in seen.unreadable]
        readable = [row.report.sync for row in seen.rows]
        found = [
            (one, address) for one in happened(seen, looked) for address in recipients[one.sync].get(one.event, ())
        ]
        store.enter([*found, *late_verdicts.escalated(platform, readable, now, looked.alarms)])
        store.enter([*late_verdicts.came(platform, store.late_verdicts(readable))])
        store.enter(_alarms_over(said, looked.alarms))
        claimed = store.claim()
        failures = _send_all(store, _by_mail(claimed), page, send)
    failures += _pings(recipients, now, page, send)
    if failures:
        raise TransientError(f"{len(failures)} mails were not sent: {failures[-1]}", hint="they are tried again")
    if faults:
        raise ConfigError("; ".join(faults))
    return len(claimed)


def page_address() -> str:
    """Of the page, with a slash behind it."""
    base = conf.get("api", "base_url", fallback="").rstrip("/")
    if not base:
        raise ConfigError(
            "mails have no address to lead to", hint="set Airflow's [api] base_url to the address that people use"
        )
    return f"{base}{URL_PREFIX}/"


def happened(seen: Overview, looked: Look) -> Iterator[Happened]:
    """What these syncs have to say now, but for those that cannot be read. The same again each time, as long as it is
    so. `looked`: at all streams, at the same moment."""
    syncs = [row.report.sync for row in seen.rows]
    for row in seen.rows:
        found = [*(state.found for state in row.report.cuts if state.found), *row.report.live]
        yield from _breaks([one for one in found if one.ended_at > seen.now - _NEWS_FOR])
        yield from _proven(row.report.sync, row.report.cuts, seen.now)
        yield from _standing(row.report)
    for of_sync in seen.unsigned.values():
        for late_for in (one for one in of_sync if one.is_overtaken):
            yield notice.postings_late(late_for.sync, late_for.destination, late_for.business_date, late_for.version)
    for waits in (one for of_sync in seen.unsigned.values() for one in of_sync if one.waits):
        yield notice.waits_for_signature(
            waits.sync, waits.destination, waits.business_date, waits.version, len(waits.acts)
        )
    for asked in seen.questions:
        since = asked.decision.since if asked.decision else ""
        yield notice.waits_for_answer(asked.sync, asked.destination, asked.business_date, asked.run_id, since)
    for late in (one for one in seen.awaited if one.is_late):
        yield notice.verdict_late(late.sync, late.business_date)
    yield from _alarms(syncs, looked.alarms)
    yield from _escalated(syncs, seen.now)


def _breaks(found: Sequence[Reconciliation]) -> Iterator[Happened]:
    for one in found:
        if breaks := sum(table.breaks_total for table in one.tables):
            day = one.business_date if one.scope is Scope.CUT else None
            yield notice.breaks_found(one.sync, one.destination, day, one.run_id, breaks)


def _proven(sync: str, cuts: Sequence[CutState], now: datetime) -> Iterator[Happened]:
    """Of the newest date alone, once no destination of its run lacks it."""
    newest = max((one.business_date for one in cuts), default=None)
    of_date = [one for one in cuts if one.business_date == newest]
    ended = [one.found.ended_at for one in of_date if one.found and one.publication.version is not None]
    if newest is None or len(ended) < len(of_date) or max(ended) <= now - _NEWS_FOR:
        return
    if all(one.headline is Headline.MATCH for one in of_date):
        yield notice.proven(sync, newest, [one.run_id for one in of_date])


def _alarms(syncs: Sequence[str], alarms: Sequence[Any]) -> Iterator[Happened]:
    """Of nights: what is late in them, and calendars that end."""
    for one in (one for one in alarms if one.about in syncs):
        about = one.subject.partition(" ")[2]
        if (found := notice.night_alarm(one.about, one.kind, about, one.raised_at.isoformat())) is not None:
            yield found


def _standing(report: SyncReport) -> Iterator[Happened]:
    """Of streams, sources and logs."""
    for one in report.standing:
        title = TITLES.get(one.kind, one.kind)
        since = one.raised_at.isoformat()
        if (found := notice.alarm_opened(report.sync, one.kind, one.subject, title, since)) is not None:
            yield found


def _alarms_over(said: Sequence[tuple[Happened, str]], alarms: Sequence[Any]) -> list[tuple[Happened, str]]:
    """For everybody who was sent that an alarm has opened, once it is none of the open `alarms`."""
    still = {notice.alarm_known_by(one.kind, one.subject, one.raised_at.isoformat()) for one in alarms}
    return [(notice.alarm_ended(one), recipient) for one, recipient in said if one.about not in still]


def _pings(recipients: Recipients, now: datetime, page: str, send: Send) -> list[str]:
    """To everybody who expects one; why those that were not taken were not. None is written down: the next look has the
    next one, and that one does not come is what it is for."""
    failures = []
    for sync, named in recipients.items():
        for address in named.get(Event.ALIVE, ()):
            mail = mail_of([notice.alive(sync, now)], recipient=address, page=page)
            if why := _refusal(send, address, mail, address):
                log.warning("no ping of %s to %s: %s", sync, address, why)
                failures.append(why)
    return failures


def _escalated(syncs: Sequence[str], now: datetime) -> Iterator[Happened]:
    people = {one.escalate_to for sync in syncs for one in reports.shown_rules(sync).severity if one.escalate_to}
    for who in sorted(people):
        found = waiting.of(who, syncs, now, most=WAITING_FOR_MAILS_MAX)
        if found.are_more:
            log.warning(
                "of the open breaks that may be %s's matter the %d oldest are judged", who, WAITING_FOR_MAILS_MAX
            )
        for one in found.waits:
            if one.is_escalated and one.due:
                sync, name = one.waiting.sync, one.due.severity.name
                yield notice.break_escalated(sync, one.waiting.work.break_id, name, one.due.at.isoformat())


def _recipients() -> tuple[Recipients, list[str]]:
    """Of each sync with any, and the faults of declarations that cannot say it."""
    found: dict[str, Mapping[Event, tuple[str, ...]]] = {}
    faults = []
    for sync in reports.syncs():
        try:
            folder = settings.load().declarations
            if (named := declared_notify(folder, sync)) or declared_steps(folder, sync):
                found[sync] = named
        except ConfigError as exc:
            faults.append(str(exc))
    return found, faults


def _by_mail(claimed: Sequence[Notice]) -> list[list[Notice]]:
    """What goes into one mail: one recipient, one sync, one kind of event."""

    def place(one: Notice) -> tuple[str, str, str]:
        return one.recipient, one.happened.sync, one.happened.event.value

    return [list(mine) for _, mine in groupby(sorted(claimed, key=place), key=place)]


def _send_all(store: Any, mails: Sequence[Sequence[Notice]], page: str, send: Send) -> list[str]:
    """Why those that were not sent were not. A server that does not answer is asked once, and not for each mail."""
    failures: list[str] = []
    away: dict[str, str] = {}
    for mine in mails:
        recipient = mine[0].recipient
        mail = mail_of([one.happened for one in mine], recipient=recipient, page=page)
        channel = recipient if ":" in recipient else _MAIL
        why = away.get(channel) or _refusal(send, recipient, mail, channel)
        if not why:
            store.sent(mine)
            log.info("sent to %s: %s", recipient, mail.subject)
            continue
        if why.startswith(f"{channel} {_AWAY}"):
            away[channel] = why
        log.warning("not sent to %s: %s: %s", recipient, mail.subject, why)
        store.failed(mine, why)
        failures.append(why)
    return failures


def _refusal(send: Send, recipient: str, mail: Mail, channel: str) -> str:
    """Why a mail was not sent; "" where it was."""
    try:
        send(recipient, mail)
    except smtplib.SMTPResponseException as exc:
        return f"the mail server refuses it: {exc.smtp_code} {_text(exc.smtp_error)}"
    except smtplib.SMTPRecipientsRefused as exc:
        answers = "; ".join(f"{code} {_text(said)}" for code, said in exc.recipients.values())
        return f"the mail server refuses the address: {answers}"
    except (OSError, AirflowException) as exc:
        return f"{channel} {_AWAY}: {type(exc).__name__}: {exc}"
    return ""


def _text(said: bytes | str) -> str:
    return said.decode(errors="replace") if isinstance(said, bytes) else said
