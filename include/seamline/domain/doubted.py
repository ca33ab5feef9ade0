"""What may be shown of a comparison, beside what the log of acts has of it. Pure."""

from collections.abc import Iterable
from dataclasses import replace

from seamline.domain.level import not_achieved
from seamline.domain.phrase import phrase
from seamline.domain.recorded import Recorded, cure_of_live
from seamline.domain.runs import Reconciliation
from seamline.domain.verdict import TableVerdict, Verdict

# Of each table of such a comparison that is stored as a MATCH.
_WHY = phrase("what is stored of this comparison is not what was recorded")


def doubted(found: Reconciliation) -> Reconciliation:
    """What may be shown of a comparison that is not stored as it was recorded. A BREAK stays one."""
    verdict = _doubted(found.verdict)
    tables = tuple(_doubted_table(one) for one in found.tables)
    return replace(found, verdict=verdict, tables=tables, evidence=not_achieved(found.evidence))


def beside_the_log(found: Reconciliation, recorded: Recorded | None) -> Reconciliation:
    """A comparison with what the log of acts has of it; None: nobody has looked."""
    held = replace(found, recorded=recorded)
    return doubted(held) if held.is_altered else held


def altered_in_words(found: Reconciliation) -> Iterable[str]:
    """What stands before all else that is said of live tables; nothing where they are stored as it was recorded."""
    return found.recorded.lines(cure_of_live(found.sync)) if found.recorded else ()


def _doubted_table(table: TableVerdict) -> TableVerdict:
    if table.verdict is not Verdict.MATCH:
        return table
    return replace(table, verdict=_doubted(table.verdict), reason=_WHY)


def _doubted(verdict: Verdict) -> Verdict:
    return Verdict.INCONCLUSIVE if verdict is Verdict.MATCH else verdict
