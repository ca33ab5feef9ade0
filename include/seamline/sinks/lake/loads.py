"""Whole tables on their way in: Parquet files that tasks write into a folder of their own, and a receipt beside them.

The folder becomes the table's when it is published. Until then nobody but its attempt knows it.
"""

import itertools
import json
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from seamline.domain.catalogue import Table
from seamline.domain.digest import SegmentDigest
from seamline.domain.errors import GateFailed, Refused
from seamline.kinds.bulk import ArrowRows, LoadProgress, StagedPlace, TableRows
from seamline.ports import Load
from seamline.sinks.lake.files import NewFiles, namespace_folder, new_location, sync, url_of
from seamline.sinks.lake.storage import COMPRESSION, LEVEL, RowStorage, write_parquet
from seamline.values.arrow import require_schema
from seamline.values.digest import segment_digest

_RECEIPT = "receipt.json"
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

    location: Path
    paths: tuple[Path, ...]
    rows: int

    def batches(self, table: Table, storage: RowStorage) -> Iterator[pa.RecordBatch]:
        """All rows in the typed form."""
        for path in self.paths:
            for batch in pq.ParquetFile(path).iter_batches(columns=[column.name for column in table.columns]):
                yield storage.typed(table, batch)


class LakeLoadArea:
    """`LoadArea` of one attempt: its folders have names that no other attempt has."""

    def __init__(self, warehouse: str, namespace: str) -> None:
        self._warehouse = warehouse
        self._namespace = namespace
        self._places: list[Path] = []

    def create(self, tables: Sequence[Table]) -> Mapping[str, StagedPlace]:
        places = {}
        if not Path(self._warehouse).is_dir():
            raise Refused(
                f"the warehouse {self._warehouse} is no folder here", hint="make it, or mount it where it lies"
            )
        for table in tables:
            location = new_location(self._warehouse, self._namespace, table.name)
            location.mkdir(parents=True)
            self._places.append(location)
            places[table.name] = StagedPlace(table, self._namespace, name_of(self._warehouse, location))
        return places

    def progress(self) -> LoadProgress:
        sizes = [(path.name, list((path / "data").glob("*.parquet"))) for path in self._places]
        written = sum(file.stat().st_size for _, files in sizes for file in files)
        begun = [path for path in self._places if (path / "data").exists() and not (path / _RECEIPT).exists()]
        return LoadProgress(written, tuple(name_of(self._warehouse, path) for path in begun), is_working=False)

    def drop(self) -> None:
        for path in self._places:
            shutil.rmtree(path, ignore_errors=True)


Parts = Callable[[pa.Table], Iterable[pa.Table]]
"""Divides stored rows into those of one file each."""


def load(
    warehouse: str, place: StagedPlace, rows: TableRows, storage: RowStorage, *, parts: Parts | None = None
) -> int:
    """`SinkKind.load`. `parts`: where not every row may lie in a file with any other."""
    if not isinstance(rows, ArrowRows):
        raise Refused("a lake takes no native copy", table=place.table.name)
    require_schema(place.table, rows.schema)
    location = location_of(warehouse, place.name)
    # What an attempt of this very task has left.
    shutil.rmtree(location / "data", ignore_errors=True)
    (location / _RECEIPT).unlink(missing_ok=True)
    files = NewFiles(url_of(location), "load")
    if parts is None:
        made = _written(place.table, rows.batches, files, storage)
    else:
        made = written_apart((storage.stored(place.table, batch) for batch in rows.batches), files, parts)
    written = [(path.name, count) for path, count in made]
    total = sum(count for _, count in written)
    files.synced()
    _write_receipt(location, {"rows": total, "files": [name for name, _ in written]})
    return total


def staged_files(warehouse: str, load: Load) -> StagedFiles:
    """Refused where the staged table is gone; GateFailed where it does not hold what was staged or compared."""
    location = location_of(warehouse, load.staged_as)
    try:
        receipt = json.loads((location / _RECEIPT).read_text(encoding="utf-8"))
        paths = tuple(location / "data" / name for name in receipt["files"])
        rows = sum(pq.read_metadata(path).num_rows for path in paths)
    except FileNotFoundError as exc:
        raise Refused(
            f"the staged table {load.staged_as} of {load.table.name} is gone",
            hint="load it again",
            table=load.table.name,
        ) from exc
    if rows != load.rows:
        raise _other(load, f"{rows} rows")
    return StagedFiles(location, paths, rows)


def claim(location: Path, *, table: Path | None = None) -> None:
    """Before the publish: from here on the folder is never dropped as abandoned, whatever becomes of the commit.

    `table`: the folder of another table, whose files these become. It is noted here, for nothing else says it once
    that table has let go of them.
    """
    with (location / _CLAIM).open("a", encoding="utf-8") as file:
        file.write(f"{table or location}\n")
    sync(location / _CLAIM)
    sync(location)


