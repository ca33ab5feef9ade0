from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.changes import Finding
from seamline.domain.digest import Segment
from seamline.domain.errors import SchemaConflict, TransientError
from seamline.domain.measure import Measure
from seamline.domain.position import is_same_place
from seamline.domain.verdict import BreakType, TableVerdict, Verdict
from seamline.plan.checks import ControlTotalPlan
from seamline.sources.mariadb.position import BinlogPosition
from seamline.sources.postgres.position import PostgresPosition
from seamline.sync.bucket_search import Limits, Sides, bucket_count
from seamline.sync.reconcile import compare_table
from tests.unit.memory_views import AUDIT, ENTRY, RATE, MemoryView, Row, entries

# Small numbers, so that few rows already take every turn of the search.
TIGHT = Limits(buckets_max=8, rows_per_bucket=4, leaf_rows=2, refine_by=4, fetch_rows=1_000_000)
TOTALS = (ControlTotalPlan("entry", "amount", ("currency",)),)


def sides(table: Table, source: list[Row], destination: list[Row]) -> Sides:
    table = replace(table, rows_estimate=len(source))
    segment = Segment(table.name)
    return Sides(table, MemoryView(table, source), MemoryView(table, destination), segment, segment, "key")


def compare(source: list[Row], destination: list[Row], *, table: Table = ENTRY, **rest: Any) -> TableVerdict:
    return compare_table(sides(table, source, destination), **({"limits": TIGHT} | rest))


def listed(verdict: TableVerdict) -> set[tuple[str, str]]:
    return {(entry.type.value, entry.key) for entry in verdict.breaks}


def test_equal_rows_in_any_order_match() -> None:
    verdict = compare(entries(50), entries(50)[::-1], totals=TOTALS)
    assert verdict.verdict is Verdict.MATCH
    assert (verdict.source_rows, verdict.destination_rows, verdict.breaks_total) == (50, 50, 0)
    assert [total.group for total in verdict.totals] == [("CNY",), ("EUR",), ("USD",)]


def test_one_changed_one_deleted_one_added_row_are_listed_and_no_other() -> None:
    changed = entries(200)
    changed[10] = {**changed[10], "amount": Decimal("0.0001")}
    del changed[99]
    changed.append({"id": 900, "currency": "EUR", "amount": Decimal(1), "memo": ""})
    verdict = compare(entries(200), changed, totals=TOTALS)
    assert verdict.verdict is Verdict.BREAK
    assert listed(verdict) == {
        ("value", '{"id": "11"}'),
        ("missing", '{"id": "100"}'),
        ("unexpected", '{"id": "900"}'),
    }
    assert verdict.breaks_total == 3
    value = next(entry for entry in verdict.breaks if entry.type is BreakType.VALUE)
    assert (value.source, value.destination) == ({"amount": "2.7500"}, {"amount": "0.0001"})


BOOKED = Table(
    "booked",
    (
        Column("at", Kind.INSTANT, "timestamp(6)", nullable=False),
        Column("seen", Kind.DATETIME, "datetime(6)"),
        Column("took", Kind.TIME, "time(6)"),
    ),
    key=("at",),
)


def test_moments_and_spans_of_a_break_are_reported_as_a_person_writes_them() -> None:
    at, seen = datetime(2026, 11, 21, 10, 0, 0, 5, UTC), datetime(2026, 11, 21, 18, 0)  # noqa: DTZ001 - has no zone
    row: Row = {"at": at, "seen": seen, "took": timedelta(hours=-1)}
    value = compare([row], [change(row, "seen", None)], table=BOOKED).breaks[0]
    assert value.key == '{"at": "2026-11-21 10:00:00.000005 UTC"}'
    assert (value.source, value.destination) == ({"seen": "2026-11-21 18:00:00"}, {"seen": None})
    missing = compare([row], [], table=BOOKED).breaks[0]
    assert missing.source is not None
    assert missing.source["took"] == "-01:00:00.000000"
    (copies,) = compare([row], [], table=replace(BOOKED, key=())).breaks
    assert '"at": "2026-11-21 10:00:00.000005 UTC"' in copies.key


