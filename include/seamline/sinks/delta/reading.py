"""Delta tables of a sync at one position, as Arrow: for notebooks, and for whatever reads Arrow.

    tables = open_lake("postgresql://reader:…@host/lake", sync="settlement", destination="delta",
                       warehouse="/lake", namespace="settlement", at="2026-11-27")
    tables["account"].arrow()

The ledger names folders by their absolute paths: the warehouse must be there under the same name.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import pyarrow as pa

from seamline.adapters.connections import parsed
from seamline.domain.ledger import StreamId
from seamline.kinds.reading import PROVEN, SyncTables
from seamline.sinks.delta.catalogue import DeltaCatalogue
from seamline.sinks.delta.log import DeltaLog
from seamline.sinks.delta.pointer import Pointer
from seamline.sinks.delta.read_back import living_rows
from seamline.sinks.delta.state import TableState
from seamline.sinks.delta.types import arrow_schema
from seamline.sinks.lake.files import translated
from seamline.sinks.lake.identity import ROW_HASH
from seamline.sinks.lake.pinned import open_pinned


@dataclass(frozen=True, slots=True)
class DeltaTable:
    """`kinds.reading.PinnedTable`. `folder` and `version`: by these any client reads it, as Spark by VERSION AS OF.
    `selected`: the columns to read; all without any."""

    name: str
    folder: str
    version: int
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
            for file in list(state.files.values())[files]:
                for batch in living_rows(file, Path(self.folder), schema.names):
                    yield batch.select(schema.names).cast(schema)

    def arrow(self) -> pa.Table:
        return pa.Table.from_batches(self.batches(), self.schema)

    def _state(self) -> TableState:
        return DeltaLog(Path(self.folder)).at(self.version)

    def _schema_of(self, state: TableState) -> pa.Schema:
        schema = arrow_schema(state.metadata["schemaString"])
        names = self.selected or [name for name in schema.names if name != ROW_HASH]
        return pa.schema([schema.field(name) for name in names])


def open_lake(
    uri: str, *, sync: str, destination: str, warehouse: str, namespace: str, at: date | str = PROVEN
) -> SyncTables:
    """The tables of a sync by the ledger's database alone. `uri`: as postgresql://login:password@host:port/database;
    its login reads schema `seamline`. `at`: a business date, `proven` or `live`."""
    return open_pinned(
        parsed(uri), DeltaCatalogue(warehouse), StreamId(sync, destination), namespace, at, table_of=table_at
    )


def table_at(name: str, location: str, number: int, selected: Sequence[str] = ()) -> DeltaTable:
    """The version that a number names, of the table where a pointer leads, which may have moved on since."""
    pointer = Pointer.parsed(location).at_number(number)
    return DeltaTable(name, str(pointer.folder), pointer.version, tuple(selected))
