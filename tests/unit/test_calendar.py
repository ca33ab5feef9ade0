"""Business dates cover time without gap or overlap in every time zone."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamline.domain.calendar import Holds, bounds, date_at, date_of, day_of, last_ended, segment_of, zone
from seamline.domain.digest import Segment
from seamline.domain.errors import ConfigError

# Fixed offsets, both hemispheres, jumps at midnight, at 02:00 and at 01:00, a zone that left a whole day out.
ZONES = (
    "UTC", "Asia/Shanghai", "Europe/Berlin", "America/New_York", "Africa/Cairo", "America/Havana", "America/Sao_Paulo",
    "Asia/Beirut", "Asia/Kathmandu", "Australia/Lord_Howe", "Pacific/Apia", "Pacific/Auckland",
)  # fmt: skip
# From 2007 on; before, some clocks fell back across midnight and showed a date twice (St. John's until 2011 is not
# among the zones).
zones = st.sampled_from(ZONES)
dates = st.dates(date(2007, 1, 1), date(2037, 12, 30))
instants = st.integers(1_167_696_000, 2_145_700_000).map(lambda second: datetime.fromtimestamp(second, tz=UTC))


@given(zones, dates)
def test_the_end_of_a_date_is_the_start_of_the_next(timezone: str, day: date) -> None:
    assert day_of(day, timezone=timezone).end == day_of(day + timedelta(days=1), timezone=timezone).start


@given(zones, instants)
def test_an_instant_belongs_to_the_date_that_the_zone_s_calendar_shows(timezone: str, instant: datetime) -> None:
    shown = instant.astimezone(ZoneInfo(timezone)).date()
    assert date_at(instant, timezone=timezone) == shown
    day = day_of(shown, timezone=timezone)
    assert day.start <= instant < day.end


@given(zones, dates)
def test_the_instant_before_a_date_belongs_to_an_earlier_date(timezone: str, day: date) -> None:
    start = day_of(day, timezone=timezone).start
    assert date_at(start - timedelta(microseconds=1), timezone=timezone) < day
    assert date_at(start, timezone=timezone) >= day


@given(zones, instants)
def test_the_last_ended_date_has_ended_and_the_next_has_not(timezone: str, now: datetime) -> None:
    ended = day_of(last_ended(now, timezone=timezone), timezone=timezone)
    assert ended.start < ended.end <= now
    assert day_of(date_at(now, timezone=timezone), timezone=timezone).end > now


@given(zones, dates, instants, st.sampled_from(("02:00", "02:30", "12:00", "12:01", "17:00", "23:59")))
def test_with_any_cut_off_dates_cover_time_without_gap_or_overlap(
    timezone: str, day: date, instant: datetime, cut_off: str
) -> None:
    ended = day_of(day, timezone=timezone, cut_off=cut_off)
    assert ended.end == day_of(day + timedelta(days=1), timezone=timezone, cut_off=cut_off).start
    of_instant = day_of(date_at(instant, timezone=timezone, cut_off=cut_off), timezone=timezone, cut_off=cut_off)
    assert of_instant.start <= instant < of_instant.end
    newest = day_of(last_ended(instant, timezone=timezone, cut_off=cut_off), timezone=timezone, cut_off=cut_off)
    assert newest.start < newest.end <= instant
    for holds in Holds:
        following = bounds(day + timedelta(days=1), holds=holds, timezone=timezone, cut_off=cut_off)
        assert bounds(day, holds=holds, timezone=timezone, cut_off=cut_off)[1] == following[0]


@pytest.mark.parametrize(
    ("cut_off", "day", "start", "end"),
    [
        ("17:00", date(2026, 3, 5), "2026-03-04 16:00:00", "2026-03-05 16:00:00"),
        ("02:00", date(2026, 3, 5), "2026-03-05 01:00:00", "2026-03-06 01:00:00"),
        # The night in which 02:30 is left out: the date ends with the jump. And the one in which it comes twice.
        ("02:30", date(2026, 3, 28), "2026-03-28 01:30:00", "2026-03-29 01:00:00"),
        ("02:30", date(2026, 10, 24), "2026-10-24 00:30:00", "2026-10-25 00:30:00"),
    ],
)
def test_a_date_ends_when_the_clock_first_shows_its_cut_off(cut_off: str, day: date, start: str, end: str) -> None:
    found = day_of(day, timezone="Europe/Berlin", cut_off=cut_off)
    assert (f"{found.start:%Y-%m-%d %H:%M:%S}", f"{found.end:%Y-%m-%d %H:%M:%S}") == (start, end)


def test_the_wall_clock_and_dates_have_bounds_of_their_own() -> None:
    def of(holds: str) -> tuple[str, str]:
        return bounds(date(2026, 3, 5), holds=holds, timezone="Europe/Berlin", cut_off="17:00")

    assert of("date") == ("2026-03-05", "2026-03-06")
    assert of("local") == ("2026-03-04 17:00:00", "2026-03-05 17:00:00")
    assert of("instant") == ("2026-03-04 16:00:00", "2026-03-05 16:00:00")
    assert date_of("1772723700000000", holds="local", timezone="Europe/Berlin", cut_off="17:00") == date(2026, 3, 5)


@given(zones, dates, st.sampled_from(("date", "local", "instant")))
def test_bounds_are_half_open_and_meet_whatever_the_column_holds(timezone: str, day: date, holds: str) -> None:
    start, end = bounds(day, holds=holds, timezone=timezone)
    assert start <= end
    assert bounds(day + timedelta(days=1), holds=holds, timezone=timezone)[0] == end


@pytest.mark.parametrize(
    ("timezone", "day", "start", "hours"),
    [
        ("Asia/Shanghai", date(2026, 11, 20), "2026-11-19T16:00", 24),
        ("America/New_York", date(2026, 3, 8), "2026-03-08T05:00", 23),
        ("America/New_York", date(2026, 11, 1), "2026-11-01T04:00", 25),
        # The clock jumps over midnight: the date begins at 01:00 local.
        ("Africa/Cairo", date(2024, 4, 26), "2024-04-25T22:00", 23),
        # 00:00 comes twice: the date begins with the first.
        ("America/Havana", date(2024, 11, 3), "2024-11-03T04:00", 25),
        # Half an hour: Lord Howe moves its clock by 30 minutes.
        ("Australia/Lord_Howe", date(2026, 4, 5), "2026-04-04T13:00", 24.5),
        # Samoa left this day out when it changed sides of the date line.
        ("Pacific/Apia", date(2011, 12, 30), "2011-12-30T10:00", 0),
    ],
)
def test_a_date_has_the_hours_that_its_zone_gives_it(timezone: str, day: date, start: str, hours: float) -> None:
    found = day_of(day, timezone=timezone)
    assert found.start == datetime.fromisoformat(start).replace(tzinfo=UTC)
    assert found.end - found.start == timedelta(hours=hours)


def test_a_date_that_was_left_out_is_never_the_last_ended() -> None:
    assert last_ended(datetime(2011, 12, 31, 3, tzinfo=UTC), timezone="Pacific/Apia") == date(2011, 12, 29)
    assert last_ended(datetime(2011, 12, 31, 10, tzinfo=UTC), timezone="Pacific/Apia") == date(2011, 12, 31)


@pytest.mark.parametrize(
    ("holds", "expected"),
    [
        ("date", ("2026-11-01", "2026-11-02")),
        ("local", ("2026-11-01 00:00:00", "2026-11-02 00:00:00")),
        ("instant", ("2026-11-01 04:00:00", "2026-11-02 05:00:00")),
    ],
)
def test_bounds_are_texts_in_the_column_s_own_terms(holds: str, expected: tuple[str, str]) -> None:
    assert bounds(date(2026, 11, 1), holds=holds, timezone="America/New_York") == expected


def test_the_segment_of_a_date_names_the_bare_column() -> None:
    segment = segment_of("entry", column="at", holds="instant", business_date=date(2026, 11, 20), timezone="Asia/Tokyo")
    assert segment == Segment("entry", "at", "2026-11-19 15:00:00", "2026-11-20 15:00:00")


@pytest.mark.parametrize("name", ["Asia/Shangai", "", "../etc/passwd", "+08:00"])
def test_an_unknown_time_zone_is_a_mistake_of_the_declaration(name: str) -> None:
    with pytest.raises(ConfigError, match="is not a time zone"):
        zone(name)
