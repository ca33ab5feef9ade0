"""Whether a source has closed another date than that of the night, by what it can be asked for."""

from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from seamline.domain.day_closed import ClosedBy, DayClosed, by_answer
from seamline.domain.errors import Refused, TransientError
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


@pytest.mark.parametrize("answer", [True, 1, 3, Decimal("2"), "t", "TRUE", "Yes", "1", b"1", b"\x01"])
def test_a_query_that_answers_true_closes_the_day(answer: object) -> None:
    assert by_answer(answer).is_closed


@pytest.mark.parametrize("answer", [None, False, 0, Decimal(0), 0.0, "", "f", "False", "N", "no", "0", b"0", b"\x00"])
def test_a_query_that_answers_false_leaves_the_day_open(answer: object) -> None:
    assert not by_answer(answer).is_closed


@pytest.mark.parametrize("answer", ["OPEN", "CLOSED", "closing", "2026-11-25", date(2026, 11, 25), b"OPEN"])
def test_a_query_that_answers_a_state_is_refused_and_never_taken_for_closed(answer: object) -> None:
    with pytest.raises(Refused, match="neither true nor false") as refused:
        by_answer(answer)
    assert "let the query compare" in refused.value.hint
