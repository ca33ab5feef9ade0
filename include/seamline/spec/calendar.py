"""`include/calendars/<calendar>.yaml`: the business days of an exchange or a bank, as data."""

from collections.abc import Iterator
from datetime import date, timedelta
from typing import Any, Literal, get_args

from pydantic import Field, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from seamline.domain.business_dates import WEEKDAYS, Calendar, HalfDay, Is
from seamline.spec.document import Document, Path_
from seamline.spec.fields import Day, Declared, Duration, Name, TimeOfDay, Why

Weekday = Literal["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
assert get_args(Weekday) == WEEKDAYS, "one list of names"
_DAY = timedelta(days=1)
_ALARM_BEFORE = timedelta(days=30)


class NamedDays(Declared):
    """A day, or several in a row. A bare day is short for an entry with this day alone."""

    date: Day = Field(description="The day, or the first of several.")
    until: Day | None = Field(None, description="The last of several days, this included.")
    name: Why | None = Field(None, description="What it is called.")

    @model_validator(mode="before")
    @classmethod
    def _from_bare_day(cls, value: Any) -> Any:
        return {"date": value} if isinstance(value, (date, str)) else value

    @model_validator(mode="after")
    def _goes_forward(self) -> "NamedDays":
        if self.until is not None and self.until < self.date:
            raise ValueError(f"ends on {self.until}, before it begins on {self.date}")
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        entry = handler.resolve_ref_schema(handler(schema))
        bare = {**entry["properties"]["date"], "description": "A day."}
        return {"anyOf": [bare, entry]}


class HalfDayEntry(Declared):
    """A business day on which business ends early."""

    date: Day = Field(description="The day.")
    closes_at: TimeOfDay = Field(description="Local time at which business ends on it.")
    name: Why | None = Field(None, description="What it is called.")


class CalendarSpec(Declared):
    """The business days of an exchange or a bank. Outside of `from` and `until` nothing is known, and nothing is
    guessed: a night of such a day stops and says so."""

    calendar: Name = Field(description="Name of the calendar; the file has the same name.")
    from_: Day = Field(alias="from", description="First day that the calendar knows.")
    until: Day = Field(description="Last day that the calendar knows.")
    weekend: tuple[Weekday, ...] = Field(
        ("saturday", "sunday"), description="Weekdays that are no business days.", strict=False
    )
    holidays: tuple[NamedDays, ...] = Field((), description="Days that are no business days.", strict=False)
    working_days: tuple[NamedDays, ...] = Field(
        (), description="Make-up days: business days although their weekday is closed.", strict=False
    )
    half_days: tuple[HalfDayEntry, ...] = Field(
        (), description="Business days on which business ends early, as `explain` shows them.", strict=False
    )
    month_ends: tuple[Day, ...] = Field(
        (),
        description="Last business days of the months, where these are not those of the year's months, as of a"
        " 4-4-5 calendar. Left out: the last business day of each month.",
        strict=False,
    )
    alarm_before: Duration = Field(
        _ALARM_BEFORE,
        json_schema_extra={"default": "30d"},
        description="So long before `until` an alarm asks for the days behind it.",
    )

    def calendar_of(self) -> Calendar:
        return Calendar(
            name=self.calendar,
            first=self.from_,
            last=self.until,
            weekend=self.weekend,
            holidays=tuple((day, one.name or "") for one in self.holidays for day in _days_of(one)),
            working_days=tuple((day, one.name or "") for one in self.working_days for day in _days_of(one)),
            half_days=tuple(HalfDay(one.date, one.closes_at, one.name or "") for one in self.half_days),
            month_ends=self.month_ends,
            alarm_days=self.alarm_before.days,
        )


def _days_of(entry: NamedDays) -> Iterator[date]:
    last = entry.until or entry.date
    return (entry.date + number * _DAY for number in range((last - entry.date).days + 1))


def check_calendar(document: Document, spec: CalendarSpec) -> None:
    """Add to a calendar's document the days that cannot be what they are declared to be."""
    if spec.until < spec.from_:
        document.fault(("until",), f"is before `from`, {spec.from_}", "Swap them")
        return
    calendar = spec.calendar_of()
    holidays = {day for day, _ in calendar.holidays}
    for place, day in _days(spec):
        if not spec.from_ <= day <= spec.until:
            cure = f"The calendar knows {spec.from_} to {spec.until}: raise `until`, or take the day out"
            document.fault(place, f"{day} is outside of what the calendar knows", cure)
        elif place[0] == "working_days" and day in holidays:
            document.fault(place, f"{day} is a holiday too", "Take it out of one of the two lists")
        elif place[0] == "working_days" and WEEKDAYS[day.weekday()] not in spec.weekend:
            document.fault(place, f"{day} is a {WEEKDAYS[day.weekday()]}, a business day anyway", "Take it out")
        elif place[0] in ("half_days", "month_ends") and calendar.look(day).is_ is not Is.OPEN:
            document.fault(place, f"{day} is no business day: {calendar.look(day).why}", "Name a business day")


def _days(spec: CalendarSpec) -> Iterator[tuple[Path_, date]]:
    for key, entries in (("holidays", spec.holidays), ("working_days", spec.working_days)):
        for number, entry in enumerate(entries):
            yield from (((key, number), day) for day in _days_of(entry))
    yield from ((("half_days", number), half.date) for number, half in enumerate(spec.half_days))
    yield from ((("month_ends", number), day) for number, day in enumerate(spec.month_ends))
