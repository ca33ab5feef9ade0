"""The look at what of nights a person must know before a verdict is late."""

from datetime import UTC, datetime
from typing import Any

from airflow.sdk import BaseOperator

from seamline import settings
from seamline.plan.compile import compile_plan
from seamline.plan.model import NightlyPlan
from seamline.spec.faults import DeclarationsInvalid
from seamline.spec.load import load_each
from seamline.sync.night_watch import NIGHT_ALARMS, VERDICT_LATE, NightTrouble, troubles_of
from seamline_airflow import deadline, parts
from seamline_airflow.errors import task_errors


class NightsCheckOperator(BaseOperator):
    """Look whether a stage of a night or its verdict is late, and whether a calendar ends soon. What is found is an
    open alarm, ended by the look that does not find it any more; that of a verdict by the verdict. Of a sync whose
    declarations are wrong nothing is known: its alarms stay."""

    def execute(self, context: Any) -> list[str]:
        del context
        with task_errors(), parts.platform() as store:
            nights, unknown = declared_nights()
            found = [one for sync, nightly in nights.items() for one in _troubles(store, sync, nightly)]
            for one in found:
                self.log.warning("%s: %s", one.subject, one.message)
                store.raise_alarm(one.kind, one.subject, one.message)
            holds = {(one.kind, one.subject) for one in found}
            for alarm in store.open_alarms():
                if (
                    alarm.kind in NIGHT_ALARMS
                    and alarm.about not in unknown
                    and (alarm.kind, alarm.subject) not in holds
                ):
                    store.end_alarm(alarm.kind, alarm.subject)
                if alarm.kind == VERDICT_LATE and _has_come(store, alarm):
                    store.end_alarm(alarm.kind, alarm.subject)
        return [one.subject for one in found]


def declared_nights() -> tuple[dict[str, NightlyPlan], set[str]]:
    """Of each sync how its nights are declared, and the syncs whose declarations are wrong."""
    nights, unknown = dict[str, NightlyPlan](), set[str]()
    for file, outcome in load_each(settings.load().declarations).items():
        if isinstance(outcome, DeclarationsInvalid):
            unknown.add(file.stem)
        elif (nightly := compile_plan(outcome, file.stem).nightly) is not None:
            nights[file.stem] = nightly
    return nights, unknown


def _troubles(store: Any, sync: str, nightly: NightlyPlan) -> list[NightTrouble]:
    onboarded = store.published_into(sync).values()
    since = min((run.started_at for run in onboarded if run.started_at), default=None)
    return troubles_of(
        sync,
        nightly,
        lambda day: store.newest_night(sync, day),
        lambda day: bool(deadline.verdict_of(store, sync, day)),
        datetime.now(UTC),
        since=since,
    )


def _has_come(store: Any, alarm: Any) -> bool:
    """Of whatever date the verdict was late. A run without a date stays as it is."""
    day = deadline.date_of(alarm.subject.partition(" ")[2])
    return day is not None and bool(deadline.verdict_of(store, alarm.about, day))
