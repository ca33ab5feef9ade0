"""The rows of Delta tables, at the ledger's versions."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from seamline.databases.postgres.client import Session
from seamline.domain.catalogue import Table
from seamline.plan.model import DestinationPlan
from seamline.sinks.delta.log import DeltaLog
from seamline.sinks.delta.options import options_of
from seamline.sinks.delta.pointer import Pointer, folder_of_number, version_of
from seamline.sinks.delta.state import DataFile
from seamline.sinks.delta.types import typed
from seamline.sinks.lake.files import translated
from seamline.sinks.lake.read_back import OpenAt
from seamline.sinks.lake.read_view import Batches


def open_at(destination: DestinationPlan) -> OpenAt:
    """Reads tables at the numbers of versions."""
    warehouse = options_of(destination).warehouse

    def at(_: Session, table: Table, number: int) -> Batches:
        folder = folder_of_number(warehouse, destination.namespace, table.name, number)
        return live(table, Pointer(folder, version_of(number)).text)

    return at


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
    # Spark writes moments as INT96, which Arrow would read as nanoseconds: years beyond 2262 have none.
    opened = pq.ParquetFile(file.path_in(folder), coerce_int96_timestamp_unit="us")
    for batch in opened.iter_batches(columns=list(names)):
        end = start + batch.num_rows
        if dead is not None:
            is_living = np.ones(batch.num_rows, np.bool_)
            is_living[dead[np.searchsorted(dead, start) : np.searchsorted(dead, end)] - start] = False
            batch = batch.filter(pa.array(is_living))  # noqa: PLW2901
        start = end
        if batch.num_rows:
            yield batch
