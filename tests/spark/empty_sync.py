"""A sync whose tables are still empty, put in place in a destination: PROTOCOL 2 with a snapshot of nothing."""

import dataclasses
import uuid
from collections.abc import Sequence
from contextlib import closing

from seamline.adapters.connections import Connection
from seamline.adapters.kafka.log_reader import open_log_reader
from seamline.databases.postgres.types import column_definitions
from seamline.domain.cutover import Boundary
from seamline.plan.model import SyncPlan, TablePlan
from seamline.ports import Load, Marker, Publication
from seamline.sinks.postgres.sink import open_sink
from seamline.sync.markers import read_until_marker
from tests.integration.captured import Captured
from tests.integration.databases import postgres
from tests.integration.known import destination_plan
from tests.opened_sink import decoder_of


def publish_empty(bank: Captured, warehouse: Connection, *, sync: str, schema: str, tables: Sequence[str]) -> SyncPlan:
    """The plan of the sync, published. Both logins of `warehouse` are known by its database's name."""
    planned = tuple(TablePlan(table.name, table=table) for table in bank.source.catalogue(tables))
    destination = destination_plan(warehouse.database, schema)
    plan = dataclasses.replace(bank.plan, sync=sync, destinations=(destination,), tables=planned)
    low, high = (Marker(f"{kind}-{uuid.uuid4().hex}", kind) for kind in ("low", "high"))
    with (
        closing(open_log_reader(plan)) as reader,
        closing(open_sink(plan, destination, decoder=decoder_of(plan))) as sink,
    ):
        reader.assign(bank.topics.end_offset())
        bank.source.commit_marker(low)
        place = read_until_marker(reader, marker_table=plan.source.marker_table, marker_id=low.id, timeout_s=60)
        (view,) = bank.source.open_views(1)
        with closing(view):
            position = view.position
        bank.source.commit_marker(high)
        with postgres(warehouse) as session:
            session.execute(f"create schema {destination.stage_namespace}")
            for table in planned:
                place_of_table = f"{destination.stage_namespace}.{table.name}"
                session.execute(f"create table {place_of_table} ({column_definitions(table.definition)})")
        sink.publish(
            plan.stream_id("warehouse"),
            [Load(table.definition, table.name, 0) for table in planned],
            publication=Publication(
                run_id=uuid.uuid4().hex,
                topic=plan.source.log_topic,
                topic_id=reader.topic_id,
                next_offset=place.next_offset,
                position=position,
                boundaries=tuple(Boundary(table.name, position, high_marker=high.id) for table in planned),
            ),
        )
    return plan
