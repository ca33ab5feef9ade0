"""Iceberg tables of a sync at one position, as Arrow: for notebooks, and for whatever reads Arrow.

    tables = open_catalogue("postgresql://reader:…@host/lake", sync="settlement", destination="lake",
                            catalog="lake", namespace="settlement", at="2026-11-27")
    tables["account"].arrow()

The catalogue names files by their absolute paths: the warehouse must be there under the same name.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import date
from functools import partial

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan, schema_to_pyarrow
from pyiceberg.table import DataScan, StaticTable
from pyiceberg.table.metadata import TableMetadata

from seamline.adapters.connections import parsed
from seamline.domain.errors import Refused
from seamline.domain.ledger import StreamId
from seamline.kinds.reading import LIVE, PROVEN, SyncTables, place_of
from seamline.plan.model import DestinationPlan
from seamline.sinks.iceberg.io import io_of, static_table
from seamline.sinks.iceberg.options import options_of
from seamline.sinks.iceberg.rest_cuts import open_rest_cuts
from seamline.sinks.iceberg.rest_opening import open_store
from seamline.sinks.iceberg.snapshot import own_snapshot
from seamline.sinks.lake.catalogue import Catalogue
from seamline.sinks.lake.files import translated
from seamline.sinks.lake.identity import ROW_HASH
from seamline.sinks.lake.pinned import Pinned, open_pinned, required, tables_of


@dataclass(frozen=True, slots=True)
class IcebergTable:
    """`kinds.reading.PinnedTable`. `location`: its metadata file, by which any client opens it at `snapshot_id`.
    `pinned`: the snapshot that the ledger or a cut names. `selected`: the columns to read; all without any.
    `connection`: id of what leads to its store."""

    name: str
    location: str
    pinned: int
    selected: tuple[str, ...] = ()
    connection: str = ""

    @property
    def snapshot_id(self) -> int:
        """The pinned one; where a client has compacted the table and let go of that, the one with the same rows.
        Refused: neither is there."""
        return self._snapshot_in(self._table().metadata)

    @property
    def schema(self) -> pa.Schema:
        return _schema_of(self._scan())

    @property
    def parts(self) -> int:
        return len(list(self._scan().plan_files()))

    def batches(self, *, part: int = 0, of: int = 1) -> Iterator[pa.RecordBatch]:
        return self.batches_of(slice(part, None, of))

    def batches_of(self, files: slice) -> Iterator[pa.RecordBatch]:
        """The rows of some of its files, whose order is the same at any time."""
        with translated(f"read table {self.name}"):
            scan = self._scan()
            schema = _schema_of(scan)
            tasks = list(scan.plan_files())[files]
            reading = ArrowScan(scan.table_metadata, scan.io, scan.projection(), AlwaysTrue())
            for batch in reading.to_record_batches(tasks):
                yield batch.cast(schema)

    def arrow(self) -> pa.Table:
        return pa.Table.from_batches(self.batches(), self.schema)

    def _scan(self) -> DataScan:
        table = self._table()
        names = tuple(field.name for field in table.schema().fields if field.name != ROW_HASH)
        return table.scan(snapshot_id=self._snapshot_in(table.metadata), selected_fields=self.selected or names)

    def _snapshot_in(self, metadata: TableMetadata) -> int:
        if metadata.snapshot_by_id(self.pinned) is not None:
            return self.pinned
        now = metadata.current_snapshot_id
        if now is None or own_snapshot(metadata, self.pinned):
            raise Refused(
                f"the table that is called {self.name} now has no snapshot {self.pinned}",
                hint="where it left its sync and came back, its earlier cuts are those of the table that was kept under"
                " another name; a state that was read as `live` is let go of after some hundred commits",
                table=self.name,
            )
        return now

    def _table(self) -> StaticTable:
        return static_table(self.location, io_of(self.location, self.connection))


def _schema_of(scan: DataScan) -> pa.Schema:
    return schema_to_pyarrow(scan.projection(), include_field_ids=False)


def open_catalogue(
    uri: str,
    *,
    sync: str,
    destination: str,
    catalog: str,
    namespace: str,
    at: date | str = PROVEN,
    warehouse_connection: str = "",
) -> SyncTables:
    """The tables of a sync by the catalogue's database alone. `uri`: as postgresql://login:password@host:port/database;
    its login reads schema `seamline` and `public.iceberg_tables`. `at`: a business date, `proven` or `live`.
    `warehouse_connection`: id of what leads to a warehouse in a store; "" for the machine's own credentials."""
    table_of = partial(table_at, connection=warehouse_connection)
    return open_pinned(parsed(uri), Catalogue(catalog), StreamId(sync, destination), namespace, at, table_of=table_of)


def open_tables_by_rest(destination: DestinationPlan, stream: StreamId, at: date | str) -> SyncTables:
    """As `lake.pinned.open_tables`, of a destination with a REST catalogue."""
    with closing(open_store(destination)) as store:
        seen = store.look(stream, destination.namespace)
    if at == LIVE:
        found = Pinned(seen.ledger.position, seen.heads, seen.snapshots) if seen.ledger is not None else None
    else:
        with closing(open_rest_cuts(destination)) as cuts:
            found = cuts.found(stream, seen.heads, place_of(at))
    table_of = partial(table_at, connection=options_of(destination).warehouse_connection)
    return tables_of(required(found, stream, destination.namespace, at), stream, table_of)


def table_at(
    name: str, location: str, snapshot_id: int, selected: Sequence[str] = (), *, connection: str
) -> IcebergTable:
    return IcebergTable(name, location, snapshot_id, tuple(selected), connection)
