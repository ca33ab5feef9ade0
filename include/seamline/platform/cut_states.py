"""The states of cuts as the platform database knows them: runs, what they were reconciled as, what they published."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

from psycopg import Cursor
from psycopg.rows import dict_row

from seamline.domain.cut_state import CutState, state_of_cut
from seamline.domain.recorded import Recorded
from seamline.domain.runs import Cut, Reconciliation, Scope
from seamline.plan.model import Run
from seamline.platform import audit_check, reconciliations, rows
from seamline.platform.audit_check import Takes
from seamline.platform.database import Session
from seamline.platform.reconciliations import Detail
from seamline.sync.delivered import kept_in

# A run that took nothing leaves a date as it is.
_NEWEST = """
    select * from (
        select distinct on (business_date) * from run
        where sync = %(sync)s and kind = 'nightly' and business_date is not null
          and result->>'took_nothing' is distinct from 'true'
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
      and result->>'took_nothing' is distinct from 'true'
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
    """Each is held against the log of acts, so none looks better than it was recorded. Of verdicts alone, as of a list
    of dates, only those are that look well: they have no breaks, so this reads little."""
    session.execute("set transaction isolation level repeatable read, read only")
    cursor = session.cursor(row_factory=dict_row)
    # `query` is one of the texts above.
    runs = [rows.run_of(row) for row in cursor.execute(query, arguments).fetchall()]
    keeping = _keeping(cursor, runs)
    cursor.execute(
        "select * from cut where sync = %s and business_date = any(%s) order by version",
        (sync, [run.business_date for run in runs]),
    )
    cuts = [rows.cut_of(row) for row in cursor]
    run_ids = {run.run_id for run in (*runs, *keeping.values())} | {cut.run_id for cut in cuts}
    compared = reconciliations.read(
        session, "run_id = any(%s) and scope = %s", (list(run_ids), Scope.CUT.value), detail=detail
    )
    known = _Known({(one.run_id, one.destination): one for one in compared}, cuts)

    def states() -> tuple[CutState, ...]:
        return tuple(
            _state(by, one.name, known)
            for run in runs
            for one in run.plan.destinations
            if (by := _left_by(run, one.name, keeping)) is not None
        )

    if detail is Detail.VERDICTS:
        days = {one.business_date for one in states() if one.is_green}
        run_ids = {run.run_id for run in runs if run.business_date in days}
        run_ids |= {cut.run_id for cut in cuts if cut.business_date in days}
    if run_ids:
        known.recorded = audit_check.recorded_of(session, sorted(run_ids))
        known.without_run = frozenset(run_ids).difference(run.run_id for run in (*runs, *keeping.values()))
    return states()


def _keeping(cursor: Cursor[dict[str, Any]], runs: Sequence[Run]) -> Mapping[str, Run]:
    """By name the runs whose cuts stay in force where these have taken nothing, of those that are not listed."""
    names = {one.run for run in runs for one in kept_in(run).values()} - {run.run_id for run in runs}
    if not names:
        return {}
    cursor.execute("select * from run where run_id = any(%s)", (list(names),))
    return {run.run_id: run for run in map(rows.run_of, cursor)}


def _left_by(run: Run, destination: str, keeping: Mapping[str, Run]) -> Run | None:
    """Whose take shows what this run has left of a destination; None where that take is listed by itself."""
    kept = kept_in(run).get(destination)
    return run if kept is None else keeping.get(kept.run)


@dataclass(slots=True)
class _Known:
    """What the states are made of. `found`: by run and destination. `without_run`: of cuts whose run is gone, so that
    no take of the date is theirs."""

    found: Mapping[tuple[str, str], Reconciliation]
    cuts: Sequence[Cut]
    recorded: Takes | None = None
    without_run: frozenset[str] = frozenset()

    def recorded_of(self, run_id: str, destination: str) -> Recorded | None:
        return self.recorded.of(run_id, destination) if self.recorded else None


def _state(run: Run, destination: str, known: _Known) -> CutState:
    assert run.business_date is not None
    of_date = [cut for cut in known.cuts if (cut.destination, cut.business_date) == (destination, run.business_date)]
    in_force = max(of_date, key=lambda cut: cut.version, default=None)
    recorded, of_version = known.recorded_of(run.run_id, destination), None
    if in_force is not None:
        of_version = known.recorded_of(in_force.run_id, destination)
        if recorded is not None and of_version is not None and in_force.run_id in known.without_run:
            # Nothing else shows what is wrong with that version.
            recorded = replace(recorded, faults=tuple(dict.fromkeys((*recorded.faults, *of_version.faults))))
    return state_of_cut(
        run_id=run.run_id,
        sync=run.sync,
        destination=destination,
        business_date=run.business_date,
        run_state=run.state,
        result=run.result,
        found=known.found.get((run.run_id, destination)),
        published=next((cut for cut in of_date if cut.run_id == run.run_id), None),
        in_force=in_force,
        in_force_found=known.found.get((in_force.run_id, destination)) if in_force else None,
        recorded=recorded,
        in_force_recorded=of_version,
    )
