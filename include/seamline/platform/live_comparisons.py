"""Comparisons of live tables as reports show them: held against the log of acts, so none looks better than it was
recorded, and none is missed by nobody."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from psycopg.rows import dict_row

from seamline.domain.audit import ABOUT_VERDICTS
from seamline.domain.cut_state import Headline, of_live
from seamline.domain.doubted import beside_the_log
from seamline.domain.recorded import Recorded
from seamline.domain.runs import Reconciliation, Scope
from seamline.domain.verdict import Verdict
from seamline.platform import audit_check, reconciliations
from seamline.platform.database import Session
from seamline.platform.reconciliations import Detail

_NOT_STORED = """
select distinct on (run_id, destination) * from audit_entry entry
where sync = %(sync)s and scope = 'live' and kind = any(%(kinds)s)
  and (%(run)s = '' or run_id = %(run)s) and (%(before)s::timestamptz is null or at < %(before)s)
  and number > coalesce((select min(number) from audit_entry where run_id = any(%(since)s) and scope = 'live'), 0)
  and not exists (select from reconciliation stored where (stored.run_id, stored.destination, stored.scope)
    = (entry.run_id, entry.destination, entry.scope))
order by run_id, destination, number desc
"""


def newest(
    session: Session, sync: str, limit: int, *, before: datetime | None, detail: Detail
) -> tuple[Reconciliation, ...]:
    """The newest first, at most `limit`; those that had begun before `before`. One that was taken away since stands
    among them, as altered."""
    condition = (
        "sync = %s and scope = 'live' and (%s::timestamptz is null or started_at < %s)"
        " order by started_at desc limit %s"
    )
    found = read(session, condition, (sync, before, before, limit), detail=detail)
    # Behind the last of a full list nobody looks here.
    since = [one.run_id for one in found] if len(found) == limit else []
    gone = _not_stored(session, sync, since=since, before=before)
    return tuple(sorted((*found, *gone), key=lambda one: one.started_at, reverse=True)[:limit])


def of_run(session: Session, sync: str, run_id: str, *, detail: Detail) -> tuple[Reconciliation, ...]:
    """By destination."""
    condition = "sync = %s and run_id = %s and scope = 'live' order by destination"
    return (*read(session, condition, (sync, run_id), detail=detail), *_not_stored(session, sync, run=run_id))


def read(
    session: Session, condition: str, arguments: Sequence[Any] | Mapping[str, Any], *, detail: Detail
) -> tuple[Reconciliation, ...]:
    """Those that meet the condition, as `reconciliations.read` takes it. Of verdicts alone, as of a list, only those
    are held against the log that look well: they have no breaks, so this reads little."""
    session.execute("set transaction isolation level repeatable read, read only")
    found = reconciliations.read(session, condition, arguments, detail=detail)
    runs = {one.run_id for one in found if detail is not Detail.VERDICTS or _looks_well(one)}
    if not runs:
        return found
    recorded = audit_check.live_recorded_of(session, sorted(runs))
    return tuple(beside_the_log(one, recorded.of(one.run_id, one.destination)) for one in found)


def _not_stored(
    session: Session, sync: str, *, run: str = "", since: Sequence[str] = (), before: datetime | None = None
) -> list[Reconciliation]:
    """In place of each comparison that the log of acts has and the database has not: without a table. `since`: runs,
    the first of which begins the list."""
    cursor = session.cursor(row_factory=dict_row)
    kinds = [kind.value for kind in ABOUT_VERDICTS]
    cursor.execute(_NOT_STORED, {"sync": sync, "kinds": kinds, "run": run, "since": list(since), "before": before})
    return [
        Reconciliation(
            run_id=row["run_id"],
            sync=sync,
            destination=row["destination"],
            scope=Scope.LIVE,
            business_date=row["business_date"],
            position=None,
            position_time=None,
            mode="",
            verdict=Verdict.NOT_RUN,
            tables=(),
            started_at=row["at"],
            ended_at=row["at"],
            recorded=Recorded(faults=(audit_check.verdict_missing(row),)),
        )
        for row in cursor
    ]


def _looks_well(found: Reconciliation) -> bool:
    return of_live(found) in (Headline.MATCH, Headline.PARTIAL)
