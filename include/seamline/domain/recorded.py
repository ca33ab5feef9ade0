"""What the log of acts has of a take, beside what is stored of it. Pure.

A report shows what is stored. Where that is not what was recorded, nobody knows what is true of the take: nothing of it
is shown as a MATCH then.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from seamline.domain.level import not_achieved
from seamline.domain.phrase import Phrase, phrase
from seamline.domain.runs import Reconciliation
from seamline.domain.verdict import TableVerdict, Verdict

NOT_AS_RECORDED = phrase("the stored verdict is not the one that was recorded: do not rely on it")
# Of each table of such a take that is stored as a MATCH.
_WHY = phrase("what is stored of this take is not what was recorded")


@dataclass(frozen=True, slots=True)
class Recorded:
    """`verdict_hash`: of the verdict, as its newest entry has it; "" where no entry names it. `faults`: what of the
    take is stored otherwise than it was entered, or is missing, each as `./seamline audit verify` says it."""

    verdict_hash: str = ""
    faults: tuple[str, ...] = ()

    def lines(self, sync: str) -> Iterator[str]:
        """What a report says before all else; nothing where all is as it was recorded."""
        if not self.faults:
            return
        yield NOT_AS_RECORDED
        yield from self.faults
        yield _cure(sync)


def _cure(sync: str) -> Phrase:
    return phrase(
        "`./seamline audit verify --sync %(sync)s` looks at the whole log; nobody can sign this take: take the date"
        " again",
        sync=sync,
    )


def doubted(found: Reconciliation) -> Reconciliation:
    """What may be shown of a comparison that is not stored as it was recorded. A BREAK stays one."""
    verdict = _doubted(found.verdict)
    tables = tuple(_doubted_table(one) for one in found.tables)
    return replace(found, verdict=verdict, tables=tables, evidence=not_achieved(found.evidence))


def _doubted_table(table: TableVerdict) -> TableVerdict:
    if table.verdict is not Verdict.MATCH:
        return table
    return replace(table, verdict=_doubted(table.verdict), reason=_WHY)


def _doubted(verdict: Verdict) -> Verdict:
    return Verdict.INCONCLUSIVE if verdict is Verdict.MATCH else verdict
