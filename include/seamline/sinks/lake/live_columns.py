"""The columns of a lake's live tables, held against those of a load."""

from collections.abc import Callable
from contextlib import closing

from seamline.adapters.connections import resolve
from seamline.databases.postgres.client import open_session
from seamline.domain.catalogue import Table
from seamline.kinds.live_columns import Misfit
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.sinks.lake.lake import Lake
from seamline.sinks.lake.postgres_store import look
from seamline.sinks.lake.store import Seen


def misfits(plan: SyncPlan, destination: DestinationPlan, lake: Lake) -> tuple[Misfit, ...]:
    """Of the stream's live tables those that would not take a load of the planned ones."""
    with closing(open_session(resolve(destination.connection), application_name="seamline:preflight")) as session:
        seen = look(session, lake.catalogue, plan.stream_id(destination.name), destination.namespace)
    return misfits_in(plan, seen, lake.misfit)


def misfits_in(plan: SyncPlan, seen: Seen, misfit: Callable[[Table, str], Misfit | None]) -> tuple[Misfit, ...]:
    """Tables that somebody else has made are another matter."""
    carried = {boundary.table for boundary in seen.ledger.boundaries} if seen.ledger else set()
    found = (
        misfit(table.table, seen.heads[table.name])
        for table in plan.tables
        if table.table is not None and table.name in carried and table.name in seen.heads
    )
    return tuple(one for one in found if one is not None)
