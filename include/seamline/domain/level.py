"""The level that a run has achieved: what readers of its destination may rely on, and whether the run shows it."""

from collections.abc import Mapping
from typing import Any

from seamline.domain.runs import Reconciliation
from seamline.domain.verdict import Verdict

# Its name in a reconciliation's evidence.
LEVEL = "level"


def level_evidence(found: Reconciliation, level: str, *, guarantee: str) -> dict[str, Any]:
    """What is kept with a comparison. `level`: as its kind of destination gives it. It is achieved where every row was
    compared at one position and none differs; the verdicts beside it are what that rests on. Tables that a cut leaves
    out, as those without history, do not count."""
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
    """None where the run kept nothing of it."""
    kept = _kept(found)
    return bool(kept["achieved"]) if kept else None


def _kept(found: Reconciliation | None) -> Mapping[str, Any]:
    evidence: Mapping[str, Any] = found.evidence if found else {}
    kept: Mapping[str, Any] = evidence.get(LEVEL, {})
    return kept
