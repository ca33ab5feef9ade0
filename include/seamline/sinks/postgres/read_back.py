"""The destination's tables as ReadViews: live, staged, or of a published cut."""

from collections.abc import Mapping, Sequence

from seamline.adapters.connections import resolve
from seamline.databases.postgres.client import Session
from seamline.databases.postgres.ledger import read_ledger
from seamline.databases.postgres.read import PostgresReadView, Relation, open_views
from seamline.domain.date_before import PublishedTable
from seamline.domain.errors import Refused
from seamline.domain.position import Position
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.ports import Load


def open_live(plan: SyncPlan, destination: DestinationPlan, count: int) -> list[PostgresReadView]:
    """`count` views of the live tables of a sync, at the ledger's position as these views see it."""
    stream = plan.stream_id(destination.name)

    def position_of(session: Session) -> Position:
        ledger = read_ledger(session, stream)
        if ledger is None:
            raise Refused(
                f"{stream} was never published in {destination.name}", hint="onboard the sync first", sync=plan.sync
            )
        return ledger.position

    return open_views(
        resolve(destination.connection),
        tables=[table.definition for table in plan.tables],
        relations={table.name: Relation(destination.namespace, table.name) for table in plan.tables},
        count=count,
        position_of=position_of,
    )


def open_staged(
    plan: SyncPlan, destination: DestinationPlan, loads: Sequence[Load], count: int, *, position: Position
) -> list[PostgresReadView]:
    relations = {load.table.name: Relation(destination.stage_namespace, load.staged_as) for load in loads}
    return _at(position, plan, destination, relations, count)


def open_published(
    plan: SyncPlan, destination: DestinationPlan, tables: Sequence[PublishedTable], *, position: Position
) -> PostgresReadView:
    relations = {one.table: Relation(one.schema, one.name) for one in tables}
    (view,) = _at(position, plan, destination, relations, 1)
    return view


def _at(
    position: Position, plan: SyncPlan, destination: DestinationPlan, relations: Mapping[str, Relation], count: int
) -> list[PostgresReadView]:
    return open_views(
        resolve(destination.connection),
        tables=[table.definition for table in plan.tables if table.name in relations],
        relations=relations,
        count=count,
        position_of=lambda _: position,
    )
