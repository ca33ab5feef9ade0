"""What a control total measures of the rows of a group."""

from collections.abc import Sequence
from enum import StrEnum

# Of a text, so many of its digits from the right make the number that a hash total adds up: whatever stands in it, the
# sums stay exact in every engine.
HASH_DIGITS = 18


class Measure(StrEnum):
    """Each gives one exact number per group; None where the group has no value to measure."""

    SUM = "sum"
    HASH = "hash"  # Σ of a number that is no amount, as an account number; of a text, of its last HASH_DIGITS digits
    LEAST = "min"
    GREATEST = "max"
    MISSING = "missing"  # how many whole numbers between the least and the greatest no row has
    DUPLICATES = (
        "duplicates"  # how many rows are beyond the first with the same values; a row with a NULL among them is none
    )


def hash_number(text: str) -> int | None:
    """What a hash total adds up of a text; None for one without a digit. Only 0 to 9 are digits here."""
    digits = "".join(one for one in text if "0" <= one <= "9")[-HASH_DIGITS:]
    return int(digits) if digits else None


def named(measure: Measure, columns: Sequence[str]) -> str:
    """How reports call such a total. A plain sum is called by its column."""
    names = ", ".join(columns)
    words = {
        Measure.SUM: names,
        Measure.HASH: f"hash total of {names}",
        Measure.LEAST: f"least {names}",
        Measure.GREATEST: f"greatest {names}",
        Measure.MISSING: f"missing numbers of {names}",
        Measure.DUPLICATES: f"duplicates of {names}",
    }
    return words[measure]
