"""The certificate as a document: verdict first, every difference on both paths, nothing that is not shown."""

from dataclasses import replace

import pytest

from seamline.domain.certificate import (
    Certificate,
    ColumnParity,
    DestinationParity,
    LeftOut,
    Parity,
    Unlike,
    markdown,
    parted,
)
from seamline.domain.probe import Default

SAME = ColumnParity("account", "id", "int(11)", "integer", 5)
DIFFERENT = ColumnParity(
    "account", "memo", "text", "text", 3, (Unlike("'a|b'", "log, insert", "snapshot", "a|b\n", None),)
)
NOT_SENT = ColumnParity("account", "mood", "enum('x')", "text", 0, left_out=(LeftOut("'x'", "Data truncated"),))


def certificate(*columns: ColumnParity, trouble: str = "") -> Certificate:
    destination = DestinationParity("warehouse", "PostgreSQL 18.4", "0/16B3748", columns, trouble)
    return Certificate("settlement", "bank", (("source", "MariaDB 11.4.5"),), (destination,), (("NUL", "stops"),))


@pytest.mark.parametrize(
    ("columns", "verdict"),
    [
        ((SAME,), Parity.SAME),
        ((SAME, NOT_SENT), Parity.NOT_SENT),
        ((SAME, NOT_SENT, DIFFERENT), Parity.DIFFERENT),
        ((), Parity.NOT_SENT),
    ],
)
def test_the_verdict_is_that_of_the_worst_column_and_nothing_is_not_the_same(
    columns: tuple[ColumnParity, ...], verdict: Parity
) -> None:
    assert certificate(*columns).verdict is verdict
    assert markdown(certificate(*columns)).splitlines()[0] == f"# Parity certificate of sync settlement: {verdict}"


def test_no_destination_at_all_is_not_the_same() -> None:
    assert Certificate("settlement", "bank", (), ()).verdict is Parity.NOT_SENT


def test_each_column_has_its_line_and_each_difference_shows_both_sides() -> None:
    lines = markdown(certificate(SAME, NOT_SENT, DIFFERENT)).splitlines()
    assert "| account | id | int(11) | integer | 5 | SAME |" in lines
    assert "| account | memo | text | text | 3 | DIFFERENT |" in lines
    assert r"| account | memo | 'a\|b' | log, insert | snapshot | a\|b\n | NULL |" in lines
    assert "| account | mood | 'x' | Data truncated |" in lines
    assert "| source | MariaDB 11.4.5 |" in lines
    assert "| NUL | stops |" in lines
    assert "PostgreSQL 18.4, compared at 0/16B3748." in lines


def test_each_default_has_its_line_and_says_whether_null_was_sent_against_it() -> None:
    memo = replace(DIFFERENT, default=Default("'none|'"), has_null=True)
    drawn = replace(SAME, default=Default("nextval('n')", "it draws from a sequence"), has_null=True)
    lines = markdown(certificate(memo, drawn, replace(NOT_SENT, default=Default("'x'")))).splitlines()
    assert "### NULL against DEFAULT" in lines
    assert r"| account | memo | 'none\|' | NULL was sent against it |" in lines
    assert "| account | id | nextval('n') | not tried: it draws from a sequence |" in lines
    assert "| account | mood | 'x' | nothing was compared |" in lines
    assert "### NULL against DEFAULT" not in markdown(certificate(SAME))


def test_a_path_that_ended_is_reported() -> None:
    assert "Nothing was compared: connector fails." in markdown(certificate(NOT_SENT, trouble="connector fails."))


def test_long_texts_are_shown_where_they_part() -> None:
    wanted, found = parted("x" * 5_000 + "a", "x" * 5_000)
    assert wanted.startswith("(4,960 characters) … ")
    assert wanted.endswith("xa")
    assert found.endswith("xx")
    assert len(wanted) < 120


def test_short_texts_are_shown_whole() -> None:
    assert parted("-0", "0") == ("-0", "0")
    assert parted(None, "0") == ("NULL", "0")
