"""Rows of a store without snapshots: fetched into files of this process, and compared from there."""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa

from seamline.domain.catalogue import Table
from seamline.domain.digest import Segment, SegmentDigest
from seamline.domain.position import Position
from seamline.ports import Load
from seamline.sinks.lake.read_view import Batches, LakeView
from seamline.values.arrow import schema_of


class FetchedView(LakeView):
    """`ports.StagedView` over the files in a folder, which goes when the view is closed."""

    def __init__(
        self, position: Position, tables: Mapping[Table, Batches], folder: "tempfile.TemporaryDirectory[str]"
    ) -> None:
        super().__init__(position, tables)
        self._folder = folder

    def digest_of(self, load: Load) -> SegmentDigest:
        """Of a staged load, by the kind of digest by which it was compared."""
        assert load.digest is not None
        name, run_key = load.table.name, load.digest.run_key
        if load.digest.whole is not None:
            return self.whole_digest(name, run_key=run_key)
        return sum(self.digests(Segment(name), run_key=run_key).values(), SegmentDigest())

    def batches(self, table: str) -> Iterator[pa.RecordBatch]:
        _, batches = self._tables[table]
        return batches()

    def close(self) -> None:
        self._folder.cleanup()


def fetched_view(
    tables: Iterable[Table], position: Position, rows_of: Callable[[Table], Iterable[pa.RecordBatch]]
) -> FetchedView:
    """What `rows_of` gives of each table, asked for here and once."""
    folder = tempfile.TemporaryDirectory(prefix="seamline-fetched-")
    try:
        found = dict[Table, Batches]()
        for number, table in enumerate(tables):
            path = Path(folder.name) / f"{number}.arrow"
            with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, schema_of(table)) as writer:
                for batch in rows_of(table):
                    writer.write_batch(batch)
            found[table] = _batches(path)
    except BaseException:
        folder.cleanup()
        raise
    return FetchedView(position, found, folder)


def _batches(path: Path) -> Batches:
    def read() -> Iterator[pa.RecordBatch]:
        with pa.memory_map(str(path)) as file:
            found = pa.ipc.open_file(file)
            for number in range(found.num_record_batches):
                yield found.get_batch(number)

    return read
