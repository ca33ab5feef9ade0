"""Values of messages as plain texts: exact, or refused."""

import math
import random
import struct
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from seamline.domain.catalogue import Column
from seamline.domain.column_types import column_of
from seamline.domain.exact_json import parsed
from seamline.sources.kafka.texts import text_of


def column(declared_type: str, *, nullable: bool = True) -> Column:
    made = column_of("x", declared_type)
    return made if nullable else Column("x", made.kind, made.source_type, nullable=False, length=made.length)


@pytest.mark.parametrize(
    ("declared_type", "value", "form", "text"),
    [
        ("decimal(38,10)", Decimal("1234567890123456789012345678.0123456789"), "", None),
        ("decimal(10,2)", "12.30", "text", None),
        ("decimal(10,2)", "-12", "", "-12.00"),
        ("decimal(10,2)", Decimal("1E+1"), "", "10.00"),
        ("decimal(10,2)", "-0.000", "", "0.00"),
        ("decimal(20,0)", Decimal("10.0"), "", "10"),
        ("decimal(10,2)", "gA==", "base64", "-1.28"),
        ("decimal(10,2)", {"scale": 1, "value": "DA=="}, "", "1.20"),
        ("unsigned", 2**64 - 1, "", None),
        ("date", 20_000, "days", "2024-10-04"),
        ("date", "2024-02-29", "", None),
        ("datetime", 1_700_000_000_123_456, "us", "2023-11-14 22:13:20.123456"),
        ("datetime", 1_700_000_000_123_456_000, "ns", "2023-11-14 22:13:20.123456"),
        ("instant", "2023-11-14T23:13:20+01:00", "", "2023-11-14 22:13:20.000000Z"),
        ("time", 3_723_000_001, "us", "01:02:03.000001"),
        ("time", "01:02:03", "", "01:02:03.000000"),
        ("bytes", "AP8=", "", "00ff"),
        ("bytes", "00FF", "hex", "00ff"),
        ("bytes", "\x00ÿ", "latin-1", "00ff"),
        ("boolean", 1, "", "true"),
        ("uuid", "6F9619FF-8B86-D011-B42D-00CF4FC964FF", "", "6f9619ff-8b86-d011-b42d-00cf4fc964ff"),
        ("double", Decimal("0.1"), "", None),
        ("double", "-1.5e3", "", "-1500.0"),
        ("double", "NaN", "", "nan"),
        ("double", "-Infinity", "", "-inf"),
        ("double", Decimal("0.1000000000000000055511151231257827"), "", "0.1"),
        ("float", Decimal("0.1"), "", "0.10000000149011612"),
        ("float", Decimal("0.10000000149011612"), "", None),
        ("float", 16777218, "", "16777218.0"),
        ("char(3)", "EUR  ", "", "EUR"),
    ],
)
def test_a_value_is_taken_exactly(declared_type: str, value: Any, form: str, text: str | None) -> None:
    assert text_of(column(declared_type), value, form) == (str(value) if text is None else text)


@pytest.mark.parametrize(
    ("declared_type", "value", "form"),
    [
        ("decimal(10,2)", Decimal("1.001"), ""),
        ("decimal(4,2)", Decimal(100), ""),
        ("decimal(10,2)", True, ""),
        ("decimal(10,2)", "BNI=", ""),
        ("decimal(10,2)", "", "base64"),
        ("decimal(10,2)", "1_000", ""),
        ("decimal(10,2)", " 1", ""),
        ("decimal(10,2)", "١", ""),
        ("decimal(10,2)", "NaN", ""),
        ("double", "1_000", ""),
        ("double", "1e400", ""),
        ("double", 2**53 + 1, ""),
        ("double", Decimal("1e-400"), ""),
        ("float", 2**24 + 1, ""),
        ("float", Decimal("3.5e38"), ""),
        ("time", "12:99:00", ""),
        ("time", "12:00:60", ""),
        ("integer", 2**31, ""),
        ("integer", Decimal("1.0"), ""),
        ("unsigned", -1, ""),
        ("date", 20_000, ""),
        ("date", "2024-02-30", ""),
        ("datetime", 1_700_000_000, ""),
        ("datetime", 1_700_000_000_123_456_789, "ns"),
        ("datetime(0)", 1_700_000_000_123, "ms"),
        ("datetime", "2023-11-14T22:13:20.1234567", ""),
        ("datetime", "2023-11-14T22:13:20,1234567", ""),
        ("datetime", "2023-11-14T22:13:20Z", ""),
        ("instant", "2023-11-14 22:13:20", ""),
        ("time", "25:00:00", ""),
        ("char(3)", "EURO", ""),
        ("text", 1, ""),
        ("boolean", 2, ""),
        ("bytes", "no base64", ""),
    ],
)
def test_a_value_that_could_only_be_guessed_or_rounded_is_refused(declared_type: str, value: Any, form: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 (who reads a message gives it its words)
        text_of(column(declared_type), value, form)


def _numbers() -> Iterator[str]:
    """Of any length and size, and the floats of both widths that lie around powers of two and ten."""
    chance = random.Random(1)
    for _ in range(4_000):
        yield f"{chance.randrange(100)}.{chance.randrange(10 ** chance.randint(1, 20))}"
        yield f"{chance.randrange(1, 10 ** chance.randint(1, 18))}E{chance.randint(-340, 308)}"
        yield str(chance.randrange(2 ** chance.randint(1, 70)))
        yield f"{2.0 ** chance.randint(-1074, 1000):.{chance.randint(1, 20)}g}"
        (of_32,) = struct.unpack("f", struct.pack("f", chance.uniform(-1e4, 1e4)))
        yield f"{of_32:.{chance.randint(5, 17)}g}"


@pytest.mark.parametrize("declared_type", ["float", "double"])
def test_a_number_whose_digits_nobody_counts_is_one_that_counting_them_would_take(declared_type: str) -> None:
    """Each number is held against the rule itself: with as many digits the column's own number is the same."""
    outcomes = Counter[bool]()
    of = column(declared_type)
    for text in _numbers():
        written = Decimal(text)
        try:
            held = float(text_of(of, written) or "")
        except ValueError:
            held = math.nan
        is_taken = not math.isnan(held)
        if not is_taken:
            held = float(text)
            held = as_float(held) if declared_type == "float" else held
        digits = len(written.as_tuple().digits)
        assert is_taken == (math.isfinite(held) and Decimal(f"{held:.{digits}g}") == written), text
        outcomes[is_taken] += 1
    assert min(outcomes[True], outcomes[False]) > 1_000


def as_float(number: float) -> float:
    try:
        (found,) = struct.unpack("f", struct.pack("f", number))
    except OverflowError:
        return math.inf
    return float(found)


def test_null_is_refused_where_a_column_takes_none() -> None:
    assert text_of(column("text"), None) is None
    with pytest.raises(ValueError, match="NOT NULL"):
        text_of(column("text", nullable=False), None)


def test_json_is_read_without_floats() -> None:
    assert parsed("[0.1, 1e2]") == [Decimal("0.1"), Decimal("1E+2")]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"after": {"id": 1, "sum": 2, "id": 3}}', "it has 'id' twice in one object"),
        ("[NaN]", "NaN is no number of JSON"),
        ("[" * 200_000, "it is nested too deep"),
    ],
)
@pytest.mark.parametrize("form", [str, str.encode])
def test_json_of_which_a_reader_would_have_to_guess_is_refused(text: str, why: str, form: Any) -> None:
    with pytest.raises(ValueError, match=why):
        parsed(form(text))
