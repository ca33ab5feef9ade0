"""The level that a run has achieved: what readers of its destination may rely on, and whether the run shows it."""

from collections.abc import Mapping
from typing import Any

from seamline.domain.phrase import phrase
from seamline.domain.runs import Reconciliation
from seamline.domain.verdict import Verdict

# Its name in a reconciliation's evidence.
LEVEL = "level"
# The guarantee under which what was compared had been written, where the destination says so.
WRITTEN_UNDER = "written_under"


def level_evidence(found: Reconciliation, level: str, *, guarantee: str) -> dict[str, Any]:
    """What is kept with a comparison. `level`: as its kind of destination gives it. It is achieved where every row was
    compared at one position and none differs; the verdicts beside it are what that rests on. Tables that a cut leaves
    out, as those without history, do not count: `not_shown` names them."""
    compared = [table for table in found.tables if table.verdict is Verdict.MATCH]
    return {
        LEVEL: {
            "level": level,
            "guarantee": guarantee,
            "achieved": found.verdict is Verdict.MATCH and found.position is not None,
            "verdict": found.verdict.value,
            "tables": len(compared),
        }
    }


def level_of(found: Reconciliation | None, declared: str | None) -> str | None:
    """As the run kept it; `declared` where it kept none, as one of an earlier version."""
    kept = _kept(found)
    return str(kept["level"]) if kept else declared


def is_achieved(found: Reconciliation | None) -> bool | None:
    """For the tables that were compared; None where the run kept nothing of it."""
    kept = _kept(found)
    return bool(kept["achieved"]) if kept else None


def not_shown(found: Reconciliation | None) -> tuple[str, ...]:
    """The tables that were not compared: whatever the run shows of the others, it shows nothing of them."""
    tables = found.tables if found else ()
    return tuple(table.table for table in tables if table.verdict is Verdict.NOT_RUN)


def achieved_in_words(found: Reconciliation | None) -> str | None:
    """For which tables the run shows it; None where it kept nothing of it."""
    achieved, left_out = is_achieved(found), not_shown(found)
    if found is None or achieved is None:
        return None
    if not achieved or len(left_out) == len(found.tables):
        return phrase("no")
    if not left_out:
        return phrase("yes")
    return phrase(
        "for %(shown)s of %(all)s tables; NOT_RUN, so not shown, for %(tables)s",
        shown=len(found.tables) - len(left_out),
        all=len(found.tables),
        tables=", ".join(left_out),
    )


def not_achieved(evidence: Mapping[str, Any]) -> Mapping[str, Any]:
    """The evidence of a comparison that nobody can rely on."""
    kept = evidence.get(LEVEL)
    return {**evidence, LEVEL: {**kept, "achieved": False, "verdict": None, "tables": 0}} if kept else evidence


def _kept(found: Reconciliation | None) -> Mapping[str, Any]:
    evidence: Mapping[str, Any] = found.evidence if found else {}
    kept: Mapping[str, Any] = evidence.get(LEVEL, {})
    return kept
