"""Whether a source has closed another date than that of the night, by what it can be asked for."""

from collections.abc import Sequence
from datetime import date
from typing import Any

import pytest

from seamline.domain.day_closed import ClosedBy, DayClosed
from seamline.domain.errors import TransientError
from seamline.sync.day_closed import is_closed_as_asked

DAY = date(2026, 3, 5)
SQL, SYSTEM_DATE = DayClosed(ClosedBy.SQL, "SELECT …"), DayClosed(ClosedBy.SYSTEM_DATE, "unit", "day")
FILE, ASSET = DayClosed(ClosedBy.FILE, "{date}.ok"), DayClosed(ClosedBy.ASSET, "bank.closed")


class Bank:
    """Its query says that days are closed up to one, and its system date is the day behind that."""

    def __init__(self, closed: date, system_date: date) -> None:
        self.closed, self.system_date = closed, system_date

    def ask(self, statement: str, business_date: date) -> Sequence[Sequence[Any]]:
        return [[business_date <= self.closed]]

    def values_of(self, table: str, column: str) -> Sequence[Any]:
        return [self.system_date]


@pytest.mark.parametrize(
    ("wanted", "system_date", "is_closed"),
    [
        ((SQL,), DAY, True),
        ((SYSTEM_DATE,), DAY, False),
        ((SYSTEM_DATE, SQL), date(2026, 3, 6), True),
        ((SYSTEM_DATE, SQL), DAY, False),
        # Of a file and an asset it is not known; what else is declared counts.
        ((SQL, FILE, ASSET), DAY, True),
        ((FILE, ASSET), DAY, False),
        ((), DAY, False),
    ],
)
def test_a_date_is_closed_where_all_that_the_source_can_be_asked_for_says_so(
    wanted: Sequence[DayClosed], system_date: date, is_closed: bool
) -> None:
    assert is_closed_as_asked(wanted, DAY, source=lambda: Bank(DAY, system_date)) is is_closed


def test_a_source_that_does_not_answer_says_nothing() -> None:
    def away() -> Bank:
        raise TransientError("the source is away")

    with pytest.raises(TransientError, match="is away"):
        is_closed_as_asked([SQL], DAY, source=away)