def claimed(warehouse: str, namespace: str, *, before_s: float) -> dict[Path, set[Path]]:
    """Folders of loads whose publish was begun before this time, seconds since 1970, each with the folders of the
    tables whose files it holds."""
    found = {}
    for location in _folders(warehouse, namespace):
        note = location / _CLAIM
        if note.exists() and note.stat().st_mtime < before_s:
            found[location] = {location, *map(Path, note.read_text(encoding="utf-8").split("\n")[:-1])}
    return found


def unclaimed(warehouse: str, namespace: str) -> list[Path]:
    """The folders of loads whose publish was not begun."""
    return [location for location in _folders(warehouse, namespace) if not is_claimed(location)]


def _folders(warehouse: str, namespace: str) -> list[Path]:
    """Of loads into this namespace or its incremental snapshots."""
    folders = namespace_folder(warehouse, namespace)
    both = [folders, *folders.parent.glob(f"{folders.name}_incremental_*")]
    return [location for folder in both if folder.is_dir() for location in folder.iterdir()]


def drop_abandoned(warehouse: str, namespace: str) -> int:
    """Drop the folders of loads that nobody has published for long; how many."""
    oldest = time.time() - ABANDONED_AFTER_S
    abandoned = [location for location in unclaimed(warehouse, namespace) if location.stat().st_mtime < oldest]
    for location in abandoned:
        shutil.rmtree(location, ignore_errors=True)
    return len(abandoned)


def is_claimed(location: Path) -> bool:
    return (location / _CLAIM).exists()


def require_as_compared(staged: StagedFiles, load: Load, storage: RowStorage) -> None:
    """GateFailed where the staged rows are others than were compared with the source."""
    if load.digest is None:
        return
    digests = (
        segment_digest(load.table, batch, run_key=load.digest.run_key) for batch in staged.batches(load.table, storage)
    )
    if sum(digests, SegmentDigest()) != load.digest.digest:
        raise _other(load, "other values")


def location_of(warehouse: str, name: str) -> Path:
    return Path(warehouse).absolute() / name


def name_of(warehouse: str, location: Path) -> str:
    """As what a folder is staged: `location_of` finds it again."""
    return str(location.relative_to(Path(warehouse).absolute()))


def _other(load: Load, what: str) -> GateFailed:
    return GateFailed(
        f"the staged table {load.staged_as} now holds {what}; {load.rows} rows were staged",
        hint="nothing was published. Somebody changed its files: clear the task that staged it",
        table=load.table.name,
    )


def _written(
    table: Table, batches: Iterable[pa.RecordBatch], files: NewFiles, storage: RowStorage
) -> Iterator[tuple[Path, int]]:
    """Files of some hundred MB and the rows of each. A file without rows is not written: it breaks Spark's reader.

    A batch is written while the next one is read: both are work of C++ that Python does not hold up.
    """
    schema = storage.storage_schema(table)
    writer: pq.ParquetWriter | None = None
    path, rows, size = Path(), 0, 0
    with ThreadPoolExecutor(1) as beside:
        writing = Future[None]()
        writing.set_result(None)
        try:
            for batch in batches:
                writing.result()
                if writer is not None and size >= FILE_BYTES:
                    writer.close()
                    writer = None
                    yield path, rows
                if not batch.num_rows:
                    continue
                if writer is None:
                    path, rows, size = files.data(".parquet"), 0, 0
                    writer = pq.ParquetWriter(path, schema, compression=COMPRESSION, compression_level=LEVEL)
                writing = beside.submit(_write, writer, table, batch, storage)
                rows, size = rows + batch.num_rows, size + batch.nbytes
            writing.result()
        finally:
            wait([writing])
            if writer is not None:
                writer.close()
    if writer is not None:
        yield path, rows


def _write(writer: pq.ParquetWriter, table: Table, batch: pa.RecordBatch, storage: RowStorage) -> None:
    writer.write_table(storage.stored(table, batch), row_group_size=_ROW_GROUP_ROWS)


def written_apart(
    stored: Iterable[pa.Table | pa.RecordBatch], files: NewFiles, parts: Parts
) -> Iterator[tuple[Path, int]]:
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


def _write_receipt(location: Path, receipt: Mapping[str, object]) -> None:
    """Whole or not at all: by it a load is done."""
    draft = location / f".{_RECEIPT}"
    draft.write_text(json.dumps(receipt), encoding="utf-8")
    sync(draft)
    draft.replace(location / _RECEIPT)
    sync(location)
