"""The derived tables of a cut: computed from its staged tables, and compared with these very rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from seamline.domain.staged_cut import CutMode, StagedCut, StagedTable
from seamline.domain.verdict import TableVerdict
from seamline.plan.model import DerivedTablePlan, DestinationPlan, SyncPlan
from seamline.ports import Load


@dataclass(frozen=True, slots=True)
class Derived:
    """A derived table as it stands staged, already compared with the rows it came from."""

    staged_as: str
    rows: int
    verdict: TableVerdict


# Computes one derived table of a destination from its staged base; the text is the cut's position.
Derive = Callable[[DestinationPlan, DerivedTablePlan, Load, str], Derived]


def with_derived(
    plan: SyncPlan,
    destination: DestinationPlan,
    cut: StagedCut,
    loads: Mapping[str, Load],
    verdicts: Sequence[TableVerdict],
    derive: Derive,
) -> tuple[StagedCut, Sequence[TableVerdict]]:
    """Add the derived tables whose base is in the cut; the others are left out with it."""
    tables, left_out, judged = list(cut.tables), dict(cut.left_out), list(verdicts)
    for derived in plan.derived:
        if derived.table in left_out:
            left_out[derived.name] = f"{derived.table}, which it is computed from: {left_out[derived.table]}"
            continue
        made = derive(destination, derived, loads[derived.table], str(cut.position))
        tables.append(StagedTable(derived.name, CutMode.DERIVED, made.staged_as, made.rows, made.verdict.verdict))
        judged.append(made.verdict)
    return replace(cut, tables=tuple(tables), left_out=left_out), judged
