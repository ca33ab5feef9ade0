"""The hour by which a night's verdict must be there. Airflow calls this in the triggerer when a run missed it."""

import asyncio
from datetime import UTC, date, datetime, timedelta
from typing import Any

from airflow.sdk import AsyncCallback, DeadlineAlert
from airflow.sdk.definitions.deadline import BaseDeadlineReference

from seamline.domain.cut_state import CutState, has_verdict
from seamline.domain.late_input import VERDICT_AFTER
from seamline.plan.model import NightlyPlan, SyncPlan
from seamline.sync.night_watch import VERDICT_LATE, lateness_of
from seamline_airflow import parts
from seamline_airflow.run_context import BUSINESS_DATE, is_of_backfill

ALARM = VERDICT_LATE
_DAY_MINUTES = 24 * 60


class RunCreated(BaseDeadlineReference):
    """The moment at which a run is made. The plugin registers this class with Airflow.

    Airflow's own DAGRUN_QUEUED_AT would be as good, but no task of a run that has it can be cleared: 3.3.2 takes the
    interval, as it is stored, for seconds (`_recalculate_dagrun_queued_at_deadlines`), and the API answers 500.

    A run of a backfill has no such hour: it waits its turn, for days where there are many, and its date is past.
    """

    required_kwargs = {"run_id"}

    def _evaluate_with(self, *, session: Any, run_id: str, **_: Any) -> datetime | None:
        del session
        return None if is_of_backfill(run_id) else datetime.now(UTC)


def verdict_deadline(plan: SyncPlan) -> DeadlineAlert | None:
    """As long after the start of a run as `verdict_by` lies after `run_at`, or as `VERDICT_AFTER` has it where no hour
    is declared; None of a sync without nights.

    Partitioned runs have no logical date to count from.
    """
    if plan.nightly is None:
        return None
    callback = AsyncCallback(f"{__name__}.verdict_is_late", kwargs={"sync": plan.sync})
    return DeadlineAlert(
        name="verdict",
        reference=RunCreated(),
        interval=_allowed(plan.nightly),
        callback=callback,
    )


def _allowed(nightly: NightlyPlan) -> timedelta:
    if not nightly.verdict_by:
        return VERDICT_AFTER
    hours, minutes = nightly.verdict_by.split(":")
    return timedelta(minutes=(int(hours) * 60 + int(minutes) - nightly.run_at_delay_minutes) % _DAY_MINUTES)


def subject(sync: str, business_date: Any) -> str:
    return f"{sync} {business_date}"


async def verdict_is_late(sync: str, context: Any = None) -> None:
    """Open an alarm; the verdict, when it comes, ends it."""
    run = dict(context or {}).get("dag_run") or {}
    chosen = (run.get("conf") or {}).get(BUSINESS_DATE)
    named = run.get("partition_key") or chosen or run.get("dag_run_id") or "unknown date"
    await asyncio.to_thread(_raise_alarm, sync, named)


def _raise_alarm(sync: str, named: str) -> None:
    with parts.platform() as store:
        # A run that waits for a person's answer has its verdict, and goes on beyond any hour.
        if not _has_verdict(store, sync, named):
            store.raise_alarm(ALARM, subject(sync, named), lateness_of(named))


def _has_verdict(store: Any, sync: str, named: str) -> bool:
    day = date_of(named)
    return day is not None and bool(verdict_of(store, sync, day))


def date_of(named: str) -> date | None:
    """None where it is the name of a run that has no date."""
    try:
        return date.fromisoformat(named)
    except ValueError:
        return None


def verdict_of(store: Any, sync: str, day: date) -> tuple[CutState, ...]:
    """The newest take of a date that has a verdict in each destination; nothing where none has. While a date is taken
    again the verdict of before stands, published or not. A run that was only to compare gives a date no verdict."""
    # Parsing imports no client of a database.
    from seamline.platform.reconciliations import Detail

    takes = [one for one in store.takes(sync, day, detail=Detail.VERDICTS) if not one.is_compare_only]
    of_runs = (
        tuple(one for one in takes if one.run_id == run_id) for run_id in dict.fromkeys(one.run_id for one in takes)
    )
    return next(filter(has_verdict, of_runs), ())
