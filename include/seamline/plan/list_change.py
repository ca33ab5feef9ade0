"""How the tables that a running stream carries differ from those that it shall carry."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from seamline.domain.errors import Refused
from seamline.domain.ledger import LedgerRow
from seamline.plan.model import Run, SyncPlan


@dataclass(frozen=True, slots=True)
class ListChange:
    """`again`: carried, and to be loaded again on request."""

    added: tuple[str, ...] = ()
    again: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    @property
    def entering(self) -> tuple[str, ...]:
        return (*self.added, *self.again)

    def __bool__(self) -> bool:
        return bool(self.added or self.again or self.removed)

    def as_json(self) -> dict[str, list[str]]:
        return {"added": list(self.added), "again": list(self.again), "removed": list(self.removed)}

    @classmethod
    def from_json(cls, document: Mapping[str, Sequence[str]]) -> "ListChange":
        return cls(*(tuple(document[name]) for name in ("added", "again", "removed")))


def list_change(plan: SyncPlan, ledgers: Mapping[str, LedgerRow | None], *, again: Collection[str]) -> ListChange:
    """What has to be done so that the streams carry the plan's tables. `ledgers` by destination.

    Refused where a destination carries other tables than the others, where nothing was ever published, or where `again`
    names a table that is not carried.
    """
    carried: set[str] | None = None
    for destination, ledger in ledgers.items():
        if ledger is None:
            raise Refused(
                f"nothing was published for {plan.sync} in {destination}",
                hint=f"run {plan.sync}__onboard",
                sync=plan.sync,
            )
        found = {boundary.table for boundary in ledger.boundaries}
        if carried is not None and carried != found:
            raise Refused(
                f"the destinations of {plan.sync} carry different tables: {', '.join(sorted(carried ^ found))}",
                hint=f"run {plan.sync}__onboard, which brings all of them everywhere",
                sync=plan.sync,
            )
        carried = found
    known, wanted = carried or set(), {table.name for table in plan.tables}
    unknown = sorted(set(again) - (known & wanted))
    if unknown:
        raise Refused(
            f"{', '.join(unknown)} cannot be loaded again: not among the tables that {plan.sync} carries",
            hint=f"carried: {', '.join(sorted(known & wanted))}",
            sync=plan.sync,
        )
    return ListChange(tuple(sorted(wanted - known)), tuple(sorted(again)), tuple(sorted(known - wanted)))


def entering_only(run: Run, change: ListChange) -> Run:
    """The same run with only the tables that have to be read."""
    tables = tuple(table for table in run.plan.tables if table.name in change.entering)
    return replace(run, plan=replace(run.plan, tables=tables))
