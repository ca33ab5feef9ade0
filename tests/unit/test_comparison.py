from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamline.domain.catalogue import Kind, Table
from seamline.domain.changes import Finding, FindingsReported
from seamline.domain.cutover import Boundary
from seamline.domain.digest import Segment, SegmentDigest
from seamline.domain.errors import TransientError
from seamline.domain.level import WRITTEN_UNDER
from seamline.domain.runs import Reconciliation, RunKind, RunState, Scope
from seamline.domain.self_test import self_test_in_words
from seamline.domain.verdict import BreakType, Verdict
from seamline.plan.checks import ControlTotalPlan, ReconcilePlan
from seamline.plan.model import DestinationPlan, Run, SourcePlan, SyncPlan, TablePlan
from seamline.sync.bucket_search import WHOLE, Limits, Part, joined, key_ranges, parts_of
from seamline.sync.comparison import StreamFindings, Work, compare_live, compare_tables, findings_reported
from seamline.sync.repetition import NEEDS_A_PERSON
from tests.unit.memory_views import ENTRY, MemoryView, entries
from tests.unit.test_barrier import World, at

PLAN = SyncPlan(
    "settlement",
    SourcePlan("bank", "mariadb", "bank", "r", "c", "m", "seamline.bank.log", "seamline-bank"),
    (DestinationPlan("warehouse", "postgres", "warehouse", "settlement"),),
    (TablePlan("entry", None, ENTRY),),
    reconcile=ReconcilePlan((ControlTotalPlan("entry", "amount", ("currency",)),)),
    config_hash="abc",
)
REPORTED = FindingsReported(12, "2026-03-05T17:00:00.000000Z")
RUN = Run("r1", "settlement", RunKind.RECONCILE, None, PLAN, RunState.RUNNING)


def live(world: World, **rest: Any) -> Reconciliation:
    return compare_live(RUN, "warehouse", barrier=world.barrier(), views=4, **rest)


def test_equal_sides_at_one_position_are_a_match_with_its_evidence() -> None:
    found = live(World())
    assert (found.verdict, found.scope, found.mode) == (Verdict.MATCH, Scope.LIVE, "barrier")
    assert found.position == at(100)
    assert found.position_time == datetime(2023, 11, 14, 22, 13, 20, 123000, tzinfo=UTC)
    assert [total.group for total in found.tables[0].totals] == [("CNY",), ("EUR",), ("USD",)]
    assert found.evidence["config_hash"] == "abc"
    assert "0 others" in self_test_in_words(found.evidence)[0]


def test_what_was_written_under_another_guarantee_is_kept_with_the_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    assert WRITTEN_UNDER not in live(World()).evidence
    monkeypatch.setattr(MemoryView, "guarantee", "at_least_once", raising=False)
    assert live(World()).evidence[WRITTEN_UNDER] == "at_least_once"


def test_sides_that_cannot_be_aligned_are_inconclusive_with_the_reason() -> None:
    found = live(World(applies=False))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "the stream did not reach" in found.tables[0].reason
    assert found.position is None
    assert NEEDS_A_PERSON not in found.evidence, "another attempt may help"


def test_a_stream_that_has_ended_is_inconclusive_for_a_person_and_says_what_to_do() -> None:
    found = live(World(never_holds=True, fails_at_s=0.0, error="Diverged: rows are gone"))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.tables[0].reason == "the stream into warehouse has ended: rows are gone"
    assert str(found.evidence[NEEDS_A_PERSON]).startswith("start the stream again: `./seamline stream restart ")


def test_a_sync_that_catches_up_is_not_run() -> None:
    world = World()
    assert world.ledger is not None
    world.ledger = replace(world.ledger, boundaries=(Boundary("entry", at(90)),))
    found = live(world)
    assert found.verdict is Verdict.NOT_RUN
    assert "catching up" in found.tables[0].reason


def test_findings_of_the_stream_break_the_next_reconciliation_only() -> None:
    met = StreamFindings((Finding("entry", "update met no row", "{}", 3),), REPORTED)
    first = live(World(), findings=lambda: met)
    assert first.verdict is Verdict.BREAK
    assert findings_reported(first.evidence) == REPORTED
    assert findings_reported({}) == FindingsReported()
    assert live(World(), findings=lambda: StreamFindings((), REPORTED)).verdict is Verdict.MATCH


def test_findings_break_a_reconciliation_whose_views_are_lost_on_the_way() -> None:
    met = StreamFindings((Finding("entry", "update met no row", "{}", 3),), REPORTED)
    world = World(faults={"digests": TransientError("the server went away")})
    found = live(world, findings=lambda: met)
    assert found.verdict is Verdict.BREAK
    assert [entry.type for entry in found.tables[0].breaks] == [BreakType.FINDING]
    assert "the server went away" in found.tables[0].reason
    assert findings_reported(found.evidence) == REPORTED


