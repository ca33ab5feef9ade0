"""What of a declaration that decides a cut, its rows and what is checked of them, has changed since a plan was made."""

from collections.abc import Iterable, Iterator

from seamline.domain.catalogue import fingerprint
from seamline.domain.row_transform import meaning_of
from seamline.plan.model import SyncPlan, TablePlan


def changed_since(before: SyncPlan, now: SyncPlan, destination: str) -> tuple[str, ...]:
    """What differs for a cut in this destination, each part for people; empty where both plans make the same one.

    Kept keys of sources and destinations are compared only where something was declared anew: a later version of
    Seamline may write down more of the same declaration.
    """
    if destination not in before.destination_names:
        return (f"destination {destination}, which is new",)
    was, is_ = before.held_by(destination), now.held_by(destination)
    parts = [*_of_tables(was, is_), *_of_derived(was, is_), *_of_checks(was, is_)]
    if before.config_hash != now.config_hash:
        parts += [*_of_places(was, is_, destination)]
    return tuple(parts)


def _of_tables(before: SyncPlan, now: SyncPlan) -> Iterator[str]:
    known = {one.name: one for one in before.tables}
    for table in now.tables:
        was = known.pop(table.name, None)
        if was is None:
            yield f"table {table.name}, which is new"
        elif _transform(was) != _transform(table):
            yield f"the transform of table {table.name}"
        elif _columns(was) != _columns(table):
            yield f"the columns of table {table.name}"
        elif was.business_date != table.business_date:
            yield f"the business date of table {table.name}"
    for name in known:
        yield f"table {name}, which is out of the sync"


def _of_derived(before: SyncPlan, now: SyncPlan) -> Iterator[str]:
    computed = {one.name: one for one in before.derived}
    for derived in now.derived:
        if computed.pop(derived.name, None) != derived:
            yield f"derived table {derived.name}"
    for name in computed:
        yield f"derived table {name}, which is out of the sync"


def _transform(table: TablePlan) -> str:
    """What is computed: another query that means the same is no change. Of a function the text is all there is."""
    if table.transform is None:
        return ""
    return table.transform.text if table.transform.is_function else meaning_of(table.transform)


def _columns(table: TablePlan) -> str:
    return fingerprint(table.target) if table.table else ""


def _of_checks(before: SyncPlan, now: SyncPlan) -> Iterator[str]:
    was, is_ = before.reconcile, now.reconcile
    if was.control_totals != is_.control_totals:
        yield "the control totals"
    if was.rules != is_.rules:
        yield "the rules"
    if was.expectations != is_.expectations:
        yield "the expectations"


def _of_places(before: SyncPlan, now: SyncPlan, destination: str) -> Iterator[str]:
    for name in _differing(before.source.options, now.source.options):
        yield f"`{name}` of source {now.source.name}"
    was, is_ = before.destination(destination), now.destination(destination)
    if (was.kind, was.namespace) != (is_.kind, is_.namespace):
        yield f"where destination {destination} keeps its tables"
    for name in _differing(was.options, is_.options):
        yield f"`{name}` of destination {destination}"


def _differing(before: Iterable[tuple[str, str]], now: Iterable[tuple[str, str]]) -> Iterator[str]:
    was, is_ = dict(before), dict(now)
    return (name for name in {**was, **is_} if was.get(name) != is_.get(name))
