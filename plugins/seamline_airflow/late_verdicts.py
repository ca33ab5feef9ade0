"""Verdicts that are not there by their hour: whose matter each is by now, and that it has come."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

from seamline import settings
from seamline.domain import notice
from seamline.domain.escalation import Step, reached
from seamline.domain.notice import Happened
from seamline.domain.runs import RunKind
from seamline.plan.night import night_of
from seamline.spec.notify import shown_steps
from seamline.sync.night_watch import VERDICT_LATE
from seamline_airflow import deadline


@dataclass(frozen=True, slots=True)
class Late:
    """A date whose verdict is late, by its open alarm. `due`: with the sync's zone."""

    sync: str
    business_date: date
    due: datetime


def steps_of(sync: str) -> tuple[Step, ...]:
    """As they are declared now."""
    return shown_steps(settings.load().declarations, sync)


def escalated(store: Any, syncs: Sequence[str], now: datetime, alarms: Sequence[Any]) -> Iterator[tuple[Happened, str]]:
    """Each step that is reached, for each of its recipients; the same again for as long as the verdict is not there.
    `alarms`: the open ones."""
    for late in _late(store, syncs, alarms):
        for step in reached(steps_of(late.sync), late.due, now):
            happened = (
                notice.verdict_still_late(late.sync, late.business_date, step.minutes)
                if step.minutes
                else notice.verdict_late(late.sync, late.business_date)
            )
            yield from ((happened, recipient) for recipient in step.to)


def came(store: Any, sent: Mapping[tuple[str, date], frozenset[str]]) -> Iterator[tuple[Happened, str]]:
    """For everybody who was sent that a verdict is late, once it is there. `sent`: by sync and date who was."""
    for (sync, day), recipients in sent.items():
        if not (takes := deadline.verdict_of(store, sync, day)) or (due := _due(store, sync, day)) is None:
            continue
        ended = [one.found.ended_at for one in takes if one.found]
        happened = notice.verdict_came(sync, day, due, max(ended, default=datetime.now(UTC)))
        yield from ((happened, recipient) for recipient in sorted(recipients))


def _late(store: Any, syncs: Sequence[str], alarms: Sequence[Any]) -> Iterator[Late]:
    for alarm in alarms:
        day = deadline.date_of(alarm.subject.partition(" ")[2])
        if alarm.kind != VERDICT_LATE or alarm.about not in syncs or day is None:
            continue
        if (due := _due(store, alarm.about, day)) is not None:
            yield Late(alarm.about, day, due)


def _due(store: Any, sync: str, day: date) -> datetime | None:
    """By the newest run of the sync; None where that has no nights."""
    newest = store.latest_run(sync, *RunKind)
    return night_of(newest.plan.nightly, day).due if newest and newest.plan.nightly else None