def test_a_barrier_that_failed_reports_no_finding() -> None:
    met = StreamFindings((Finding("entry", "update met no row", "{}", 3),), REPORTED)
    assert findings_reported(live(World(never_holds=True), findings=lambda: met).evidence) == FindingsReported()


def test_many_tables_share_few_views_and_no_view_serves_two_at_once() -> None:
    class Busy(MemoryView):
        is_asked = False

        def digests(self, segment: Segment, *, run_key: str) -> Any:
            assert not self.is_asked, "two tables asked one view at the same time"
            self.is_asked = True
            try:
                return super().digests(segment, run_key=run_key)
            finally:
                self.is_asked = False

    def views() -> Sequence[MemoryView]:
        return [Busy(ENTRY, entries(40)), Busy(ENTRY, entries(40))]

    segment = Segment("entry")
    source, destination = views(), views()
    work = [Work(replace(ENTRY, rows_estimate=number), segment, segment) for number in range(9)]
    found = compare_tables(work, source=source, destination=destination)
    assert [verdict.verdict for verdict in found] == [Verdict.MATCH] * 9


SPLIT = Limits(buckets_max=8, rows_per_bucket=4, leaf_rows=2, refine_by=4, part_rows=5, parts_per_view=6)


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_the_first_incremental_of_a_large_table_is_divided_over_all_views(count: int) -> None:
    rows = entries(60)
    spoilt = [row for row in rows if row["id"] != 31]
    spoilt[6] = {**spoilt[6], "memo": "other"}
    source = [MemoryView(ENTRY, rows) for _ in range(count)]
    destination = [MemoryView(ENTRY, spoilt) for _ in range(count)]
    segment = Segment("entry")
    work = [Work(replace(ENTRY, rows_estimate=60), segment, segment)]
    (found,) = compare_tables(work, source=source, destination=destination, limits=SPLIT)
    assert (found.source_rows, found.destination_rows) == (60, 59)
    assert {(entry.type.value, entry.key) for entry in found.breaks} == {
        ("value", '{"id": "7"}'),
        ("missing", '{"id": "31"}'),
    }
    assert sum("digests" in view.asked for view in source) >= min(count, 2)


def test_a_part_that_fails_is_never_left_out() -> None:
    rows = entries(60)
    source = [MemoryView(ENTRY, rows), MemoryView(ENTRY, rows, faults={"digests": TransientError("gone")})]
    segment = Segment("entry")
    work = [Work(replace(ENTRY, rows_estimate=60), segment, segment)]
    destination = [MemoryView(ENTRY, rows), MemoryView(ENTRY, rows)]
    (found,) = compare_tables(work, source=source, destination=destination, limits=SPLIT)
    # Asked again in one: on the view that works all rows are counted, on the other it fails again.
    assert (found.verdict, found.source_rows) in ((Verdict.MATCH, 60), (Verdict.INCONCLUSIVE, None))


def test_keys_that_only_the_destination_has_fall_into_the_outer_parts() -> None:
    strangers = [{**entries(1)[0], "id": number} for number in (-(10**9), 0, 10**9)]
    source = [MemoryView(ENTRY, entries(60)) for _ in range(2)]
    destination = [MemoryView(ENTRY, [*entries(60), *strangers]) for _ in range(2)]
    segment = Segment("entry")
    work = [Work(replace(ENTRY, rows_estimate=60), segment, segment)]
    (found,) = compare_tables(work, source=source, destination=destination, limits=SPLIT)
    assert found.destination_rows == 63
    assert {(entry.type, entry.key) for entry in found.breaks} == {
        (BreakType.UNEXPECTED, f'{{"id": "{row["id"]}"}}') for row in strangers
    }


def test_the_rows_of_one_date_are_divided_among_themselves() -> None:
    class Counted(MemoryView):
        def digests(self, segment: Segment, *, run_key: str) -> Any:
            found = super().digests(segment, run_key=run_key)
            counts.append(sum(digest.rows for digest in found.values()))
            return found

    class OfManyYears(MemoryView):
        def key_span(self, table: str) -> tuple[int, int]:
            return 1, 10**6 + 60

    counts: list[int] = []
    of_today = [{**row, "id": 10**6 + row["id"]} for row in entries(60)]
    source = [OfManyYears(ENTRY, of_today) for _ in range(2)]
    destination = [Counted(ENTRY, of_today) for _ in range(2)]
    segment = Segment("entry")
    work = [Work(replace(ENTRY, rows_estimate=60), segment, segment)]
    compare_tables(work, source=source, destination=destination, limits=SPLIT)
    assert counts == [5] * 12


