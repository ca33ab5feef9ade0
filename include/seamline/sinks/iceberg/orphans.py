"""Files of tables that nothing leads to any more: what attempts have left that died between their files and their
commit, and what tables have let go of.

A file goes when it is older than a day and no snapshot, tag, branch or log entry of any table of the catalogue names
it. It must lie in the folder of a table that the catalogue has, or in that of a load whose files such a table took: a
warehouse may hold tables of other catalogues too.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from pyiceberg.manifest import ManifestFile
from pyiceberg.table.metadata import TableMetadata

from seamline.domain.errors import Refused, TransientError
from seamline.sinks.iceberg.io import WarehouseIO, warehouse_io, warehouse_root
from seamline.sinks.iceberg.manifests import read_metadata
from seamline.sinks.iceberg.options import LakeOptions
from seamline.sinks.lake.files import files_in, remove
from seamline.sinks.lake.loads import claimed
from seamline.sinks.lake.stores import FilePath

# No commit takes so long: a younger file may be one that somebody is about to commit.
GUARD_S = 86_400
_FOLDERS = ("data", "metadata")
_ENDINGS = (".parquet", ".avro", ".metadata.json", ".puffin")
# A stream lets go of snapshots while they are read here.
_ATTEMPTS = 5


# Where the pointers of all tables of a catalogue lead, each table once however it is renamed meanwhile.
AllPointers = Callable[[], Sequence[str]]


def drop_orphans(all_pointers: AllPointers, options: LakeOptions, namespace: str) -> int:
    """How many. TransientError: what is named cannot be read, so nothing was dropped."""
    root, io = warehouse_root(options), warehouse_io(options)
    oldest, warehouse = time.time() - GUARD_S, _there(root)
    # Listed before the pointers are read: what is committed meanwhile is named by then, or too young to be listed.
    found = {
        folder: ({_lies_at(table, io) for table in tables}, list(_old_files(folder, oldest)))
        for folder, tables in claimed(root, namespace, before_s=oldest).items()
    }
    if not any(files for _, files in found.values()):
        return 0
    locations, named = _named(all_pointers, io, warehouse)
    dropped = 0
    for tables, files in found.values():
        for path in files if tables & locations else ():
            if _there(path) not in named:
                remove(path)
                dropped += 1
    return dropped


def _old_files(folder: FilePath, oldest: float) -> Iterator[FilePath]:
    for part in _FOLDERS:
        for path, status in files_in(folder / part):
            if path.name.endswith(_ENDINGS) and status.st_mtime < oldest:
                yield path


def _named(all_pointers: AllPointers, io: WarehouseIO, warehouse: FilePath) -> tuple[set[FilePath], set[FilePath]]:
    """The folders of all tables that lie in this warehouse, and every file that one of them names."""
    for attempt in range(_ATTEMPTS):
        manifests = dict[str, ManifestFile]()
        locations, named = set[FilePath](), set[FilePath]()
        try:
            for pointer in all_pointers():
                if _lies_in(warehouse, pointer, io):
                    metadata = read_metadata(pointer, io)
                    locations.add(_lies_at(metadata.location, io))
                    urls = {pointer, *_named_by(metadata, manifests, io)}
                    named |= {_lies_at(url, io) for url in urls}
            for manifest in manifests.values():
                entries = manifest.fetch_manifest_entry(io, discard_deleted=True)
                named |= {_lies_at(entry.data_file.file_path, io) for entry in entries}
        except FileNotFoundError as exc:
            if attempt == _ATTEMPTS - 1:
                raise TransientError(
                    f"a table names a file that is not there: {exc}",
                    hint="no orphan file was dropped. Is the warehouse mounted? If it is, somebody has deleted the"
                    " file: onboard that table again",
                ) from exc
        else:
            return locations, named
    raise AssertionError("the last attempt has ended it")


def _named_by(metadata: TableMetadata, manifests: dict[str, ManifestFile], io: WarehouseIO) -> Iterator[str]:
    """The URLs of its files but those of rows, whose manifests are added here, each once."""
    yield from (entry.metadata_file for entry in metadata.metadata_log)
    yield from (one.statistics_path for one in (*metadata.statistics, *metadata.partition_statistics))
    for snapshot in metadata.snapshots:
        yield snapshot.manifest_list
        for manifest in snapshot.manifests(io):
            manifests.setdefault(manifest.manifest_path, manifest)
            yield manifest.manifest_path


def _lies_in(warehouse: FilePath, pointer: str, io: WarehouseIO) -> bool:
    """Other tables of the catalogue may lie in another store, or in a folder."""
    try:
        return _lies_at(pointer, io).is_relative_to(warehouse)  # type: ignore[arg-type]
    except Refused:
        return False


def _lies_at(url: str, io: WarehouseIO) -> FilePath:
    return _there(io.path_of(url))


def _there(path: FilePath) -> FilePath:
    """By the name that its folder really has: a client may come to the warehouse by another one."""
    return _real(path.parent) / path.name if isinstance(path, Path) else path


@lru_cache(maxsize=10_000)
def _real(folder: Path) -> Path:
    return folder.resolve()
