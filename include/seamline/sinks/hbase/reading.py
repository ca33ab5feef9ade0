"""Rows as they stand at one place of the ledger.

HBase has no snapshots that a reader could hold: while the stream is held, the rows are fetched into a file of this
process and compared from there. The ledger must be the same before and after.
"""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from seamline.domain.catalogue import Table
from seamline.domain.digest import Segment, SegmentDigest
from seamline.domain.position import Position
from seamline.ports import Load
from seamline.sinks.hbase.gateway import Store
from seamline.sinks.hbase.places import Place, Places
from seamline.sinks.hbase.rows import batch_from, pages
from seamline.sinks.lake.read_view import Batches, LakeView
from seamline.values.arrow import schema_of


class FetchedView(LakeView):
    """`ports.StagedView` over the files in a folder, which goes when the view is closed."""

    def __init__(
        self, position: Position, tables: Mapping[Table, Batches], folder: "tempfile.TemporaryDirectory[str]"
    ) -> None:
        super().__init__(position, tables)
        self._folder = folder

    def digest_of(self, table: str, *, run_key: str) -> SegmentDigest:
        return sum(self.digests(Segment(table), run_key=run_key).values(), SegmentDigest())

    def batches(self, table: str) -> Iterator[pa.RecordBatch]:
        _, batches = self._tables[table]
        return batches()

    def close(self) -> None:
        self._folder.cleanup()


def fetched(store: Store, tables: Mapping[Table, Place], position: Position) -> FetchedView:
    folder = tempfile.TemporaryDirectory(prefix="seamline-hbase-")
    try:
        found = dict[Table, Batches]()
        for number, (table, place) in enumerate(tables.items()):
            path = Path(folder.name) / f"{number}.arrow"
            with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, schema_of(table)) as writer:
                for page in pages(store, place):
                    writer.write_batch(batch_from(table, [cells for _, cells in page]))
            found[table] = _batches(path)
    except BaseException:
        folder.cleanup()
        raise
    return FetchedView(position, found, folder)


@contextmanager
def staged_view(store: Store, places: Places, load: Load, position: Position) -> Iterator[FetchedView]:
    view = fetched(store, {load.table: places.staged(load.staged_as)}, position)
    try:
        yield view
    finally:
        view.close()


def _batches(path: Path) -> Batches:
    def read() -> Iterator[pa.RecordBatch]:
        with pa.memory_map(str(path)) as file:
            found = pa.ipc.open_file(file)
            for number in range(found.num_record_batches):
                yield found.get_batch(number)

    return read
