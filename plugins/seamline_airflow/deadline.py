"""The hour by which a night's verdict must be there. Airflow calls this in the triggerer when a run missed it."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import AsyncCallback, DeadlineAlert
from airflow.sdk.definitions.deadline import BaseDeadlineReference

from seamline.plan.model import SyncPlan
from seamline_airflow import parts
from seamline_airflow.run_context import BUSINESS_DATE

ALARM = "verdict_late"
_DAY_MINUTES = 24 * 60


class RunCreated(BaseDeadlineReference):
    """The moment at which a run is made. The plugin registers this class with Airflow.

    Airflow's own DAGRUN_QUEUED_AT would be as good, but no task of a run that has it can be cleared: 3.3.2 takes the
    interval, as it is stored, for seconds (`_recalculate_dagrun_queued_at_deadlines`), and the API answers 500.
    """

    def _evaluate_with(self, *, session: Any, **_: Any) -> datetime:
        del session
        return datetime.now(UTC)


def verdict_deadline(plan: SyncPlan) -> DeadlineAlert | None:
    """As long after the start of a run as `verdict_by` lies after `run_at`; None where no hour is declared.

    Partitioned runs have no logical date to count from, and a backfill gets the same time as the night.
    """
    if plan.nightly is None or not plan.nightly.verdict_by:
        return None
    hours, minutes = plan.nightly.verdict_by.split(":")
    allowed = (int(hours) * 60 + int(minutes) - plan.nightly.run_at_delay_minutes) % _DAY_MINUTES
    callback = AsyncCallback(f"{__name__}.verdict_is_late", kwargs={"sync": plan.sync})
    return DeadlineAlert(
        name="verdict",
        reference=RunCreated(),
        interval=timedelta(minutes=allowed),
        callback=callback,
    )


def subject(sync: str, business_date: Any) -> str:
    return f"{sync} {business_date}"


async def verdict_is_late(sync: str, context: Any = None) -> None:
    """Open an alarm; the verdict, when it comes, ends it."""
    run = dict(context or {}).get("dag_run") or {}
    chosen = (run.get("conf") or {}).get(BUSINESS_DATE)
    date = run.get("partition_key") or chosen or run.get("dag_run_id") or "unknown date"
    await asyncio.to_thread(_raise_alarm, sync, date)


def _raise_alarm(sync: str, date: str) -> None:
    with parts.platform() as store:
        store.raise_alarm(ALARM, subject(sync, date), f"the cut of {date} has no verdict yet, and its hour has passed")
