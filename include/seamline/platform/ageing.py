"""Breaks by age, counted and added up in the platform database: those of one comparison, and those that it carries
forward."""

from collections.abc import Sequence
from typing import Any

from seamline.domain.break_age import Aged, AgedAmount
from seamline.domain.measure import Measure
from seamline.plan.model import SyncPlan
from seamline.platform.breaks import Compared, Money, as_number, number_of
from seamline.platform.database import Session

# Of live tables the moments count, of a cut the business dates. A break that stands in a cut of an earlier date, of
# whose rows this cut has none, is carried forward. A band begins on the day after the bound before it.
_STANDING = """
with about as (select * from reconciliation where reconciliation_id = %(number)s),
standing as (
    select b.*, false as is_carried from break b where b.reconciliation_id = %(number)s
    union all
    select b.*, true from about
    join break_work w on (w.sync, w.destination) = (about.sync, about.destination)
        and about.scope = 'cut' and w.in_cut not in ('', about.run_id) and w.state <> 'closed'
        and w.cut_date < about.business_date
    join reconciliation r on (r.run_id, r.destination, r.scope) = (w.in_cut, w.destination, 'cut')
    join break b on (b.break_id, b.reconciliation_id) = (w.break_id, r.reconciliation_id)
),
aged as (
    select s.*, w.state, width_bucket(greatest(0, case
        when about.scope = 'cut' and w.first_date is not null then about.business_date - w.first_date
        else extract(day from about.ended_at - w.first_at) end)::int, %(begins)s::int[]) as band
    from standing s join break_now w using (break_id), about
)
"""
_COUNTED = f"""{_STANDING}
select band, count(*), count(*) filter (where state = 'open'), count(*) filter (where is_carried) from aged
group by band order by band
"""


def of_comparison(
    session: Session, compared: Compared, money: Sequence[Money], bounds: Sequence[int]
) -> tuple[Aged, ...]:
    """By band, the youngest first; bands without a break are left out."""
    values: dict[str, Any] = {"number": number_of(session, compared), "begins": [day + 1 for day in bounds]}
    counted = session.execute(_COUNTED.encode(), values).fetchall()
    amounts: dict[int, list[AgedAmount]] = {}
    for one in money if counted else ():
        for band, group, breaks, gross in _summed(session, one, values):
            known = None if None in group else tuple(group)
            amounts.setdefault(band, []).append(AgedAmount(one.table, one.column, known, breaks, gross))
    return tuple(
        Aged(band, breaks, opened, carried, tuple(amounts.get(band, ()))) for band, breaks, opened, carried in counted
    )


def money_of(plan: SyncPlan) -> list[Money]:
    """The columns that are summed as control totals."""
    sums = [one for one in plan.reconcile.control_totals if one.measure is Measure.SUM and one.column]
    return [Money(one.table, one.column, one.by) for one in sums]


def _summed(session: Session, money: Money, values: dict[str, Any]) -> list[tuple[Any, ...]]:
    mine, theirs = (as_number(f"{side}_values->>%(column)s") for side in ("source", "destination"))
    groups = [
        f"coalesce(destination_values->>%(by{place})s, source_values->>%(by{place})s)"
        for place, _ in enumerate(money.by)
    ]
    statement = f"""{_STANDING}
        select band, "group", count(*), sum(abs(coalesce(theirs, 0) - coalesce(mine, 0))) from (
            select band, array[{", ".join(groups)}]::text[] as "group", {mine} as mine, {theirs} as theirs
            from aged where table_name = %(table)s
        ) as differing
        where mine is not null or theirs is not null group by band, "group" order by band, "group"
    """
    arguments = {f"by{place}": name for place, name in enumerate(money.by)}
    arguments |= {"table": money.table, "column": money.column}
    return session.execute(statement.encode(), {**values, **arguments}).fetchall()
