"""Why `nightly.from: auto` picks the log or a read for a table, and leaves the other two ways to a person. Pure."""

from collections.abc import Callable, Iterator
from functools import partial

from seamline.domain.made_from import MadeFrom
from seamline.plan.model import SyncPlan, TablePlan

_SLICE = "it says what a date holds when it is read, and not at its end"
_SINCE = "whether rows are mostly added is in no catalogue, and a table whose rows change is read twice"


# Tables of one reason that are named.
_NAMED_MAX = 5


def not_picked(plan: SyncPlan, table: TablePlan) -> str:
    """One line; "" where a person has chosen the way of all tables."""
    if not _is_auto(plan):
        return ""
    return f"not day_slice: {_not_by_date(plan, table)}; not incremental: {_not_since_a_cut(table)}"


def log_not_picked(plan: SyncPlan) -> str:
    """Why no date, or none of some destination, is made from the log, in one line; "" where nothing stands against it
    but what the log holds then, and where a person has chosen the way."""
    return f"not log: {'; '.join(plan.nightly.not_by_log)}" if plan.nightly and plan.nightly.not_by_log else ""


def modes_not_picked(plan: SyncPlan) -> Iterator[str]:
    """For the log of a run: each way that `auto` leaves out, with its reason and the tables of that reason, in a line;
    nothing where a person has chosen the way."""
    if not _is_auto(plan):
        return
    if why := log_not_picked(plan):
        yield why
    ways: dict[str, Callable[[TablePlan], str]] = {
        "day_slice": partial(_not_by_date, plan),
        "incremental": _not_since_a_cut,
    }
    for way, reason in ways.items():
        named: dict[str, list[str]] = {}
        for table in plan.tables:
            if not table.ahead_of:
                named.setdefault(reason(table), []).append(table.name)
        yield f"not {way}: {'; '.join(f'{why} ({_named(tables)})' for why, tables in named.items())}"


def _named(tables: list[str]) -> str:
    more = len(tables) - _NAMED_MAX
    return ", ".join(tables[:_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")


def _is_auto(plan: SyncPlan) -> bool:
    """Also one whose dates the log does not end, and which is compiled to a read."""
    nightly = plan.nightly
    return nightly is not None and (nightly.made_from is MadeFrom.AUTO or bool(nightly.not_by_log))


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
