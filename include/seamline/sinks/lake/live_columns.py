"""The columns of a lake's live tables, held against those of a load."""

import json
from collections.abc import Callable, Sequence
from contextlib import closing

from seamline.adapters.connections import resolve
from seamline.databases.postgres.client import open_session
from seamline.domain.catalogue import Table
from seamline.kinds.live_columns import Misfit
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.sinks.lake.files import translated
from seamline.sinks.lake.lake import Lake
from seamline.sinks.lake.postgres_store import look
from seamline.sinks.lake.store import Seen


def differing(found: str, wanted: str) -> list[str]:
    """The columns that are not the same in two schemas, each as JSON with `fields`; all of them where their order is
    another one."""
    there, asked = (json.loads(one)["fields"] for one in (found, wanted))
    both = [*there, *asked] if there != asked else []
    names = {one["name"] for one in both}
    return sorted({one["name"] for one in both if not (one in there and one in asked)} or names)


def misfit(table: Table, differs: Sequence[str], *, listed_in: str) -> Misfit | None:
    """Of a table in a folder, which the table `listed_in` of the ledger's database leads to."""
    if not differs:
        return None
    return Misfit(
        table.name,
        f"table {table.name} has other columns than a load brings: {', '.join(differs)} (types, NULL, order)",
        f"give its row in {listed_in} another table_name, then run the onboarding again",
    )


def misfits(plan: SyncPlan, destination: DestinationPlan, lake: Lake) -> tuple[Misfit, ...]:
    """Of the stream's live tables those that would not take a load of the planned ones."""
    with closing(open_session(resolve(destination.connection), application_name="seamline:preflight")) as session:
        seen = look(session, lake.catalogue, plan.stream_id(destination.name), destination.namespace)
    return misfits_in(plan, destination, seen, lake.misfit)


def misfits_in(
    plan: SyncPlan, destination: DestinationPlan, seen: Seen, misfit: Callable[[Table, str], Misfit | None]
) -> tuple[Misfit, ...]:
    """Tables that somebody else has made are another matter. TransientError: files of a table cannot be read."""
    carried = {boundary.table for boundary in seen.ledger.boundaries} if seen.ledger else set()
    with translated(f"look at the columns of destination {destination.name}"):
        found = [
            misfit(table.table, seen.heads[table.name])
            for table in plan.tables
            if table.table is not None and table.name in carried and table.name in seen.heads
        ]
    return tuple(one for one in found if one is not None)
