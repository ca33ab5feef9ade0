"""A destination's Hudi tables as views, at the ledger's instants: the power `ReadsBack`."""

from collections.abc import Iterator, Sequence
from contextlib import closing

import pyarrow as pa
import pyarrow.parquet as pq

from seamline.adapters.connections import resolve
from seamline.databases.postgres.client import open_session
from seamline.domain.catalogue import Table
from seamline.domain.date_before import PublishedTable
from seamline.domain.errors import Refused
from seamline.domain.position import Position
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.sinks.hudi.catalogue import HudiCatalogue
from seamline.sinks.hudi.options import options_of
from seamline.sinks.hudi.pointer import Pointer, pointer_of
from seamline.sinks.hudi.timeline import Timeline
from seamline.sinks.hudi.types import typed
from seamline.sinks.lake import cut_rows, read_back
from seamline.sinks.lake.files import translated
from seamline.sinks.lake.read_back import date_of
from seamline.sinks.lake.read_view import Batches, LakeView


def open_live(plan: SyncPlan, destination: DestinationPlan, count: int) -> list[LakeView]:
    catalogue = HudiCatalogue(options_of(destination).warehouse)
    return read_back.open_live(plan, destination, count, catalogue=catalogue, live=live)


def open_published(
    plan: SyncPlan, destination: DestinationPlan, tables: Sequence[PublishedTable], *, position: Position
) -> LakeView:
    """Of each table of a cut the rows of its business date."""
    stream = plan.stream_id(destination.name)
    with closing(open_session(resolve(destination.connection), application_name="seamline reads back")) as session:
        instants = {one: cut_rows.snapshot_of(session, stream, one) for one in tables}
    warehouse, found = options_of(destination).warehouse, dict[Table, Batches]()
    for one, instant in instants.items():
        place = instant and pointer_of(warehouse, destination.namespace, one.table, instant)
        if not place:
            raise Refused(f"cut {one.name} has no table {one.table} any more", table=one.table)
        table = plan.table(one.table).definition
        found[table] = date_of(plan, one, live(table, place.text))
    return LakeView(position, found)


def live(table: Table, location: str) -> Batches:
    """The table where its pointer leads: nobody changes that any more."""
    pointer = Pointer.parsed(location)
    state = Timeline(pointer.folder).at(pointer.instant)
    names = [column.name for column in table.columns]

    def batches() -> Iterator[pa.RecordBatch]:
        with translated(f"read table {table.name}"):
            for name in state.files:
                for batch in pq.ParquetFile(pointer.folder / name).iter_batches(columns=names):
                    yield typed(table, batch)

    return batches
