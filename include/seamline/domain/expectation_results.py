"""What Great Expectations said of a staged cut, as the verdict of the cut has it: in a word, in counts, and by a hash
of the results, so that a signature under the verdict covers them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from seamline.domain.audit import canonical_json, sha256_of
from seamline.domain.phrase import counted
from seamline.domain.runs import EXPECTATIONS, Reconciliation, checked_in


def counted_rows(wrong: int, looked_at: int | None) -> str:
    """How many rows break a rule, of how many that were looked at; None where that is not known."""
    rows = counted(wrong, "row") if looked_at is None else f"{wrong:,} of {counted(looked_at, 'row')}"
    return f"{rows} {'does' if wrong == 1 else 'do'} not meet it"


def results_text(result: Mapping[str, Any], destination: str) -> str | None:
    """The canonical JSON of what the expectations of one destination left in a run's `result`, which is hashed; None
    where that is nothing, or cannot be read."""
    left = checked_in(result, destination)
    try:
        return None if left is None else canonical_json(left)
    except (TypeError, ValueError):
        return None


def with_results(found: Reconciliation, result: Mapping[str, Any]) -> Reconciliation:
    """The verdict with what the expectations in its destination left in the run's `result`; without it, where that is
    nothing."""
    rest = {key: value for key, value in found.evidence.items() if key != EXPECTATIONS}
    left = checked_in(result, found.destination)
    return replace(found, evidence={**rest, EXPECTATIONS: _summary(left)} if left else rest)


def results_fault(found: Reconciliation, result: Mapping[str, Any]) -> str:
    """What is wrong with the results in the run's `result`, beside what the verdict says of them; "" if nothing.

    A verdict that was reached by a version without this says nothing of them, and nothing is known to be wrong.
    """
    said = found.evidence.get(EXPECTATIONS)
    if not isinstance(said, Mapping):
        return ""
    text = results_text(result, found.destination)
    if text is None:
        return "the results of its expectations are missing"
    return "" if said.get("hash") == sha256_of(text) else "the results of its expectations were changed"


def _summary(left: Mapping[str, Any]) -> dict[str, object]:
    return {
        "suite": left.get("suite", ""),
        "verdict": left["verdict"],
        "checked": left.get("checked", 0),
        "failed": len(left.get("failed", ())),
        "hash": sha256_of(canonical_json(left)),
    }
