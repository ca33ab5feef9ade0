"""Canonical texts: different rows never share one, and a text gives its row again."""

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamline.domain.canonical import (
    FloatSummary,
    bucket_of,
    canonical_row,
    canonical_text,
    digest_of,
    exact_columns,
    floats_agree,
    group_key,
    inexact_columns,
    literal_text,
    parse_row_text,
    readable_text,
    row_text,
)
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.digest import SegmentDigest
from seamline.domain.errors import InvariantViolated, SchemaConflict

_MICROSECOND = timedelta(microseconds=1)
# Texts made of what the format itself uses: separators, digits, colons, the NULL mark.
_TRICKY = st.one_of(st.text(alphabet="~,:0123 ab€", max_size=6), st.text(max_size=12))
_VALUES: dict[Kind, st.SearchStrategy[Any]] = {
    Kind.INTEGER: st.integers(-(2**63), 2**63 - 1),
    Kind.UNSIGNED: st.integers(0, 2**64 - 1),
    Kind.DECIMAL: st.decimals(allow_nan=False, allow_infinity=False, places=30, min_value=-(10**30), max_value=10**30),
    Kind.BOOLEAN: st.booleans(),
    Kind.BITS: st.integers(0, 2**64 - 1),
    Kind.CHAR: _TRICKY.map(lambda text: text.rstrip(" ")),
    Kind.STRING: _TRICKY,
    Kind.BINARY: st.binary(min_size=4, max_size=4),
    Kind.BYTES: st.binary(max_size=8),
    Kind.DATE: st.dates(),
    Kind.DATETIME: st.datetimes(),
    Kind.INSTANT: st.datetimes(timezones=st.just(UTC)),
    Kind.TIME: st.timedeltas(timedelta(hours=-839), timedelta(hours=839)),
    Kind.YEAR: st.integers(1901, 2155),
    Kind.ENUM: _TRICKY,
    Kind.SET: _TRICKY,
    Kind.JSON: _TRICKY,
    Kind.UUID: st.uuids(),
}
_KINDS = sorted(_VALUES)


def _table(kinds: list[Kind]) -> Table:
    return Table("t", tuple(Column(f"c{n}", kind, kind.value, scale=30) for n, kind in enumerate(kinds)))


@st.composite
def _tables_and_rows(draw: st.DrawFn) -> tuple[Table, dict[str, Any], dict[str, Any]]:
    kinds = draw(st.lists(st.sampled_from(_KINDS), min_size=1, max_size=5))
    rows = [{f"c{n}": draw(st.one_of(st.none(), _VALUES[kind])) for n, kind in enumerate(kinds)} for _ in range(2)]
    return _table(kinds), rows[0], rows[1]


@given(_tables_and_rows())
def test_different_rows_have_different_texts(drawn: tuple[Table, dict[str, Any], dict[str, Any]]) -> None:
    table, one, other = drawn
    assert (canonical_row(table, one) == canonical_row(table, other)) == (one == other)


@given(_tables_and_rows())
def test_a_row_text_gives_its_columns_again(drawn: tuple[Table, dict[str, Any], dict[str, Any]]) -> None:
    table, row, _ = drawn
    texts = parse_row_text(table.columns, canonical_row(table, row))
    assert texts == tuple(canonical_text(column, row[column.name]) for column in table.columns)


@given(st.lists(_TRICKY, max_size=6), st.lists(_TRICKY, max_size=6))
def test_digests_of_two_parts_add_up_to_that_of_the_whole(one: list[str], other: list[str]) -> None:
    both = digest_of([*one, *other], run_key="k")
    assert digest_of(one, run_key="k") + digest_of(other, run_key="k") == both
    assert both - digest_of(other, run_key="k") == digest_of(one, run_key="k")


def test_a_digest_counts_copies_and_depends_on_the_run_key() -> None:
    assert digest_of(["a", "a"], run_key="k") != digest_of(["a"], run_key="k")
    assert digest_of(["a"], run_key="k") != digest_of(["a"], run_key="l")
    assert digest_of([], run_key="k") == SegmentDigest()


@given(
    st.integers(-(2**63), 2**63 - 1),
    st.text(max_size=5),
    st.sampled_from(["n", "s", "n s", ""]),
    st.sampled_from([1, 4, 64, 1000]),
    st.sampled_from([2, 64]),
)
def test_a_finer_search_splits_buckets_and_never_mixes_them(
    number: int, text: str, key: str, buckets: int, factor: int
) -> None:
    columns = (Column("n", Kind.INTEGER, "bigint"), Column("s", Kind.STRING, "text"))
    table = Table("t", columns, tuple(key.split()))
    row = {"n": number, "s": text}
    fine = bucket_of(table, row, buckets=buckets * factor, run_key="k")
    assert fine % buckets == bucket_of(table, row, buckets=buckets, run_key="k")
    assert 0 <= fine < buckets * factor


