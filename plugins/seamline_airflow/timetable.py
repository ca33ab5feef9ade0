"""When the run of a business date starts, and what its partition key is."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from airflow.timetables.base import DagRunInfo, DataInterval, TimeRestriction
from airflow.timetables.trigger import CronPartitionTimetable
from pendulum import DateTime

from seamline.domain import business_dates
from seamline.domain.business_dates import EVERY_DAY, BusinessDates, Is
from seamline.domain.calendar import date_at, day_of
from seamline.plan.model import NightlyPlan
from seamline.plan.night import next_night

_MIDNIGHT = "0 0 * * *"
_KEY = "%Y-%m-%d"
_DAY_MINUTES = 24 * 60
_INSTANT = timedelta(microseconds=1)


class BusinessDayTimetable(CronPartitionTimetable):
    """One run per business date, started `delay_minutes` after that date has ended in `timezone`. A day that the
    calendars of `dates` do not know has a run too, which says so: no night is left out silently.

    The tick stays at local midnight and the key is the date that has just ended. A tick at 00:30 would be wrong: a
    key given by hand decodes to 00:00, so a backfill would double some dates and drop its last one (Airflow 3.3.2
    distinguishes partitions by date and time, not by key). Hence only the start is moved, never the tick.

    Ticks are the bounds of business dates (`domain.calendar`), not what cron makes of "0 0 * * *": where a zone moves
    its clock at midnight, as Cairo and Havana do, a day has no 00:00 or two, and cron gave a date twice or never.
    """

    def __init__(self, *, timezone: Any, delay_minutes: int = 30, dates: BusinessDates = EVERY_DAY) -> None:
        if not 0 <= delay_minutes < _DAY_MINUTES:
            raise ValueError(f"delay_minutes must be from 0 to {_DAY_MINUTES - 1}, got {delay_minutes}")
        super().__init__(_MIDNIGHT, timezone=timezone, run_offset=-1, key_format=_KEY)
        self._delay_minutes = delay_minutes
        self._dates = dates

    @property
    def summary(self) -> str:
        nightly = NightlyPlan(self._zone, run_at_delay_minutes=self._delay_minutes, dates=self._dates)
        night = next_night(nightly, datetime.now(UTC))
        calendars = f" of {', '.join(one.name for one in self._dates.calendars)}" if self._dates.calendars else ""
        following = f"; next {night.starts_at:%Y-%m-%d %H:%M}, for {night.business_date}" if night else ""
        return f"each business date{calendars}, {self._delay_minutes} min after its end in {self._zone}{following}"

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
        plain = {"timezone": self._zone, "delay_minutes": self._delay_minutes}
        return plain if self._dates == EVERY_DAY else {**plain, "dates": business_dates.to_json(self._dates)}

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> "BusinessDayTimetable":
        from airflow._shared.timezones.timezone import parse_timezone

        dates = business_dates.from_json(data["dates"]) if "dates" in data else EVERY_DAY
        return cls(timezone=parse_timezone(data["timezone"]), delay_minutes=data["delay_minutes"], dates=dates)

    def _get_next(self, current: DateTime) -> DateTime:
        return DateTime.instance(day_of(date_at(current, timezone=self._zone), timezone=self._zone).end)

    def _get_prev(self, current: DateTime) -> DateTime:
        return self._start(date_at(current - _INSTANT, timezone=self._zone))

    def localize_partition_datetime(self, dt: datetime) -> DateTime:
        """A bound of a backfill, as a day at 00:00, is the start of that date."""
        return super().localize_partition_datetime(dt) if dt.time() != time.min else self._start(dt)

    def _decode_partition_date(self, partition_key: str) -> datetime:
        super()._decode_partition_date(partition_key)  # InvalidPartitionKeyError: no date
        return self._start(datetime.strptime(partition_key, _KEY).replace(tzinfo=UTC))

    def _start(self, day: date) -> DateTime:
        return DateTime.instance(day_of(day, timezone=self._zone).start)

    def iter_partition_dagrun_infos(self, *, earliest: datetime, latest: datetime) -> Iterator[DagRunInfo]:
        """Those of a backfill: its days that are no business dates have no run."""
        return filter(self._has_a_run, super().iter_partition_dagrun_infos(earliest=earliest, latest=latest))

    def _has_a_run(self, info: DagRunInfo) -> bool:
        return self._dates.look(date.fromisoformat(str(info.partition_key))).is_ is not Is.CLOSED

    def next_dagrun_info_v2(
        self, *, last_dagrun_info: DagRunInfo | None, restriction: TimeRestriction
    ) -> DagRunInfo | None:
        info = super().next_dagrun_info_v2(last_dagrun_info=last_dagrun_info, restriction=restriction)
        ticks = restriction._replace(catchup=True)
        if info is not None and not self._has_a_run(info) and not restriction.catchup:
            since = self._newest_ended(info, last_dagrun_info, restriction)
            info = super().next_dagrun_info_v2(
                last_dagrun_info=None if since else info, restriction=ticks._replace(earliest=since)
            )
        while info is not None and not self._has_a_run(info):
            info = super().next_dagrun_info_v2(last_dagrun_info=info, restriction=ticks)
        return info and info._replace(run_after=info.run_after + timedelta(minutes=self._delay_minutes))

    def _newest_ended(self, info: DagRunInfo, last: DagRunInfo | None, restriction: TimeRestriction) -> DateTime | None:
        """The tick of the business date before a closed day, where it had no run yet: as of a DAG that was
        paused then. None where it had, or lies before the DAG's start."""
        day = self._dates.before(date.fromisoformat(str(info.partition_key)))
        if day is None or (last is not None and str(last.partition_key) >= day.isoformat()):
            return None
        tick = DateTime.instance(day_of(day, timezone=self._zone).end)
        return None if restriction.earliest is not None and tick < restriction.earliest else tick
