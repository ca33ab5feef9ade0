"""A destination's Iceberg tables as views, read by pyiceberg as any other client reads them: the power `ReadsBack`."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing

import pyarrow as pa
from pyiceberg.table import StaticTable

from seamline.adapters.connections import resolve
from seamline.databases.postgres.client import open_session
from seamline.domain.calendar import segment_of
from seamline.domain.catalogue import Table
from seamline.domain.date_before import PublishedTable
from seamline.domain.errors import Refused
from seamline.domain.position import Position
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.ports import Load
from seamline.sinks.iceberg import types
from seamline.sinks.iceberg.options import options_of
from seamline.sinks.lake.catalogue import Catalogue
from seamline.sinks.lake.files import translated
from seamline.sinks.lake.loads import StagedFiles, staged_files
from seamline.sinks.lake.postgres_store import look
from seamline.sinks.lake.read_view import Batches, LakeView, part_of
from seamline.sinks.lake.store import Seen


def open_live(plan: SyncPlan, destination: DestinationPlan, count: int) -> list[LakeView]:
    """`count` views of the live tables as one look at the catalogue has found them, at the ledger's position then."""
    stream, catalogue = plan.stream_id(destination.name), Catalogue(options_of(destination).catalog)
    with closing(open_session(resolve(destination.connection), application_name="seamline reads back")) as session:
        seen = look(session, catalogue, stream, destination.namespace)
    return [view_of(plan, seen)] * count


def view_of(plan: SyncPlan, seen: Seen) -> LakeView:
    """Of the plan's tables at the heads of one look."""
    if seen.ledger is None:
        raise Refused(f"{plan.sync} was never published there", hint="onboard the sync first", sync=plan.sync)
    tables = {entry.definition: _live(entry.definition, seen.heads.get(entry.name, "")) for entry in plan.tables}
    return LakeView(seen.ledger.position, tables)


def open_staged(
    destination: DestinationPlan, loads: Sequence[Load], count: int, *, position: Position
) -> list[LakeView]:
    warehouse = options_of(destination).warehouse
    tables = {load.table: _staged(load.table, staged_files(warehouse, load)) for load in loads}
    return [LakeView(position, tables)] * count


def open_published(
    plan: SyncPlan, destination: DestinationPlan, tables: Sequence[PublishedTable], *, position: Position
) -> LakeView:
    """Of each table of a cut the rows of its business date: the cut itself holds the whole table."""
    catalogue = Catalogue(options_of(destination).catalog)
    with closing(open_session(resolve(destination.connection), application_name="seamline reads back")) as session:
        heads = catalogue.pointers(session, destination.namespace)
    return LakeView(position, {plan.table(one.table).definition: _published(plan, one, heads) for one in tables})


def _published(plan: SyncPlan, published: PublishedTable, heads: Mapping[str, str]) -> Batches:
    entry = plan.table(published.table)
    location = heads.get(published.table, "")
    snapshot = StaticTable.from_metadata(location).snapshot_by_name(published.name) if location else None
    if snapshot is None or entry.business_date is None or plan.nightly is None:
        raise Refused(f"table {published.table} has no tag {published.name} any more", table=published.table)
    segment = segment_of(
        published.table,
        column=entry.business_date.column,
        holds=entry.business_date.holds,
        business_date=published.business_date,
        timezone=plan.nightly.timezone,
    )
    return part_of(segment, entry.definition, _live(entry.definition, location, snapshot.snapshot_id))


def _live(table: Table, location: str, snapshot_id: int | None = None) -> Batches:
    """At its head, or at another snapshot."""
    if not location:
        raise Refused(f"table {table.name} is not in the catalogue", hint="onboard it again", table=table.name)
    names = tuple(column.name for column in table.columns)
    scan = StaticTable.from_metadata(location).scan(snapshot_id=snapshot_id, selected_fields=names)

    def batches() -> Iterator[pa.RecordBatch]:
        with translated(f"read table {table.name}"):
            for batch in scan.to_arrow_batch_reader():
                yield types.typed(table, batch)

    return batches


def _staged(table: Table, staged: StagedFiles) -> Batches:
    return lambda: staged.batches(table, types)
