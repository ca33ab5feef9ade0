"""Reads what people have done about the breaks of some comparisons, for a report about them."""

from collections.abc import Sequence

from seamline.domain.break_age import Aged, with_groups
from seamline.domain.break_id import identities
from seamline.domain.errors import Refused
from seamline.domain.runs import Reconciliation
from seamline.platform.ageing import money_of
from seamline.platform.breaks import Compared
from seamline.platform.store import PlatformStore
from seamline.platform.tolerances import PlatformTolerances
from seamline.platform.work import PlatformWork
from seamline.report.worked import Worked


def read(
    sync: str,
    found: Sequence[Reconciliation],
    aged: Sequence[Reconciliation],
    *,
    bounds: tuple[int, ...],
    store: PlatformStore,
    work: PlatformWork,
    tolerances: PlatformTolerances,
) -> Worked:
    """`aged`: those of which the ages are wanted as well, in bands with these `bounds`."""
    ages = {(one.run_id, one.destination, one.scope.value): _aged(one, bounds, store, work) for one in aged}
    names = [name for one in found for name in identities(one)]
    return Worked(work.of(names), tolerances.in_force(sync), ages, bounds)


def _aged(found: Reconciliation, bounds: tuple[int, ...], store: PlatformStore, work: PlatformWork) -> tuple[Aged, ...]:
    try:
        money = money_of(store.run(found.run_id).plan)
    except Refused:
        money = []  # the run has expired
    totals = [total for table in found.tables for total in table.totals]
    return with_groups(work.ageing(Compared(found.run_id, found.destination, found.scope), money, bounds), totals)
