"""A Hive destination's tables as views of a comparison: those that are staged, and those of a published cut."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from seamline.adapters.connections import resolve
from seamline.domain.catalogue import Table
from seamline.domain.date_before import PublishedTable
from seamline.domain.errors import Refused
from seamline.domain.position import Position
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.sinks.hive import types
from seamline.sinks.hive.metastore import Metastore, open_metastore
from seamline.sinks.hive.options import options_of
from seamline.sinks.hive.types import typed
from seamline.sinks.lake.files import local
from seamline.sinks.lake.loads import location_of
from seamline.sinks.lake.read_view import Batches, LakeView
from seamline.sinks.lake.row_copies import HeldRows
from seamline.values.arrow import table_of


def open_published(
    plan: SyncPlan, destination: DestinationPlan, tables: Sequence[PublishedTable], *, position: Position
) -> LakeView:
    """By way of the partition, as any other client: what it leads to must be what the cut's rows say."""
    options = options_of(destination)
    with closing(open_metastore(resolve(options.metastore), destination.namespace)) as metastore:
        found: Mapping[Table, Batches] = {
            plan.table(one.table).definition: rows_of(
                plan.table(one.table).definition,
                _folder(metastore, one, local(location_of(options.warehouse, one.name))),
            )
            for one in tables
        }
    return LakeView(position, found)


def held_rows(destination: DestinationPlan) -> HeldRows:
    """What runs have staged there."""
    return HeldRows(options_of(destination).warehouse, types)


def rows_of(table: Table, folder: Path) -> Batches:
    """The rows of a partition's folder in the typed form. Refused where they have another schema by now."""

    def batches() -> Iterator[pa.RecordBatch]:
        for path in sorted(folder.glob("*.parquet")):
            file = pq.ParquetFile(path)
            if table_of(file.schema_arrow).columns != table.columns:
                raise Refused(f"the columns of {table.name} were altered since its cut", table=table.name)
            for batch in file.iter_batches():
                yield typed(table, batch)

    return batches


def _folder(metastore: Metastore, published: PublishedTable, location: Path) -> Path:
    wanted = location / "data"
    found = metastore.location(published.table.lower(), published.business_date)
    if found != wanted:
        raise Refused(
            f"partition {published.business_date} of {published.table} leads to {found}, and version"
            f" {published.version} lies in {wanted}",
            hint="somebody has moved or dropped it: trigger that date again for a new version",
            table=published.table,
        )
    return found
