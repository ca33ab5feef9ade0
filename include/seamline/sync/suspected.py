"""What may have been done to a column that differs in row after row: simple hypotheses, each held against all of a
sample. One that does not fit every pair of values is not named.
"""

import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal, localcontext
from fractions import Fraction

from seamline.domain.catalogue import TEXTS, Column, Kind

# A row of the source and that of the destination, as canonical texts by column.
Rows = Sequence[tuple[Mapping[str, str | None], Mapping[str, str | None]]]
# Canonical texts of a source and of a destination; None is NULL.
Pairs = Sequence[tuple[str | None, str | None]]
_NUMBERS = frozenset({Kind.INTEGER, Kind.UNSIGNED, Kind.DECIMAL})
_MOMENTS = frozenset({Kind.DATETIME, Kind.INSTANT, Kind.TIME, Kind.TIME_OF_DAY})
_HOUR_US = 3_600_000_000
# A constant of one value fits by chance.
_DISTINCT = 2
_DIGITS = 200


def suspected(column: Column, pairs: Pairs) -> str:
    """What may have become of the source's values, in words; "" where no hypothesis fits all of them."""
    return next(_hypotheses(column, pairs), "") if pairs else ""


def another_column(column: Column, columns: Sequence[Column], rows: Rows) -> str:
    """Whether the destination holds another column of the source there, in words; "" where none fits all rows. `rows`:
    those in which the column differs."""
    for other in columns:
        mine = {source.get(other.name) for source, _ in rows} if other.name != column.name else set()
        if len(mine) >= _DISTINCT and all(row.get(column.name) == source.get(other.name) for source, row in rows):
            is_swapped = all(row.get(other.name) == source.get(column.name) for source, row in rows)
            return f"it is swapped with {other.name}" if is_swapped else f"it holds the source's {other.name}"
    return ""


def _hypotheses(column: Column, pairs: Pairs) -> Iterator[str]:
    if all(theirs is None for _, theirs in pairs):
        yield "'' has become NULL" if all(mine == "" for mine, _ in pairs) else "the destination has NULL in every row"
    elif all(mine is None for mine, _ in pairs):
        yield "NULL has become ''" if all(theirs == "" for _, theirs in pairs) else "the source has NULL in every row"
    known = [(mine, theirs) for mine, theirs in pairs if mine is not None and theirs is not None]
    if len(known) < len(pairs):
        return
    yield from _of_kind(column.kind, known)
    if len({theirs for _, theirs in known}) == 1 and len({mine for mine, _ in known}) >= _DISTINCT:
        yield "the destination has one value in every row"


def _of_kind(kind: Kind, known: Sequence[tuple[str, str]]) -> Iterator[str]:
    if kind in _NUMBERS:
        numbers = [(Decimal(mine), Decimal(theirs)) for mine, theirs in known]
        yield from _of_numbers(numbers if all(one.is_finite() for pair in numbers for one in pair) else ())
    elif kind in _MOMENTS:
        # PostgreSQL has infinite ones.
        whole = known if all(map(_are_whole, known)) else ()
        yield from _of_moments([(int(mine), int(theirs)) for mine, theirs in whole])
    elif kind is Kind.DATE:
        yield from _of_dates(known)
    elif kind in TEXTS:
        yield from _of_texts(known)


def _are_whole(texts: Sequence[str]) -> bool:
    return all(text.removeprefix("-").isdecimal() for text in texts)


def _of_numbers(pairs: Sequence[tuple[Decimal, Decimal]]) -> Iterator[str]:
    if not pairs:
        return
    if all(theirs == -mine for mine, theirs in pairs):
        yield "the sign is the other one"
    if len(set(pairs)) >= _DISTINCT:
        with localcontext(prec=_DIGITS):
            factors = {Fraction(theirs) / Fraction(mine) if mine else None for mine, theirs in pairs if mine or theirs}
            if len(factors) == 1 and (factor := factors.pop()):
                yield f"scale: destination = source × {_number(factor)}"
            if len(apart := {theirs - mine for mine, theirs in pairs}) == 1:
                (difference,) = apart
                yield f"destination = source {'+' if difference > 0 else '-'} {abs(difference):f}"
    yield from _rounded(pairs)


