"""One task per business date that stands for the stream of that date."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import BaseSensorOperator
from airflow.sdk.exceptions import AirflowException

from seamline.domain.calendar import day_of
from seamline_airflow import parts, runs
from seamline_airflow.errors import task_errors
from seamline_airflow.run_context import stream_date
from seamline_airflow.triggers.stream_watch import StreamWatchTrigger, log_streams, look, wrong

# The trigger itself ends at the date's end; the deadline is for a triggerer that is not there.
_SPARE = timedelta(minutes=15)


class StreamWatchSensor(BaseSensorOperator):
    """Wait until the business date has ended; fail at once when a stream of the sync died or lags too much.

    A failure is for a person to see: the stream host brings its streams back by itself, and a retry watches on.
    """

    def __init__(
        self,
        *,
        sync: str,
        destinations: Sequence[str],
        timezone: str,
        poll_s: float = 5.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.sync = sync
        self.destinations = tuple(destinations)
        self.timezone = timezone
        self.poll_s = poll_s

    def execute(self, context: Any) -> str:
        with task_errors(), parts.platform() as store:
            date = stream_date(context, timezone=self.timezone)
            until = day_of(date, timezone=self.timezone).end
            destinations = runs.watched(store, self.sync, self.destinations)
            streams = look(self.sync, destinations)
            log_streams(self.log, streams)
            found = wrong(streams)
        if found:
            raise AirflowException("; ".join(f"{trouble.subject}: {trouble.message}" for trouble in found))
        now = datetime.now(UTC)
        if until <= now:
            return date.isoformat()
        self.log.info("watching until the end of %s, %s", date, until)
        self.defer(
            trigger=StreamWatchTrigger(self.sync, destinations, until.isoformat(), self.poll_s),
            method_name="execute_complete",
            timeout=until - now + _SPARE,
        )

    def execute_complete(self, context: Any, event: dict[str, Any]) -> str:
        if event["status"] != "ended":
            raise AirflowException(event["message"])
        return stream_date(context, timezone=self.timezone).isoformat()
