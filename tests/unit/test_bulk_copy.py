"""The bulk path's plan: tables spread over tasks, names that fit."""

from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamline.bulk.copy import CopyItem, CopyTarget, grouped
from seamline.bulk.read import form_for, longest_without_a_row_s
from seamline.bulk.threads import is_small
from seamline.databases.mysql.snapshot_barrier import BarrierLocks
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.digest import Segment
from seamline.domain.row_transform import Expression, RowTransform
from seamline.domain.table_places import TablePlace
from seamline.kinds.bulk import BulkRead, Form, StagedPlace
from seamline.kinds.sink import Atomic, SinkPowers
from seamline.plan.model import DestinationPlan, SourcePlan
from seamline.sources.mariadb.bulk import bulk_statement

SOURCE = SourcePlan("s", "mariadb", "bank", "r", "c", "m", "log", "connector")
WAREHOUSE = DestinationPlan("w", "postgres", "w", "w")


def test_names_of_columns_and_tables_are_quoted_in_the_statement() -> None:
    table = Table("o`dd", (Column("a`b", Kind.INTEGER, "int", length=32), Column("%s", Kind.STRING, "text")))
    statement = bulk_statement(TablePlace("d`b", table.name), table, Segment("o`dd"))
    assert "`d``b`.`o``dd`" in statement
    assert "`a``b` AS `a``b`" in statement


def _items(sizes: list[int]) -> list[CopyItem]:
    items = []
    for number, rows in enumerate(sizes):
        table = Table(f"t{number}", (Column("id", Kind.INTEGER, "int"),), ("id",), rows)
        read = BulkRead(table, Segment(table.name), number)
        target = CopyTarget(StagedPlace(table, "stage", f"t{number}_1"), WAREHOUSE)
        items.append(CopyItem(read, (target,)))
    return items


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=200), st.integers(1, 16), st.integers(1, 8))
def test_every_table_is_read_once_by_a_participant_of_its_own_number(
    sizes: list[int], tasks: int, children_max: int
) -> None:
    groups = grouped(_items(sizes), source=SOURCE, tasks=tasks, children_max=children_max)
    assert len(groups) == min(tasks, len(sizes))
    read = sorted(item.read.session for group in groups for items in group.participants for item in items)
    assert read == list(range(len(sizes)))
    numbers = [group.first_participant + child for group in groups for child in range(len(group.participants))]
    assert numbers == list(range(len(numbers)))
    assert all(len(group.participants) <= children_max and all(group.participants) for group in groups)


def test_the_largest_tables_are_read_by_different_tasks() -> None:
    groups = grouped(_items([5, 900, 7, 1000]), source=SOURCE, tasks=2)
    first = [group.participants[0][0].read.table.rows_estimate for group in groups]
    assert first == [1000, 900]


@pytest.mark.parametrize(("sizes", "small"), [([100_000, 100_000], True), ([100_000, 100_001], False)])
def test_a_read_is_small_by_all_its_tables_together(sizes: list[int], small: bool) -> None:
    assert is_small(_items(sizes)) is small


def test_a_copy_may_bring_no_row_for_longer_where_a_condition_may_reject_all() -> None:
    """Rows that a transform rejects are read and come to no destination, so nothing there moves."""
    small, large = _items([10_000_000, 20_000_000])
    assert longest_without_a_row_s([]) == 0
    assert longest_without_a_row_s([small, large]) == 200
    whole = RowTransform("t.sql", "SELECT id FROM t0", small.read.table)
    filtered = replace(whole, condition=Expression("literal", "boolean", value="false"))

    def by(transform: RowTransform) -> CopyItem:
        return replace(small, targets=(*small.targets, replace(small.targets[0], transform=transform)))

    assert longest_without_a_row_s([by(whole), large]) == 200
    assert longest_without_a_row_s([by(filtered), large]) == 1_000


@pytest.mark.parametrize("run", ["s", "settlement/onboard/-/" + "x" * 300])
def test_lock_names_fit_into_64_characters(run: str) -> None:
    locks = BarrierLocks(run)
    names = [
        locks.name("answer", attempt=59, participant=199),
        locks.at("a-long-binlog-name.000123:4294967296", attempt=59, participant=199),
        locks.name("reading", attempt=59, participant=199),
    ]
    assert all(len(name) <= 64 for name in names)
    assert len(set(names)) == 3
    assert BarrierLocks(run).name("open", attempt=1) != BarrierLocks(run + "'").name("open", attempt=1)


@pytest.mark.parametrize(
    ("takes_native", "form"), [((True, True), Form.NATIVE), ((True, False), Form.TYPED), ((False,), Form.TYPED)]
)
def test_rows_are_read_in_the_native_form_where_every_destination_takes_it(
    monkeypatch: pytest.MonkeyPatch, takes_native: tuple[bool, ...], form: Form
) -> None:
    kinds = {str(number): Kinded(SinkPowers(Atomic.SYNC, native_copy=one)) for number, one in enumerate(takes_native)}
    monkeypatch.setattr("seamline.bulk.read.sink_kind", kinds.__getitem__)
    assert form_for([replace(WAREHOUSE, kind=name) for name in kinds]) is form


@dataclass(frozen=True)
class Kinded:
    powers: SinkPowers