def _rounded(pairs: Sequence[tuple[Decimal, Decimal]]) -> Iterator[str]:
    digits = max(_digits_behind(theirs) for _, theirs in pairs)
    unit = Decimal(1).scaleb(-digits)
    ways = {"cut off": (ROUND_DOWN,), "rounded": (ROUND_HALF_UP, ROUND_HALF_EVEN)}
    with localcontext(prec=_DIGITS):
        for word, modes in ways.items():
            if any(all(mine.quantize(unit, mode) == theirs for mine, theirs in pairs) for mode in modes):
                yield f"{word} after {digits} {'digit' if digits == 1 else 'digits'} behind the point"


def _digits_behind(number: Decimal) -> int:
    exponent = number.normalize().as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0


def _number(factor: Fraction) -> str:
    """As a decimal where it is one of few digits."""
    for digits in range(13):
        if (factor * 10**digits).denominator == 1:
            return f"{Decimal(int(factor * 10**digits)).scaleb(-digits):f}"
    return str(factor)


def _of_moments(pairs: Sequence[tuple[int, int]]) -> Iterator[str]:
    if not pairs:
        return
    apart = sorted({theirs - mine for mine, theirs in pairs})
    if len(set(pairs)) >= _DISTINCT and len(apart) == 1:
        yield f"time zone: the destination is {_span(apart[0])}"
    elif len(apart) == 2 and apart[1] - apart[0] == _HOUR_US:
        yield f"time zone with summer time: the destination is {_span(apart[0])} or {_span(apart[1])}"
    for unit, word in ((1_000, "milliseconds"), (1_000_000, "seconds"), (86_400_000_000, "days")):
        if all(theirs == mine - mine % unit for mine, theirs in pairs):
            yield f"cut off to whole {word}"


def _of_dates(pairs: Sequence[tuple[str, str]]) -> Iterator[str]:
    try:
        apart = {(date.fromisoformat(theirs) - date.fromisoformat(mine)).days for mine, theirs in pairs}
    except ValueError:
        # Invalid dates have texts of their own.
        return
    if len(set(pairs)) >= _DISTINCT and len(apart) == 1:
        (days,) = apart
        far = f"{abs(days)} {'day' if abs(days) == 1 else 'days'}"
        yield f"the destination is {far} {'later' if days > 0 else 'earlier'}"


def _span(us: int) -> str:
    hours = Fraction(abs(us), _HOUR_US)
    whole = f"{float(hours):g} h" if hours.denominator <= 4 else f"{abs(us) / 1_000_000:g} s"
    return f"{whole} {'later' if us > 0 else 'earlier'}"


def _of_texts(pairs: Iterable[tuple[str, str]]) -> Iterator[str]:
    known = list(pairs)
    for words, change in _CHANGES.items():
        if all(_is_made(change, mine, theirs) for mine, theirs in known):
            yield words
    length = max(len(theirs) for _, theirs in known)
    if length and all(mine[:length] == theirs for mine, theirs in known):
        yield f"cut off after {length} characters"


def _is_made(change: Callable[[str], str], mine: str, theirs: str) -> bool:
    try:
        return change(mine) == theirs
    except UnicodeError:
        return False


_CHANGES: Mapping[str, Callable[[str], str]] = {
    "trimmed: blanks at the end are gone": str.rstrip,
    "trimmed: blanks at the start are gone": str.lstrip,
    "trimmed at both ends": str.strip,
    "case: the destination has capitals": str.upper,
    "case: the destination has small letters": str.lower,
    "leading zeros are gone": lambda text: text.lstrip("0"),
    "character set: UTF-8 was read as Latin-1": lambda text: text.encode().decode("latin-1"),
    "character set: UTF-8 was read as Windows-1252": lambda text: text.encode().decode("cp1252"),
    "character set: what is not ASCII has become ?": lambda text: text.encode("ascii", "replace").decode(),
    "Unicode: composed letters (NFC)": lambda text: unicodedata.normalize("NFC", text),
    "Unicode: decomposed letters (NFD)": lambda text: unicodedata.normalize("NFD", text),
}
