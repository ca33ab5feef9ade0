"""A destination's Delta tables as views, at the ledger's versions: the power `ReadsBack`."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
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
from seamline.sinks.delta import types
from seamline.sinks.delta.catalogue import DeltaCatalogue
from seamline.sinks.delta.log import DeltaLog
from seamline.sinks.delta.options import options_of
from seamline.sinks.delta.pointer import Pointer, folder_of_number, version_of
from seamline.sinks.delta.state import DataFile
from seamline.sinks.delta.types import typed
from seamline.sinks.lake import cut_rows, read_back
from seamline.sinks.lake.files import translated
from seamline.sinks.lake.read_back import date_of
from seamline.sinks.lake.read_view import Batches, LakeView
from seamline.sinks.lake.row_copies import HeldRows


def open_live(plan: SyncPlan, destination: DestinationPlan, count: int) -> list[LakeView]:
    catalogue = DeltaCatalogue(options_of(destination).warehouse)
    return read_back.open_live(plan, destination, count, catalogue=catalogue, live=live)


def open_published(
    plan: SyncPlan, destination: DestinationPlan, tables: Sequence[PublishedTable], *, position: Position
) -> LakeView:
    """Of each table of a cut the rows of its business date."""
    stream = plan.stream_id(destination.name)
    with closing(open_session(resolve(destination.connection), application_name="seamline reads back")) as session:
        numbers = {one: cut_rows.snapshot_of(session, stream, one) for one in tables}
    warehouse, found = options_of(destination).warehouse, dict[Table, Batches]()
    for one, number in numbers.items():
        if number is None:
            raise Refused(f"cut {one.name} has no table {one.table} any more", table=one.table)
        table = plan.table(one.table).definition
        folder = folder_of_number(warehouse, destination.namespace, one.table, number)
        found[table] = date_of(plan, one, live(table, Pointer(folder, version_of(number)).text))
    return LakeView(position, found)


def held_rows(destination: DestinationPlan) -> HeldRows:
    """What runs hold there."""
    warehouse = options_of(destination).warehouse

    def pinned(_: Session, table: Table, staged: StagedTable) -> Batches:
        number = int(staged.staged_as)
        folder = folder_of_number(warehouse, destination.namespace, table.name, number)
        return live(table, Pointer(folder, version_of(number)).text)

    return HeldRows(warehouse, types, pinned)


def live(table: Table, location: str) -> Batches:
    """The table where its pointer leads: nobody changes that any more."""
    pointer = Pointer.parsed(location)
    state = DeltaLog(pointer.folder).at(pointer.version)
    names = tuple(column.name for column in table.columns)

    def batches() -> Iterator[pa.RecordBatch]:
        with translated(f"read table {table.name}"):
            for file in state.files.values():
                for batch in living_rows(file, pointer.folder, names):
                    yield typed(table, batch)

    return batches


def living_rows(file: DataFile, folder: Path, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows of a data file that are in the table."""
    dead = None if file.vector is None else file.vector.positions(folder)
    start = 0
    for batch in pq.ParquetFile(file.path_in(folder)).iter_batches(columns=list(names)):
        end = start + batch.num_rows
        if dead is not None:
            is_living = np.ones(batch.num_rows, np.bool_)
            is_living[dead[np.searchsorted(dead, start) : np.searchsorted(dead, end)] - start] = False
            batch = batch.filter(pa.array(is_living))  # noqa: PLW2901
        start = end
        if batch.num_rows:
            yield batch
