"""What people have done about the breaks of a report, as its writers take it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from seamline.domain.break_age import DAYS, Aged
from seamline.domain.break_work import Work
from seamline.domain.runs import Reconciliation
from seamline.domain.tolerance import Tolerance


@dataclass(frozen=True, slots=True)
class Worked:
    """`works`: by break. `tolerances`: those in force in the sync. `aged`: by run, destination and scope of a
    comparison; `bounds`: of the bands of age."""

    works: Mapping[str, Work] = field(default_factory=dict)
    tolerances: Sequence[Tolerance] = ()
    aged: Mapping[tuple[str, str, str], Sequence[Aged]] = field(default_factory=dict)
    bounds: tuple[int, ...] = DAYS

    def ages_of(self, found: Reconciliation | None) -> Sequence[Aged]:
        return self.aged.get((found.run_id, found.destination, found.scope.value), ()) if found else ()


NOTHING = Worked()
