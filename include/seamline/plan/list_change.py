"""How the tables that a running stream carries differ from those that it shall carry."""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from seamline.domain.catalogue import NAME_BYTES_MAX, alterations
from seamline.domain.errors import Refused
from seamline.domain.ledger import LedgerRow
from seamline.plan.model import Run, SyncPlan, TablePlan


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
                hint="a run has changed only some of them: clear its task `join`. Where there is none, run "
                f"{plan.sync}__onboard, which brings all of them everywhere",
                sync=plan.sync,
            )
        carried = found
    known, wanted = carried or set(), {table.name for table in plan.tables}
    unknown = sorted(set(again) - (known & wanted))
    if unknown:
        raise Refused(
            f"{', '.join(unknown)} cannot be loaded again: not among the tables that {plan.sync} carries",
            hint=f"carried: {', '.join(sorted(known & wanted))}{_parked_among(plan, unknown)}",
            sync=plan.sync,
        )
    return ListChange(tuple(sorted(wanted - known)), tuple(sorted(again)), tuple(sorted(known - wanted)))


def _parked_among(plan: SyncPlan, names: Collection[str]) -> str:
    parked = [table.name for table in plan.parked if table.name in names]
    return f". Take `parked` out to let {', '.join(parked)} come back" if parked else ""


def kept_name(table: str, run_id: str) -> str:
    """The name under which the rows of a removed table are kept, with room for `_pkey` in 63 bytes.

    Unique by the run and by the whole table name, also where only its beginning fits.
    """
    whole = "\0".join((run_id, table))
    mark = f"__removed_{hashlib.sha256(whole.encode()).hexdigest()[:10]}"
    return table.encode()[: NAME_BYTES_MAX - len("_pkey") - len(mark)].decode(errors="ignore") + mark


def altered(known: SyncPlan, now: SyncPlan, change: ListChange) -> list[str]:
    """The carried tables whose schema, or transform, has changed since their load. The stream would go on with the
    wrong one."""
    before = {table.name: table for table in known.tables}
    after = {table.name: table for table in now.tables}
    carried = before.keys() & after.keys() - set(change.added)
    return sorted(name for name in carried if _is_altered(before[name], after[name], is_again=name in change.again))


def _is_altered(before: TablePlan, after: TablePlan, *, is_again: bool) -> bool:
    """One that is loaded again may come by another transform, if that makes the same columns. A transform that was not
    analysed is none that a table was loaded with."""
    if after.transform is not None and after.transform.target is None:
        return True
    if alterations(before.definition, after.definition) or alterations(before.target, after.target):
        return True
    return before.fingerprint != after.fingerprint and not is_again


def with_origins_of(carried: Mapping[str, SyncPlan], now: SyncPlan, change: ListChange) -> SyncPlan:
    """`now`, where the tables that are not loaded again keep the origin of their load, in each destination its own:
    what was done to them since then must still be noticed. `carried`: by destination what its stream runs by."""
    kept = {name: _origins_kept(plan, now, change) for name, plan in carried.items()}
    first = next(iter(kept.values()))
    tables = tuple(
        replace(table, table=replace(table.definition, origin=first[table.name])) if table.name in first else table
        for table in now.tables
    )
    destinations = tuple(
        replace(one, origins=tuple(sorted(kept.get(one.name, first).items() - first.items())))
        for one in now.destinations
    )
    return replace(now, tables=tables, destinations=destinations)


def _origins_kept(carried: SyncPlan, now: SyncPlan, change: ListChange) -> dict[str, str]:
    stay = {table.name for table in now.tables} - set(change.entering)
    return {table.name: table.definition.origin for table in carried.tables if table.name in stay}


def entering_only(run: Run, change: ListChange) -> Run:
    """The same run with only the tables that have to be read."""
    tables = tuple(table for table in run.plan.tables if table.name in change.entering)
    return replace(run, plan=replace(run.plan, tables=tables))