@pytest.mark.parametrize("text", ["", "1,2,3", "5:ab", "x", "1:ab,2", "2:ab"])
def test_a_torn_text_is_refused(text: str) -> None:
    columns = (Column("s", Kind.STRING, "text"), Column("n", Kind.INTEGER, "int"))
    with pytest.raises(InvariantViolated):
        parse_row_text(columns, text)


def test_a_decimal_is_never_rounded() -> None:
    column = Column("d", Kind.DECIMAL, "decimal(65,2)", scale=2)
    wide = "123456789012345678901234567890123456789012345678901234567890123"
    assert canonical_text(column, Decimal(f"{wide}.10000")) == f"{wide}.10"
    assert canonical_text(column, Decimal("-0.00")) == "0.00"
    assert canonical_text(column, Decimal("1E+3")) == "1000.00"
    with pytest.raises(SchemaConflict, match="more than the 2 decimals"):
        canonical_text(column, Decimal("0.001"))


@pytest.mark.parametrize("named", ["float", "float(7,3)", "float unsigned", "double", "double(10,2) unsigned zerofill"])
def test_floats_of_mariadb_are_no_exact_columns(named: str) -> None:
    table = Table("t", (Column("f", Kind.DOUBLE, named), Column("n", Kind.INTEGER, "int")))
    assert [column.name for column in exact_columns(table)] == ["n"]
    assert [column.name for column in inexact_columns(table)] == ["f"]


@pytest.mark.parametrize("named", ["real", "double precision", "bank.rate", "bank.float", "float_of_ours"])
def test_floats_of_postgresql_are_exact_columns_as_all_others(named: str) -> None:
    table = Table("t", (Column("f", Kind.FLOAT, named), Column("n", Kind.INTEGER, "int")))
    assert exact_columns(table) == table.columns
    assert not inexact_columns(table)


@given(st.one_of(st.floats(), st.floats(width=32)))
def test_a_float_reads_back_from_its_text_bit_by_bit(number: float) -> None:
    text = canonical_text(Column("d", Kind.DOUBLE, "double precision"), number)
    assert text is not None
    assert repr(float(text)) == repr(number)


@pytest.mark.parametrize(
    ("kind", "one", "other", "agree"),
    [
        (Kind.FLOAT, "0.3333333432674408", "0.333333343267441", True),
        (Kind.FLOAT, "0.333333", "0.33334", False),
        (Kind.DOUBLE, "0.1", "0.1", True),
        (Kind.DOUBLE, "1.732224012649634", "1.732224013", False),
        (Kind.DOUBLE, "-0.0", "0.0", True),
        (Kind.DOUBLE, None, "0.0", False),
        (Kind.DOUBLE, None, None, True),
    ],
)
def test_floats_agree_within_their_own_precision(kind: Kind, one: str | None, other: str | None, agree: bool) -> None:
    assert floats_agree(kind, one, other) is agree


def test_a_float_summary_shows_a_changed_value() -> None:
    summary = FloatSummary(3, -1.0, 5.0, Decimal("4.5"))
    within = Decimal("4.500000000000001")
    assert summary.agrees_with(FloatSummary(3, -1.0, 5.0, within), kind=Kind.DOUBLE)
    assert not summary.agrees_with(FloatSummary(3, -1.0, 5.0, Decimal("4.6")), kind=Kind.DOUBLE)
    assert not summary.agrees_with(FloatSummary(2, -1.0, 5.0, Decimal("4.5")), kind=Kind.DOUBLE)
    assert FloatSummary(0, None, None, None).agrees_with(FloatSummary(0, None, None, None), kind=Kind.FLOAT)


def test_one_changed_value_among_millions_shows_in_the_sum() -> None:
    """The slack grows with the rows, so it must stay far below one value: here 10 million rows and 0.0001."""
    count, total = 10_000_000, Decimal("1234567.1")
    summary = FloatSummary(count, 0.0, 1.0, total)
    assert not summary.agrees_with(FloatSummary(count, 0.0, 1.0, total + Decimal("0.0001")), kind=Kind.DOUBLE)


@given(st.datetimes(), st.timedeltas(timedelta(hours=-838), timedelta(hours=838)))
def test_moments_and_spans_become_literals_of_their_own_type(moment: datetime, span: timedelta) -> None:
    column = Column("d", Kind.DATETIME, "datetime(6)")
    assert datetime.fromisoformat(literal_text(column, canonical_text(column, moment) or "")) == moment
    column = Column("t", Kind.TIME, "time(6)")
    text = literal_text(column, canonical_text(column, span) or "")
    hours, minutes, seconds = text.removeprefix("-").split(":")
    parsed = timedelta(hours=int(hours), minutes=int(minutes), microseconds=round(float(seconds) * 1_000_000))
    assert (-parsed if text.startswith("-") else parsed) == span


