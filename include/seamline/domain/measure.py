"""What a control total measures of the rows of a group."""

from collections.abc import Sequence
from decimal import Decimal, localcontext
from enum import StrEnum

from seamline.domain.catalogue import TEXTS, Column

# Of a text, so many of its digits from the right make the number that a hash total adds up: whatever stands in it, the
# sums stay exact in every engine.
HASH_DIGITS = 18
# Sums are exact: a decimal of 65 digits, of more rows than any table has.
SUM_DIGITS = 100


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


def of_texts(measure: Measure, columns: Sequence[Column], rows: Sequence[Sequence[str | None]]) -> Decimal | None:
    """The reference: what is measured of these columns, whose canonical texts stand in `rows`."""
    known = [tuple(row) for row in rows if None not in row]
    if not columns or measure is Measure.DUPLICATES:
        return Decimal(len(known) - len(set(known))) if columns else None
    texts = [str(text) for (text,) in known]
    if measure is Measure.HASH and columns[0].kind in TEXTS:
        hashed = (hash_number(text) for text in texts)
        numbers = [Decimal(number) for number in hashed if number is not None]
    else:
        numbers = [Decimal(text) for text in texts]
    if not numbers:
        return None
    with localcontext(prec=SUM_DIGITS):
        match measure:
            case Measure.LEAST:
                return min(numbers)
            case Measure.GREATEST:
                return max(numbers)
            case Measure.MISSING:
                return max(numbers) - min(numbers) + 1 - len(set(numbers))
            case _:
                return sum(numbers, Decimal(0))


# How reports begin the name of a total that is no plain sum. No two of these are added up.
CLOSING, MOVEMENTS = "closing of", "movements of"
_BEGINS = {
    Measure.HASH: "hash total of",
    Measure.LEAST: "least",
    Measure.GREATEST: "greatest",
    Measure.MISSING: "missing numbers of",
    Measure.DUPLICATES: "duplicates of",
}


def named(measure: Measure, columns: Sequence[str]) -> str:
    """How reports call such a total. A plain sum is called by its column."""
    return " ".join(filter(None, (_BEGINS.get(measure), ", ".join(columns))))


def rolling(part: str, rule: str, column: str, by: Sequence[str]) -> str:
    """How reports call a sum by which a balance rolls forward (`part`: CLOSING or MOVEMENTS), and the next date finds
    it. One that is grouped otherwise is another total."""
    grouped = f" by {', '.join(by)}" if by else ""
    return f"{part} {rule}: {column}{grouped}"


def is_plain_sum(name: str) -> bool:
    """Whether a total of this name may be added to others of its group: no hash total, no end of a range, and no sum
    that stands in the report a second time."""
    return bool(name) and not name.startswith(tuple(f"{begin} " for begin in (*_BEGINS.values(), CLOSING, MOVEMENTS)))
