"""When the run of a business date starts, and what its partition key is."""

from datetime import timedelta
from typing import Any

from airflow.timetables.base import DagRunInfo, DataInterval, TimeRestriction
from airflow.timetables.trigger import CronPartitionTimetable
from pendulum import DateTime

_MIDNIGHT = "0 0 * * *"
_KEY = "%Y-%m-%d"
_DAY_MINUTES = 24 * 60


class BusinessDayTimetable(CronPartitionTimetable):
    """One run per business date, started `delay_minutes` after that date has ended in `timezone`.

    The tick stays at local midnight and the key is the date that has just ended. A tick at 00:30 would be wrong: a
    key given by hand decodes to 00:00, so a backfill would double some dates and drop its last one (Airflow 3.3.2
    distinguishes partitions by date and time, not by key). Hence only the start is moved, never the tick.
    """

    def __init__(self, *, timezone: Any, delay_minutes: int = 30) -> None:
        if not 0 <= delay_minutes < _DAY_MINUTES:
            raise ValueError(f"delay_minutes must be from 0 to {_DAY_MINUTES - 1}, got {delay_minutes}")
        super().__init__(_MIDNIGHT, timezone=timezone, run_offset=-1, key_format=_KEY)
        self._delay_minutes = delay_minutes

    @property
    def summary(self) -> str:
        return f"each business date, {self._delay_minutes} min after its end in {self._zone}"

    @property
    def _zone(self) -> str:
        from airflow.serialization.encoders import encode_timezone

        return str(encode_timezone(self._timezone))

    def generate_run_id(
        self, *, run_type: Any, run_after: DateTime, data_interval: DataInterval | None, **extra: Any
    ) -> str:
        """Name the run by the moment in the sync's own zone: by UTC the night of the 25th would bear the 24th."""
        local = run_after.astimezone(self._timezone)
        return super().generate_run_id(run_type=run_type, run_after=local, data_interval=data_interval, **extra)

    def serialize(self) -> dict[str, Any]:
        return {"timezone": self._zone, "delay_minutes": self._delay_minutes}

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> "BusinessDayTimetable":
        from airflow._shared.timezones.timezone import parse_timezone

        return cls(timezone=parse_timezone(data["timezone"]), delay_minutes=data["delay_minutes"])

    def next_dagrun_info_v2(
        self, *, last_dagrun_info: DagRunInfo | None, restriction: TimeRestriction
    ) -> DagRunInfo | None:
        info = super().next_dagrun_info_v2(last_dagrun_info=last_dagrun_info, restriction=restriction)
        return info and info._replace(run_after=info.run_after + timedelta(minutes=self._delay_minutes))
