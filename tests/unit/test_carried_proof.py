"""A table that was carried on is proven by one pass over its rows: every planted fault is found, on either side."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date
from decimal import Decimal

import pytest

from seamline.domain.canonical import canonical_row, canonical_text, digest_of
from seamline.domain.digest import KeyedDigest, Segment, SegmentDigest
from seamline.domain.errors import SeamlineError, TransientError
from seamline.domain.log_patch import PatchedRow, TablePatch
from seamline.domain.made_from import EarlierCut, LogPlace, NotByLog
from seamline.domain.verdict import Verdict
from seamline.ports.digests_by_keys import Others
from seamline.sync import comparison
from seamline.sync.bucket_search import Sides
from seamline.sync.budget import BudgetSpent
from seamline.sync.carried_proof import Carried, is_proven_by_keys, proven_by_keys, require_as_proven
from seamline.sync.comparison import Work, compare_tables
from tests.unit.memory_views import AUDIT, ENTRY, RATE, MemoryView, P, Row, entries

ROWS = 20
KNOWN_BY = "the key of the cut before"


class ByKeys(MemoryView):
    """Answers by keys, too."""

    def digests_by_keys(
        self, table: str, keys: Sequence[int], *, run_keys: Sequence[str], others: Others
    ) -> tuple[Sequence[SegmentDigest], Sequence[SegmentDigest]]:
        self._reach("digests_by_keys")
        named = [row for row in self.content if row["id"] in set(keys)]
        rest = [row for row in self.content if row["id"] not in set(keys)] if others is Others.APART else []
        both = ([canonical_row(self.table, row) for row in part] for part in (named, rest))
        mine, theirs = ([digest_of(texts, run_key=key) for key in run_keys] for texts in both)
        return mine, theirs


def changed(row: Row) -> Row:
    return {**row, "amount": Decimal(-1), "memo": "changed"}


def patch_of(rows: Sequence[Row], *, gone: Sequence[int] = ()) -> TablePatch:
    texts = {str(row["id"]): {one.name: canonical_text(one, row[one.name]) for one in ENTRY.columns} for row in rows}
    return TablePatch(
        {**{key: PatchedRow(one) for key, one in texts.items()}, **{str(n): PatchedRow(None) for n in gone}}
    )


# The log changes rows 2 and 4, deletes 6 and inserts 21.
BEFORE = entries(ROWS)
NEW = {**entries(ROWS + 1)[-1], "memo": "new"}
PATCH = patch_of([changed(BEFORE[1]), changed(BEFORE[3]), NEW], gone=[6])
AFTER = [changed(row) if row["id"] in (2, 4) else row for row in BEFORE if row["id"] != 6] + [NEW]
KNOWN = KeyedDigest(KNOWN_BY, digest_of([canonical_row(ENTRY, row) for row in BEFORE], run_key=KNOWN_BY))


def carried(base: MemoryView, patch: TablePatch = PATCH) -> Carried:
    return Carried(KNOWN, patch, base)


def sides(staged: MemoryView) -> Sides:
    return Sides(ENTRY, MemoryView(ENTRY, []), staged, Segment("entry"), Segment("entry"), "a key of now")


def put(rows: list[Row], number: int, row: Row | None) -> list[Row]:
    """The rows with another one of this number, or without it."""
    return [one for one in rows if one["id"] != number] + ([] if row is None else [row])


def test_what_was_carried_on_is_proven_and_the_base_is_read_for_changed_keys_alone() -> None:
    staged = ByKeys(ENTRY, AFTER)
    found = proven_by_keys(sides(staged), carried(ByKeys(ENTRY, BEFORE)))
    assert found is not None
    expected = digest_of([canonical_row(ENTRY, row) for row in AFTER], run_key="a key of now")
    assert (found.digests, found.rows) == (({0: expected}, {0: expected}), (len(AFTER), len(AFTER)))
    assert staged.asked == ["digests_by_keys"]


OTHER = {**BEFORE[8], "memo": "somebody's"}
FAULTS: dict[str, tuple[Callable[[], list[Row]], Callable[[], list[Row]]]] = {
    # By name what the earlier cut holds, and what was staged.
    "a change was left out": (lambda: BEFORE, lambda: put(AFTER, 2, BEFORE[1])),
    "a change went to another row": (lambda: BEFORE, lambda: put(put(AFTER, 2, BEFORE[1]), 3, changed(BEFORE[2]))),
    "a deleted row is there": (lambda: BEFORE, lambda: [*AFTER, BEFORE[5]]),
    "a new row is not there": (lambda: BEFORE, lambda: put(AFTER, 21, None)),
    "a row was not copied": (lambda: BEFORE, lambda: put(AFTER, 9, None)),
    "a row was copied twice": (lambda: BEFORE, lambda: [*AFTER, BEFORE[8]]),
    "a row was copied wrongly": (lambda: BEFORE, lambda: put(AFTER, 9, OTHER)),
    "two rows have each other's values": (
        lambda: BEFORE,
        lambda: put(put(AFTER, 9, {**BEFORE[9], "id": 9}), 10, {**BEFORE[8], "id": 10}),
    ),
    "the base was changed, and copied so": (lambda: put(BEFORE, 9, OTHER), lambda: put(AFTER, 9, OTHER)),
    "the base lacks a row": (lambda: put(BEFORE, 9, None), lambda: put(AFTER, 9, None)),
    "the base was changed where the log goes on": (lambda: put(BEFORE, 2, {**BEFORE[1], "memo": "x"}), lambda: AFTER),
    # Both sums would be right without the keys: the base has what the log makes, and staged is what it had.
    "the base has a change already that was left out": (
        lambda: put(BEFORE, 2, changed(BEFORE[1])),
        lambda: put(AFTER, 2, BEFORE[1]),
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_proven_by_nothing(fault: str) -> None:
    base, staged = (made() for made in FAULTS[fault])
    assert proven_by_keys(sides(ByKeys(ENTRY, staged)), carried(ByKeys(ENTRY, base))) is None


def test_a_view_that_fails_or_loses_a_hash_proves_nothing() -> None:
    away = ByKeys(ENTRY, AFTER, faults={"digests_by_keys": TransientError("away")})
    assert proven_by_keys(sides(away), carried(ByKeys(ENTRY, BEFORE))) is None
    away = ByKeys(ENTRY, BEFORE, faults={"digests_by_keys": TransientError("away")})
    assert proven_by_keys(sides(ByKeys(ENTRY, AFTER)), carried(away)) is None
    assert proven_by_keys(sides(MemoryView(ENTRY, AFTER)), carried(ByKeys(ENTRY, BEFORE))) is None

    class Losing(ByKeys):
        def digests_by_keys(
            self, table: str, keys: Sequence[int], *, run_keys: Sequence[str], others: Others
        ) -> tuple[Sequence[SegmentDigest], Sequence[SegmentDigest]]:
            mine, theirs = super().digests_by_keys(table, keys, run_keys=run_keys, others=others)
            return mine, [*theirs[:-1], replace(theirs[-1], hashed=theirs[-1].hashed - 1)]

    assert proven_by_keys(sides(Losing(ENTRY, AFTER)), carried(ByKeys(ENTRY, BEFORE))) is None


@pytest.mark.parametrize(
    ("patch", "is_possible"),
    [
        (PATCH, True),
        (TablePatch(), True),
        (TablePatch(emptied=True), False),
        (TablePatch({"1": PatchedRow({"id": "1"}, ("memo",), "1")}), False),
        (TablePatch(copies={"x": ({}, 1)}), False),
    ],
)
def test_the_proof_needs_every_changed_row_whole(patch: TablePatch, is_possible: bool) -> None:
    assert is_proven_by_keys(ENTRY, carried(ByKeys(ENTRY, BEFORE), patch)) is is_possible
    assert not is_proven_by_keys(ENTRY, carried(MemoryView(ENTRY, BEFORE), patch))


def test_a_table_without_a_key_is_proven_so_only_where_the_log_leaves_it_alone() -> None:
    base = ByKeys(AUDIT, [])
    assert is_proven_by_keys(AUDIT, carried(base, TablePatch()))
    assert not is_proven_by_keys(AUDIT, carried(base, TablePatch({"1": PatchedRow(None)})))


def test_a_comparison_takes_the_proof_and_asks_both_sides_where_there_is_none() -> None:
    staged, source = ByKeys(ENTRY, AFTER), MemoryView(ENTRY, AFTER)
    proof = carried(ByKeys(ENTRY, BEFORE))

    def verdict(rows: MemoryView, work: Work) -> Verdict:
        (found,) = compare_tables([work], source=[source], destination=[rows])
        return found.verdict

    whole = Work(ENTRY, Segment("entry"), Segment("entry"), proven=lambda asked: proven_by_keys(asked, proof))
    assert (verdict(staged, whole), source.asked, staged.asked) == (Verdict.MATCH, [], ["digests_by_keys"])
    wrong = ByKeys(ENTRY, put(AFTER, 9, OTHER))
    assert verdict(wrong, whole) is Verdict.BREAK
    assert "digests" in source.asked


WORK = Work(ENTRY, Segment("entry"), Segment("entry"))


@pytest.mark.parametrize("error", [TransientError("the base is away"), BudgetSpent("the budget was over")])
def test_an_error_of_the_proof_is_judged_as_one_of_a_side_and_nothing_is_asked_after_it(error: SeamlineError) -> None:
    """Not as MATCH either, though both sides would answer: what the base holds is not known."""

    def fail(_: Sides) -> None:
        raise error

    source, staged = MemoryView(ENTRY, AFTER), ByKeys(ENTRY, AFTER)
    (found,) = compare_tables([replace(WORK, proven=fail)], source=[source], destination=[staged])
    assert (found.verdict, found.reason) == (Verdict.INCONCLUSIVE, error.message)
    assert {*source.asked, *staged.asked} <= {"columns", "totals"}


def test_a_budget_that_is_over_ends_the_proof_before_its_question() -> None:
    def spent() -> None:
        raise BudgetSpent("the budget was over")

    base, staged = ByKeys(ENTRY, BEFORE), ByKeys(ENTRY, AFTER)
    whole = replace(WORK, proven=lambda asked: proven_by_keys(asked, carried(base)))
    (found,) = compare_tables([whole], source=[MemoryView(ENTRY, AFTER)], destination=[staged], check=spent)
    assert (found.verdict, found.reason) == (Verdict.INCONCLUSIVE, "the budget was over")
    assert (base.asked, staged.asked) == ([], [])


def test_a_base_that_is_not_what_was_compared_is_no_verdict_and_ends_the_comparison(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended, compared = threading.Event(), list[str]()

    class Pool(ThreadPoolExecutor):
        def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
            super().shutdown(wait=False, cancel_futures=cancel_futures)
            ended.set()
            super().shutdown(wait=wait)

    def refuse(_: Sides) -> None:
        raise NotByLog("the base is not what it was")

    def late(_: Sides) -> None:
        # It has begun when the first one fails; those behind it have not.
        assert ended.wait(10)
        raise TransientError("judged")

    def never(sides: Sides) -> None:
        compared.append(sides.table.name)
        raise TransientError("judged")

    monkeypatch.setattr(comparison, "ThreadPoolExecutor", Pool)
    proofs = enumerate((refuse, late, never, never))
    work = [replace(WORK, table=replace(ENTRY, name=f"entry_{number}"), proven=proof) for number, proof in proofs]
    with pytest.raises(NotByLog, match="not what it was"):
        compare_tables(work, source=[MemoryView(ENTRY, AFTER)], destination=[ByKeys(ENTRY, AFTER)])
    assert compared == []


# ---- what the digest leaves out --------------------------------------------------------------------------------------

RATES: list[Row] = [{"id": number, "rate": number / 4} for number in range(1, 6)]
OTHER_RATE = put(RATES, 2, {"id": 2, "rate": 999.0})


def base_of_rates(*, is_whole: bool = True) -> EarlierCut:
    day, place = date(2026, 3, 4), LogPlace("log", "id", 0, P, is_exact=True)
    exact = digest_of([canonical_row(RATE, row) for row in RATES], run_key=KNOWN_BY)
    whole = MemoryView(RATE, RATES).whole_digest("rate", run_key=KNOWN_BY) if is_whole else None
    known = KeyedDigest(KNOWN_BY, exact, whole)
    return EarlierCut(day, 1, "r", Verdict.MATCH, P, place, day.isoformat(), 0, {"rate": known})


def test_a_float_that_somebody_has_changed_in_the_base_is_found() -> None:
    require_as_proven(MemoryView(RATE, RATES), RATE, base_of_rates())
    with pytest.raises(NotByLog, match="rate of the cut of 2026-03-04, version 1, no longer holds what was compared"):
        require_as_proven(MemoryView(RATE, OTHER_RATE), RATE, base_of_rates())


def test_a_base_whose_floats_cannot_be_held_against_what_they_were_is_none() -> None:
    with pytest.raises(NotByLog, match="FLOAT"):
        require_as_proven(MemoryView(RATE, RATES), RATE, base_of_rates(is_whole=False))

    class Exact(MemoryView):
        whole_digest = None  # type: ignore[assignment]

    with pytest.raises(NotByLog, match="FLOAT"):
        require_as_proven(Exact(RATE, RATES), RATE, base_of_rates())


def test_a_table_with_floats_is_not_proven_by_keys() -> None:
    assert not is_proven_by_keys(RATE, carried(ByKeys(RATE, RATES), TablePatch()))
