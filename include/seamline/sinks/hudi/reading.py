"""Hudi tables of a sync at one position, as Arrow: for notebooks, and for whatever reads Arrow.

    tables = open_lake("postgresql://reader:…@host/lake", sync="settlement", destination="hudi",
                       warehouse="/lake", namespace="settlement", at="2026-11-27")
    tables["account"].arrow()

The ledger names folders by their absolute paths: the warehouse must be there under the same name.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from seamline.adapters.connections import parsed
from seamline.domain.errors import Refused
from seamline.domain.ledger import StreamId
from seamline.kinds.reading import PROVEN, SyncTables
from seamline.sinks.hudi.catalogue import HudiCatalogue
from seamline.sinks.hudi.instants import text_of
from seamline.sinks.hudi.pointer import Pointer
from seamline.sinks.hudi.state import TableState
from seamline.sinks.hudi.timeline import Timeline
from seamline.sinks.hudi.types import arrow_schema
from seamline.sinks.lake.files import translated
from seamline.sinks.lake.identity import ROW_HASH
from seamline.sinks.lake.pinned import open_pinned


@dataclass(frozen=True, slots=True)
class HudiTable:
    """`kinds.reading.PinnedTable`. `folder` and `instant`: by these Hudi's clients read it, as Spark by
    `as.of.instant`. `selected`: the columns to read; all without any."""

    name: str
    folder: str
    instant: str
    selected: tuple[str, ...] = ()

    @property
    def schema(self) -> pa.Schema:
        return self._schema_of(self._state())

    @property
    def parts(self) -> int:
        return len(self._state().files)

    def batches(self, *, part: int = 0, of: int = 1) -> Iterator[pa.RecordBatch]:
        return self.batches_of(slice(part, None, of))

    def batches_of(self, files: slice) -> Iterator[pa.RecordBatch]:
        """The rows of some of its files, whose order is the same at any time."""
        with translated(f"read table {self.name}"):
            state = self._state()
            schema = self._schema_of(state)
            for name in list(state.files)[files]:
                for batch in pq.ParquetFile(Path(self.folder) / name).iter_batches(columns=schema.names):
                    yield batch.select(schema.names).cast(schema)

    def arrow(self) -> pa.Table:
        return pa.Table.from_batches(self.batches(), self.schema)

    def _state(self) -> TableState:
        return Timeline(Path(self.folder)).at(int(self.instant))

    def _schema_of(self, state: TableState) -> pa.Schema:
        schema = arrow_schema(state.schema)
        names = self.selected or [name for name in schema.names if name != ROW_HASH]
        return pa.schema([schema.field(name) for name in names])


def open_lake(
    uri: str, *, sync: str, destination: str, warehouse: str, namespace: str, at: date | str = PROVEN
) -> SyncTables:
    """The tables of a sync by the ledger's database alone. `uri`: as postgresql://login:password@host:port/database;
    its login reads schema `seamline`. `at`: a business date, `proven` or `live`."""
    return open_pinned(
        parsed(uri), HudiCatalogue(warehouse), StreamId(sync, destination), namespace, at, table_of=table_at
    )


def table_at(name: str, location: str, number: int, selected: Sequence[str] = ()) -> HudiTable:
    """At an instant of the table where a pointer leads, which may have moved on since."""
    folder = Pointer.parsed(location).folder
    if not Timeline(folder).has(number):
        raise Refused(
            f"instant {text_of(number)} is of a table that left its sync; the one at {folder} came later",
            hint="read the folder of the earlier table: the later one has a number at the end of its name",
            table=name,
        )
    return HudiTable(name, str(folder), text_of(number), tuple(selected))
