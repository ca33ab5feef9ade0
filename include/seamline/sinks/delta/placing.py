"""What a publish and a join do to Delta tables: tables come, or have their rows replaced.

A table's files lie in its own folder. Those of a load or of an incremental snapshot come there by hard links: what was
staged may go at any time.
"""

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from seamline.domain.catalogue import Table
from seamline.domain.errors import NotCaughtUp, Refused, TransientError
from seamline.domain.ledger import StreamId
from seamline.kinds.live_columns import Misfit
from seamline.ports import Joining, Load
from seamline.sinks.delta.actions import transaction
from seamline.sinks.delta.data_files import written_file
from seamline.sinks.delta.log import DeltaLog, VersionTaken
from seamline.sinks.delta.pointer import Pointer, folder_of
from seamline.sinks.delta.state import Action, DataFile, TableState, addition, now_ms, removal
from seamline.sinks.delta.types import NTZ, delta_schema
from seamline.sinks.delta.vectors import Vector
from seamline.sinks.lake import live_columns
from seamline.sinks.lake.files import NewFiles, local, sync, url_of
from seamline.sinks.lake.loads import staged_files
from seamline.sinks.lake.sink import Mark
from seamline.sinks.lake.store import CatalogueChanges, PointerMove

_ATTEMPTS = 50
# In the metadata of a table: which stream made it, and which table it is. The names of two may make one folder's name.
_STREAM = "seamline.stream"
_TABLE = "seamline.table"
_CONFIGURATION = {
    "delta.enableDeletionVectors": "true",
    # What old versions need goes by the policy of the sync's cuts, which no other client's clean-up knows.
    "delta.enableExpiredLogCleanup": "false",
    "delta.deletedFileRetentionDuration": "interval 5200 weeks",
    "delta.logRetentionDuration": "interval 5200 weeks",
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where the tables of a destination lie."""

    warehouse: str
    namespace: str


def changes_of_publish(
    place: Place, loads: Sequence[Load], heads: Mapping[str, str], aside: Mapping[str, str], *, mark: Mark
) -> CatalogueChanges:
    """A version of each table that is there before the ledger names it."""
    moves, taken = list[PointerMove](), dict(heads)
    for load in loads:
        paths = staged_files(place.warehouse, load).paths
        move = _placed(place, load.table, taken, _Arriving(data={local(path): None for path in paths}), mark)
        taken[move.table] = move.new
        moves.append(move)
    return CatalogueChanges(moves, aside)


def changes_of_join(
    place: Place, joining: Joining, heads: Mapping[str, str], arriving: Mapping[str, str], *, mark: Mark
) -> CatalogueChanges:
    """NotCaughtUp: a table is not in its incremental snapshot yet."""
    moves, taken, known = list[PointerMove](), dict[str, str](), dict(heads)
    for table in joining.tables:
        if table.name not in arriving:
            raise NotCaughtUp(f"table {table.name} is not in its incremental snapshot", table=table.name)
        taken[table.name] = arriving[table.name]
        pointer = Pointer.parsed(arriving[table.name])
        state = DeltaLog(pointer.folder).at(pointer.version)
        found = _Arriving(
            data={file.path_in(pointer.folder): file for file in state.files.values()}, folder=pointer.folder
        )
        moves.append(_placed(place, table, known, found, mark))
        known[table.name] = moves[-1].new
    there = {name: kept for name, kept in joining.kept_as.items() if name in heads}
    return CatalogueChanges(moves, there, joining.incremental_namespace, taken)


@dataclass(frozen=True, slots=True)
class _Arriving:
    """Data files that become a table's rows; with what their table knew of them, where they were in one."""

    data: Mapping[Path, DataFile | None]
    folder: Path | None = None


def _placed(place: Place, table: Table, heads: Mapping[str, str], arriving: _Arriving, mark: Mark) -> PointerMove:
    """One version whose rows are these files alone."""
    old = heads.get(table.name, "")
    named = {Pointer.parsed(text).folder for text in heads.values()}
    folder = Pointer.parsed(old).folder if old else _free_folder(place, table, named, mark.stream)
    log = DeltaLog(folder)
    files = NewFiles(url_of(folder), str(mark))
    added = _linked(arriving, folder, files)
    files.synced()
    # Whoever publishes ends the epoch that the ledger has: streams of it find themselves over.
    signed = transaction(mark.stream, mark.epoch + 1, "CREATE OR REPLACE TABLE AS SELECT")
    for _ in range(_ATTEMPTS):
        before = log.newest() if log.versions() else TableState()
        actions = [*signed, *beginning(before, table, mark.stream), *map(removal, before.files.values()), *added]
        try:
            log.put(before.version + 1, actions)
        except VersionTaken:
            continue
        pointer = Pointer(folder, before.version + 1)
        return PointerMove(table.name, old, pointer.text, pointer.number)
    raise TransientError(f"somebody writes {table.name} all the time", hint="let that end", table=table.name)


def beginning(before: TableState, table: Table, stream: StreamId) -> list[Action]:
    """Protocol and schema of a new table; SchemaConflict where one that is there has other columns."""
    schema = delta_schema(table)
    if before.version >= 0:
        if found := misfit(before, table):
            raise found.conflict()
        return []
    features = ["deletionVectors", *(["timestampNtz"] if f'"{NTZ}"' in schema else [])]
    metadata = {
        "id": str(uuid4()),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": schema,
        "partitionColumns": [],
        "configuration": {**_CONFIGURATION, _STREAM: str(stream), _TABLE: table.name},
        "createdTime": now_ms(),
    }
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": features,
        "writerFeatures": [*features, "appendOnly", "invariants"],
    }
    return [{"protocol": protocol}, {"metaData": metadata}]


