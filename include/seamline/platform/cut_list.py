"""The cuts that a sync has published, with what their runs left of them, and the dates that ever had one."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from typing import Any

from psycopg.rows import dict_row

from seamline.domain.cut_keep import PublishedCut
from seamline.domain.runs import Cut
from seamline.domain.verdict import Verdict
from seamline.platform import audit_check, rows
from seamline.platform.audit_check import Takes
from seamline.platform.database import Session

_CUTS = """
select cut.*, reconciliation.mode, run.result->'cut'->cut.destination->'tables' as staged
from cut left join run using (run_id)
left join reconciliation on reconciliation.run_id = cut.run_id and reconciliation.destination = cut.destination
    and reconciliation.scope = 'cut'
where cut.sync = %s order by cut.business_date desc, cut.version desc, cut.destination
"""
# What has expired is on the list no more, and its date is not missing.
_PUBLISHED = """
select destination, business_date from cut where sync = %(sync)s
union
select destination, business_date from run, jsonb_object_keys(result->'publish') destination
where sync = %(sync)s and kind = 'nightly' and business_date is not null and jsonb_typeof(result->'publish') = 'object'
"""


def cuts_of(session: Session, sync: str) -> tuple[PublishedCut, ...]:
    """The newest date first, of a date the newest version first. Those that look well are held against the log of
    acts."""
    session.execute("set transaction isolation level repeatable read, read only")
    cursor = session.cursor(row_factory=dict_row)
    found = [_cut(row) for row in cursor.execute(_CUTS, (sync,))]
    well = sorted({one.cut.run_id for one in found if one.cut.verdict is Verdict.MATCH})
    recorded = audit_check.recorded_of(session, well)
    return tuple(replace(one, is_altered=_is_altered(one.cut, recorded)) for one in found)


def _is_altered(cut: Cut, recorded: Takes) -> bool:
    take = recorded.of(cut.run_id, cut.destination)
    return bool(take and take.faults)


def published_dates(session: Session, sync: str) -> Mapping[str, frozenset[date]]:
    """By destination every date of which a cut was published, also one that has expired since."""
    found: dict[str, set[date]] = {}
    for destination, day in session.execute(_PUBLISHED, {"sync": sync}):
        found.setdefault(destination, set()).add(day)
    return {name: frozenset(days) for name, days in found.items()}


def _cut(row: Mapping[str, Any]) -> PublishedCut:
    staged = row["staged"]
    return PublishedCut(
        rows.cut_of(row), row["mode"] or "", None if staged is None else sum(int(one["rows"]) for one in staged)
    )
