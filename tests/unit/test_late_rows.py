"""The date before is held against the source only where both are made by one transform."""

from dataclasses import replace
from datetime import date

from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.date_before import PublishedTable
from seamline.domain.errors import Refused
from seamline.domain.row_transform import Expression, RowTransform
from seamline.kinds.arrow_view import ArrowView
from seamline.plan.model import BusinessDate, SyncPlan, TablePlan
from seamline.sync.late_rows import by_their_transforms, rows_since_cut
from seamline.values.build import batch_of
from tests.log_topic import position, sync_plan

DAY = date(2026, 11, 27)
ENTRY = Table("entry", (Column("id", Kind.INTEGER, "int", length=32), Column("day", Kind.DATE, "date")), ("id",))
WHOLE = RowTransform(
    "include/transforms/entry.sql",
    "SELECT id, day FROM entry",
    ENTRY,
    (Expression("column", "int", value="id"), Expression("column", "date", value="day")),
)
# Other text, same meaning; and another meaning.
REWORDED = replace(WHOLE, text="SELECT id,  day FROM entry")
EDITED = replace(
    WHOLE, text="SELECT id, day FROM entry WHERE true", condition=Expression("literal", "boolean", (), "true")
)
PUBLISHED = PublishedTable("entry", DAY, 1, "settlement_cut", "entry")


def plan(transform: RowTransform | None) -> SyncPlan:
    return replace(sync_plan(), tables=(TablePlan("entry", BusinessDate("day", "date"), ENTRY, transform),))


def looked_at(now: RowTransform | None, then: RowTransform | None) -> tuple[str, int]:
    """Why nothing is said of it, and how many rows have come."""
    found = by_their_transforms([PUBLISHED], plan(now), lambda _: plan(then))
    sides = [
        ArrowView(position(1), {ENTRY: lambda rows=rows: iter([batch_of(ENTRY, rows)])})
        for rows in ([(1, DAY), (2, DAY)], [(1, DAY)])
    ]
    (since,) = rows_since_cut(plan(now), found, source=sides[0], cut=sides[1])
    return since.unknown, since.rows_now - since.rows_in_cut


def test_the_date_before_is_looked_at_only_as_far_as_its_source_may_be_read() -> None:
    def check() -> None:
        raise Refused("the source is to be quiet")

    view = ArrowView(position(1), {})
    (since,) = rows_since_cut(plan(None), [PUBLISHED], source=view, cut=view, check=check)
    assert since.unknown == "the source is to be quiet"


def test_rows_of_a_cut_by_another_transform_are_no_late_rows() -> None:
    changed = "its transform was changed since then"
    assert looked_at(EDITED, WHOLE) == looked_at(WHOLE, None) == looked_at(None, WHOLE) == (changed, 0)


def test_late_rows_are_counted_where_the_transform_means_the_same() -> None:
    assert looked_at(None, None) == looked_at(WHOLE, WHOLE) == looked_at(REWORDED, WHOLE) == ("", 1)
