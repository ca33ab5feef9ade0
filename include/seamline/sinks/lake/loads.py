"""Whole tables on their way in: Parquet files that tasks write into a folder of their own, and a receipt beside them.

The folder becomes the table's when it is published. Until then nobody but its attempt knows it.
"""

import itertools
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from fnmatch import fnmatchcase

import pyarrow as pa
import pyarrow.parquet as pq

from seamline.domain.catalogue import Table
from seamline.domain.digest import SegmentDigest
from seamline.domain.errors import GateFailed, Refused
from seamline.kinds.bulk import ArrowRows, LoadProgress, StagedPlace, TableRows
from seamline.ports import Load
from seamline.sinks.lake.files import (
    NewFiles,
    content,
    files_in,
    make_folder,
    namespace_folder,
    new_location,
    remove,
    remove_folder,
    root_of,
    sync,
    write_whole,
)
from seamline.sinks.lake.storage import RowStorage, parquet_file, parquet_writer, write_parquet
from seamline.sinks.lake.stores import FilePath, StoredPath
from seamline.values.arrow import require_schema
from seamline.values.digest import segment_digest

_RECEIPT = "receipt.json"
# In every folder that a load has made: another one in the same place is somebody's table.
_LOAD = "load"
# In a folder from which a publish was begun: its files may be those of a live table.
_CLAIM = "claimed"
# A staged table may wait days for somebody.
ABANDONED_AFTER_S = 14 * 86_400
# A file of the first load ends behind so many bytes of Arrow; Parquet makes a third of them.
FILE_BYTES = 512 * 2**20
_ROW_GROUP_ROWS = 500_000
# So many bytes of Arrow are held and then divided by partitions.
HELD_BYTES = 256 * 2**20


@dataclass(frozen=True, slots=True)
class StagedFiles:
    """What a load has put into its folder."""

    location: FilePath
    paths: tuple[FilePath, ...]
    rows: int

    def batches(self, table: Table, storage: RowStorage) -> Iterator[pa.RecordBatch]:
        """All rows in the typed form."""
        for path in self.paths:
            for batch in parquet_file(path).iter_batches(columns=[column.name for column in table.columns]):
                yield storage.typed(table, batch)


class LakeLoadArea:
    """`LoadArea` of one attempt: its folders have names that no other attempt has."""

    def __init__(self, warehouse: str | FilePath, namespace: str) -> None:
        self._warehouse = root_of(warehouse)
        self._namespace = namespace
        self._places: list[FilePath] = []

    def create(self, tables: Sequence[Table]) -> Mapping[str, StagedPlace]:
        places = {}
        if not isinstance(self._warehouse, StoredPath) and not self._warehouse.is_dir():
            raise Refused(
                f"{self._warehouse}, where rows are staged, is no folder here",
                hint="make it, or mount it where it lies",
            )
        for table in tables:
            location = new_place(self._warehouse, self._namespace, table.name)
            self._places.append(location)
            places[table.name] = StagedPlace(table, self._namespace, name_of(self._warehouse, location))
        return places

    def progress(self) -> LoadProgress:
        written, begun = 0, list[str]()
        for place in self._places:
            sizes = [found.st_size for path, found in files_in(place / "data") if path.name.endswith(".parquet")]
            written += sum(sizes)
            if sizes and not (place / _RECEIPT).exists():
                begun.append(name_of(self._warehouse, place))
        return LoadProgress(written, tuple(begun), is_working=False)

    def drop(self) -> None:
        for path in self._places:
            remove_folder(path)


def new_place(warehouse: FilePath, namespace: str, table: str) -> FilePath:
    """A folder for one attempt to load this table."""
    location = new_location(warehouse, namespace, table)
    make_folder(location)
    write_whole(location / _LOAD, "")
    return location


Parts = Callable[[pa.Table], Iterable[pa.Table]]
"""Divides stored rows into those of one file each."""


