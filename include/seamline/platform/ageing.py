"""Breaks by age, counted and added up in the platform database: those of one comparison, and those that it carries
forward.

All of it is one statement, which a page waits for: what is carried forward may be tens of thousands of breaks, and is
looked up once.
"""

from collections.abc import Sequence
from typing import Any

from seamline.domain.break_age import Aged, AgedAmount
from seamline.domain.measure import Measure
from seamline.plan.model import SyncPlan
from seamline.platform.breaks import Compared, Money, apart, number_of
from seamline.platform.database import Session

_ABOUT = """
select reconciliation_id, sync, business_date, ended_at from reconciliation where reconciliation_id = %s
"""
# Of live tables the moments count, of a cut the business dates. A band begins on the day after the bound before it.
_BAND = """width_bucket(greatest(0, case
    when %(scope)s = 'cut' and {of}.first_date is not null then %(day)s - {of}.first_date
    else extract(day from %(ended_at)s - {of}.first_at)::int end), %(begins)s::int[]) as band"""
# A break that stands in a cut of an earlier date, of whose rows this cut has none, is carried forward. What the
# comparison is comes as values, not as a row that is joined: PostgreSQL then knows how many breaks it reads.
# The state is as `break_now` has it.
_STANDING = f"""
with own as materialized (
    select b.table_name, b.source_values, b.destination_values, b.beside, w.state, {_BAND.format(of="w")}
    from break b join break_now w using (break_id) where b.reconciliation_id = %(number)s
),
carried as materialized (
    select c.break_id, r.reconciliation_id, c.table_name,
        case when t.expires_at <= statement_timestamp() then 'open' else c.state end as state, {_BAND.format(of="c")}
    from break_work c
    join reconciliation r on (r.run_id, r.destination, r.scope) = (c.in_cut, c.destination, 'cut')
    left join tolerance t on t.tolerance_id = c.tolerance_id and c.state = 'tolerated'
    where %(scope)s = 'cut' and (c.sync, c.destination) = (%(sync)s, %(destination)s) and c.state <> 'closed'
        and c.in_cut <> '' and c.in_cut <> %(run_id)s and c.cut_date < %(day)s
)
"""
_COUNTED = """
select -1 as place, band, count(*) as breaks, count(*) filter (where state = 'open') as opened,
    count(*) filter (where is_carried) as carried, null::text[] as "group", null::numeric as gross
from (select band, state, false as is_carried from own union all select band, state, true from carried) as standing
group by band
"""
# Of one summed column. What is carried forward stands in a few cuts: only their breaks are read, by `any`, where a join
# alone would read those of all dates.
_STANDING_IN = """(
    select band, source_values, destination_values, beside from own where table_name = %(table{place})s
    union all
    select carried.band, b.source_values, b.destination_values, b.beside
    from carried join break b using (break_id, reconciliation_id)
    where carried.table_name = %(table{place})s
        and b.reconciliation_id = any(array(select distinct reconciliation_id from carried))
) as standing"""
_SUMMED = """
union all
select {place}, band, count(*), 0, 0, "group", sum(abs(apart)) from ({differing}) as differing group by band, "group"
"""


def of_comparison(
    session: Session, compared: Compared, money: Sequence[Money], bounds: Sequence[int]
) -> tuple[Aged, ...]:
    """By band, the youngest first; bands without a break are left out."""
    found = session.execute(_ABOUT, (number_of(session, compared),)).fetchone()
    if found is None:
        return ()
    values: dict[str, Any] = {
        **dict(zip(("number", "sync", "day", "ended_at"), found, strict=True)),
        "run_id": compared.run_id,
        "destination": compared.destination,
        "scope": compared.scope.value,
        "begins": [day + 1 for day in bounds],
    }
    statement = _STANDING + _COUNTED
    for place, one in enumerate(money):
        names = {f"by{place}_{number}": name for number, name in enumerate(one.by)}
        by = [f"%({name})s" for name in names]
        differing = apart(_STANDING_IN.format(place=place), "band", f"%(column{place})s", by)
        statement += _SUMMED.format(place=place, differing=differing)
        values |= {**names, f"table{place}": one.table, f"column{place}": one.column}
    # Of a column the groups in the order of their texts.
    rows = session.execute(f"{statement} order by place, band, 6".encode(), values).fetchall()
    amounts: dict[int, list[AgedAmount]] = {}
    for place, band, breaks, _, _, group, gross in rows:
        if place >= 0:
            known = None if None in group else tuple(group)
            of = money[place]
            amounts.setdefault(band, []).append(AgedAmount(of.table, of.column, known, breaks, gross))
    return tuple(
        Aged(band, breaks, opened, carried, tuple(amounts.get(band, ())))
        for place, band, breaks, opened, carried, _, _ in rows
        if place < 0
    )


def money_of(plan: SyncPlan) -> list[Money]:
    """The columns that are summed as control totals."""
    sums = [one for one in plan.reconcile.control_totals if one.measure is Measure.SUM and one.column]
    return [Money(one.table, one.column, one.by) for one in sums]
