"""What Great Expectations said of a run's staged cut: kept with the run, and entered as a part of its verdicts."""

from typing import Any

from psycopg.types.json import Jsonb

from seamline.domain.audit import Kind, verdict_act
from seamline.domain.errors import Refused
from seamline.domain.expectation_results import results_fault, results_text, with_results
from seamline.domain.runs import EXPECTATIONS, Reconciliation, Scope, checked_in
from seamline.platform import audit, reconciliations
from seamline.platform.database import Session

_SET = "update run set result = jsonb_set(result, array[%s::text], %s) where run_id = %s returning result"
_EVIDENCE = "update reconciliation set evidence = %s where run_id = %s and destination = %s and scope = 'cut'"


def set_results(session: Session, run_id: str, value: Any) -> int:
    """Keep them, None takes them back; of each verdict that reads otherwise by it there is an entry. How many runs
    there were. Refused: other results under a verdict that a person has signed."""
    row = session.execute(_SET, (EXPECTATIONS, Jsonb(value), run_id)).fetchone()
    if row is None:
        return 0
    changed = [
        now
        for found in reconciliations.read(session, "run_id = %s and scope = 'cut' order by 1 for update", (run_id,))
        if (now := with_results(found, row[0])) != found
    ]
    for now in changed:
        session.execute(_EVIDENCE, (Jsonb(dict(now.evidence)), run_id, now.destination))
    for now in changed:
        audit.append(session, verdict_act(now, Kind.CHECKED))
    return 1


def fault(session: Session, found: Reconciliation) -> str:
    """As `results_fault`, of what is stored with the run now."""
    if found.scope is not Scope.CUT:
        return ""
    row = session.execute("select result from run where run_id = %s", (found.run_id,)).fetchone()
    try:
        return results_fault(found, {} if row is None else row[0])
    except (AttributeError, TypeError, ValueError):
        return "the results of its expectations were changed, and cannot be read any more"


def left(session: Session, found: Reconciliation) -> str | None:
    """What is stored of the results that the verdict names, as the canonical JSON that was hashed; None where it names
    none, or where they are gone."""
    row = session.execute("select result from run where run_id = %s", (found.run_id,)).fetchone()
    if EXPECTATIONS not in found.evidence or row is None:
        return None
    stored = checked_in(row[0], found.destination)
    return None if stored is None else results_text(stored)


def require_as_checked(session: Session, found: Reconciliation) -> None:
    """Refused: the stored results are not those that the verdict was reached with."""
    if wrong := fault(session, found):
        raise Refused(
            f"nobody signs for {found.business_date} in {found.destination}: {wrong} behind the log of acts",
            hint=f"`./seamline audit verify --sync {found.sync}` names what was changed",
        )
