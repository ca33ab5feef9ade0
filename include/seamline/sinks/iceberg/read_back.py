"""The rows of a destination's Iceberg tables, read by pyiceberg as any other client reads them."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial

import pyarrow as pa

from seamline.adapters.connections import resolve
from seamline.databases.postgres.client import Session, open_session
from seamline.databases.postgres.client import translated as translated_sql
from seamline.domain.catalogue import Table
from seamline.domain.changes import Finding, FindingsReported
from seamline.domain.date_before import PublishedTable
from seamline.domain.errors import Refused
from seamline.domain.ledger import StreamId
from seamline.domain.position import Position
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.sinks.iceberg.io import LOCAL_IO, WarehouseIO, static_table, warehouse_io
from seamline.sinks.iceberg.options import LakeOptions, options_of
from seamline.sinks.iceberg.rest_opening import open_client, open_store
from seamline.sinks.iceberg.single.opening import pointers_there
from seamline.sinks.iceberg.single.pointers import pointers_of
from seamline.sinks.iceberg.types import typed
from seamline.sinks.lake.catalogue import Catalogue
from seamline.sinks.lake.files import translated
from seamline.sinks.lake.read_back import Live, OpenAt, date_of, location_in, view_of
from seamline.sinks.lake.read_view import Batches, LakeView


def open_live_by_rest(plan: SyncPlan, destination: DestinationPlan, count: int) -> list[LakeView]:
    """The live tables of a destination with a REST catalogue."""
    with closing(open_store(destination)) as store:
        seen = store.look(plan.stream_id(destination.name), destination.namespace)
    return [view_of(plan, seen, live_in(destination))] * count


def findings_by_rest(
    destination: DestinationPlan, stream: StreamId, *, after: FindingsReported
) -> tuple[tuple[Finding, ...], FindingsReported]:
    with closing(open_store(destination)) as store:
        return store.findings_after(stream, after=after)


def open_published(
    plan: SyncPlan, destination: DestinationPlan, tables: Sequence[PublishedTable], *, position: Position
) -> LakeView:
    """Of each table of a cut the rows of its business date."""
    options = options_of(destination)
    io, heads = warehouse_io(options), heads_of(destination, options)
    return LakeView(position, {plan.table(one.table).definition: _published(plan, one, heads, io) for one in tables})


def heads_of(destination: DestinationPlan, options: LakeOptions) -> Mapping[str, str]:
    """Table → metadata file, of all tables of its namespace now."""
    if options.is_rest:
        with closing(open_client(destination)) as client:
            return client.locations((destination.namespace,))
    if options.is_single:
        return pointers_there(destination)
    known = resolve(destination.connection)
    with (
        closing(open_session(known, application_name="seamline reads back")) as session,
        translated_sql("read the catalogue"),
    ):
        return Catalogue(options.catalog).pointers(session, destination.namespace)


def open_at(destination: DestinationPlan) -> OpenAt:
    """Reads tables at snapshots."""
    options = options_of(destination)
    catalogue, io = pointers_of(options), warehouse_io(options)

    def at(session: Session, table: Table, number: int) -> Batches:
        location = location_in(catalogue.pointers(session, destination.namespace), table)
        if static_table(location, io).snapshot_by_id(number) is None:
            raise Refused(f"table {table.name} has no snapshot {number} any more", table=table.name)
        return live(table, location, number, io=io)

    return at


def live_in(destination: DestinationPlan) -> Live:
    """Reads tables of its warehouse at their heads."""
    return partial(live, io=warehouse_io(options_of(destination)))


def live(table: Table, location: str, snapshot_id: int | None = None, *, io: WarehouseIO = LOCAL_IO) -> Batches:
    """At its head, or at another snapshot."""
    names = tuple(column.name for column in table.columns)
    scan = static_table(location, io).scan(snapshot_id=snapshot_id, selected_fields=names)

    def batches() -> Iterator[pa.RecordBatch]:
        with translated(f"read table {table.name}"):
            for batch in scan.to_arrow_batch_reader():
                yield typed(table, batch)

    return batches


def _published(plan: SyncPlan, published: PublishedTable, heads: Mapping[str, str], io: WarehouseIO) -> Batches:
    table = plan.table(published.table).definition
    location = location_in(heads, table)
    snapshot = static_table(location, io).snapshot_by_name(published.name)
    if snapshot is None:
        raise Refused(f"table {published.table} has no tag {published.name} any more", table=published.table)
    return date_of(plan, published, live(table, location, snapshot.snapshot_id, io=io))
