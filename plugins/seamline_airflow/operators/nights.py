"""The look at what of nights a person must know before a verdict is late."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import BaseOperator

from seamline import settings
from seamline.domain.business_dates import Is
from seamline.domain.calendar import zone
from seamline.plan.compile import compile_plan
from seamline.plan.deadlines import ONBOARDINGS
from seamline.plan.model import NightlyPlan
from seamline.spec.faults import DeclarationsInvalid
from seamline.spec.load import load_each
from seamline.sync.night_watch import NIGHT_ALARMS, VERDICT_LATE, NightTrouble, late_onboarding, troubles_of
from seamline_airflow import deadline, parts
from seamline_airflow.errors import task_errors


class NightsCheckOperator(BaseOperator):
    """Look whether a stage of a night, its verdict or a stage of an onboarding is late, and whether a calendar ends
    soon. What is found is an open alarm, ended by the look that does not find it any more; that of a verdict by the
    verdict, or once nobody expects one: the sync has no nights any more, or the date is no business date. Of a sync
    whose declarations are wrong nothing is known: its alarms stay."""

    def execute(self, context: Any) -> list[str]:
        del context
        with task_errors(), parts.platform() as store:
            syncs, unknown = declared_syncs()
            found = [trouble for one in syncs for trouble in _troubles(store, one)]
            for one in found:
                self.log.warning("%s: %s", one.subject, one.message)
                store.raise_alarm(one.kind, one.subject, one.message)
            nights = {one.name: one.nightly for one in syncs}
            holds = {(one.kind, one.subject) for one in found}
            for alarm in store.open_alarms():
                if (
                    alarm.kind in NIGHT_ALARMS
                    and alarm.about not in unknown
                    and (alarm.kind, alarm.subject) not in holds
                ):
                    store.end_alarm(alarm.kind, alarm.subject)
                if alarm.kind == VERDICT_LATE and (
                    _has_come(store, alarm) or (alarm.about not in unknown and _is_void(alarm, nights))
                ):
                    store.end_alarm(alarm.kind, alarm.subject)
        return [one.subject for one in found]


@dataclass(frozen=True, slots=True)
class DeclaredSync:
    """What of a sync is watched. `onboard_within`: how long stages of its onboarding may take, where that is
    declared."""

    name: str
    nightly: NightlyPlan | None
    onboard_within: Mapping[str, timedelta]


def declared_syncs() -> tuple[list[DeclaredSync], set[str]]:
    """Each sync as it is declared, and those whose declarations are wrong."""
    syncs, unknown = list[DeclaredSync](), set[str]()
    for file, outcome in load_each(settings.load().declarations).items():
        if isinstance(outcome, DeclarationsInvalid):
            unknown.add(file.stem)
        else:
            within = outcome.sync(file.stem).onboard.stages_within.limits()
            syncs.append(DeclaredSync(file.stem, compile_plan(outcome, file.stem).nightly, within))
    return syncs, unknown


def _troubles(store: Any, one: DeclaredSync) -> list[NightTrouble]:
    now, onboarding = datetime.now(UTC), store.latest_run(one.name, *ONBOARDINGS)
    where = zone(one.nightly.timezone) if one.nightly else UTC
    late = list(late_onboarding(one.name, onboarding, one.onboard_within, now, where))
    return late if one.nightly is None else [*late, *_of_nights(store, one.name, one.nightly, now)]


def _of_nights(store: Any, sync: str, nightly: NightlyPlan, now: datetime) -> list[NightTrouble]:
    onboarded = store.published_into(sync).values()
    since = min((run.started_at for run in onboarded if run.started_at), default=None)
    return troubles_of(
        sync,
        nightly,
        lambda day: store.newest_night(sync, day),
        lambda day: bool(deadline.verdict_of(store, sync, day)),
        now,
        since=since,
    )


def _is_void(alarm: Any, nights: Mapping[str, NightlyPlan | None]) -> bool:
    """Whether nobody expects a verdict of this date, as the syncs are declared now. `nights`: None of one that has
    none."""
    nightly, day = nights.get(alarm.about), deadline.date_of(alarm.subject.partition(" ")[2])
    return nightly is None or (day is not None and nightly.dates.look(day).is_ is Is.CLOSED)


def _has_come(store: Any, alarm: Any) -> bool:
    """Of whatever date the verdict was late. A run without a date stays as it is."""
    day = deadline.date_of(alarm.subject.partition(" ")[2])
    return day is not None and bool(deadline.verdict_of(store, alarm.about, day))
