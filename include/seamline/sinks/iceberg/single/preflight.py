"""What keeps a catalogue that commits single tables from taking a sync's. Changes nothing."""

from collections.abc import Collection, Iterator
from contextlib import closing

from seamline.adapters.connections import resolve
from seamline.databases.postgres.client import open_session, translated
from seamline.domain.errors import ConfigError
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.ports import Problem
from seamline.sinks.iceberg.options import options_of
from seamline.sinks.iceberg.single.catalogue import NAME, folder_of
from seamline.sinks.iceberg.single.opening import opener
from seamline.sinks.iceberg.single.pointers import LedgerPointers
from seamline.sinks.lake.preflight import problems as problems_of_the_ledger


def problems(plan: SyncPlan, destination: DestinationPlan) -> tuple[Problem, ...]:
    """TransientError where a server does not answer."""
    pointers = LedgerPointers(options_of(destination).catalog)
    of_the_ledger = problems_of_the_ledger(plan, destination, pointers)
    own = None if of_the_ledger else _folders(destination, pointers)
    found = [*of_names(plan), *_of_the_catalogue(plan, destination, own)]
    return (*(Problem(f"destination {destination.name}: {what}", cure) for what, cure in found), *of_the_ledger)


def of_names(plan: SyncPlan) -> Iterator[tuple[str, str]]:
    for entry in plan.tables:
        if not NAME.fullmatch(entry.name):
            yield (
                f"the catalogue keeps names of tables in lower case, of a to z, digits and _: {entry.name} is none",
                "give the table a name that it takes (`as:` in the sync)",
            )


def _of_the_catalogue(
    plan: SyncPlan, destination: DestinationPlan, own: Collection[str] | None
) -> Iterator[tuple[str, str]]:
    """`own`: folders of the tables that the ledger leads to; None where nobody can say, so no table is judged."""
    try:
        opened = opener(destination)
    except ConfigError as exc:
        yield exc.message, exc.hint
        return
    with closing(opened()) as catalogue:
        entries = catalogue.entries()
    if own is None:
        return
    for table in plan.tables:
        if table.name in entries and entries[table.name].folder not in own:
            yield (
                f"table {destination.namespace}.{table.name} exists in the catalogue and was not made by this sync",
                "rename it there (ALTER TABLE … RENAME TO …), or choose another namespace",
            )


def _folders(destination: DestinationPlan, pointers: LedgerPointers) -> set[str]:
    connection = resolve(destination.connection)
    with closing(open_session(connection, application_name="seamline:preflight")) as session, translated("look"):
        if session.execute("SELECT to_regclass(%s)", (pointers.table,)).fetchone() == (None,):
            return set()
        return set(map(folder_of, pointers.pointers(session, destination.namespace).values()))
