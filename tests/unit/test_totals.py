"""Control totals of rows in the typed form: what each measure is, and that of a table of many rows nothing is lost."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest

from seamline.domain.canonical import group_key
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.measure import Measure, hash_number, named, of_texts
from seamline.values import totals
from seamline.values.build import batch_of
from seamline.values.segments import texts_of
from seamline.values.totals import GroupTotals

ACCOUNTS = Table(
    "account",
    (
        Column("no", Kind.STRING, "varchar(40)", length=40),
        Column("n", Kind.INTEGER, "bigint", length=64),
        Column("currency", Kind.CHAR, "char(3)", length=3),
    ),
)
ROWS = [
    ("DE02 1203 0000 0000 2020 51", 1, "EUR"),
    ("12-7", 2, "EUR"),
    (None, 5, "EUR"),
    ("x", 5, "USD"),
    ("3", None, "USD"),
    ("3", 9, None),
]


def measured(columns: Sequence[str], measure: Measure, by: Sequence[str] = ("currency",)) -> dict[Any, Any]:
    found = GroupTotals(ACCOUNTS, columns=columns, by=by, measure=measure)
    for start in range(0, len(ROWS), 2):
        found.add(batch_of(ACCOUNTS, ROWS[start : start + 2]))
    groups: dict[tuple[str, ...], list[tuple[str | None, ...]]] = {}
    for row in texts_of(ACCOUNTS.columns, batch_of(ACCOUNTS, ROWS)):
        of = dict(zip(("no", "n", "currency"), row, strict=True))
        groups.setdefault(group_key([of[name] for name in by]), []).append(tuple(of[name] for name in columns))
    named_columns = [ACCOUNTS.column(name) for name in columns]
    reference = {group: (len(rows), of_texts(measure, named_columns, rows)) for group, rows in groups.items()}
    assert found.found() == reference, "as the reference says"
    return {group: number for group, (_, number) in reference.items()}


@pytest.mark.parametrize(
    ("columns", "measure", "eur", "usd", "null"),
    [
        (["n"], Measure.SUM, 8, 5, 9),
        (["n"], Measure.HASH, 8, 5, 9),
        (["no"], Measure.HASH, 120300000000202051 + 127, 3, 3),
        (["n"], Measure.LEAST, 1, 5, 9),
        (["n"], Measure.GREATEST, 5, 5, 9),
        (["n"], Measure.MISSING, 2, 0, 0),
        (["n"], Measure.DUPLICATES, 0, 0, 0),
        ([], Measure.SUM, None, None, None),
    ],
)
def test_each_measure_gives_one_exact_number_per_group(
    columns: list[str], measure: Measure, eur: Any, usd: Any, null: Any
) -> None:
    assert measured(columns, measure) == {("EUR",): eur, ("USD",): usd, ("~",): null}


def test_rows_with_the_same_values_are_duplicates_and_one_with_a_null_is_none() -> None:
    assert measured(["n"], Measure.DUPLICATES, by=()) == {(): 1}
    assert measured(["no"], Measure.DUPLICATES, by=()) == {(): 1}
    assert measured(["no", "currency"], Measure.DUPLICATES, by=()) == {(): 0}


def test_values_are_kept_once_however_many_rows_have_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(totals, "_KEPT", 10)
    found = GroupTotals(ACCOUNTS, columns=["n"], by=["currency"], measure=Measure.MISSING)
    for _ in range(3):
        found.add(batch_of(ACCOUNTS, [("1", n, "EUR") for n in range(20) if n != 7]))
    assert found.found() == {("EUR",): (57, Decimal(1))}


def test_sums_are_exact_beyond_the_digits_of_python_s_default() -> None:
    table = Table("t", (Column("v", Kind.DECIMAL, "decimal(38,0)", precision=38),))
    found = GroupTotals(table, columns=["v"], by=(), measure=Measure.MISSING)
    found.add(batch_of(table, [(Decimal(1),), (Decimal(10) ** 37,)]))
    assert found.found() == {(): (2, Decimal(10**37 - 2))}


def test_a_text_is_the_number_of_its_last_eighteen_digits() -> None:
    assert hash_number("DE02 1203 0000 0000 2020 51") == 120300000000202051
    assert hash_number("9" * 19) == 10**18 - 1
    assert hash_number("no digit, and no ١") is None


def test_a_hash_total_is_called_so_in_reports() -> None:
    assert named(Measure.HASH, ["account_no"]) == "hash total of account_no"
    assert named(Measure.SUM, ["amount"]) == "amount"
