"""Breaks by age, counted and added up in the platform database: those of one comparison, and those that it carries
forward."""

from collections.abc import Sequence
from typing import Any

from seamline.domain.break_age import Aged, AgedAmount
from seamline.domain.measure import Measure
from seamline.plan.model import SyncPlan
from seamline.platform.breaks import Compared, Money, as_number, number_of
from seamline.platform.database import Session

_ABOUT = """
select reconciliation_id, sync, business_date, ended_at from reconciliation where reconciliation_id = %s
"""
# A break that stands in a cut of an earlier date, of whose rows this cut has none, is carried forward. What the
# comparison is comes as values, not as a row that is joined: PostgreSQL then knows how many breaks it reads.
_CARRIED = """
from break_work c join reconciliation r on (r.run_id, r.destination, r.scope) = (c.in_cut, c.destination, 'cut')
left join tolerance t on t.tolerance_id = c.tolerance_id and c.state = 'tolerated'
"""
_CARRIED_HERE = """
where %(scope)s = 'cut' and (c.sync, c.destination) = (%(sync)s, %(destination)s) and c.state <> 'closed'
    and c.in_cut <> '' and c.in_cut <> %(run_id)s and c.cut_date < %(day)s
"""
# As `break_now` has it.
_STATE = "case when t.expires_at <= statement_timestamp() then 'open' else c.state end as state"
# Of live tables the moments count, of a cut the business dates. A band begins on the day after the bound before it.
_BAND = """width_bucket(greatest(0, case
    when %(scope)s = 'cut' and first_date is not null then %(day)s - first_date
    else extract(day from %(ended_at)s - first_at) end)::int, %(begins)s::int[]) as band"""
_COUNTED = f"""
with standing as (
    select w.state, w.first_date, w.first_at, false as is_carried
    from break b join break_now w using (break_id) where b.reconciliation_id = %(number)s
    union all
    select {_STATE}, c.first_date, c.first_at, true {_CARRIED} {_CARRIED_HERE}
)
select {_BAND}, count(*), count(*) filter (where state = 'open'), count(*) filter (where is_carried) from standing
group by band order by band
"""
# The texts of one column and of its groups, of the breaks of its table. Each is taken out of its JSON once: an
# expression that names a text three times would read the document three times. `offset 0` keeps PostgreSQL from that.
_TEXTS = """
select first_date, first_at, array[{groups}]::text[] as "group", source_values->>%(column)s as mine,
    destination_values->>%(column)s as theirs
from (
    select b.source_values, b.destination_values, w.first_date, w.first_at
    from break b join break_now w using (break_id)
    where b.reconciliation_id = %(number)s and b.table_name = %(table)s
    union all
    select b.source_values, b.destination_values, c.first_date, c.first_at {carried}
    join break b on (b.break_id, b.reconciliation_id) = (c.break_id, r.reconciliation_id)
    {here} and c.table_name = %(table)s and b.table_name = %(table)s
) as standing offset 0
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
    groups = ", ".join(
        f"coalesce(destination_values->>%(by{place})s, source_values->>%(by{place})s)"
        for place, _ in enumerate(money.by)
    )
    texts = _TEXTS.format(groups=groups, carried=_CARRIED, here=_CARRIED_HERE)
    statement = f"""
        select {_BAND}, "group", count(*), sum(abs(coalesce(theirs, 0) - coalesce(mine, 0))) from (
            select first_date, first_at, "group", {as_number("mine")} as mine, {as_number("theirs")} as theirs
            from ({texts}) as texts offset 0
        ) as differing
        where mine is not null or theirs is not null group by band, "group" order by band, "group"
    """
    arguments = {f"by{place}": name for place, name in enumerate(money.by)}
    arguments |= {"table": money.table, "column": money.column}
    return session.execute(statement.encode(), {**values, **arguments}).fetchall()
