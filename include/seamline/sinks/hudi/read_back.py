"""A destination's Hudi tables as views, at the ledger's instants: the power `ReadsBack`."""

from collections.abc import Iterator, Sequence
from contextlib import closing

import pyarrow as pa
import pyarrow.parquet as pq

from seamline.adapters.connections import resolve
from seamline.databases.postgres.client import Session, open_session
from seamline.domain.catalogue import Table
from seamline.domain.date_before import PublishedTable
from seamline.domain.errors import Refused
from seamline.domain.position import Position
from seamline.domain.staged_cut import StagedTable
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.sinks.hudi import types
from seamline.sinks.hudi.catalogue import HudiCatalogue
from seamline.sinks.hudi.instants import text_of
from seamline.sinks.hudi.options import options_of
from seamline.sinks.hudi.pointer import Pointer, pointer_of
from seamline.sinks.hudi.timeline import Timeline
from seamline.sinks.hudi.types import typed
from seamline.sinks.lake import cut_rows, read_back
from seamline.sinks.lake.files import translated
from seamline.sinks.lake.read_back import date_of
from seamline.sinks.lake.read_view import Batches, LakeView
from seamline.sinks.lake.row_copies import HeldRows


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
    found = dict[Table, Batches]()
    for one, instant in instants.items():
        if instant is None:
            raise Refused(f"cut {one.name} has no table {one.table} any more", table=one.table)
        table = plan.table(one.table).definition
        found[table] = date_of(plan, one, _at(destination, table, instant))
    return LakeView(position, found)


def held_rows(destination: DestinationPlan) -> HeldRows:
    """What runs hold there."""

    def pinned(_: Session, table: Table, staged: StagedTable) -> Batches:
        return _at(destination, table, int(staged.staged_as))

    return HeldRows(options_of(destination).warehouse, types, pinned)


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


def _at(destination: DestinationPlan, table: Table, instant: int) -> Batches:
    """Refused: no folder of the table has that instant any more."""
    place = pointer_of(options_of(destination).warehouse, destination.namespace, table.name, instant)
    if place is None:
        raise Refused(f"instant {text_of(instant)} of table {table.name} is gone", table=table.name)
    return live(table, place.text)
