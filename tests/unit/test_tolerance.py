"""What a person may write as the bound of a tolerance."""

from decimal import Decimal

import pytest

from seamline.domain.errors import Refused
from seamline.domain.tolerance import amount_of


@pytest.mark.parametrize(
    ("text", "amount"), [("0.05", "0.05"), ("5", "5"), ("1,000.00", "1000.00"), (" 12,345,678 ", "12345678")]
)
def test_a_comma_parts_thousands(text: str, amount: str) -> None:
    assert amount_of(text) == Decimal(amount)


@pytest.mark.parametrize(
    "text",
    ["0,05", "1,5", "1,00", "1,0000", "1.000,00", "5_000", "٥", "1e2", "+5", "-5", "0", "0.00", "NaN", "", "9" * 31],
)
def test_what_could_be_meant_as_another_number_is_refused(text: str) -> None:
    """`0,05`, written with a decimal comma, was a tolerance of 5."""
    with pytest.raises(Refused, match="is no amount above 0"):
        amount_of(text)
