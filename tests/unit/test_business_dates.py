"""Calendars as data: which days are business dates, what belongs to one, and what is not known."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamline.domain.business_dates import BusinessDates, Calendar, HalfDay, Is, Rule, from_json, to_json
from seamline.domain.calendar import day_of
from seamline.domain.errors import ConfigError, Refused

BANK = Calendar(
    "cn_bank",
    date(2026, 1, 1),
    date(2026, 12, 31),
    holidays=tuple((date(2026, 10, day), "National Day") for day in range(1, 8)),
    # 调休: a Saturday that is a business day.
    working_days=((date(2026, 10, 10), "for National Day"),),
    half_days=(HalfDay(date(2026, 12, 24), "12:00", "Christmas Eve"),),
)
EXCHANGE = Calendar("sse", date(2026, 1, 1), date(2026, 12, 31), holidays=((date(2026, 11, 25), "closed"),))
DATES = BusinessDates((BANK,))


@pytest.mark.parametrize(
    ("day", "is_", "why"),
    [
        ("2026-11-25", Is.OPEN, "Wednesday by calendar cn_bank"),
        ("2026-11-28", Is.CLOSED, "Saturday by calendar cn_bank"),
        ("2026-10-03", Is.CLOSED, "holiday (National Day)"),
        ("2026-10-10", Is.OPEN, "make-up day (for National Day)"),
        ("2027-01-04", Is.UNKNOWN, "knows the days from 2026-01-01 to 2026-12-31 only"),
    ],
)
def test_a_calendar_says_what_a_day_is_and_why(day: str, is_: Is, why: str) -> None:
    said = DATES.look(date.fromisoformat(day))
    assert said.is_ is is_
    assert why in said.why


def test_what_is_booked_on_a_weekend_belongs_to_the_next_business_date() -> None:
    assert DATES.first_day(date(2026, 11, 30)) == date(2026, 11, 28)
    assert DATES.first_day(date(2026, 10, 8)) == date(2026, 10, 1)
    # The Sunday behind the make-up day, which is a date of its own.
    assert DATES.first_day(date(2026, 10, 12)) == date(2026, 10, 11)


def test_the_first_known_business_date_begins_where_the_calendar_begins() -> None:
    of_the_second = BusinessDates((Calendar("short", date(2026, 8, 1), date(2026, 8, 31)),))
    assert of_the_second.first_day(date(2026, 8, 3)) == date(2026, 8, 1)
    assert of_the_second.before(date(2026, 8, 3)) is None


def test_a_half_day_is_a_business_date_that_says_when_it_closes() -> None:
    assert [one.closes_at for one in DATES.look(date(2026, 12, 24)).half] == ["12:00"]


@pytest.mark.parametrize(("rule", "is_"), [(Rule.ALL, Is.CLOSED), (Rule.ANY, Is.OPEN)])
def test_of_several_calendars_all_or_any_must_be_open(rule: Rule, is_: Is) -> None:
    assert BusinessDates((BANK, EXCHANGE), rule).look(date(2026, 11, 25)).is_ is is_


def test_a_calendar_that_has_run_out_counts_only_where_the_others_do_not_decide() -> None:
    short = Calendar("short", date(2026, 1, 1), date(2026, 6, 30))
    sunday, monday = date(2026, 11, 29), date(2026, 11, 30)
    assert BusinessDates((BANK, short)).look(sunday).is_ is Is.CLOSED
    assert BusinessDates((BANK, short)).look(monday).is_ is Is.UNKNOWN
    assert BusinessDates((BANK, short), Rule.ANY).look(monday).is_ is Is.OPEN


def test_a_day_that_is_none_is_refused_with_the_dates_around_it() -> None:
    with pytest.raises(Refused, match="2026-11-28 is no business date: Saturday") as refused:
        DATES.require(date(2026, 11, 28))
    assert refused.value.hint == "the one before it is 2026-11-27, the next one is 2026-11-30"


def test_a_day_that_no_calendar_knows_is_never_guessed() -> None:
    with pytest.raises(ConfigError, match="it is not known whether 2027-01-04") as unknown:
        DATES.require(date(2027, 1, 4))
    assert "include/calendars" in unknown.value.hint
    assert DATES.after(date(2026, 12, 31)) is None


def test_the_newest_date_that_has_ended_is_a_business_date() -> None:
    sunday = datetime(2026, 11, 29, 12, tzinfo=UTC)
    assert DATES.last_ended(sunday, timezone="Asia/Shanghai") == date(2026, 11, 27)
    assert BusinessDates().last_ended(sunday, timezone="Asia/Shanghai") == date(2026, 11, 28)
    assert DATES.last_ended(datetime(2027, 3, 1, tzinfo=UTC), timezone="UTC") == date(2026, 12, 31)


def test_a_month_ends_on_its_last_business_date_or_where_the_calendar_says() -> None:
    assert DATES.month_end(date(2026, 10, 5)) == date(2026, 10, 30)
    assert DATES.month_end(date(2027, 1, 5)) is None
    quarters = BusinessDates((Calendar("c", BANK.first, BANK.last, month_ends=(date(2026, 11, 27),)),))
    assert quarters.month_end(date(2026, 11, 3)) == date(2026, 11, 27)


def test_a_calendar_asks_to_be_continued_before_it_ends() -> None:
    assert DATES.ending(date(2026, 10, 1)) == []
    assert [(one.name, days) for one, days in DATES.ending(date(2026, 12, 2))] == [("cn_bank", 29)]
    assert [days for _, days in DATES.ending(date(2027, 1, 2))] == [-2]


def test_dates_read_back_from_their_document() -> None:
    dates = BusinessDates((BANK, EXCHANGE), Rule.ANY)
    assert from_json(to_json(dates)) == dates


@given(
    holidays=st.sets(st.integers(0, 364), max_size=40),
    working=st.sets(st.integers(0, 364), max_size=10),
    weekend=st.sets(st.sampled_from(["friday", "saturday", "sunday"])),
)
def test_business_dates_cover_time_without_gap_or_overlap(
    holidays: set[int], working: set[int], weekend: set[str]
) -> None:
    first = date(2026, 1, 1)

    def named(numbers: set[int]) -> Any:
        return tuple((first + timedelta(days=number), "") for number in sorted(numbers))

    dates = BusinessDates(
        (
            Calendar(
                "any",
                first,
                date(2026, 12, 31),
                tuple(weekend),
                holidays=named(holidays - working),
                working_days=named(working),
            ),
        )
    )
    every = (first + timedelta(days=number) for number in range(365))
    days = [
        day_of(day, timezone="Europe/Berlin", first=dates.first_day(day))
        for day in every
        if dates.look(day).is_ is Is.OPEN
    ]
    assert all(one.end == other.start for one, other in zip(days, days[1:], strict=False))
