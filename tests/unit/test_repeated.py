"""A repeated comparison reads what the log has touched and a share of the rest, and says so."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seamline.domain.baseline import REPEATED, Baseline, Buckets, repeated_in_words
from seamline.domain.catalogue import Table
from seamline.domain.cutover import Boundary
from seamline.domain.digest import SegmentDigest
from seamline.domain.verdict import Verdict
from seamline.plan.checks import BudgetPlan, ControlTotalPlan, ReconcilePlan
from seamline.plan.document import plan_from_json, plan_to_json
from seamline.sync.budget import Spending
from seamline.sync.log_between import changes_between
from seamline.sync.repeated import Reading, _oldest
from tests.log_topic import position
from tests.unit.memory_views import ENTRY, RATE
from tests.unit.test_budget import Ticking
from tests.unit.test_comparison import RUN
from tests.unit.witnessed_bank import PAIRED, Bank

# 40 rows in ten ranges of four keys each.
RANGES = 10


def matched(*, rotate: int = 5, table: Table = ENTRY) -> Bank:
    """After a first comparison, which has read all."""
    bank = Bank(table=replace(table, rows_estimate=40), rotate=rotate)
    bank.log.transaction()
    found = bank.compare()
    assert (found.verdict, found.tables[0].reason) == (Verdict.MATCH, "")
    assert REPEATED not in found.evidence
    return bank


def read_of(found: Any) -> int | None:
    """How many buckets were read of the table; None where all were."""
    in_part = found.evidence.get(REPEATED, {}).get("entry")
    return None if in_part is None else int(in_part["read"])


def test_what_the_log_has_touched_and_a_share_of_the_rest_are_read_and_the_verdict_says_so() -> None:
    bank = matched()
    first = bank.kept["entry"]
    bank.write(key=2, memo="moved")
    bank.write(key=40, memo="moved")
    found = bank.compare()
    # Two that were touched, and a fifth of ten.
    assert read_of(found) == 4
    assert found.tables[0].verdict is Verdict.MATCH
    assert found.tables[0].reason == "4 of 10 buckets read, the others since 2026-02-25 06:13 UTC"
    assert (found.tables[0].source_rows, found.tables[0].destination_rows) == (40, 40)
    assert list(repeated_in_words(found.evidence)) == [
        f"entry: 4 of 10 buckets read; 24 rows stand on earlier comparisons, the oldest at {position(1)}, committed"
        " 2026-02-25 06:13:20 +00:00"
    ]
    kept = bank.kept["entry"]
    assert kept.ledger.next_offset > first.ledger.next_offset
    assert kept.looked == (2, 2, 2, 1, 1, 1, 1, 1, 1, 2)


@pytest.mark.parametrize("key", [1, 4, 5, 20, 37, 40])
@pytest.mark.parametrize("rotate", [2, 3, 7])
def test_a_change_outside_seamline_in_a_bucket_that_nothing_touches_is_found_at_the_latest_at_the_nth_comparison(
    key: int, rotate: int
) -> None:
    bank = matched(rotate=rotate)
    bank.destination[key - 1]["memo"] = "by hand"
    verdicts = []
    for number in range(rotate):
        # Meanwhile the log touches other rows.
        bank.write(key=key % 40 + 1 if number % 2 else (key + 19) % 40 + 1, amount=Decimal(number))
        verdicts.append(bank.compare())
        if verdicts[-1].verdict is Verdict.BREAK:
            break
    assert verdicts[-1].verdict is Verdict.BREAK, "it was not found in so many comparisons"
    assert [one.key for one in verdicts[-1].tables[0].breaks] == [f'{{"id": "{key}"}}']


@settings(max_examples=30, deadline=None)
@given(
    count=st.integers(1, 40),
    rotate=st.integers(2, 9),
    touched=st.lists(st.frozensets(st.integers(0, 39)), min_size=9, max_size=9),
)
def test_every_bucket_is_read_within_so_many_comparisons_whatever_the_log_touches(
    count: int, rotate: int, touched: list[frozenset[int]]
) -> None:
    looked = [1] * count
    for number in range(rotate):
        mine = frozenset(one for one in touched[number] if one < count)
        known = Baseline("t", "", None, Buckets(count), (), tuple(looked))  # type: ignore[arg-type]
        for one in mine | _oldest(known, mine, rotate):
            looked[one] = number + 2
    assert min(looked) > 1


@pytest.mark.parametrize("key", [1, 4, 5, 13, 40])
def test_every_key_that_the_log_touches_is_read(key: int) -> None:
    bank = matched(rotate=300)
    bank.write(to="source", key=key, memo="moved")
    assert bank.compare().verdict is Verdict.BREAK


def test_a_set_of_touched_buckets_that_misses_a_key_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: the last change of the log is lost on the way. The row that it has changed, alike on both sides, is then
    one that the log does not explain, as soon as its bucket is read."""
    bank = matched(rotate=2)
    bank.write(key=30, memo="moved")
    bank.write(key=2, memo="moved")

    def lossy(*args: Any, **how: Any) -> Any:
        return iter(list(changes_between(*args, **how))[:-1])

    monkeypatch.setattr("seamline.sync.third_witness.changes_between", lossy)
    found = bank.compare()
    assert (found.verdict, read_of(found)) == (Verdict.MATCH, None), "all was read, and found equal"
    assert bank.broken == ["entry"]
    monkeypatch.undo()
    assert read_of(bank.compare()) is None, "and once more, to begin anew"
    assert read_of(bank.compare()) is not None


