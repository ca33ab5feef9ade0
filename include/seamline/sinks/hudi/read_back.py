"""The rows of Hudi tables, at the ledger's instants."""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from seamline.databases.postgres.client import Session
from seamline.domain.catalogue import Table
from seamline.domain.errors import Refused
from seamline.plan.model import DestinationPlan
from seamline.sinks.hudi.instants import text_of
from seamline.sinks.hudi.options import options_of
from seamline.sinks.hudi.pointer import Pointer, pointer_of
from seamline.sinks.hudi.timeline import Timeline
from seamline.sinks.hudi.types import typed
from seamline.sinks.lake.files import translated
from seamline.sinks.lake.read_back import OpenAt
from seamline.sinks.lake.read_view import Batches


def open_at(destination: DestinationPlan) -> OpenAt:
    """Reads tables at instants."""
    warehouse = options_of(destination).warehouse

    def at(_: Session, table: Table, instant: int) -> Batches:
        place = pointer_of(warehouse, destination.namespace, table.name, instant)
        if place is None:
            raise Refused(f"instant {text_of(instant)} of table {table.name} is gone", table=table.name)
        return live(table, place.text)

    return at


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