def load(
    warehouse: str | FilePath, place: StagedPlace, rows: TableRows, storage: RowStorage, *, parts: Parts | None = None
) -> int:
    """`SinkKind.load`. `parts`: where not every row may lie in a file with any other."""
    if not isinstance(rows, ArrowRows):
        raise Refused("a lake takes no native copy", table=place.table.name)
    require_schema(place.table, rows.schema)
    location = location_of(warehouse, place.name)
    if is_claimed(location):
        raise Refused(f"the staged table {place.name} is published already", table=place.table.name)
    # What an attempt of this very task has left.
    remove_folder(location / "data")
    remove(location / _RECEIPT)
    files = NewFiles(location, "load")
    if parts is None:
        made = _written(place.table, rows.batches, files, storage)
    else:
        made = written_apart((storage.stored(place.table, batch) for batch in rows.batches), files, parts)
    written = [(path.name, count) for path, count in made]
    total = sum(count for _, count in written)
    files.synced()
    # By it a load is done.
    write_whole(location / _RECEIPT, json.dumps({"rows": total, "files": [name for name, _ in written]}))
    return total


def staged_files(warehouse: str | FilePath, load: Load) -> StagedFiles:
    """Refused where the staged table is gone; GateFailed where it does not hold what was staged or compared."""
    found = staged_again(warehouse, load.staged_as, load.table.name)
    if found.rows != load.rows:
        raise _other(load, f"{found.rows} rows")
    return found


def staged_again(warehouse: str | FilePath, staged_as: str, table: str) -> StagedFiles:
    """What is staged there now. Refused where it is gone."""
    location = location_of(warehouse, staged_as)
    try:
        receipt = json.loads((location / _RECEIPT).read_text(encoding="utf-8"))
        paths = tuple(location / "data" / name for name in receipt["files"])
        rows = sum(parquet_file(path).metadata.num_rows for path in paths)
    except FileNotFoundError as exc:
        raise Refused(f"the staged table {staged_as} of {table} is gone", hint="load it again", table=table) from exc
    return StagedFiles(location, paths, rows)


def claim(location: FilePath, *, table: FilePath | None = None) -> None:
    """Before the publish: from here on the folder is never dropped as abandoned, whatever becomes of the commit.

    `table`: the folder of another table, whose files these become. It is noted here, for nothing else says it once
    that table has let go of them.
    """
    note = location / _CLAIM
    line = f"{table or location}\n"
    if isinstance(note, StoredPath):
        # No store appends. One publish at a time has the folder.
        note.write_text(_claims_of(note) + line)
        return
    with note.open("a", encoding="utf-8") as file:
        file.write(line)
    sync(note)
    sync(location)


def claimed(warehouse: str | FilePath, namespace: str, *, before_s: float) -> dict[FilePath, set[str]]:
    """Folders of loads whose publish was begun before this time, seconds since 1970, each with the folders of the
    tables whose files it holds."""
    found = {}
    for location in _folders(warehouse, namespace):
        note = location / _CLAIM
        if note.exists() and note.stat().st_mtime < before_s:
            found[location] = {str(location), *_claims_of(note).split("\n")[:-1]}
    return found


def _claims_of(note: FilePath) -> str:
    try:
        return note.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""


def unclaimed(warehouse: str | FilePath, namespace: str) -> list[FilePath]:
    """The folders of loads whose publish was not begun."""
    made = [location for location in _folders(warehouse, namespace) if (location / _LOAD).exists()]
    return [location for location in made if not is_claimed(location)]


def _folders(warehouse: str | FilePath, namespace: str) -> list[FilePath]:
    """Of loads into this namespace or its incremental snapshots."""
    folders = namespace_folder(warehouse, namespace)
    wanted = (folders.name, f"{folders.name}_incremental_*")
    both = [one for one in content(folders.parent) if any(fnmatchcase(one.name, pattern) for pattern in wanted)]
    return [location for folder in both for location in content(folder) if location.is_dir()]


