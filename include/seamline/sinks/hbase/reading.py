"""Rows as they stand at one place of the ledger.

HBase has no snapshots that a reader could hold: while the stream is held, the rows are fetched into a file of this
process and compared from there. The ledger must be the same before and after.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pyarrow as pa

from seamline.domain.catalogue import Table
from seamline.domain.position import Position
from seamline.ports import Load
from seamline.sinks.hbase.gateway import Store
from seamline.sinks.hbase.places import Place, Places
from seamline.sinks.hbase.rows import batch_from, pages
from seamline.sinks.lake.fetched_view import FetchedView, fetched_view


def fetched(store: Store, tables: Mapping[Table, Place], position: Position) -> FetchedView:
    def rows_of(table: Table) -> Iterator[pa.RecordBatch]:
        for page in pages(store, tables[table]):
            yield batch_from(table, page)

    return fetched_view(tables, position, rows_of)


@contextmanager
def staged_view(store: Store, places: Places, load: Load, position: Position) -> Iterator[FetchedView]:
    view = fetched(store, {load.table: places.staged(load.staged_as)}, position)
    try:
        yield view
    finally:
        view.close()
