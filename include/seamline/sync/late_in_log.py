"""Rows that the log changes behind the cuts of their dates: where cuts are made from the log they are in none.

The cut of a date has what was committed up to its end, however often it is made so. What comes for it later lies in the
part of the log from which the cut of a later date is made, and outside of that one's own dates. It is counted there.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date

from seamline.domain.calendar import date_of
from seamline.domain.changes import TableChanges
from seamline.domain.date_before import SinceCut
from seamline.domain.log_patch import TablePatch, Texts
from seamline.domain.position import Position
from seamline.domain.runs import Cut
from seamline.plan.model import NightlyPlan, SyncPlan, TablePlan
from seamline.ports.log_images import LogImages

_EMPTIED = "the log empties the table behind it"


def late_in_log(
    plan: SyncPlan,
    changes: Mapping[str, TableChanges],
    cuts: Sequence[Cut],
    *,
    until: Position,
    patch_of: Callable[[TableChanges], TablePatch],
    images: LogImages,
) -> tuple[SinceCut, ...]:
    """By table and date how many rows the log leaves changed or deleted that are of a date of these cuts.

    `cuts`: of one destination, up to the date whose cut the log goes on from; of a date the newest version first.
    `until`: where `changes` end; a cut that was read behind it has them. A row that was deleted counts where the log
    has its values, one that was moved to another date counts for that one.
    """
    newest = {one.business_date: one for one in reversed(cuts)}
    behind = {day: one for day, one in newest.items() if not one.position.covers(until)}
    nightly = plan.nightly
    if nightly is None or not behind:
        return ()
    of_days = {day: found for found in behind for day in nightly.dates.days_of(found)}
    late: list[SinceCut] = []
    for table in plan.tables:
        mine = changes.get(table.name)
        if mine is None or table.business_date is None or table.ahead_of:
            continue
        counts = Counter(of_days[day] for day in _days(table, mine, nightly, patch_of(mine), images) if day in of_days)
        late += (_since(table, behind[day], changed=rows) for day, rows in sorted(counts.items()))
        if mine.truncate_first:
            late.append(_since(table, behind[max(behind)], unknown=_EMPTIED))
    return tuple(late)


def _since(table: TablePlan, cut: Cut, *, changed: int = 0, unknown: str = "") -> SinceCut:
    day = cut.business_date.isoformat()
    return SinceCut(table.name, day, cut.version, unknown=unknown, changed_in_log=changed)


def _days(
    table: TablePlan, changes: TableChanges, nightly: NightlyPlan, patch: TablePatch, images: LogImages
) -> Iterator[date]:
    """The day of each row that the log changes, as often as there are such rows."""
    how = table.business_date
    assert how is not None
    deleted = [one.row for one in changes.keyed if one.is_delete and one.met_row is not False]
    rows: list[tuple[Texts | None, int]] = [(texts, 1) for texts in images.rows(table.target, deleted)]
    rows += ((row.texts, 1) for row in patch.rows.values())
    rows += ((texts, abs(count)) for texts, count in patch.copies.values())
    for texts, count in rows:
        text = texts.get(how.column) if texts else None
        day = text and date_of(text, holds=how.holds, timezone=nightly.timezone, cut_off=nightly.cut_off)
        if day:
            yield from [day] * count
