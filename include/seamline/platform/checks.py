"""What Great Expectations said of a run's staged cut: kept with the run, and entered as a part of its verdicts. What a
verdict says is used and entered only where it is what the log of acts has."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from psycopg.types.json import Jsonb

from seamline.domain.audit import Kind, verdict_act, verdict_hash
from seamline.domain.errors import Refused
from seamline.domain.expectation_results import results_fault, results_text, with_results
from seamline.domain.runs import EXPECTATIONS, SIGNED_BY, Reconciliation, Scope
from seamline.platform import audit, reconciliations
from seamline.platform.database import Session

_SET = """
with before as (select run_id, result from run where run_id = %s for update)
update run set result = jsonb_set(run.result, array[%s::text], %s) from before where run.run_id = before.run_id
returning before.result, run.result
"""
_EVIDENCE = "update reconciliation set evidence = %s where run_id = %s and destination = %s and scope = 'cut'"
_OF_RUN = "run_id = %s and scope = 'cut' order by 1 for update"
# A cut that has expired was published, too.
_PUBLISHED = "select distinct destination from audit_entry where run_id = %s and kind = any(%s)"
_ABOUT_PUBLISHED = [Kind.PUBLISHED.value, Kind.CUT_ADOPTED.value]


def set_results(session: Session, run_id: str, value: Any) -> int:
    """Keep them, None takes them back; of each verdict that reads otherwise by it there is an entry. How many runs
    there were.

    A published verdict with the same results stays as it is: one of a version that entered none has none. Where results
    are taken back, a verdict that was changed behind the log stays as it is, too, until it is compared again. Refused:
    results for such a verdict; other results under a verdict that a person has signed.
    """
    row = session.execute(_SET, (run_id, EXPECTATIONS, Jsonb(value))).fetchone()
    if row is None:
        return 0
    before, after = row
    stored = reconciliations.read(session, _OF_RUN, (run_id,))
    # Behind the locks: nobody enters another verdict of the run from here on.
    entered = audit.verdicts_of(session, run_id)
    changed = []
    for found in stored:
        now = with_results(found, after)
        if now == found or _stands(session, found, before, after):
            continue
        if value is not None:
            _require_entered(found, entered)
        if _is_entered(found, entered):
            changed.append(now)
    for now in changed:
        session.execute(_EVIDENCE, (Jsonb(dict(now.evidence)), run_id, now.destination))
    for now in changed:
        audit.append(session, verdict_act(now, Kind.CHECKED))
    return 1


def _stands(session: Session, found: Reconciliation, before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether it is published, and its results are the same."""
    if results_text(before, found.destination) != results_text(after, found.destination):
        return False
    published = session.execute(_PUBLISHED, (found.run_id, _ABOUT_PUBLISHED)).fetchall()
    return any(destination == found.destination for (destination,) in published)


def fault(session: Session, found: Reconciliation) -> str:
    """As `results_fault`, of what is stored with the run now."""
    return results_fault(found, _result_of(session, found)) if found.scope is Scope.CUT else ""


def results_of(session: Session, runs: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    """By run all that is stored of its outcome."""
    found = session.execute("select run_id, result from run where run_id = any(%s)", (list(runs),))
    return {str(run_id): result for run_id, result in found}


def left(session: Session, found: Reconciliation) -> str | None:
    """What is stored of the results that the verdict names, as the canonical JSON that was hashed; None where it names
    none, and where they are gone or cannot be read."""
    return results_text(_result_of(session, found), found.destination) if EXPECTATIONS in found.evidence else None


def _result_of(session: Session, found: Reconciliation) -> Mapping[str, Any]:
    row = session.execute("select result from run where run_id = %s", (found.run_id,)).fetchone()
    return {} if row is None else row[0]


# ---- what is used is what was entered --------------------------------------------------------------------------------


def require_as_checked(session: Session, found: Reconciliation) -> None:
    """Refused: the stored results are not those that the verdict was reached with."""
    if wrong := fault(session, found):
        raise Refused(
            f"nobody signs for {found.business_date} in {found.destination}: {wrong} behind the log of acts",
            hint=f"`./seamline audit verify --sync {found.sync}` names what was changed",
        )


def require_as_entered(session: Session, found: Reconciliation) -> None:
    """Refused: the verdict of a cut is not what its newest entry says."""
    _require_entered(found, audit.verdicts_of(session, found.run_id))


def require_signable(session: Session, signed: Reconciliation) -> None:
    """Nobody compares or checks it again before this transaction ends. Refused: the stored verdict is not the one that
    is signed, or not what its newest entry says."""
    condition = "run_id = %s and destination = %s and scope = 'cut' for update"
    stored = reconciliations.read(session, condition, (signed.run_id, signed.destination))
    for found in stored:
        require_as_entered(session, found)
        require_as_checked(session, found)
    if [_unsigned_hash(found) for found in stored] != [_unsigned_hash(signed)]:
        raise Refused(
            f"the verdict of {signed.business_date} in {signed.destination} is another one than the one that was"
            " published with a signature",
            hint=f"`./seamline audit verify --sync {signed.sync}` names what was changed; take the date again",
        )


def _unsigned_hash(found: Reconciliation) -> str:
    evidence = {key: value for key, value in found.evidence.items() if key != SIGNED_BY}
    return verdict_hash(replace(found, evidence=evidence))


def _is_entered(found: Reconciliation, entered: Mapping[str, str]) -> bool:
    return verdict_hash(found) == entered.get(found.destination)


def _require_entered(found: Reconciliation, entered: Mapping[str, str]) -> None:
    if not _is_entered(found, entered):
        raise Refused(
            f"the stored verdict of {found.business_date} in {found.destination} is not the one that the log of acts"
            " has",
            hint=f"`./seamline audit verify --sync {found.sync}` names what was changed; take the date again",
        )
