"""Change files in a store: written whole under names that nobody else has, read back, and read again."""

import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from seamline.domain.catalogue import Table
from seamline.domain.errors import GateFailed
from seamline.files.csv_file import Frame, head_of, read_rows, write_rows
from seamline.files.dialect import CSV, Dialect
from seamline.files.stores.store import Store
from seamline.sinks.files import types
from seamline.sinks.files.changes.state import ChangeFile, HeldTable
from seamline.sinks.files.two_phase import DeliveredFile, Hashing, read_whole
from seamline.sinks.lake.storage import parquet_file, parquet_writer

_ROW_GROUP_ROWS = 500_000
_CURE = (
    "somebody has removed or changed what a manifest names: put the file back from a backup, or run the onboarding of"
    " the sync, and name the destination under Destinations to load"
)
_FRAME = Frame()


def write_changes(store: Store, path: str, held: HeldTable, batches: Iterable[pa.RecordBatch]) -> ChangeFile | None:
    """A file of these changes; None where there are none. Nothing names it yet. SchemaConflict: a value has no place
    in it. Its commits and its time are those of nothing: who writes it says them."""
    with tempfile.NamedTemporaryFile() as local:
        rows = _write_local(Path(local.name), held, batches)
        if not rows:
            return None
        with Path(local.name).open("rb") as content:
            reading = Hashing(content)
            store.write(path, reading)
        return ChangeFile(path, rows, reading.size, reading.sha256, (0, 0), 0)


def _write_local(path: Path, held: HeldTable, batches: Iterable[pa.RecordBatch]) -> int:
    of = held.form.changes
    counted = _Counted(batches)
    if held.format == CSV:
        with path.open("wb") as file:
            file.write(head_of(of, held.dialect, ()))
            write_rows(of, counted, held.dialect, file)
        return counted.rows
    writer: pq.ParquetWriter | None = None
    for batch in counted:
        if writer is None:
            writer = parquet_writer(path, types.storage_schema(of))
        writer.write_table(types.stored(of, batch), row_group_size=_ROW_GROUP_ROWS)
    if writer is not None:
        writer.close()
    return counted.rows


class _Counted:
    """Batches that pass, without those that have no row."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._batches = batches
        self.rows = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            if batch.num_rows:
                self.rows += batch.num_rows
                yield batch


def require_written(store: Store, file: ChangeFile) -> None:
    """GateFailed: the store gives back another file than was written."""
    with _fetched(store, file):
        pass


@contextmanager
def _fetched(store: Store, file: ChangeFile) -> Iterator[Path]:
    with read_whole(store, file.path, DeliveredFile(file.path, file.size_bytes, file.sha256)) as path:
        yield path


Read = Callable[[ChangeFile], Iterator[pa.RecordBatch]]
"""All changes of a file, in its order, as `ChangeForm` has them. Each call reads them again."""


@contextmanager
def reader_of(store: Store, held: HeldTable) -> Iterator[Read]:
    """Reads each file once from its store, and keeps it on a disk of this machine until it is closed.

    GateFailed of a read: a file is gone, or is not the one that was written.
    """
    with tempfile.TemporaryDirectory(prefix="seamline-changes-") as folder:
        known: dict[str, Path] = {}

        def read(file: ChangeFile) -> Iterator[pa.RecordBatch]:
            if file.path not in known:
                target = Path(folder, str(len(known)))
                try:
                    with _fetched(store, file) as path:
                        target.hardlink_to(path)
                except GateFailed as exc:
                    raise GateFailed(exc.message, hint=_CURE, table=held.definition.name) from exc
                known[file.path] = target
            return _read_local(known[file.path], held.form.changes, held.format, held.dialect)

        yield read


def _read_local(path: Path, of: Table, form: str, dialect: Dialect) -> Iterator[pa.RecordBatch]:
    if form == CSV:
        yield from read_rows(path, of, dialect, _FRAME)
        return
    with parquet_file(path) as file:
        for batch in file.iter_batches(columns=[column.name for column in of.columns]):
            yield types.typed(of, batch)