def test_rows_that_cannot_be_counted_are_asked_for_in_one() -> None:
    rows = entries(60)
    source = [MemoryView(ENTRY, rows, faults={"totals": TransientError("busy")}) for _ in range(2)]
    destination = [MemoryView(ENTRY, rows) for _ in range(2)]
    segment = Segment("entry")
    work = [Work(replace(ENTRY, rows_estimate=60), segment, segment)]
    (found,) = compare_tables(work, source=source, destination=destination, limits=SPLIT)
    assert (found.verdict, found.source_rows) == (Verdict.MATCH, 60)


def test_one_large_table_is_compared_over_all_views_that_are_given() -> None:
    world = World()
    live(world)
    assert len(world.opened) == 2 * 4


def test_a_destination_that_does_not_show_its_span_is_asked_in_one() -> None:
    rows = entries(60)
    source = [MemoryView(ENTRY, rows) for _ in range(2)]
    destination = [MemoryView(ENTRY, rows, faults={"key_span": TransientError("busy")}) for _ in range(2)]
    segment = Segment("entry")
    work = [Work(replace(ENTRY, rows_estimate=60), segment, segment)]
    (found,) = compare_tables(work, source=source, destination=destination, limits=SPLIT)
    assert (found.verdict, found.source_rows) == (Verdict.MATCH, 60)
    assert sum(view.asked.count("digests") for view in source) == 1


@pytest.mark.parametrize(
    ("table", "parts"),
    [
        (replace(ENTRY, key=()), [WHOLE]),
        (replace(ENTRY, key=("currency",)), [WHOLE]),
        (ENTRY, [{"key_from": low, "key_below": low + 10} for low in range(0, 80, 10)]),
        (replace(ENTRY, key=("id", "amount")), [WHOLE]),
        (
            replace(ENTRY, columns=(replace(ENTRY.columns[0], kind=Kind.YEAR), *ENTRY.columns[1:])),
            [{"among": (0,), "among_of": 2}, {"among": (1,), "among_of": 2}],
        ),
    ],
    ids=["keyless", "a text", "one integer", "an integer and another", "a year"],
)
def test_a_large_table_is_divided_as_its_key_allows(table: Table, parts: list[Part]) -> None:
    if parts[0].get("key_from") == 0:
        parts = [{**parts[0], "key_from": None}, *parts[1:-1], {**parts[-1], "key_below": None}]
    assert parts_of(replace(table, rows_estimate=10**7), 2, Limits(), lambda: (0, 79)) == parts
    assert parts_of(replace(table, rows_estimate=10**7), 1, Limits(), lambda: (0, 79)) == [WHOLE]
    assert parts_of(replace(table, rows_estimate=10**3), 2, Limits(), lambda: (0, 79)) == [WHOLE]


@given(
    st.tuples(st.integers(-(2**63), 2**64), st.integers(0, 2**64)),
    st.integers(1, 300),
    st.integers(-(2**65), 2**65),
)
def test_every_number_is_in_one_range_of_keys(span: tuple[int, int], parts: int, number: int) -> None:
    least, more = span
    ranges = [tuple(part.values()) for part in key_ranges((least, least + more), parts)]
    assert len(ranges) == min(parts, more + 1)
    for key in (number, least, least + more):
        assert sum((low is None or low <= key) and (high is None or key < high) for low, high in ranges) == 1  # type: ignore[operator]


class _SkipsTheFirst(MemoryView):
    """Planted: `>` in place of `>=`."""

    def _is_within(self, segment: Segment, row: Any) -> bool:
        return super()._is_within(segment, row) and row["id"] != segment.key_from


class _TakesAll(MemoryView):
    """Planted: the range is forgotten, and all rows are counted in every part."""

    def _is_within(self, segment: Segment, row: Any) -> bool:
        return True


@pytest.mark.parametrize("planted", [_SkipsTheFirst, _TakesAll])
def test_parts_that_do_not_hold_each_row_once_are_no_match(planted: type[MemoryView]) -> None:
    source = [planted(ENTRY, entries(60)) for _ in range(2)]
    destination = [planted(ENTRY, entries(60)) for _ in range(2)]
    work = [Work(replace(ENTRY, rows_estimate=60), Segment("entry"), Segment("entry"))]
    (found,) = compare_tables(work, source=source, destination=destination, limits=SPLIT)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "in the parts that it was asked for" in found.reason


def test_parts_of_a_first_incremental_add_up() -> None:
    half, other = {0: SegmentDigest(1, 1, 5, 5)}, {0: SegmentDigest(2, 2, 6, 7), 3: SegmentDigest(1, 1, 1, 1)}
    assert joined([(half, {}), (other, half)]) == ({0: SegmentDigest(3, 3, 11, 12), 3: SegmentDigest(1, 1, 1, 1)}, half)