def change(row: Row, column: str, value: Any) -> Row:
    return {**row, column: value}


PLANTED = {
    "null instead of empty": (change(entries(9)[4], "memo", ""), change(entries(9)[4], "memo", None)),
    "empty instead of null": (change(entries(9)[4], "memo", None), change(entries(9)[4], "memo", "")),
    "a trailing space": (change(entries(9)[4], "memo", "a"), change(entries(9)[4], "memo", "a ")),
    "a sign": (change(entries(9)[4], "amount", Decimal("1.5")), change(entries(9)[4], "amount", Decimal("-1.5"))),
    "the last decimal": (
        change(entries(9)[4], "amount", Decimal("1.5000")),
        change(entries(9)[4], "amount", Decimal("1.5001")),
    ),
    "the text of a NULL field": (change(entries(9)[4], "memo", None), change(entries(9)[4], "memo", "~")),
    "other case": (change(entries(9)[4], "memo", "Rent"), change(entries(9)[4], "memo", "rent")),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_difference_is_found(planted: str) -> None:
    good, bad = PLANTED[planted]
    rows = entries(30)
    verdict = compare([*rows[:4], good, *rows[5:]], [*rows[:4], bad, *rows[5:]])
    assert listed(verdict) == {("value", '{"id": "5"}')}


def test_the_same_change_in_two_rows_does_not_cancel_out() -> None:
    # XOR of row hashes is blind to a pair; a sum is not.
    rows = entries(20)
    twice = [{**row, "memo": "x"} if row["id"] in (3, 11) else row for row in rows]
    assert listed(compare(rows, twice)) == {("value", '{"id": "3"}'), ("value", '{"id": "11"}')}
    both = [change(row, "amount", Decimal(5)) if row["id"] in (3, 11) else row for row in rows]
    moved = [change(row, "amount", Decimal(9)) if row["id"] in (3, 11) else row for row in rows]
    assert listed(compare(both, moved)) == {("value", '{"id": "3"}'), ("value", '{"id": "11"}')}


def test_two_rows_with_swapped_values_are_two_breaks_though_all_totals_agree() -> None:
    rows = [change(row, "currency", "EUR") for row in entries(40)]
    swapped = [dict(row) for row in rows]
    swapped[3]["amount"], swapped[8]["amount"] = swapped[8]["amount"], swapped[3]["amount"]
    verdict = compare(rows, swapped, totals=TOTALS)
    assert all(total.is_equal for total in verdict.totals)
    assert listed(verdict) == {("value", '{"id": "4"}'), ("value", '{"id": "9"}')}


def test_a_duplicate_that_hides_a_missing_row_is_seen() -> None:
    rows = entries(40)
    verdict = compare(rows, [rows[0], *rows[:-1]])
    assert (verdict.source_rows, verdict.destination_rows) == (40, 40)
    assert listed(verdict) == {("duplicate", '{"id": "1"}'), ("missing", '{"id": "40"}')}


def test_a_keyless_table_is_compared_as_a_multiset() -> None:
    login = {"actor": "ann", "object": None}
    view = {"actor": "bob", "object": "a"}
    rows = [login] * 5 + [view] * 3
    assert compare(rows, rows[::-1], table=AUDIT).verdict is Verdict.MATCH
    verdict = compare(rows, [login] * 4 + [view] * 4 + [{"actor": "bob", "object": ""}], table=AUDIT)
    assert listed(verdict) == {
        ("missing", '{"actor": "ann", "object": null}'),
        ("duplicate", '{"actor": "bob", "object": "a"}'),
        ("unexpected", '{"actor": "bob", "object": ""}'),
    }
    assert verdict.breaks_total == 3


def test_many_identical_rows_that_no_bucket_parts_are_still_compared() -> None:
    row = {"actor": "ann", "object": None}
    verdict = compare([row] * 40, [row] * 43, table=AUDIT)
    assert listed(verdict) == {("duplicate", '{"actor": "ann", "object": null}')}
    assert verdict.breaks_total == 3


def test_two_empty_tables_match_only_when_counted_and_of_one_schema() -> None:
    assert compare([], []).verdict is Verdict.MATCH
    pair = sides(ENTRY, [], [])
    odd = replace(pair, destination=MemoryView(ENTRY, [], shown=("id", "currency", "amount")))
    assert compare_table(odd).verdict is Verdict.BREAK
    failing = MemoryView(ENTRY, [], faults={"digests": TransientError("the server went away")})
    verdict = compare_table(replace(pair, destination=failing))
    assert (verdict.verdict, verdict.reason) == (Verdict.INCONCLUSIVE, "the server went away")


@pytest.mark.parametrize("method", ["digests", "row_hashes", "rows", "totals"])
def test_an_error_on_either_side_is_never_a_match(method: str) -> None:
    other = entries(30)
    other[0] = change(other[0], "memo", "other")
    for side in ("source", "destination"):
        pair = sides(ENTRY, entries(30), other)
        getattr(pair, side).faults[method] = TransientError("gone")
        assert compare_table(pair, totals=TOTALS, limits=TIGHT).verdict is Verdict.INCONCLUSIVE


def test_a_changed_schema_is_a_break_that_names_the_columns() -> None:
    pair = sides(ENTRY, entries(3), entries(3))
    pair.destination.shown = ("id", "currency", "amount", "memo", "extra")  # type: ignore[attr-defined]
    verdict = compare_table(pair)
    assert verdict.verdict is Verdict.BREAK
    assert "extra ['extra']" in verdict.reason
    pair = sides(ENTRY, entries(3), entries(3))
    pair.source.faults["digests"] = SchemaConflict("no column memo")  # type: ignore[attr-defined]
    assert [entry.type for entry in compare_table(pair).breaks] == [BreakType.SCHEMA]


def test_a_row_without_a_hash_is_an_error() -> None:
    pair = sides(ENTRY, entries(30), entries(30))
    pair.source.lost_hashes = pair.destination.lost_hashes = 1  # type: ignore[attr-defined]
    verdict = compare_table(pair)
    assert verdict.verdict is Verdict.INCONCLUSIVE
    assert "have no hash" in verdict.reason


def test_sides_at_different_positions_are_not_compared() -> None:
    pair = sides(ENTRY, entries(3), entries(3))
    pair.destination.position = BinlogPosition("0-1-99")  # type: ignore[misc]
    assert compare_table(pair).verdict is Verdict.INCONCLUSIVE


def test_positions_are_the_same_place_when_each_covers_the_other() -> None:
    assert is_same_place(BinlogPosition("0-1-5", "b.000001", 40), BinlogPosition("0-1-5", "b.000001", 30))
    assert not is_same_place(BinlogPosition("0-1-5,1-1-2"), BinlogPosition("0-1-5"))
    assert not is_same_place(BinlogPosition("0-1-5"), PostgresPosition(5))


def test_findings_of_the_stream_are_breaks_even_where_the_rows_agree() -> None:
    verdict = compare(entries(5), entries(5), findings=[Finding("entry", "update met no row", '{"id": "3"}', 17)])
    assert (verdict.verdict, verdict.breaks_total) == (Verdict.BREAK, 1)
    assert listed(verdict) == {("finding", '{"id": "3"}')}


def test_a_view_that_changes_while_it_is_searched_is_inconclusive() -> None:
    class Moving(MemoryView):
        def row_hashes(self, segment: Segment, *, run_key: str) -> Any:
            self.content.append({"id": 1000 + len(self.content), "currency": "EUR", "amount": None, "memo": None})
            return super().row_hashes(segment, run_key=run_key)

    other = entries(30)
    other[0] = change(other[0], "memo", "other")
    pair = sides(ENTRY, entries(30), other)
    moving = replace(pair, destination=Moving(pair.table, other))
    verdict = compare_table(moving, limits=replace(TIGHT, buckets_max=1, leaf_rows=99))
    assert verdict.verdict is Verdict.INCONCLUSIVE
    assert "not steady" in verdict.reason


def test_views_that_became_too_old_are_inconclusive() -> None:
    def too_old() -> None:
        raise TransientError("the read views are older than 30 minutes")

    verdict = compare_table(replace(sides(ENTRY, entries(3), entries(3)), check=too_old))
    assert verdict.verdict is Verdict.INCONCLUSIVE


def test_a_bug_is_not_dressed_up_as_a_verdict() -> None:
    pair = sides(ENTRY, entries(3), entries(3))
    pair.source.faults["digests"] = ZeroDivisionError()  # type: ignore[attr-defined]
    with pytest.raises(ZeroDivisionError):
        compare_table(pair)


def test_a_systematic_difference_names_its_column_instead_of_every_row() -> None:
    rows = entries(4_000)
    wrong = [change(row, "memo", "?") for row in rows]
    verdict = compare(rows, wrong, limits=replace(TIGHT, buckets_max=64, leaf_rows=100, fetch_rows=1_000))
    assert verdict.verdict is Verdict.BREAK
    assert "systematic: 64 of 64 buckets differ, in memo;" in verdict.reason
    assert 0 < len(verdict.breaks) < 100


def test_a_systematic_difference_is_one_break_with_some_examples_and_what_may_have_been_done() -> None:
    for count, limits, much in (
        (4_000, replace(TIGHT, buckets_max=64, leaf_rows=100, fetch_rows=1_000), "systematic: 64 of 64 buckets differ"),
        (300, TIGHT, "systematic: 300 of 300 rows differ"),
    ):
        rows = entries(count)
        wrong = [change(row, "amount", row["amount"] * 100) for row in rows]
        verdict = compare(rows, wrong, limits=limits)
        first, *examples = verdict.breaks
        assert (first.type, first.source) == (BreakType.SYSTEMATIC, {"": verdict.reason})
        assert [one.type for one in examples] == [BreakType.VALUE] * 5
        assert f"{much}, in amount" in verdict.reason
        assert verdict.reason.endswith("transformation of amount suspected: scale: destination = source × 100")
        assert verdict.breaks_total == count


def test_many_rows_of_which_a_few_differ_here_and_there_are_listed_and_no_systematic_difference() -> None:
    rows = entries(4_000)
    wrong = [change(row, "memo", "?") if row["id"] % 20 == 0 else row for row in rows]
    verdict = compare(rows, wrong, limits=replace(TIGHT, buckets_max=64, leaf_rows=100, fetch_rows=1_000))
    assert {one.type for one in verdict.breaks} == {BreakType.VALUE}
    assert (len(verdict.breaks), verdict.breaks_total) == (200, 200)


def test_a_systematic_difference_of_floats_is_one_break_as_well() -> None:
    rows: list[Row] = [{"id": n, "rate": n / 3} for n in range(1, 301)]
    verdict = compare(rows, [{**row, "rate": row["rate"] * 2} for row in rows], table=RATE)
    assert [one.type for one in verdict.breaks] == [BreakType.SYSTEMATIC] + [BreakType.VALUE] * 5
    assert verdict.reason == "systematic: 300 of 300 rows differ beyond the tolerance, in rate"
    assert verdict.breaks_total == 300


def test_few_rows_are_listed_each_even_if_all_of_them_differ() -> None:
    rows = entries(99)
    verdict = compare(rows, [change(row, "memo", "?") for row in rows])
    assert (len(verdict.breaks), verdict.breaks_total) == (99, 99)


def test_a_systematic_lack_of_rows_names_the_key() -> None:
    rows = entries(4_000)
    verdict = compare(rows, rows[::2], limits=replace(TIGHT, buckets_max=63, leaf_rows=100, fetch_rows=1_000))
    assert "differ, in id;" in verdict.reason


def test_the_list_of_breaks_has_an_end_but_their_number_is_exact() -> None:
    rows = entries(3_000)
    wrong = [change(row, "memo", "?") if row["id"] % 10 == 0 else row for row in rows]
    verdict = compare(rows, wrong, limits=replace(TIGHT, breaks_listed=10))
    assert (len(verdict.breaks), verdict.breaks_total) == (10, 300)
    assert "300 rows in all" in verdict.reason


def test_floats_match_within_their_own_precision_and_break_beyond() -> None:
    third = 1 / 3
    rows: list[Row] = [{"id": n, "rate": n * third} for n in range(1, 20)]
    printed: list[Row] = [{**row, "rate": float(f"{row['rate']:.17g}")} for row in rows]
    assert compare(rows, printed, table=RATE).verdict is Verdict.MATCH
    printed[4] = {"id": 5, "rate": 5 * third + 1e-9}
    verdict = compare(rows, printed, table=RATE)
    assert listed(verdict) == {("value", '{"id": "5"}')}


def test_floats_that_cannot_be_paired_row_by_row_are_judged_by_their_summary() -> None:
    rows: list[Row] = [{"id": n, "rate": n / 3} for n in range(9)]
    wrong = [*rows[:-1], {"id": 8, "rate": 2.5}]
    few = replace(TIGHT, float_rows=5)
    assert compare(rows, rows[::-1], table=replace(RATE, key=())).verdict is Verdict.MATCH
    assert compare(rows, rows[::-1], table=RATE, limits=few).verdict is Verdict.MATCH
    for table, limits in ((replace(RATE, key=()), TIGHT), (RATE, few)):
        verdict = compare(rows, wrong, table=table, limits=limits)
        assert verdict.verdict is Verdict.BREAK
        assert [list(entry.source or ()) for entry in verdict.breaks] == [["rate"]]


def test_unequal_control_totals_break_even_when_digests_agree() -> None:
    class Wrong(MemoryView):
        def totals(self, segment: Segment, **asked: Any) -> Any:
            return {group: (rows, Decimal(-1)) for group, (rows, _) in super().totals(segment, **asked).items()}

    pair = sides(ENTRY, entries(9), entries(9))
    verdict = compare_table(replace(pair, destination=Wrong(ENTRY, entries(9))), totals=TOTALS)
    assert (verdict.verdict, verdict.breaks_total) == (Verdict.BREAK, 1)
    assert "control totals differ" in verdict.reason


def test_each_measure_is_shown_for_both_sides_and_gaps_of_both_are_no_break() -> None:
    rows = [row for row in entries(40) if row["id"] not in (7, 8, 30)]
    totals = (
        ControlTotalPlan("entry", "id", (), Measure.MISSING),
        ControlTotalPlan("entry", "currency", (), Measure.DUPLICATES, ("memo",)),
        ControlTotalPlan("entry", "memo", (), Measure.HASH),
        ControlTotalPlan("entry", "", ("currency",)),
        ControlTotalPlan("entry", "amount", ("currency",)),
        ControlTotalPlan("entry", "amount", ()),
    )
    verdict = compare(rows, rows[::-1], totals=totals)
    assert verdict.verdict is Verdict.MATCH, "and one column may be added up by two kinds of groups"
    shown = {one.column: (one.source_sum, one.destination_sum) for one in verdict.totals if not one.group}
    assert shown["missing numbers of id"] == (3, 3)
    assert shown["duplicates of currency, memo"] == (0, 0)
    assert shown["hash total of memo"] == (5 + 10 + 15 + 20 + 25 + 35 + 40,) * 2
    lost = compare(rows, [row for row in rows if row["id"] != 20], totals=totals)
    shown = {one.column: (one.source_sum, one.destination_sum) for one in lost.totals if not one.group}
    assert (lost.verdict, shown["missing numbers of id"]) == (Verdict.BREAK, (3, 4))


def test_a_break_has_the_currency_of_an_amount_that_differs_beside_it_and_the_amount_of_a_row_in_another_currency() -> (
    None
):
    wrong = entries(40)
    wrong[10] = {**wrong[10], "amount": Decimal("0.0001")}
    wrong[20] = {**wrong[20], "currency": "CHF"}
    wrong[30] = {**wrong[30], "memo": "another"}
    found = compare(entries(40), wrong, totals=(*TOTALS, ControlTotalPlan("entry", "id", ("memo",), Measure.MISSING)))
    beside = {one.key: one.beside for one in found.breaks}
    of_row = entries(40)
    assert beside == {
        '{"id": "11"}': {"currency": of_row[10]["currency"]},
        '{"id": "21"}': {"amount": f"{of_row[20]['amount']:.4f}"},
        '{"id": "31"}': None,
    }
    assert {one.beside for one in compare(entries(40), wrong).breaks} == {None}, "nothing is added up there"


def test_one_control_total_that_differs_is_not_many() -> None:
    class OneWrong(MemoryView):
        def totals(self, segment: Segment, **asked: Any) -> Any:
            found = dict(super().totals(segment, **asked))
            group = min(found)
            return {**found, group: (found[group][0], Decimal(-1))}

    pair = sides(ENTRY, entries(9), entries(9))
    verdict = compare_table(replace(pair, destination=OneWrong(ENTRY, entries(9))), totals=TOTALS)
    assert "1 control total differs" in verdict.reason


def test_bucket_counts_follow_the_table_and_stay_powers_of_two() -> None:
    limits = Limits()
    assert [bucket_count(rows, limits) for rows in (0, 1_000, 5_000, 200_000, 2_000_000, 10**9)] == [
        1, 1, 4, 256, 1024, 1024,
    ]  # fmt: skip


def test_an_answer_that_cannot_be_is_inconclusive() -> None:
    class Odd(MemoryView):
        def digests(self, segment: Segment, *, run_key: str) -> Any:
            return {99: super().digests(replace(segment, buckets=1), run_key=run_key)[0]}

    pair = replace(sides(ENTRY, entries(9), entries(9)), destination=Odd(ENTRY, entries(9)))
    verdict = compare_table(pair)
    assert verdict.verdict is Verdict.INCONCLUSIVE
    assert "a bucket outside 0..0" in verdict.reason


ROWS = st.dictionaries(
    st.integers(-50, 50),
    st.tuples(st.sampled_from(["EUR", "US", ""]), st.sampled_from([None, "", " ", "a", "a,b", "~", "2:ab", "é"])),
    max_size=30,
)


def as_rows(content: dict[int, tuple[str, str | None]]) -> list[Row]:
    return [{"id": key, "currency": c, "amount": Decimal(key), "memo": memo} for key, (c, memo) in content.items()]


@given(source=ROWS, destination=ROWS)
def test_the_search_finds_exactly_the_keys_that_differ(source: Any, destination: Any) -> None:
    verdict = compare(as_rows(source), as_rows(destination))
    expected = {
        (kind, f'{{"id": "{key}"}}')
        for key in source.keys() | destination.keys()
        if source.get(key) != destination.get(key)
        for kind in ["missing" if key not in destination else "unexpected" if key not in source else "value"]
    }
    assert listed(verdict) == expected
    assert (verdict.verdict is Verdict.MATCH) is (not expected)
    assert verdict.breaks_total == len(expected)


AUDITS = st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from([None, "", "x"])), max_size=20)


@given(source=AUDITS, destination=AUDITS)
def test_the_search_finds_exactly_the_copies_that_differ(source: Any, destination: Any) -> None:
    rows = [[{"actor": actor, "object": thing} for actor, thing in side] for side in (source, destination)]
    verdict = compare(*rows, table=AUDIT)
    here, there = Counter(source), Counter(destination)
    assert verdict.breaks_total == (here - there).total() + (there - here).total()
    assert (verdict.verdict is Verdict.MATCH) is (here == there)
