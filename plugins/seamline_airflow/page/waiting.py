"""Which open breaks wait for a person: those assigned, and those that are late and escalated. Values only, no HTML."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from seamline.domain.break_work import WorkRules
from seamline.domain.masking import masked
from seamline.domain.person import is_same_person
from seamline.domain.runs import RunKind
from seamline.domain.severity import Due, differs, judge
from seamline.platform.ageing import money_of
from seamline.platform.breaks import Money
from seamline.platform.work import WAITING_MAX, Waiting
from seamline_airflow import parts
from seamline_airflow.page import reading, reports


@dataclass(frozen=True, slots=True)
class Waits:
    """`due` None: it is in no class of severity."""

    waiting: Waiting
    due: Due | None
    is_escalated: bool


@dataclass(frozen=True, slots=True)
class Judged:
    """`are_more`: whether more breaks are open than were judged, so that one behind them may be late, too."""

    waits: tuple[Waits, ...] = ()
    are_more: bool = False


def of(who: str, syncs: Sequence[str], now: datetime, *, most: int = WAITING_MAX) -> Judged:
    """What is late first, then by when it is due; what has no clock last, the oldest first. Of many the `most` oldest
    ones are judged, of those that are assigned and of those that may be escalated each."""
    rules = {sync: reports.shown_rules(sync) for sync in syncs}
    escalating = [sync for sync, of in rules.items() if any(_is(who, one.escalate_to) for one in of.severity)]
    with parts.work() as store:
        # One more than are judged says whether there are others.
        mine = store.waiting(syncs, owner=who, most=most + 1)
        others = store.waiting(escalating, most=most + 1) if escalating else ()
    are_more, mine, others = max(len(mine), len(others)) > most, mine[:most], others[:most]
    if not mine and not others:
        return Judged()
    money = _money({one.sync for one in (*mine, *others)})
    found = [Waits(one, _due(one, rules, money, now), is_escalated=False) for one in mine]
    for one in others:
        due = _due(one, rules, money, now)
        if not _is(who, one.work.owner) and due and due.is_late(now) and _is(who, due.severity.escalate_to):
            found.append(Waits(one, due, is_escalated=True))
    found.sort(key=lambda one: (one.due is None, one.due.at if one.due else one.waiting.work.first_at))
    return Judged(tuple(masked(one, reading.hidden, one.waiting.sync) for one in found), are_more)


def _is(who: str, other: str) -> bool:
    return bool(other) and is_same_person(who, other)


def assigned(who: str, syncs: Sequence[str]) -> int:
    """How many open breaks are assigned to a person in all."""
    with parts.work() as store:
        return sum(one.breaks for one in store.mine(who, syncs))


def _due(
    one: Waiting, rules: Mapping[str, WorkRules], money: Mapping[str, Sequence[Money]], now: datetime
) -> Due | None:
    columns = [(sum_.column, sum_.by) for sum_ in money[one.sync] if sum_.table == one.found.table]
    return judge(rules[one.sync].severity, differs(one.found, columns), one.work.first_at, now)


def _money(syncs: set[str]) -> dict[str, list[Money]]:
    with reading.platform() as store:
        runs: dict[str, Any] = {sync: store.latest_run(sync, *RunKind) for sync in syncs}
    return {sync: money_of(run.plan) if run else [] for sync, run in runs.items()}
