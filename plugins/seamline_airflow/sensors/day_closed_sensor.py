"""The wait for the source to say that its day is closed, before a night cuts it."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import Asset, BaseSensorOperator

from seamline.domain.day_closed import CLOSED
from seamline.domain.errors import Refused
from seamline.plan.model import Run
from seamline_airflow import day_closed, parts
from seamline_airflow.deadline import subject
from seamline_airflow.errors import task_errors
from seamline_airflow.triggers.day_closed import DayClosedTrigger

# Of an asset's events; a source closes one day after the other.
_EVENTS = 1_000


class DayClosedSensor(BaseSensorOperator):
    """Wait until the source has closed the business date, by all that the sync declares. Given up when the verdict is
    due: the run fails with *late input* and who is waited for. Clear it, and it waits again."""

    template_fields = ("run",)

    def __init__(self, *, run: str, assets: Sequence[str] = (), poll_s: float = 60.0, **kwargs: Any) -> None:
        super().__init__(inlets=[Asset(name) for name in assets], **kwargs)
        self.run = run
        self.poll_s = poll_s

    def execute(self, context: Any) -> None:
        self._look(context, "")

    def execute_complete(self, context: Any, event: dict[str, Any]) -> None:
        self._look(context, str(event["open_at"]))

    def _look(self, context: Any, open_at: str) -> None:
        """`open_at`: when the triggerer saw the day open for the last time; "" where it did not."""
        now = datetime.now(UTC)
        with task_errors(), parts.platform() as store:
            run = store.run(self.run)
            waits = day_closed.of_run(run, now, lambda name, key: _has_event(context, name, key))
            known = day_closed.kept(run, waits, open_at=now.isoformat() if waits.is_open else open_at)
            if waits.waits_for and now >= waits.until:
                self._give_up(store, run, waits, known)
            store.put_result(self.run, CLOSED, known)
            if not waits.waits_for:
                store.end_alarm(day_closed.ALARM, subject(run.sync, run.business_date))
                self.log.info("%s has closed %s", run.plan.source.name, run.business_date)
                return
        self.log.info("waiting until %s for %s", waits.until, waits.in_words)
        left_s = max((waits.until - now).total_seconds(), 1.0)
        self.defer(
            trigger=DayClosedTrigger(self.run, min(self.poll_s, left_s)),
            method_name="execute_complete",
            timeout=timedelta(seconds=left_s + self.poll_s) + day_closed.SPARE,
        )

    def _give_up(self, store: Any, run: Run, waits: day_closed.Waits, known: dict[str, str]) -> None:
        # Cleared, it waits anew.
        store.put_result(self.run, CLOSED, {**known, "since": ""})
        message = day_closed.late_message(run, waits)
        store.raise_alarm(day_closed.ALARM, subject(run.sync, run.business_date), message)
        cure = "ask whoever closes the source's day; then clear this task: it waits again"
        raise Refused(message, hint=cure, sync=run.sync)


def _has_event(context: Any, name: str, key: str) -> bool:
    events = context["inlet_events"][Asset(name)].ascending(False).limit(_EVENTS)  # noqa: FBT003 (Airflow's own)
    return any(one.partition_key == key for one in events)
