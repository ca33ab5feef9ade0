"""What a comparison does to the work on breaks: what it has found is known, what it has no more closes itself, what is
back is open again. One statement for all breaks of each of these, in the transaction that stores the comparison."""

from dataclasses import dataclass
from typing import Any

from seamline.domain.audit import FROM_RUN, Act, Kind, Subject
from seamline.domain.break_work import COMPARISON, WorkState, breaks_document
from seamline.domain.runs import Reconciliation, Scope
from seamline.domain.staged_cut import CutSource
from seamline.domain.verdict import Verdict
from seamline.plan.document import plan_from_json
from seamline.plan.model import SyncPlan
from seamline.platform import tolerances, tolerated
from seamline.platform.database import Session

# The columns of a scope: which run has it, and when the newest comparison that looked for it ended.
_COLUMNS = {Scope.CUT: ("in_cut", "cut_at"), Scope.LIVE: ("in_live", "live_at")}
_FOUND = "exists (select from break b where b.break_id = w.break_id and b.reconciliation_id = %(number)s)"
# What both sides hold in the columns that differ, of the break `b`.
VALUES = "md5(coalesce(b.source_values::text, '') || '|' || coalesce(b.destination_values::text, ''))"
# An older comparison that is stored late, or the same one again, says nothing new.
_IS_NEWER = "coalesce(w.{at}, '-infinity') < %(ended)s"
_BACK = f"""
update break_work w set state = 'open', since = %(ended)s, reason = '', explained_values = '',
    tolerance_id = null, absorbed = null
where state = 'closed' and {_FOUND} and {_IS_NEWER} returning break_id
"""
_CHANGED = f"""
update break_work w set state = 'open', since = %(ended)s, reason = '', explained_values = ''
where state = 'explained' and {_IS_NEWER} and exists (select from break b where b.break_id = w.break_id
    and b.reconciliation_id = %(number)s)
and not exists (select from break b where b.break_id = w.break_id and b.reconciliation_id = %(number)s
    and {VALUES} = w.explained_values)
returning break_id
"""
_KNOWN = """
insert into break_work as w (break_id, sync, destination, table_name, type, since, first_at, first_date, {run}, {at},
    cut_date)
select distinct on (break_id) break_id, %(sync)s, %(destination)s, table_name, type, %(ended)s, %(ended)s,
    %(cut_date)s::date, %(run_id)s, %(ended)s, %(cut_date)s
from break where reconciliation_id = %(number)s
on conflict (break_id) do update set {run} = excluded.{run}, {at} = excluded.{at},
    cut_date = coalesce(excluded.cut_date, w.cut_date), first_date = least(w.first_date, excluded.first_date)
where coalesce(w.{at}, '-infinity') < excluded.{at}
"""
_GONE = f"""
update break_work w set {{run}} = '', {{at}} = %(ended)s,
    state = case when w.{{elsewhere}} = '' then 'closed' else w.state end,
    since = case when w.{{elsewhere}} = '' and w.state <> 'closed' then %(ended)s else w.since end
from break_work before
where before.break_id = w.break_id and w.sync = %(sync)s and w.destination = %(destination)s and w.{{run}} <> ''
    and w.table_name = any(%(looked)s) and (w.table_name = any(%(whole)s) or w.cut_date = %(cut_date)s)
    and {_IS_NEWER} and not {_FOUND}
returning w.break_id, w.state = 'closed' and before.state <> 'closed'
"""


@dataclass(frozen=True, slots=True)
class _Closing:
    """Which tables a comparison has looked through so that a break which it has not listed is gone. `whole`: those of
    which it has seen every row; of the others only the rows of its business date."""

    looked: tuple[str, ...]
    whole: tuple[str, ...]


def settle(session: Session, number: int, found: Reconciliation) -> list[tuple[Act, list[str]]]:
    """Bring the work to what the stored comparison `number` says. Acts to be entered, each with its breaks."""
    run, at = _COLUMNS[found.scope]
    elsewhere = next(column for scope, (column, _) in _COLUMNS.items() if scope is not found.scope)
    closing = _closing(session, found)
    names = {"run": run, "at": at, "elsewhere": elsewhere}
    values = {
        "number": number,
        "sync": found.sync,
        "destination": found.destination,
        "run_id": found.run_id,
        "ended": found.ended_at,
        "cut_date": found.business_date if found.scope is Scope.CUT else None,
        "looked": list(closing.looked),
        "whole": list(closing.whole),
    }

    def changed(statement: str) -> list[tuple[Any, ...]]:
        # Statements and names of columns are texts of this file.
        return session.execute(statement.format(**names).encode(), values).fetchall()

    back = [name for (name,) in changed(_BACK)]
    other = [name for (name,) in changed(_CHANGED)]
    session.execute(_KNOWN.format(**names).encode(), values)
    gone = [name for name, is_closed in changed(_GONE) if is_closed]
    ended = tolerances.end_undeclared(session, found.sync)
    covered, exceeded = tolerated.settle(session, number, found.run_id)
    acts = [
        _act(found, kind, state, why, breaks)
        for kind, state, why, breaks in (
            (Kind.BREAK_REOPENED, WorkState.OPEN, "found again", back),
            (Kind.BREAK_REOPENED, WorkState.OPEN, "its values are others than those that were explained", other),
            (Kind.BREAK_REOPENED, WorkState.OPEN, "no tolerance in force covers it any more", exceeded),
            (Kind.BREAK_CLOSED, WorkState.CLOSED, "the comparison has it no more", gone),
            (Kind.TOLERATED, WorkState.TOLERATED, "a tolerance in force covers it", covered),
        )
        if breaks
    ]
    return [*ended, *acts]


def _act(found: Reconciliation, kind: Kind, state: WorkState, why: str, breaks: list[str]) -> tuple[Act, list[str]]:
    subject = Subject(found.sync, found.destination, found.business_date, found.run_id, found.scope.value)
    document = {**breaks_document(breaks), "state": state, "comment": why}
    return Act(kind, subject, document, COMPARISON, FROM_RUN), breaks


def _closing(session: Session, found: Reconciliation) -> _Closing:
    # Where more was found than is listed, nobody knows that a break is gone.
    looked = tuple(
        table.table
        for table in found.tables
        if table.verdict in (Verdict.MATCH, Verdict.BREAK) and table.breaks_total == len(table.breaks)
    )
    if found.scope is Scope.LIVE:
        return _Closing(looked, looked)
    plan = _plan(session, found.run_id)
    return _Closing(looked, _whole(plan, found.destination) if plan else ())


def _whole(plan: SyncPlan, destination: str) -> tuple[str, ...]:
    """Tables of which a cut in the destination has every row. What is derived may be of the date alone."""
    lives = {one.name for one in plan.destinations if one.cut_source is CutSource.LIVE}
    return tuple(table.name for table in plan.tables if table.business_date is None or destination in lives)


def _plan(session: Session, run_id: str) -> SyncPlan | None:
    row = session.execute("select plan_json from run where run_id = %s", (run_id,)).fetchone()
    return plan_from_json(row[0]) if row else None
