"""What says that the source's day is closed, so that its cut may be made: `nightly.ready_when`, and a cut-off that
follows the core system's own date. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any

from seamline.domain.errors import Refused
from seamline.domain.phrase import phrase

# Under this key of its result a nightly run keeps what it waits for, since when and until when, and when the source's
# day was seen open for the last time.
CLOSED = "day_closed"
EVERY_S = 60.0
# What stands for the business date in a statement (and is no cast, `::date`), and in the name of a file.
DATE_PARAMETER = ":date"
_PARAMETER = re.compile(r"(?<!:):date\b")
DATE_IN_NAME = "{date}"
# The texts that PostgreSQL takes for a boolean, and a BIT of MariaDB and MySQL.
_TRUE = frozenset({"t", "true", "y", "yes", "on", "1", "\x01"})
_FALSE = frozenset({"f", "false", "n", "no", "off", "0", "\x00", ""})


class ClosedBy(StrEnum):
    """Who says it."""

    SQL = "sql"  # a query by the reader's login
    SYSTEM_DATE = "system_date"  # the core system's own date has moved on
    FILE = "file"  # a file that the source's night writes
    ASSET = "asset"  # an event of an Airflow asset
    DELIVERY = "delivery"  # the flag of a delivery, where the source is one of files


@dataclass(frozen=True, slots=True)
class DayClosed:
    """`what`: the statement, the table, the name of the file, asset or flag; `column`: of the table; `every_s`: seconds
    between two looks."""

    by: ClosedBy
    what: str
    column: str = ""
    every_s: float = EVERY_S

    @property
    def in_words(self) -> str:
        match self.by:
            case ClosedBy.SQL:
                return phrase("a true answer of its query to the source")
            case ClosedBy.SYSTEM_DATE:
                return phrase("a later date in %(table)s.%(column)s", table=self.what, column=self.column)
            case ClosedBy.FILE:
                return phrase("the file %(name)s", name=self.what)
            case ClosedBy.DELIVERY:
                return phrase("the flag %(name)s of the delivery", name=self.what)
            case ClosedBy.ASSET:
                return phrase("an event of asset %(name)s with this date", name=self.what)


@dataclass(frozen=True, slots=True)
class Look:
    """What a look at the source has shown. `seen`: in words what stands there instead. `is_known`: that the source has
    answered."""

    is_closed: bool
    seen: str = ""
    is_known: bool = True


@dataclass(frozen=True, slots=True)
class WaitsForInput:
    """`for_what`: in words; `since`: None where it is given up."""

    for_what: str
    since: datetime | None
    until: datetime | None


def waits_for_input(result: Mapping[str, Any]) -> WaitsForInput | None:
    """From a run's result; None where it waits for nothing."""
    left = result.get(CLOSED) or {}
    if not left.get("waits_for"):
        return None
    since, until = (datetime.fromisoformat(left[key]) if left.get(key) else None for key in ("since", "until"))
    return WaitsForInput(left["waits_for"], since, until)


def with_placeholders(statement: str) -> tuple[str, int]:
    """A statement as drivers of Python take it, and how many dates it has."""
    return _PARAMETER.subn("%s", statement.replace("%", "%%"))


def by_answer(value: object) -> Look:
    """Of a query: the first value of its first row, None where it has no row. Refused: it is neither true nor false, as
    a state in words, which would count as closed whatever it says."""
    answer = value.decode("latin-1") if isinstance(value, bytes) else value
    answer = answer.strip().lower() if isinstance(answer, str) else answer
    if answer in _TRUE or (isinstance(answer, int | float | Decimal) and answer != 0):
        return Look(is_closed=True)
    if answer is None or answer == 0 or answer in _FALSE:
        return Look(is_closed=False, seen=f"the query answers {'nothing' if value is None else repr(value)}")
    raise Refused(
        f"the query of `ready_when` answers {value!r}, which is neither true nor false",
        hint="let the query compare, as in `select state = 'CLOSED' from day_state where day = :date`",
    )


def by_system_date(values: list[object], business_date: date) -> Look:
    """Of the rows of the table of the system date: each must be later than the date. No row says nothing."""
    days = [date_in(value) for value in values]
    if not days or None in days:
        return Look(is_closed=False, seen="the table says no date")
    earliest = min(day for day in days if day is not None)
    return Look(earliest > business_date, f"the system date is {earliest}")


def date_in(value: object) -> date | None:
    """The date that a column of a system date holds; None where it is none."""
    if isinstance(value, datetime):
        return value.date()
    if isinstance(value, date):
        return value
    try:
        # Some core systems keep it as a number or a text, 20261125 or 2026-11-25.
        return date.fromisoformat(str(value).strip())
    except ValueError:
        return None
