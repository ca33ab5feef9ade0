"""Nights that replace one business date, on real servers: the date may be a number or a text of eight digits."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta

import pytest

from seamline.domain.made_from import MadeFrom
from seamline.domain.staged_cut import CutMode, without_rows_in_words
from seamline.domain.verdict import Verdict
from seamline.plan.model import BusinessDate
from tests.conftest import RunningStack
from tests.integration.nights import Nights, nights_of

FIRST = datetime.now(UTC).date() - timedelta(days=9)
DAYS = [FIRST + timedelta(days=number) for number in range(3)]
NUMBERS = [f"{day:%Y%m%d}" for day in DAYS]
CREATE = "CREATE TABLE booked (id bigint PRIMARY KEY, day int, said char(8), memo varchar(40))"


@pytest.fixture(params=[("mariadb", "day"), ("postgres", "said")], ids=["number-mariadb", "text-postgres"])
def nights(request: pytest.FixtureRequest, stack: RunningStack, monkeypatch: pytest.MonkeyPatch) -> Iterator[Nights]:
    kind, column = request.param
    dated = {"booked": BusinessDate(column, "digits")}
    with nights_of(kind, f"day_slice_{kind}", monkeypatch, create=CREATE, tables=("booked",), dated=dated) as made:
        for day in DAYS:
            made.ends[day] = datetime.now(UTC) - timedelta(days=1)
        yield made


def replaced(nights: Nights, day: date) -> list[str]:
    """Take and publish the date everywhere; what is said of dates without rows."""
    taken = nights.take(day, MadeFrom.DAY_SLICE)
    assert taken.keys() == {"warehouse", "second"}
    for cut, found in taken.values():
        assert (cut.verdict, cut.is_partial, {one.mode for one in cut.tables}) == (Verdict.MATCH, False, {CutMode.DATE})
        assert found.mode == "day_slice"
        assert found.tables[0].source_rows == found.tables[0].destination_rows == cut.tables[0].rows
        nights.publish(cut)
    return [line for _, found in taken.values() for line in without_rows_in_words(found.evidence)]


def stands(nights: Nights) -> list[tuple[str, int, str]]:
    """What readers see: date, id, memo; the same in both destinations."""
    rows = [
        nights.query(name, f"SELECT id, said, memo FROM {nights.plan.destination(name).cut_namespace}.booked_current")
        for name in ("warehouse", "second")
    ]
    first, second = ([(said, key, memo) for key, said, memo in sorted(found)] for found in rows)
    assert first == second
    return first


def test_one_date_is_replaced_while_others_stay_and_one_without_rows_is_said_and_no_error(nights: Nights) -> None:
    d0, d1, d2 = NUMBERS
    nights.bank.execute(
        f"INSERT INTO booked VALUES (1, {d0}, '{d0}', 'a'), (2, {d0}, '{d0}', 'b'), (3, {d1}, '{d1}', 'c'),"
        " (4, NULL, NULL, 'of no date')"
    )
    assert [replaced(nights, day) for day in DAYS[:2]] == [[], []]
    assert replaced(nights, DAYS[2]) == ["no rows for this date: booked"] * 2
    assert stands(nights) == [(d0, 1, "a"), (d0, 2, "b"), (d1, 3, "c")]
    nights.bank.execute(
        f"UPDATE booked SET day = {d2}, said = '{d2}' WHERE id = 1",
        "UPDATE booked SET memo = 'corrected' WHERE id = 2",
        "DELETE FROM booked WHERE id = 3",
        f"INSERT INTO booked VALUES (5, {d0}, '{d0}', 'late')",
    )
    assert not replaced(nights, DAYS[0])
    assert stands(nights) == [(d0, 2, "corrected"), (d1, 3, "c"), (d0, 5, "late")], "the other dates as they were"
    assert replaced(nights, DAYS[1]) == ["no rows for this date: booked"] * 2, "all of its rows are gone"
    assert not replaced(nights, DAYS[2])
    assert stands(nights) == [(d2, 1, "a"), (d0, 2, "corrected"), (d0, 5, "late")]