_YEARS_400 = 146_097 * 86_400_000_000
FAR = {
    "12026-01-01 00:00:00": (datetime(2026, 1, 1, tzinfo=UTC), 25),
    "10000-01-01 00:00:00": (datetime(2000, 1, 1, tzinfo=UTC), 20),
    "294276-12-31 23:59:59.999999": (datetime(2276, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), 730),
    "0001-12-31 23:59:59.000001 BC": (datetime(400, 12, 31, 23, 59, 59, 1, tzinfo=UTC), -1),
    "4713-01-01 00:00:00 BC": (datetime(88, 1, 1, tzinfo=UTC), -12),
}


@pytest.mark.parametrize("text", FAR)
def test_moments_that_python_cannot_write_are_literals_as_postgresql_writes_them(text: str) -> None:
    within, cycles = FAR[text]
    canonical = canonical_text(Column("at", Kind.INSTANT, "timestamptz"), within)
    assert canonical is not None
    moment = str(int(canonical) + cycles * _YEARS_400)
    assert literal_text(Column("d", Kind.DATETIME, "timestamp"), moment) == text
    assert readable_text(Column("d", Kind.INSTANT, "timestamptz"), moment) == f"{text} UTC"


@pytest.mark.parametrize(
    ("days", "text"),
    [
        (-719_528, "0001-01-01 BC"),
        (-719_163, "0001-12-31 BC"),
        (-719_469, "0001-02-29 BC"),
        (-2_440_550, "4713-01-01 BC"),
        (2_932_897, "10000-01-01"),
        (2_145_042_905, "5874897-12-31"),
    ],
)
def test_days_that_python_cannot_write_are_literals_as_postgresql_writes_them(days: int, text: str) -> None:
    column = Column("d", Kind.DATE, "date")
    assert literal_text(column, f"{days}d") == text
    assert readable_text(column, f"{days}d") == text, "also for a person"
    assert literal_text(column, "2026-11-20") == "2026-11-20"
    assert literal_text(column, "-infinity") == "-infinity"


@pytest.mark.parametrize("kind", [Kind.DATETIME, Kind.INSTANT, Kind.TIME])
def test_what_is_no_number_is_reported_as_it_is(kind: Kind) -> None:
    assert readable_text(Column("d", kind, "endless"), "Infinity") == "Infinity"


@given(st.lists(st.one_of(st.none(), st.text(alphabet="~a", max_size=3)), max_size=2))
def test_no_group_counterfeits_null(texts: list[str | None]) -> None:
    key = group_key(texts)
    read = [None if text == "~" else text.removeprefix("~") if text.startswith("~") else text for text in key]
    assert read == texts


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (Kind.DATE, 0, "1970-01-01"),
        (Kind.DATE, -719_162, "0001-01-01"),
        (Kind.DATE, -719_163, "-719163d"),
        (Kind.DATE, 2_932_897, "2932897d"),
        (Kind.DATE, math.inf, "infinity"),
        (Kind.DATETIME, 2**63, "9223372036854775808"),
        (Kind.INSTANT, -math.inf, "-Infinity"),
        (Kind.INTERVAL, (14, 3, -1), "14m3d-1"),
        (Kind.INTERVAL, -math.inf, "-infinity"),
        (Kind.DECIMAL, Decimal("1.10"), "1.10"),
        (Kind.DECIMAL, Decimal("-0.00"), "0.00"),
        (Kind.DECIMAL, Decimal("1e3"), "1000"),
        (Kind.DECIMAL, Decimal("-Infinity"), "-Infinity"),
    ],
)
def test_values_that_python_cannot_say_have_the_texts_that_postgresql_makes(kind: Kind, value: Any, text: str) -> None:
    assert canonical_text(Column("v", kind, ""), value) == text


@pytest.mark.parametrize("kind", [Kind.DATE, Kind.DATETIME, Kind.INTERVAL])
def test_a_float_that_is_not_infinite_is_no_date(kind: Kind) -> None:
    with pytest.raises(InvariantViolated, match="only infinity is"):
        canonical_text(Column("v", kind, ""), 1.5)


def test_a_date_is_its_iso_text() -> None:
    columns = (Column("d", Kind.DATE, "date"), Column("u", Kind.UUID, "uuid"))
    texts = [canonical_text(columns[0], date(7, 1, 2)), None]
    assert row_text(columns, texts) == "0007-01-02,~"