def differing(there: TableState, table: Table) -> list[str]:
    """As `live_columns.differing`."""
    return live_columns.differing(there.metadata["schemaString"], delta_schema(table))


def misfit(there: TableState, table: Table) -> Misfit | None:
    return live_columns.misfit(table, differing(there, table), listed_in="seamline.delta_table")


def misfit_at(table: Table, pointer: str) -> Misfit | None:
    """Of a table there, by its pointer."""
    at = Pointer.parsed(pointer)
    return misfit(DeltaLog(at.folder).at(at.version), table)


def _free_folder(place: Place, table: Table, named: set[Path], stream: StreamId) -> Path:
    """A new table's: one that no table has or had, but for an attempt of this stream to publish the very table.

    Refused: somebody else's table lies there.
    """
    generation = 1
    while (folder := folder_of(place.warehouse, place.namespace, table.name, generation)) in named or _is_other(
        folder, table, stream
    ):
        generation += 1
    DeltaLog(folder).make()
    return folder


def _is_other(folder: Path, table: Table, stream: StreamId) -> bool:
    """Whether a folder that no pointer leads to holds another table, or an earlier one of the stream's with other
    columns. An older table does not say which it is."""
    log = DeltaLog(folder)
    if not folder.exists() or (log.is_there and not log.versions()):
        return False
    metadata = log.newest().metadata if log.is_there else {}
    said = dict(metadata.get("configuration", {}))
    if said.get(_TABLE, table.name) != table.name:
        return True
    if said.get(_STREAM) != str(stream):
        raise Refused(
            f"folder {folder} is there, and {stream} did not make it",
            hint="move it away, or choose another namespace",
            sync=stream.sync,
            table=table.name,
        )
    return bool(json.loads(metadata["schemaString"]) != json.loads(delta_schema(table)))


def _linked(arriving: _Arriving, folder: Path, files: NewFiles) -> list[Action]:
    """Files under names of the table's own, and the deletion vectors that they had beside them."""
    added, vectors = list[Action](), set[Vector]()
    for path, known in arriving.data.items():
        name = local(files.data(".parquet"))
        _link(path, name)
        vector = known.vector if known else None
        added.append(addition(written_file(name, folder, vector)))
        if vector is not None and vector.storage == "u" and arriving.folder is not None:
            vectors.add(vector)
    for vector in vectors:
        place, target = vector.file_in(arriving.folder or folder), vector.file_in(folder)
        assert place is not None and target is not None, "it lies in a file"
        if not target.exists():
            target.parent.mkdir(exist_ok=True)
            _link(place, target)
    if vectors:
        sync(folder)
    return added


def _link(path: Path, name: Path) -> None:
    try:
        os.link(path, name)
    except OSError:
        # Another file system, or one without links.
        shutil.copyfile(path, name)
        sync(name)
