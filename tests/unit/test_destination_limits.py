"""Preflight reports what a PostgreSQL destination cannot take of a table, before the first change."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from seamline.domain.catalogue import Column, Kind, Table
from seamline.sinks.postgres.limits import COLUMNS_MAX, KEYLESS_COLUMNS_MAX, advice, refusals

ID = Column("id", Kind.INTEGER, "int", nullable=False, length=32)
TEXT = Column("c", Kind.STRING, "text")


def table(columns: Sequence[Column], *, key: tuple[str, ...] = ("id",)) -> Table:
    return Table("wide", (ID, *columns), key)


def many(column: Column, count: int) -> list[Column]:
    return [replace(column, name=f"c{number}") for number in range(count)]


def test_900_texts_fit_and_only_a_row_that_is_too_large_is_warned_of() -> None:
    wide = table(many(TEXT, 900))
    assert list(refusals(wide)) == []
    ((what, cure),) = advice(wide)
    assert "table wide may take" in what and "page of 8,160" in what
    assert cure.startswith("nothing, where")


@pytest.mark.parametrize(("key", "most"), [(("id",), COLUMNS_MAX), ((), KEYLESS_COLUMNS_MAX)])
def test_a_column_more_than_staging_can_have_is_refused(key: tuple[str, ...], most: int) -> None:
    assert list(refusals(table(many(TEXT, most - 1), key=key))) == []
    ((what, cure),) = refusals(table(many(TEXT, most), key=key))
    assert f"has {most + 1:,} columns" in what and f"{most:,} are left" in what
    assert "leave it out" in cure


def test_a_name_that_postgresql_would_cut_is_refused() -> None:
    ((what, _),) = refusals(table([replace(TEXT, name="名" * 22)]))
    assert "has more than 63 bytes" in what
    assert list(refusals(table([replace(TEXT, name="名" * 21)]))) == []


def test_a_row_that_fits_no_page_whatever_it_holds_is_refused() -> None:
    """A TIME takes 3 bytes in MariaDB and 16 here."""
    time = Column("c", Kind.TIME, "time", nullable=False)
    assert list(refusals(table(many(time, 500)))) == []
    ((what, _),) = refusals(table(many(time, 520)))
    assert "takes 8,324 bytes or more" in what
    assert list(refusals(table(many(replace(time, nullable=True), 520)))) == [], "a NULL takes nothing"
    ((what, _),) = refusals(table(many(replace(ID, length=64), 1_021)))
    assert "takes 8,172 bytes or more" in what


@pytest.mark.parametrize(
    ("column", "is_reported"),
    [
        (Column("k", Kind.STRING, "varchar(676)", nullable=False, length=676), False),
        (Column("k", Kind.STRING, "varchar(677)", nullable=False, length=677), True),
        (Column("k", Kind.BYTES, "varbinary(2704)", nullable=False, length=2_704), False),
        (Column("k", Kind.BYTES, "blob", nullable=False), True),
    ],
)
def test_a_key_that_may_outgrow_an_index_is_reported(column: Column, is_reported: bool) -> None:
    found = [what for what, _ in advice(Table("t", (column,), ("k",)))]
    assert [what.startswith("a key of table t may be longer than the 2,704 bytes") for what in found] == [
        True
    ] * is_reported
