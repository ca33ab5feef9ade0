from decimal import Decimal

import pytest

from seamline.domain.differences import by_group, delta, of_rows, of_sums
from seamline.domain.measure import CLOSING, MOVEMENTS, Measure, named, rolling
from seamline.domain.verdict import ControlTotal

WIDE = "123456789012345678901234567890123456789.123456789012345678901234567890"


def total(
    source: str | None, destination: str | None, *, group: str = "EUR", table: str = "entry", column: str = "amount"
) -> ControlTotal:
    sums = (None if one is None else Decimal(one) for one in (source, destination))
    return ControlTotal(table, column, (group,), 3, 2, *sums)


@pytest.mark.parametrize(
    ("source", "destination", "difference"),
    [
        ("10.5000", "9.5000", "-1.0000"),
        ("10.50", "10.5000", "0"),
        (None, "4", "4"),
        ("4", None, "-4"),
        ("NaN", "NaN", "0"),
        ("Infinity", "Infinity", "0"),
        ("NaN", "1", None),
        ("Infinity", "-Infinity", None),
        (None, None, None),
        (WIDE, WIDE, "0"),
    ],
)
def test_a_difference_is_the_destinations_sum_less_the_sources(
    source: str | None, destination: str | None, difference: str | None
) -> None:
    assert of_sums(total(source, destination)) == (None if difference is None else Decimal(difference))


def test_no_digit_of_a_wide_difference_is_rounded_away() -> None:
    """`Decimal` itself keeps 28 digits of a result."""
    found = of_sums(total("0", WIDE))
    assert str(found) == WIDE
    assert str(delta("-" + WIDE, "0.1")) == WIDE.replace(".123", ".223")
    assert by_group([total("0", WIDE)])[0].net == Decimal(WIDE)


def test_the_differences_of_a_group_are_summed_over_tables_and_one_does_not_hide_another() -> None:
    less, more = total("5", "3"), total("3", "5", table="account", column="balance")
    dollars = total("1", "1", group="USD")
    euro, dollar = by_group([dollars, less, more])
    assert (euro.group, euro.unequal, euro.net, euro.absolute) == (("EUR",), 2, Decimal(0), Decimal(4))
    assert (dollar.group, dollar.net, dollar.absolute) == (("USD",), Decimal(0), Decimal(0))


def test_rows_of_a_group_are_counted_once_a_table() -> None:
    two_columns = [total("1", "1"), total("1", "1", column="fee"), total("1", "1", table="account")]
    assert [one.rows for one in by_group(two_columns)] == [-2]
    assert of_rows(two_columns[0]) == -1


def test_a_group_with_a_difference_that_is_no_number_has_no_sum() -> None:
    (found,) = by_group([total("5", "3"), total("NaN", "3", column="fee")])
    assert found.net is None and found.absolute is None
    assert found.unequal == 2


def test_totals_that_count_rows_alone_are_in_no_group() -> None:
    assert by_group([total(None, None, column="")]) == []


@pytest.mark.parametrize(
    ("source", "destination", "difference"),
    [
        ("1.0000", "1.0001", "0.0001"),
        ("-5.00", "5.00", "10.00"),
        ("007", "008", None),
        ("1", None, None),
        ("2026-11-19", "2026-11-20", None),
        ("NaN", "1", None),
        ("1e5", "1", None),
        ("١", "٢", None),
        ("1\n", "2", None),
    ],
)
def test_a_delta_is_of_two_texts_that_are_numbers(source: str, destination: str | None, difference: str | None) -> None:
    assert delta(source, destination) == (None if difference is None else Decimal(difference))


@pytest.mark.parametrize(
    "name",
    [
        *(named(measure, ["no"]) for measure in Measure if measure is not Measure.SUM),
        *(rolling(part, "customer money", "balance", ["currency"]) for part in (CLOSING, MOVEMENTS)),
    ],
)
def test_what_is_no_plain_sum_is_counted_where_it_differs_and_added_to_no_amount(name: str) -> None:
    (found,) = by_group([total("5", "3"), total("7", "9000", column=name)])
    assert (found.net, found.absolute, found.unequal) == (-2, 2, 2)
    assert by_group([total("7", "9000", column=name)]) == []