def test_keys_that_are_new_divide_the_last_range_and_those_before_the_first_are_in_it() -> None:
    bank = matched(rotate=10)
    for key in (*range(41, 61), -7, 1_000):
        bank.insert(key)
    found = bank.compare()
    assert found.verdict is Verdict.MATCH
    kept = bank.kept["entry"]
    assert kept.buckets.count > RANGES and kept.buckets.edges is not None
    assert kept.buckets.edges[: RANGES - 1] == (5, 9, 13, 17, 21, 25, 29, 33, 37)
    assert sum(digest.rows for digest in kept.digests) == 62 == found.tables[0].source_rows
    bank.destination[-1]["memo"] = bank.destination[0]["memo"] = "by hand"
    bank.write(key=1_000, amount=Decimal(1))
    bank.write(key=-7, amount=Decimal(1))
    bank.destination[-1]["memo"] = bank.destination[0]["memo"] = "by hand"
    assert {one.key for one in bank.compare().tables[0].breaks} == {'{"id": "-7"}', '{"id": "1000"}'}


WHOLE: dict[str, Any] = {
    "it is asked for": lambda bank: setattr(bank, "is_whole", True),
    "totals are declared": lambda bank: setattr(bank, "totals", (ControlTotalPlan("entry", "amount", ("currency",)),)),
    "it was a BREAK": lambda bank: bank.broken.append("entry"),
    "it was loaded again": lambda bank: setattr(
        bank, "boundaries", (Boundary("entry", position(1), generation=2, ended=True),)
    ),
    "its log was made again": lambda bank: bank.kept.update(
        entry=replace(bank.kept["entry"], ledger=replace(bank.kept["entry"].ledger, topic_id="another"))
    ),
    "everything is read each time": lambda bank: setattr(bank, "rotate", 1),
    "it has far more rows than ranges": lambda bank: bank.kept.update(
        entry=replace(bank.kept["entry"], digests=(SegmentDigest(10_000, 10_000, 1, 1),) * RANGES)
    ),
}


@pytest.mark.parametrize("what", WHOLE)
def test_a_table_is_read_whole_where(what: str) -> None:
    bank = matched()
    WHOLE[what](bank)
    bank.write(key=2, memo="moved")
    found = bank.compare()
    assert (found.verdict, read_of(found)) == (Verdict.MATCH, None)


@pytest.mark.parametrize("table", [PAIRED, replace(ENTRY, key=())], ids=["by a hash", "without a key"])
def test_only_ranges_of_a_key_are_left_out(table: Table) -> None:
    bank = matched(table=table)
    bank.write(key=2, memo="moved")
    found = bank.compare()
    assert (found.verdict, read_of(found)) == (Verdict.MATCH, None)
    assert ("entry" in bank.kept) is table.is_keyed


def test_numbers_that_are_compared_by_a_tolerance_are_read_whole() -> None:
    rates = [{"id": number, "rate": 1.5} for number in range(1, 41)]
    bank = Bank(table=replace(RATE, name="entry", rows_estimate=40), rotate=5, source=rates,
                destination=[dict(row) for row in rates])  # fmt: skip
    bank.log.transaction()
    assert bank.compare().verdict is Verdict.MATCH
    found = bank.compare()
    assert (found.verdict, read_of(found)) == (Verdict.MATCH, None)


def test_after_a_break_all_rows_are_compared_until_they_match_again() -> None:
    bank = matched()
    bank.write(to="source", key=2, memo="moved")
    assert bank.compare().verdict is Verdict.BREAK
    # Nothing touches it any more, so by the log alone nothing would be read.
    assert bank.compare().verdict is Verdict.BREAK
    bank.put(bank.destination, bank.source[1])
    found = bank.compare()
    assert (found.verdict, read_of(found)) == (Verdict.MATCH, None)
    assert bank.broken == []
    assert read_of(bank.compare()) == 2


def test_a_table_that_was_emptied_is_read_whole() -> None:
    bank = matched(rotate=300)
    bank.log.truncate("entry")
    bank.log.transaction()
    bank.source.clear()
    assert bank.compare().verdict is Verdict.BREAK


def test_a_budget_that_is_over_says_how_many_ranges_were_compared() -> None:
    bank = matched()
    bank.write(key=2, memo="moved")
    # Five looks at the clock: the first range of those that are read, and no more.
    spent = Spending(BudgetPlan(time_s=3), Ticking())
    found = bank.compare(spending=lambda: spent)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert " of 3 ranges of its key were compared till then, and they are equal" in found.tables[0].reason
    assert bank.kept["entry"].looked == (1,) * RANGES


def test_a_plan_that_keeps_nothing_has_the_text_that_it_had() -> None:
    assert '"rotate"' not in plan_to_json(RUN.plan)
    plan = replace(RUN.plan, reconcile=ReconcilePlan(rotate=7))
    assert plan_from_json(plan_to_json(plan)) == plan


def test_a_reading_that_was_never_asked_is_not_in_part() -> None:
    assert not Reading().is_in_part
    assert Reading().in_words() == ""