def drop_abandoned(warehouse: str | FilePath, namespace: str) -> int:
    """Drop the folders of loads that nobody has published for long; how many."""
    oldest = time.time() - ABANDONED_AFTER_S
    abandoned = [location for location in unclaimed(warehouse, namespace) if _changed_at(location) < oldest]
    for location in abandoned:
        remove_folder(location)
    return len(abandoned)


def is_claimed(location: FilePath) -> bool:
    return (location / _CLAIM).exists()


def _changed_at(location: FilePath) -> float:
    """Seconds since 1970. A folder of a store has no time of its own: that of its newest file."""
    if isinstance(location, StoredPath):
        return max((status.st_mtime for _, status in location.files()), default=0.0)
    return location.stat().st_mtime


def require_as_compared(staged: StagedFiles, load: Load, storage: RowStorage) -> None:
    """GateFailed where the staged rows are others than were compared with the source."""
    if load.digest is None:
        return
    digests = (
        segment_digest(load.table, batch, run_key=load.digest.run_key) for batch in staged.batches(load.table, storage)
    )
    if sum(digests, SegmentDigest()) != load.digest.digest:
        raise _other(load, "other values")


def location_of(warehouse: str | FilePath, name: str) -> FilePath:
    return root_of(warehouse) / name


def name_of(warehouse: str | FilePath, location: FilePath) -> str:
    """As what a folder is staged: `location_of` finds it again."""
    return str(location).removeprefix(f"{root_of(warehouse)}/")


def _other(load: Load, what: str) -> GateFailed:
    return GateFailed(
        f"the staged table {load.staged_as} now holds {what}; {load.rows} rows were staged",
        hint="nothing was published. Somebody changed its files: clear the task that staged it",
        table=load.table.name,
    )


def _written(
    table: Table, batches: Iterable[pa.RecordBatch], files: NewFiles, storage: RowStorage
) -> Iterator[tuple[FilePath, int]]:
    """Files of some hundred MB and the rows of each. A file without rows is not written: it breaks Spark's reader.

    A batch is written while the next one is read: both are work of C++ that Python does not hold up.
    """
    schema = storage.storage_schema(table)
    writer: pq.ParquetWriter | None = None
    path: FilePath | None = None
    rows, size = 0, 0
    with ThreadPoolExecutor(1) as beside:
        writing = Future[None]()
        writing.set_result(None)
        try:
            for batch in batches:
                writing.result()
                if writer is not None and path is not None and size >= FILE_BYTES:
                    writer.close()
                    writer = None
                    yield path, rows
                if not batch.num_rows:
                    continue
                if writer is None:
                    path, rows, size = files.data(".parquet"), 0, 0
                    writer = parquet_writer(path, schema)
                writing = beside.submit(_write, writer, table, batch, storage)
                rows, size = rows + batch.num_rows, size + batch.nbytes
            writing.result()
        finally:
            wait([writing])
            if writer is not None:
                writer.close()
    if path is not None and writer is not None:
        yield path, rows


def _write(writer: pq.ParquetWriter, table: Table, batch: pa.RecordBatch, storage: RowStorage) -> None:
    writer.write_table(storage.stored(table, batch), row_group_size=_ROW_GROUP_ROWS)


def written_apart(
    stored: Iterable[pa.Table | pa.RecordBatch], files: NewFiles, parts: Parts
) -> Iterator[tuple[FilePath, int]]:
    """A file for each part of as many rows as are held in memory, and the rows of each."""
    held, size = list[pa.Table](), 0
    for rows in itertools.chain(stored, [None]):
        if rows is not None and rows.num_rows:
            held.append(rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows]))
            size += rows.nbytes
        if held and (rows is None or size >= HELD_BYTES):
            for part in parts(pa.concat_tables(held)):
                path = files.data(".parquet")
                write_parquet(part, path)
                yield path, part.num_rows
            held, size = [], 0
