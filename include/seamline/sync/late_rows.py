"""The date before, looked at again: which of its tables hold other rows in the source than in their published cut."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import date

from seamline.domain.date_before import PublishedTable, SinceCut
from seamline.domain.digest import Segment, SegmentDigest
from seamline.domain.errors import SeamlineError
from seamline.domain.row_transform import meaning_of
from seamline.plan.model import DestinationPlan, SyncPlan, TablePlan
from seamline.ports import ReadView
from seamline.sync.bucket_search import Sides
from seamline.sync.reconcile import new_run_key

DateBefore = Callable[[DestinationPlan, date], Sequence[PublishedTable]]
OpenCut = Callable[[DestinationPlan, Sequence[PublishedTable]], AbstractContextManager[ReadView]]


def since_date_before(
    plan: SyncPlan,
    destination: DestinationPlan,
    business_date: date,
    source: ReadView,
    date_before: DateBefore,
    open_cut: OpenCut,
    *,
    check: Callable[[], None] = lambda: None,
) -> Sequence[SinceCut]:
    """Whatever goes wrong here is reported and fails nothing: the night is for the date after it. So is what `check`
    raises, which is called before each question."""
    published: Sequence[PublishedTable] = ()
    try:
        published = date_before(destination, business_date)
        if not published:
            return ()
        with open_cut(destination, published) as cut:
            return rows_since_cut(plan.held_by(destination.name), published, source=source, cut=cut, check=check)
    except SeamlineError as exc:
        return not_looked_at(published, exc.message)


def rows_since_cut(
    plan: SyncPlan,
    published: Sequence[PublishedTable],
    *,
    source: ReadView,
    cut: ReadView,
    check: Callable[[], None] = lambda: None,
) -> tuple[SinceCut, ...]:
    """Digests only, one per side and table: a count and a yes or no.

    A table that cannot be compared is reported with its reason and fails nothing: the night is for the date after it.
    """
    tables = {table.name: table for table in plan.tables if table.business_date is not None}
    return tuple(_look(plan, tables[one.table], one, source, cut, check) for one in published if one.table in tables)


def not_looked_at(published: Sequence[PublishedTable], reason: str) -> tuple[SinceCut, ...]:
    """Where not even the cut could be opened; without `published` its tables are not known either."""
    tables = [(one.table, one.business_date.isoformat(), one.version) for one in published]
    return tuple(SinceCut(*of, unknown=reason) for of in tables or [("all tables", "the date before", 0)])


def by_their_transforms(
    published: Sequence[PublishedTable], now: SyncPlan, made_by: Callable[[PublishedTable], SyncPlan]
) -> tuple[PublishedTable, ...]:
    """`made_by`: the plan of the run that has published it. Each says whether its transform was another one."""
    return tuple(
        replace(one, has_another_transform=_meaning(now, one.table) != _meaning(made_by(one), one.table))
        for one in published
    )


def _meaning(plan: SyncPlan, name: str) -> str:
    found = next((table.transform for table in plan.tables if table.name == name), None)
    return meaning_of(found) if found is not None else ""


def _look(
    plan: SyncPlan,
    table: TablePlan,
    published: PublishedTable,
    source: ReadView,
    cut: ReadView,
    check: Callable[[], None],
) -> SinceCut:
    of = (published.table, published.business_date.isoformat(), published.version)
    if published.has_another_transform:
        return SinceCut(*of, unknown="its transform was changed since then")
    of_date = _segment(plan, table, published)
    sides = Sides(table.target, source, cut, of_date, Segment(table.name), new_run_key(), check)
    try:
        now, then = (sum(answer.values(), SegmentDigest()) for answer in sides.digests())
    except SeamlineError as exc:
        return SinceCut(*of, unknown=exc.message)
    return SinceCut(*of, rows_in_cut=then.rows, rows_now=now.rows, is_same=now == then)


def _segment(plan: SyncPlan, table: TablePlan, published: PublishedTable) -> Segment:
    if plan.nightly is None:
        return Segment(table.name)
    return plan.nightly.segment_of(table, published.business_date)
