"""Live tables whose columns are not those that a load brings. An onboarding keeps the tables that are there, with their
views and rights, so its publish would refuse them after all has been loaded."""

from collections.abc import Sequence
from dataclasses import dataclass

from seamline.domain.catalogue import PARK_IT
from seamline.domain.errors import SchemaConflict
from seamline.ports import Problem


@dataclass(frozen=True, slots=True)
class Misfit:
    """A table that does not fit: `what` names the columns, `cure` is a person's work in the destination."""

    table: str
    what: str
    cure: str

    def conflict(self, *, sync: str = "") -> SchemaConflict:
        return SchemaConflict(self.what, hint=self.cure, sync=sync, table=self.table)


def of_an_enabled_sync(sync: str, destination: str, misfits: Sequence[Misfit]) -> tuple[Problem, ...]:
    """Its streams go on, so the tables are altered while it runs, all of them by one way."""
    if not misfits:
        return ()
    said = "; ".join(one.what for one in misfits)
    return (Problem(f"destination {destination}: {said}", PARK_IT.replace("<sync>", sync)),)


def of_a_sync_on_its_way(destination: str, misfits: Sequence[Misfit]) -> tuple[Problem, ...]:
    """Before its first onboarding has ended nothing but the destination itself can be changed."""
    return tuple(Problem(f"destination {destination}: {one.what}", one.cure) for one in misfits)


def cure_in_any_state(sync: str, misfit: Misfit) -> str:
    """For who does not know whether the sync's streams go on."""
    return f"{PARK_IT.replace('<sync>', sync)}. Where the first onboarding has not ended yet: {misfit.cure}"
