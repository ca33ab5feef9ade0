"""A comparison that was INCONCLUSIVE is made again within its run, a few times. A break never is: a difference that
goes away while one waits is a difference."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from seamline.domain.runs import Reconciliation
from seamline.domain.verdict import Verdict, reasons_of, worst
from seamline.sync.clock import Clock, SystemClock

log = logging.getLogger(__name__)

# Names in a reconciliation's evidence: the number of attempts, those before the last one, and that another cannot help.
ATTEMPTS, INCONCLUSIVE_BEFORE, NEEDS_A_PERSON = "attempts", "inconclusive_before", "needs_a_person"
_WAIT_FIRST_S, _WAIT_FACTOR, _WAIT_MAX_S = 10.0, 3.0, 300.0


@dataclass(frozen=True, slots=True)
class Tried:
    """An attempt that was inconclusive: when it ended, and why, each reason once with its tables."""

    ended_at: datetime
    reasons: tuple[str, ...]

    def to_json(self) -> Mapping[str, object]:
        return {"ended_at": self.ended_at.isoformat(), "reasons": list(self.reasons)}


def evidence_of(tried: Sequence[Tried]) -> Mapping[str, object]:
    """What the reconciliation of the attempt after these keeps of them."""
    return {ATTEMPTS: len(tried) + 1, INCONCLUSIVE_BEFORE: [one.to_json() for one in tried]}


def until_conclusive(
    take: Callable[[Sequence[Tried]], Sequence[Reconciliation]],
    *,
    attempts: int,
    clock: Clock | None = None,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Sequence[Reconciliation]:
    """What `take` finds at last: at once where it is conclusive, else after at most so many attempts.

    `take` makes one attempt. It gets the attempts before, saves what it finds in place of theirs, and gives it back.
    """
    clock = clock or SystemClock()
    tried: tuple[Tried, ...] = ()
    while True:
        found = take(tried)
        if not _may_change(found) or len(tried) + 1 >= attempts:
            return found
        tried = (*tried, Tried(now(), _reasons(found)))
        wait_s = min(_WAIT_MAX_S, _WAIT_FIRST_S * _WAIT_FACTOR ** (len(tried) - 1))
        log.warning(
            "comparison inconclusive, made again: sync=%s attempt=%d of %d wait_s=%g why=%s",
            found[0].sync, len(tried), attempts, wait_s, "; ".join(tried[-1].reasons),
        )  # fmt: skip
        clock.sleep(wait_s)


def _may_change(found: Sequence[Reconciliation]) -> bool:
    """Whether something is INCONCLUSIVE, nothing is worse, and no person has to act first."""
    verdicts = [table.verdict for one in found for table in one.tables]
    return worst(verdicts) is Verdict.INCONCLUSIVE and not any(NEEDS_A_PERSON in one.evidence for one in found)


def _reasons(found: Sequence[Reconciliation]) -> tuple[str, ...]:
    unknown = [
        replace(table, table=f"{one.destination}.{table.table}")
        for one in found
        for table in one.tables
        if table.verdict is Verdict.INCONCLUSIVE
    ]
    return tuple(f"{', '.join(names)}: {reason}" for reason, names in reasons_of(unknown).items())
