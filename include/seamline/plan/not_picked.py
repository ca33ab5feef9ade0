"""Why `nightly.from: auto` picks the log or a read for a table, and leaves the other two ways to a person. Pure."""

from seamline.domain.made_from import MadeFrom
from seamline.plan.model import SyncPlan, TablePlan

_SLICE = "it says what a date holds when it is read, and not at its end"
_SINCE = "whether rows are mostly added is in no catalogue, and a table whose rows change is read twice"


def not_picked(plan: SyncPlan, table: TablePlan) -> str:
    """One line; "" where a person has chosen the way of all tables."""
    if plan.nightly is None or plan.nightly.made_from is not MadeFrom.AUTO:
        return ""
    return f"not day_slice: {_not_by_date(plan, table)}; not incremental: {_not_since_a_cut(table)}"


def _not_by_date(plan: SyncPlan, table: TablePlan) -> str:
    if table.business_date is None:
        return "the table has no `business_date`"
    if without := [one.name for one in plan.tables if one.business_date is None]:
        return f"all tables of a sync need a `business_date` for it, and {without[0]} has none"
    return f"a person chooses it, for {_SLICE}"


def _not_since_a_cut(table: TablePlan) -> str:
    if table.business_date is not None:
        return "the table is read by its date"
    if table.table is not None and not table.table.begins_with_a_number:
        return "a person chooses it by a `cursor`, for its key begins with no whole number"
    return f"a person chooses it, for {_SINCE}"
