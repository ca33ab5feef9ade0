"""The runs of business dates: right key and start, also when clocks change, and one per date of a backfill."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pendulum
import pytest
from airflow.timetables.base import DagRunInfo, TimeRestriction
from airflow.utils.types import DagRunType

from seamline.domain.business_dates import BusinessDates, Calendar
from seamline.domain.calendar import day_of
from seamline_airflow.timetable import BusinessDayTimetable

CATCHUP = TimeRestriction(earliest=None, latest=None, catchup=True)


def _next(timetable: BusinessDayTimetable, last: DagRunInfo | None, earliest: datetime | None = None) -> DagRunInfo:
    earliest_at = pendulum.instance(earliest) if earliest else None
    info = timetable.next_dagrun_info_v2(
        last_dagrun_info=last, restriction=TimeRestriction(earliest=earliest_at, latest=None, catchup=True)
    )
    assert info is not None
    return info


def test_the_run_starts_after_the_date_has_ended_and_bears_its_key() -> None:
    timetable = BusinessDayTimetable(timezone="Asia/Shanghai", delay_minutes=30)
    info = _next(timetable, None, earliest=datetime(2026, 11, 19, 17, tzinfo=UTC))
    assert info.partition_key == "2026-11-20"
    assert info.run_after == datetime(2026, 11, 20, 16, 30, tzinfo=UTC)
    assert info.partition_date == datetime(2026, 11, 19, 16, tzinfo=UTC)


def test_dates_follow_each_other_without_gap_or_double() -> None:
    timetable = BusinessDayTimetable(timezone="Europe/Berlin", delay_minutes=90)
    info = _next(timetable, None, earliest=datetime(2026, 10, 1, tzinfo=UTC))
    keys = [info.partition_key]
    for _ in range(60):
        info = _next(timetable, info)
        keys.append(info.partition_key)
    first = datetime.fromisoformat(str(keys[0]))
    assert keys == [(first + timedelta(days=n)).strftime("%Y-%m-%d") for n in range(61)]


@pytest.mark.parametrize(
    ("timezone", "date", "started"),
    [
        ("Europe/Berlin", "2026-03-29", datetime(2026, 3, 29, 22, 30, tzinfo=UTC)),  # 23 hours long
        ("Europe/Berlin", "2026-10-25", datetime(2026, 10, 25, 23, 30, tzinfo=UTC)),  # 25 hours long
        ("America/New_York", "2026-11-01", datetime(2026, 11, 2, 5, 30, tzinfo=UTC)),
        ("UTC", "2026-11-19", datetime(2026, 11, 20, 0, 30, tzinfo=UTC)),
    ],
)
def test_a_day_on_which_the_clock_changes_is_one_date(timezone: str, date: str, started: datetime) -> None:
    timetable = BusinessDayTimetable(timezone=timezone, delay_minutes=30)
    info = _next(timetable, None, earliest=started - timedelta(hours=3))
    assert (info.partition_key, info.run_after) == (date, started)


# Each moves its clock at midnight, so that one day of the year has no 00:00, or two.
AT_MIDNIGHT = {
    "Africa/Cairo": 2026,
    "America/Havana": 2026,
    "Asia/Beirut": 2026,
    "America/Santiago": 2026,
    "Atlantic/Azores": 2026,
    "America/Sao_Paulo": 2017,
}


@pytest.mark.parametrize(("zone", "year"), AT_MIDNIGHT.items())
def test_where_the_clock_moves_at_midnight_each_date_has_one_night_behind_its_end(zone: str, year: int) -> None:
    timetable = BusinessDayTimetable(timezone=zone, delay_minutes=30)
    info = _next(timetable, None, earliest=datetime(year, 1, 2, 12, tzinfo=UTC))
    nights = [info]
    while len(nights) < 363:
        nights.append(info := _next(timetable, info))
    keys = [date.fromisoformat(str(one.partition_key)) for one in nights]
    assert keys == [date(year, 1, 2) + timedelta(days=n) for n in range(363)]
    days = [day_of(key, timezone=zone) for key in keys]
    assert [one.run_after - timedelta(minutes=30) for one in nights] == [one.end for one in days]
    assert [one.partition_date for one in nights] == [one.start for one in days]
    by_hand = [timetable._decode_partition_date(str(one.partition_key)) for one in nights]
    backfilled = timetable.iter_partition_dagrun_infos(
        earliest=datetime(year, 1, 2, tzinfo=UTC), latest=datetime(year, 12, 30, tzinfo=UTC)
    )
    assert by_hand == [one.partition_date for one in backfilled] == [one.partition_date for one in nights]


@pytest.mark.parametrize("timezone", ["Asia/Shanghai", "America/New_York", "UTC", "Asia/Kolkata"])
def test_a_backfill_of_three_dates_is_three_runs(timezone: str) -> None:
    timetable = BusinessDayTimetable(timezone=timezone, delay_minutes=30)
    infos = list(
        timetable.iter_partition_dagrun_infos(
            earliest=datetime(2026, 11, 17, tzinfo=UTC), latest=datetime(2026, 11, 19, tzinfo=UTC)
        )
    )
    assert [info.partition_key for info in infos] == ["2026-11-17", "2026-11-18", "2026-11-19"]


def test_a_key_given_by_hand_is_the_same_partition_as_the_scheduled_one() -> None:
    """Airflow distinguishes partitions by date and time: were they unlike, a backfill would make the date twice."""
    timetable = BusinessDayTimetable(timezone="Asia/Shanghai", delay_minutes=30)
    info = _next(timetable, None, earliest=datetime(2026, 11, 19, tzinfo=UTC))
    assert timetable._decode_partition_date(str(info.partition_key)) == info.partition_date


def test_the_timetable_reads_back_from_its_serialized_form() -> None:
    timetable = BusinessDayTimetable(timezone="Asia/Shanghai", delay_minutes=45)
    back = BusinessDayTimetable.deserialize(timetable.serialize())
    assert back.serialize() == timetable.serialize()
    earliest = datetime(2026, 11, 19, tzinfo=UTC)
    assert _next(back, None, earliest=earliest) == _next(timetable, None, earliest=earliest)


@pytest.mark.parametrize("minutes", [-1, 1440])
def test_a_start_outside_the_next_day_is_refused(minutes: int) -> None:
    with pytest.raises(ValueError, match="delay_minutes"):
        BusinessDayTimetable(timezone="UTC", delay_minutes=minutes)


def test_without_catchup_the_newest_ended_date_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    now = pendulum.datetime(2026, 11, 20, 16, 10)  # ten past midnight in Shanghai
    monkeypatch.setattr("airflow.timetables.trigger.utcnow", lambda: now)
    timetable = BusinessDayTimetable(timezone="Asia/Shanghai", delay_minutes=30)
    restriction = TimeRestriction(earliest=pendulum.datetime(2020, 1, 1), latest=None, catchup=False)
    info: Any = timetable.next_dagrun_info_v2(last_dagrun_info=None, restriction=restriction)
    assert (info.partition_key, info.run_after) == ("2026-11-20", now.add(minutes=20))


def test_summary_and_run_names_speak_in_the_syncs_own_zone() -> None:
    timetable = BusinessDayTimetable(timezone="Asia/Shanghai", delay_minutes=30)
    assert timetable.summary.startswith("each business date, 30 min after its end in Asia/Shanghai; next 20")
    name = timetable.generate_run_id(
        run_type=DagRunType.SCHEDULED,
        run_after=pendulum.datetime(2026, 11, 25, 16, 30),
        data_interval=None,
        partition_key="2026-11-25",
    )
    assert name.startswith("scheduled__2026-11-26T00:30:00+08:00__2026-11-25__")


BANK = Calendar("cn_bank", date(2026, 1, 1), date(2026, 12, 31), holidays=((date(2026, 11, 25), "closed"),))
ON_BUSINESS_DAYS = BusinessDayTimetable(timezone="Asia/Shanghai", delay_minutes=30, dates=BusinessDates((BANK,)))


def test_days_that_are_no_business_dates_have_no_night() -> None:
    info = _next(ON_BUSINESS_DAYS, None, earliest=datetime(2026, 11, 23, 17, tzinfo=UTC))
    keys = [info.partition_key]
    for _ in range(4):
        info = _next(ON_BUSINESS_DAYS, info)
        keys.append(info.partition_key)
    assert keys == ["2026-11-24", "2026-11-26", "2026-11-27", "2026-11-30", "2026-12-01"]


def test_a_backfill_leaves_out_the_days_that_are_no_business_dates() -> None:
    infos = ON_BUSINESS_DAYS.iter_partition_dagrun_infos(
        earliest=datetime(2026, 11, 24, tzinfo=UTC), latest=datetime(2026, 11, 30, tzinfo=UTC)
    )
    assert [one.partition_key for one in infos] == ["2026-11-24", "2026-11-26", "2026-11-27", "2026-11-30"]


def test_a_night_of_a_day_that_no_calendar_knows_comes_and_can_say_so() -> None:
    info = _next(ON_BUSINESS_DAYS, None, earliest=datetime(2026, 12, 31, 17, tzinfo=UTC))
    assert info.partition_key == "2027-01-01"


@pytest.mark.parametrize(("last", "wanted"), [("2026-11-26", "2026-11-27"), ("2026-11-27", "2026-11-30")])
def test_a_dag_that_goes_on_at_a_weekend_takes_the_newest_date_once(
    last: str, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sunday = pendulum.datetime(2026, 11, 29, 10, tz="Asia/Shanghai")
    monkeypatch.setattr("airflow.timetables.trigger.utcnow", lambda: sunday)
    night = pendulum.parse(f"{last}T00:30:00", tz="Asia/Shanghai").add(days=1)  # type: ignore[union-attr]
    before = DagRunInfo(run_after=night, data_interval=None, partition_date=night, partition_key=last)  # type: ignore[arg-type]
    info = ON_BUSINESS_DAYS.next_dagrun_info_v2(
        last_dagrun_info=before,
        restriction=TimeRestriction(earliest=pendulum.datetime(2020, 1, 1), latest=None, catchup=False),
    )
    assert info is not None
    assert info.partition_key == wanted


def test_a_timetable_with_calendars_reads_back_and_names_them() -> None:
    back = BusinessDayTimetable.deserialize(ON_BUSINESS_DAYS.serialize())
    assert back.serialize() == ON_BUSINESS_DAYS.serialize()
    assert "each business date of cn_bank" in back.summary
