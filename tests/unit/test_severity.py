"""How severe a break is and by when somebody has to be done with it."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from seamline.domain.severity import Differs, Severity, differs, judge
from seamline.domain.verdict import Break, BreakType
from seamline.spec.faults import DeclarationsInvalid
from seamline.spec.load import declared_work, load_declarations
from tests.unit.test_break_work import declared

FIRST = datetime(2026, 3, 2, tzinfo=UTC)
HOUR = timedelta(hours=1)
HIGH = Severity("high", 24 * HOUR, Decimal(100_000), "CNY", 120 * HOUR, "head")
LOW = Severity("low", 72 * HOUR, Decimal(1))
CLASSES = (HIGH, LOW)


@pytest.mark.parametrize(
    ("amount", "group", "hours", "name", "due"),
    [
        ("100000", ("CNY",), 0, "high", 24),
        ("99999.99", ("CNY",), 0, "low", 72),
        ("100000", ("EUR",), 0, "low", 72),
        ("100000", ("1", "CNY"), 0, "high", 24),
        ("100000", None, 0, "high", 24),
        ("5", ("CNY",), 120, "high", 72),
        ("5", ("CNY",), 119, "low", 72),
        ("0.5", ("CNY",), 0, None, None),
        ("0.5", ("CNY",), 120, "high", 144),
        ("200000", ("CNY",), 500, "high", 24),
    ],
)
def test_a_break_is_in_the_first_class_by_amount_or_age_and_its_clock_begins_with_that(
    amount: str, group: tuple[str, ...] | None, hours: int, name: str | None, due: int | None
) -> None:
    now = FIRST + hours * HOUR
    found = judge(CLASSES, [Differs(Decimal(amount), group)], FIRST, now)
    if name is None or due is None:
        assert found is None
        return
    assert found is not None
    assert (found.severity.name, found.at) == (name, FIRST + due * HOUR)
    assert found.is_late(now) is (hours >= due)


def test_a_late_break_is_not_in_time_again_when_its_age_brings_it_into_another_class() -> None:
    """It was late from hour 72 to hour 120, and then not again before hour 144."""
    amounts = [Differs(Decimal(5), ("CNY",))]
    late = [
        bool((due := judge(CLASSES, amounts, FIRST, FIRST + hour * HOUR)) and due.is_late(FIRST + hour * HOUR))
        for hour in range(200)
    ]
    assert late == [hour >= 72 for hour in range(200)]


def test_how_late_a_break_is_is_said_to_the_minute() -> None:
    due = judge([LOW], [Differs(Decimal(1), ())], FIRST, FIRST)
    assert due is not None
    assert due.in_words(FIRST) == "due in 72 h 0 min"
    assert due.in_words(due.at + timedelta(minutes=5)) == "late for 5 min"


def test_a_break_differs_by_its_summed_columns_a_missing_side_as_nothing() -> None:
    columns = [("amount", ("currency",)), ("fee", ())]

    def of(source: dict[str, str | None] | None, destination: dict[str, str | None] | None) -> list[Differs]:
        return differs(Break("t", BreakType.VALUE, "1", source, destination), columns)

    assert of({"amount": "5", "currency": "EUR"}, None) == [Differs(Decimal(5), ("EUR",))]
    assert of({"amount": "5", "fee": "1"}, {"amount": "7.5", "fee": "1.1"}) == [
        Differs(Decimal("2.5"), None), Differs(Decimal("0.1"), ()),
    ]  # fmt: skip
    assert of({"amount": "x"}, {"amount": "1"}) == []
    assert of({"owner": "a"}, {"owner": "b"}) == []
    assert of(None, None) == []


def test_a_row_of_another_currency_differs_by_all_of_its_amount_in_both() -> None:
    columns = [("amount", ("currency",))]

    def of(*sides: dict[str, str | None], beside: dict[str, str | None]) -> list[Differs]:
        return differs(Break("t", BreakType.VALUE, "1", *sides, beside=beside), columns)

    assert of({"amount": "5"}, {"amount": "7"}, beside={"currency": "CNY"}) == [Differs(Decimal(2), ("CNY",))]
    assert of({"currency": "CNY"}, {"currency": "USD"}, beside={"amount": "-7"}) == [
        Differs(Decimal(7), ("CNY",)), Differs(Decimal(7), ("USD",)),
    ]  # fmt: skip
    assert of({"amount": "5", "currency": "CNY"}, {"amount": "9", "currency": None}, beside={}) == [
        Differs(Decimal(5), ("CNY",)), Differs(Decimal(9), None),
    ]  # fmt: skip


def test_an_amount_that_is_null_counts_as_nothing_as_it_does_in_the_amounts_at_risk() -> None:
    """A million that had become NULL was in no class, so it was never late. tests/integration/test_platform_breaks.py
    holds the sums of the platform database equal to this."""
    columns = [("amount", ("currency",))]
    lost = Break("t", BreakType.VALUE, "1", {"amount": "1000000"}, {"amount": None}, beside={"currency": "CNY"})
    assert differs(lost, columns) == [Differs(Decimal(1_000_000), ("CNY",))]
    assert judge(CLASSES, differs(lost, columns), FIRST, FIRST) is not None
    came = Break("t", BreakType.VALUE, "1", {"amount": None, "currency": None}, {"amount": "5", "currency": "EUR"})
    assert differs(came, columns) == [Differs(Decimal(5), ("EUR",))]
    both = Break("t", BreakType.VALUE, "1", {"currency": None}, {"currency": "EUR"}, beside={"amount": None})
    assert differs(both, columns) == []


def test_a_group_that_is_null_in_one_of_its_columns_is_another_one_where_the_rest_differs() -> None:
    moved = Break("t", BreakType.VALUE, "1", {"unit": "a"}, {"unit": "b"}, beside={"amount": "7", "currency": None})
    assert differs(moved, [("amount", ("unit", "currency"))]) == [Differs(Decimal(7), None), Differs(Decimal(7), None)]


def test_classes_of_severity_are_declared(tmp_path: Path) -> None:
    text = (
        "severity: [{class: high, amount: 100000, currency: CNY, age: 120h, due: 24h, escalate_to: head},"
        " {class: low, amount: 0.05, due: 3d}]"
    )
    rules = declared_work(declared(tmp_path, text), "settlement")
    assert rules.severity == (HIGH, Severity("low", timedelta(days=3), Decimal("0.05")))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("severity: [{class: a, due: 1h}]", "needs `amount` or `age`"),
        ("severity: [{class: a, age: 1h, currency: EUR, due: 1h}]", "`currency` is about `amount`"),
        ("severity: [{class: a, amount: 0, due: 1h}]", "must be more than 0"),
        ("severity: [{class: a, amount: 5}]", "is missing"),
    ],
)
def test_a_class_that_no_break_can_be_in_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(DeclarationsInvalid, match=said):
        load_declarations(declared(tmp_path, text))
