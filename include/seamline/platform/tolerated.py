"""Which breaks a tolerance covers, and bringing them under it: one statement for all of them.

A break is covered where exactly the tolerated column differs, both sides are numbers, and they differ by no more than
the bound. A row that a side lacks is never covered, nor one that differs in another column as well.
"""

from collections.abc import Mapping
from typing import Any

from seamline.platform.breaks import as_number
from seamline.platform.database import Session

_MINE, _THEIRS = (as_number(f"b.{side}_values->>t.column_name") for side in ("source", "destination"))
_COLUMNS = "(select array_agg(name) from json_object_keys(b.{side}_values) name) = array[t.column_name]"
_COVERED = f"""
covered as (
    select distinct on (b.break_id) b.break_id, t.tolerance_id, abs({_THEIRS} - {_MINE}) as absorbed
    from break b join reconciliation r using (reconciliation_id)
    join break_work w on w.break_id = b.break_id
    join tolerance t on (t.sync, t.destination, t.table_name) = (r.sync, r.destination, b.table_name)
    where {{which}} and b.type = 'value' and t.approved_by is not null and t.ended_by is null
        and t.expires_at > statement_timestamp()
        and {_COLUMNS.format(side="source")} and {_COLUMNS.format(side="destination")}
        and abs({_THEIRS} - {_MINE}) <= t.amount
    order by b.break_id, t.tolerance_id
)
"""
# An older comparison that is stored again is not the one that has found it last.
_IS_NEWEST = "%(run_id)s in (w.in_cut, w.in_live)"
_OF_COMPARISON = f"b.reconciliation_id = %(number)s and {_IS_NEWEST}"
# Of a break that stands in a cut and in live tables its values in the cut count.
_STANDING = (
    "t.tolerance_id = %(tolerance)s and (r.scope, r.run_id)"
    " = (case when w.in_cut <> '' then 'cut' else 'live' end, coalesce(nullif(w.in_cut, ''), w.in_live))"
)
_BRING = f"""
with {_COVERED}
update break_work w set state = 'tolerated', tolerance_id = covered.tolerance_id, absorbed = covered.absorbed,
    since = case when before.state = 'open' then clock_timestamp() else w.since end
from covered, break_work before
where w.break_id = covered.break_id and before.break_id = w.break_id and w.state in ('open', 'tolerated')
    and (w.state, w.tolerance_id, w.absorbed)
        is distinct from ('tolerated', covered.tolerance_id, covered.absorbed)
returning w.break_id, before.state = 'open'
"""
_RELEASE = f"""
with {_COVERED}
update break_work w set state = 'open', tolerance_id = null, absorbed = null, since = clock_timestamp()
where w.state = 'tolerated' and {_IS_NEWEST}
    and exists (select from break b where b.break_id = w.break_id and b.reconciliation_id = %(number)s)
    and not exists (select from covered where covered.break_id = w.break_id)
returning w.break_id
"""


def settle(session: Session, number: int, run_id: str) -> tuple[list[str], list[str]]:
    """By the values of a stored comparison: breaks that are tolerated now, and those that are not any more."""
    values = {"number": number, "run_id": run_id}
    released = [name for (name,) in _run(session, _RELEASE, _OF_COMPARISON, values)]
    brought = [name for name, is_new in _run(session, _BRING, _OF_COMPARISON, values) if is_new]
    return brought, released


def bring(session: Session, tolerance: int) -> list[str]:
    """What a tolerance covers of what stands now, as soon as it is approved."""
    return [name for name, is_new in _run(session, _BRING, _STANDING, {"tolerance": tolerance}) if is_new]


def _run(session: Session, statement: str, which: str, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    # All of these are texts of this file.
    return session.execute(statement.format(which=which).encode(), values).fetchall()
