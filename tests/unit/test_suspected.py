"""What may have been done to a column: each planted transformation is named, and none that does not fit every row."""

from typing import Any

import pytest

from seamline.domain.catalogue import Column, Kind
from seamline.sync.suspected import another_column, suspected

NUMBER = Column("v", Kind.DECIMAL, "decimal(20,4)", precision=20, scale=4)
MOMENT = Column("v", Kind.DATETIME, "datetime(6)", precision=6)
DAY = Column("v", Kind.DATE, "date")
TEXT = Column("v", Kind.STRING, "varchar(40)", length=40)
HOUR = 3_600_000_000
WINTER, SUMMER = 1_770_000_000_123_456, 1_780_000_000_654_321

PLANTED: dict[str, tuple[Column, list[tuple[Any, Any]], str]] = {
    "cents for units": (
        NUMBER,
        [("1.0000", "100.0000"), ("-2.5000", "-250.0000")],
        "scale: destination = source × 100",
    ),
    "units for cents": (NUMBER, [("1.0000", "0.0100"), ("0.0000", "0.0000")], "scale: destination = source × 0.01"),
    "a third": (NUMBER, [("3.0000", "1.0000"), ("6.0000", "2.0000")], "scale: destination = source × 1/3"),
    "the sign": (NUMBER, [("1.0000", "-1.0000")], "the sign is the other one"),
    "a fee": (NUMBER, [("1.0000", "0.5000"), ("7.0000", "6.5000")], "destination = source - 0.5"),
    "two digits": (NUMBER, [("1.0050", "1.0100"), ("1.1234", "1.1200")], "rounded after 2 digits"),
    "two digits, not rounded": (NUMBER, [("1.0050", "1.0000"), ("1.1290", "1.1200")], "cut off after 2 digits"),
    "a time zone": (
        MOMENT,
        [(WINTER, WINTER + 8 * HOUR), (1, 1 + 8 * HOUR)],
        "time zone: the destination is 8 h later",
    ),
    "half an hour": (MOMENT, [(WINTER, WINTER - HOUR // 2), (HOUR, HOUR // 2)], "is 0.5 h earlier"),
    "summer time": (MOMENT, [(WINTER, WINTER + HOUR), (SUMMER, SUMMER + 2 * HOUR)], "1 h later or 2 h later"),
    "milliseconds": (MOMENT, [(WINTER, WINTER // 1000 * 1000)], "cut off to whole milliseconds"),
    "a date for a moment": (MOMENT, [(WINTER, WINTER // (24 * HOUR) * 24 * HOUR)], "cut off to whole days"),
    "the day before": (DAY, [("2026-03-01", "2026-02-28"), ("2026-01-01", "2025-12-31")], "is 1 day earlier"),
    "blanks at the end": (TEXT, [("a ", "a"), ("b  ", "b")], "trimmed: blanks at the end"),
    "blanks around": (TEXT, [(" a ", "a"), ("b ", "b")], "trimmed at both ends"),
    "capitals": (TEXT, [("aB", "AB"), ("straße", "STRASSE")], "capitals"),
    "leading zeros": (TEXT, [("0042", "42"), ("07", "7")], "leading zeros"),
    "mojibake": (TEXT, [("Zürich", "ZÃ¼rich")], "UTF-8 was read as Latin-1"),
    "question marks": (TEXT, [("票据", "??")], "has become ?"),
    "letters in parts": (TEXT, [("é", "e\u0301")], "decomposed letters"),
    "a shorter column": (TEXT, [("abcdef", "abc"), ("abcdxy", "abc")], "cut off after 3 characters"),
    "NULL for nothing": (TEXT, [("", None), ("", None)], "'' has become NULL"),
    "nothing for NULL": (TEXT, [(None, ""), (None, "")], "NULL has become ''"),
    "a column that nobody fills": (TEXT, [("a", None), ("", None)], "the destination has NULL in every row"),
    "a default": (TEXT, [("a", "x"), ("b", "x")], "the destination has one value in every row"),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_transformation_is_named(planted: str) -> None:
    column, pairs, words = PLANTED[planted]
    texts = [tuple(None if one is None else str(one) for one in pair) for pair in pairs]
    assert words in suspected(column, texts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("column", "pairs"),
    [
        (NUMBER, [("1.0000", "2.0000"), ("5.0000", "7.3142")]),
        (NUMBER, [("1.0000", "100.0000")]),
        (NUMBER, [("1.0000", "100.0000"), ("2.0000", None)]),
        (NUMBER, [("NaN", "1.0000"), ("2.0000", "2.0000")]),
        (MOMENT, [("1", "2"), ("1", "4")]),
        (MOMENT, [("infinity", "2"), ("1", "3")]),
        (DAY, [("2026-03-01", "2026-02-28"), ("2026-01-01", "2025-12-30")]),
        (DAY, [("0000-00-00", "2026-02-28"), ("2026-01-01", "2025-12-31")]),
        (TEXT, [("a ", "a"), ("b", "c")]),
        (TEXT, []),
    ],
)
def test_nothing_is_suspected_that_does_not_fit_every_row(column: Column, pairs: Any) -> None:
    assert suspected(column, pairs) == ""


def test_another_column_of_the_source_is_named_where_it_fits_every_row() -> None:
    columns = [Column(name, Kind.STRING, "text") for name in "abc"]
    source = [{"a": "1", "b": "x", "c": "m"}, {"a": "2", "b": "y", "c": None}]
    swapped = [{"a": one["b"], "b": one["a"], "c": one["c"]} for one in source]
    copied = [{**one, "a": one["c"]} for one in source]
    for made, words in ((swapped, "it is swapped with b"), (copied, "it holds the source's c"), (source, "")):
        assert another_column(columns[0], columns, list(zip(source, made, strict=True))) == words
    one_row = list(zip(source[:1], swapped[:1], strict=True))
    assert another_column(columns[0], columns, one_row) == "", "one value fits by chance"
    spoilt = [swapped[0], {**swapped[1], "a": "z"}]
    assert another_column(columns[0], columns, list(zip(source, spoilt, strict=True))) == ""
