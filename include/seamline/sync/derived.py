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


# Computes one derived table of a destination from its staged bases, by their names; the text is the cut's position.
Derive = Callable[[DestinationPlan, DerivedTablePlan, Mapping[str, Load], str], Derived]


def with_derived(
    plan: SyncPlan,
    destination: DestinationPlan,
    cut: StagedCut,
    loads: Mapping[str, Load],
    verdicts: Sequence[TableVerdict],
    derive: Derive,
) -> tuple[StagedCut, Sequence[TableVerdict]]:
    """Add the derived tables whose bases are in the cut; the others are left out with them."""
    tables, left_out, judged = list(cut.tables), dict(cut.left_out), list(verdicts)
    for derived in plan.derived:
        if (missing := next((one for one in derived.bases if one in left_out), None)) is not None:
            left_out[derived.name] = f"not computed from {missing}, which is left out: {left_out[missing]}"
            continue
        bases = {name: loads[name] for name in derived.bases}
        made = derive(destination, derived, bases, str(cut.position))
        tables.append(StagedTable(derived.name, CutMode.DERIVED, made.staged_as, made.rows, made.verdict.verdict))
        judged.append(made.verdict)
    return replace(cut, tables=tuple(tables), left_out=left_out), judged
