"""A sync whose tables are still empty, put in place in a destination: PROTOCOL 2 with a snapshot of nothing."""

import dataclasses
import uuid
from collections.abc import Sequence
from contextlib import closing

from seamline import registry
from seamline.adapters.connections import Connection
from seamline.domain.cutover import Boundary
from seamline.kinds.bulk import ArrowRows
from seamline.kinds.found import sink_kind
from seamline.plan.model import DestinationPlan, SyncPlan, TablePlan
from seamline.ports import Load, Marker, Publication
from seamline.sync.markers import read_until_marker
from seamline.values.arrow import schema_of
from tests.integration.captured import Captured
from tests.integration.known import destination_plan


def publish_empty(bank: Captured, warehouse: Connection, *, sync: str, schema: str, tables: Sequence[str]) -> SyncPlan:
    """The plan of the sync, published. Both logins of `warehouse` are known by its database's name."""
    return publish_empty_into(bank, destination_plan(warehouse.database, schema), sync=sync, tables=tables)


def publish_empty_into(bank: Captured, destination: DestinationPlan, *, sync: str, tables: Sequence[str]) -> SyncPlan:
    """The same in a destination of any kind, whose logins are known by its connection ids."""
    planned = tuple(TablePlan(table.name, table=table) for table in bank.source.catalogue(tables))
    plan = dataclasses.replace(bank.plan, sync=sync, destinations=(destination,), tables=planned)
    low, high = (Marker(f"{kind}-{uuid.uuid4().hex}", kind) for kind in ("low", "high"))
    with closing(registry.log_reader(plan)) as reader, closing(registry.sink(plan, destination.name)) as sink:
        reader.assign(bank.topics.end_offset())
        bank.source.commit_marker(low)
        place = read_until_marker(reader, marker_table=plan.source.marker_table, marker_id=low.id, timeout_s=60)
        (view,) = bank.source.open_views(1)
        with closing(view):
            position = view.position
        bank.source.commit_marker(high)
        run_id = uuid.uuid4().hex
        sink.publish(
            plan.stream_id(destination.name),
            _staged_empty(plan, destination, run_id),
            publication=Publication(
                run_id=run_id,
                topic=plan.source.log_topic,
                topic_id=reader.topic_id,
                next_offset=place.next_offset,
                position=position,
                boundaries=tuple(Boundary(table.name, position, high_marker=high.id) for table in planned),
            ),
        )
    return plan


def _staged_empty(plan: SyncPlan, destination: DestinationPlan, run_id: str) -> list[Load]:
    kind, tables = sink_kind(destination.kind), [table.definition for table in plan.tables]
    places = kind.load_area(destination, run_id=run_id).create(tables)
    for table in tables:
        kind.load(destination, places[table.name], ArrowRows(schema_of(table), iter(())))
    return [Load(table, places[table.name].name, 0) for table in tables]
