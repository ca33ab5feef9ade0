"""Rows of a server that gives them in any order, kept in a file of this process, in which their order is one."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from seamline.kinds.reading import PinnedTable, ReadsInAnyOrder


@contextmanager
def read_in_one_order(table: PinnedTable) -> Iterator[Callable[[], Iterator[pa.RecordBatch]]]:
    """What reads all rows of a table, in one order however often. The file goes with the context."""
    if not isinstance(table, ReadsInAnyOrder):
        yield table.batches
        return
    with tempfile.TemporaryDirectory(prefix="seamline-read-") as folder:
        path = Path(folder, "rows.arrow")
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            for batch in table.batches():
                writer.write_batch(batch)
        yield lambda: _batches(path)


def _batches(path: Path) -> Iterator[pa.RecordBatch]:
    with pa.memory_map(str(path)) as file:
        found = pa.ipc.open_file(file)
        for number in range(found.num_record_batches):
            yield found.get_batch(number)
