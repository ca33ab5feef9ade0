"""The states of cuts as the platform database knows them: runs, what they were reconciled as, what they published."""

from collections.abc import Sequence
from datetime import date
from typing import Any

from psycopg.rows import dict_row

from seamline.domain.cut_state import CutState, state_of_cut
from seamline.domain.runs import Cut, Reconciliation, Scope
from seamline.plan.model import Run
from seamline.platform import reconciliations, rows
from seamline.platform.database import Session
from seamline.platform.reconciliations import Detail

_NEWEST = """
    select * from (
        select distinct on (business_date) * from run
        where sync = %(sync)s and kind = 'nightly' and business_date is not null
          and (%(before)s::date is null or business_date < %(before)s)
        order by business_date desc, started_at desc
    ) newest order by business_date desc limit %(limit)s
"""
_OF_DATE = """
    select * from run where sync = %(sync)s and kind = 'nightly' and business_date = %(day)s
    order by started_at desc
"""

_OF_DATES = """
    select distinct on (business_date) * from run
    where sync = %(sync)s and kind = 'nightly' and business_date = any(%(days)s)
    order by business_date desc, started_at desc
"""


def newest(
    session: Session, sync: str, *, limit: int, before: date | None, detail: Detail = Detail.WHOLE
) -> tuple[CutState, ...]:
    """Of each date what its newest run left, in each destination; the newest date first."""
    return _states(session, sync, _NEWEST, {"sync": sync, "limit": limit, "before": before}, detail)


def of_date(session: Session, sync: str, day: date, *, detail: Detail = Detail.WHOLE) -> tuple[CutState, ...]:
    """What each run of the date left, in each destination; the newest run first."""
    return _states(session, sync, _OF_DATE, {"sync": sync, "day": day}, detail)


def of_dates(session: Session, sync: str, days: Sequence[date]) -> tuple[CutState, ...]:
    """Of each of these dates what its newest run left, in each destination, without control totals."""
    return _states(session, sync, _OF_DATES, {"sync": sync, "days": list(days)}, Detail.VERDICTS)


def _states(session: Session, sync: str, query: str, arguments: dict[str, Any], detail: Detail) -> tuple[CutState, ...]:
    cursor = session.cursor(row_factory=dict_row)
    # `query` is one of the texts above.
    runs = [rows.run_of(row) for row in cursor.execute(query, arguments).fetchall()]
    cursor.execute(
        "select * from cut where sync = %s and business_date = any(%s) order by version",
        (sync, [run.business_date for run in runs]),
    )
    cuts = [rows.cut_of(row) for row in cursor]
    run_ids = {run.run_id for run in runs} | {cut.run_id for cut in cuts}
    compared = reconciliations.read(
        session, "run_id = any(%s) and scope = %s", (list(run_ids), Scope.CUT.value), detail=detail
    )
    found = {(one.run_id, one.destination): one for one in compared}
    return tuple(_state(run, one.name, found, cuts) for run in runs for one in run.plan.destinations)


def _state(run: Run, destination: str, found: dict[tuple[str, str], Reconciliation], cuts: Sequence[Cut]) -> CutState:
    assert run.business_date is not None
    of_date = [cut for cut in cuts if (cut.destination, cut.business_date) == (destination, run.business_date)]
    in_force = max(of_date, key=lambda cut: cut.version, default=None)
    return state_of_cut(
        run_id=run.run_id,
        sync=run.sync,
        destination=destination,
        business_date=run.business_date,
        run_state=run.state,
        result=run.result,
        found=found.get((run.run_id, destination)),
        published=next((cut for cut in of_date if cut.run_id == run.run_id), None),
        in_force=in_force,
        in_force_found=found.get((in_force.run_id, destination)) if in_force else None,
    )
