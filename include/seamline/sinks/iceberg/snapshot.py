"""A new snapshot of a table, staged: files that nobody sees until the catalogue's pointer moves."""

import secrets
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from pyiceberg.manifest import DataFile, ManifestContent, ManifestEntry, ManifestEntryStatus, ManifestFile
from pyiceberg.table.metadata import TableMetadata, TableMetadataV1, TableMetadataV3, new_table_metadata
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    RemoveSnapshotsUpdate,
    SetSnapshotRefUpdate,
    TableUpdate,
    update_table_metadata,
)

from seamline.domain.catalogue import Table
from seamline.sinks.iceberg.io import LOCAL_IO, WarehouseIO
from seamline.sinks.iceberg.layout import TableLayout
from seamline.sinks.iceberg.manifests import Head, rows_with_ids, write_list, write_manifest, write_metadata
from seamline.sinks.iceberg.options import FORMAT
from seamline.sinks.iceberg.partitions import order_of, spec_of
from seamline.sinks.iceberg.types import iceberg_schema
from seamline.sinks.lake.files import NewFiles, url_of
from seamline.sinks.lake.stores import FilePath

_PROPERTIES = {
    # Engines that change rows beside us, as a compaction, keep to position deletes too.
    "write.delete.mode": "merge-on-read",
    "write.update.mode": "merge-on-read",
    "write.merge.mode": "merge-on-read",
}
# Else Spark names folders by the values of partitions, and a long text is no name of a folder.
_OF_PARTITIONS = {"write.object-storage.enabled": "true", "write.object-storage.partitioned-paths": "false"}
# A metadata file names each snapshot that is kept, and each commit writes a new file. So many are kept, beside those
# that a tag or branch holds; they are let go of by the hundred.
SNAPSHOTS_KEPT, _LET_GO_AT_ONCE = 500, 100
# A snapshot's list names each manifest, and who opens the table reads them all. Beyond so many they are joined.
MANIFESTS_MAX = 200


@dataclass(frozen=True, slots=True)
class FileChanges:
    """What a snapshot does. `gone`: the paths of files that were there before it and are not there any more."""

    added: Sequence[DataFile] = ()
    deletes: Sequence[DataFile] = ()
    gone: Collection[str] = frozenset()


def new_head(
    table: Table,
    location: FilePath,
    *,
    layout: TableLayout | None = None,
    format_version: int = FORMAT,
    io: WarehouseIO = LOCAL_IO,
) -> Head:
    """A table that does not exist yet; its first snapshot is staged on top."""
    schema, laid_out = iceberg_schema(table), layout or TableLayout()
    properties = {**_PROPERTIES, **(_OF_PARTITIONS if laid_out.partitioned_by else {})}
    properties["format-version"] = str(format_version)
    metadata = new_table_metadata(
        schema, spec_of(laid_out, schema), order_of(laid_out, schema), url_of(location), properties
    )
    assert not isinstance(metadata, TableMetadataV1), "the properties say the format"
    if isinstance(metadata, TableMetadataV3):
        metadata = metadata.model_copy(update={"next_row_id": 0})
    return Head("", metadata, (), (), (), io)


def staged_head(head: Head, changes: FileChanges, files: NewFiles) -> Head:
    """The table with one snapshot more, as its new metadata file says it. Once the files are synced, the pointer may
    move there."""
    base = head.metadata
    number, sequence = secrets.randbits(62), base.last_sequence_number + 1
    manifests = _manifests(head, changes, files, number)
    listed = files.metadata(".avro")
    row_id = base.next_row_id if isinstance(base, TableMetadataV3) else None
    snapshot = Snapshot(
        snapshot_id=number,
        parent_snapshot_id=base.current_snapshot_id,
        sequence_number=sequence,
        timestamp_ms=max(int(time.time() * 1000), base.last_updated_ms),
        manifest_list=url_of(listed),
        summary=_summary(head, changes),
        schema_id=base.current_schema_id,
        first_row_id=row_id,
        added_rows=sum(map(rows_with_ids, manifests)) if row_id is not None else None,
    )
    write_list(listed, snapshot, manifests, head.io)
    updates = (AddSnapshotUpdate(snapshot=snapshot), as_main(number), *let_go(base))
    metadata = update_table_metadata(base, updates, metadata_location=head.location or None)
    location = write_metadata(metadata, files.versioned(version_of(head.location) + 1 if head.location else 0))
    data, deletes = (
        (*_divided(before, changes.gone)[0], *(_entry(file, number, sequence) for file in added))
        for before, added in ((head.data, changes.added), (head.deletes, changes.deletes))
    )
    assert not isinstance(metadata, TableMetadataV1), "no update makes a format older"
    return Head(location, metadata, tuple(manifests), data, deletes, head.io)


def _manifests(head: Head, changes: FileChanges, files: NewFiles, snapshot_id: int) -> list[ManifestFile]:
    """Those of the new snapshot. Of what an earlier one has emptied nothing is named any more."""
    manifests = [one for one in head.manifests if one.has_added_files() or one.has_existing_files()]
    is_rewritten = bool(changes.gone) or len(manifests) > MANIFESTS_MAX
    if is_rewritten:
        manifests = []
    for content, added, before in (
        (ManifestContent.DATA, changes.added, head.data),
        (ManifestContent.DELETES, changes.deletes, head.deletes),
    ):
        kept, gone = _divided(before, changes.gone)
        parts = ({"added": added}, {"removed": gone}, {"kept": kept if is_rewritten else []})
        for part in parts:
            if any(part.values()):
                path = files.metadata(".avro")
                manifests.append(write_manifest(head, path, snapshot_id, content, **part))
    return manifests


def obsolete(before: TableMetadata, after: TableMetadata, io: WarehouseIO = LOCAL_IO) -> list[FilePath]:
    """Files of the table that the commit of `after` leaves without anybody who names them: metadata files beyond the
    log's length, manifest lists of snapshots that were let go of."""
    named = [
        {
            *(entry.metadata_file for entry in metadata.metadata_log),
            *(snapshot.manifest_list for snapshot in metadata.snapshots),
        }
        for metadata in (before, after)
    ]
    folder = io.path_of(after.location) / "metadata"
    return [path for path in map(io.path_of, named[0] - named[1]) if path.parent == folder]


def own_snapshot(metadata: TableMetadata, known: int | None) -> str:
    """ "" where the table stands at the known snapshot, or behind it with the same rows (compactions alone). Else what
    somebody else has done, in words."""
    if known is None:
        return ""
    number = metadata.current_snapshot_id
    while number is not None and number != known:
        snapshot = metadata.snapshot_by_id(number)
        if snapshot is None:
            break
        operation = snapshot.summary.operation if snapshot.summary else None
        if operation is not Operation.REPLACE:
            said = operation.value if operation else "change"
            return f"{said} of snapshot {snapshot.snapshot_id}"
        # A client that compacts may let go of the known one too; its name stands here for as long as this one is kept.
        number = snapshot.parent_snapshot_id
    return "" if number == known else f"snapshot {known} is gone"


def as_main(snapshot_id: int) -> TableUpdate:
    """The table stands at this snapshot from now on."""
    return SetSnapshotRefUpdate(
        ref_name=MAIN_BRANCH,
        type="branch",
        snapshot_id=snapshot_id,
        max_ref_age_ms=None,
        max_snapshot_age_ms=None,
        min_snapshots_to_keep=None,
    )


def let_go(metadata: TableMetadata) -> Iterator[TableUpdate]:
    """Of snapshots beyond those that are kept, where one more comes."""
    held = {ref.snapshot_id for ref in metadata.refs.values()}
    others = [one.snapshot_id for one in metadata.snapshots if one.snapshot_id not in held]
    kept = SNAPSHOTS_KEPT - 1  # beside the head
    if len(others) >= kept + _LET_GO_AT_ONCE:
        yield RemoveSnapshotsUpdate(snapshot_ids=others[:-kept])


def _divided(
    entries: Iterable[ManifestEntry], gone: Collection[str]
) -> tuple[list[ManifestEntry], list[ManifestEntry]]:
    """Those that stay, and those that go."""
    parts: tuple[list[ManifestEntry], list[ManifestEntry]] = ([], [])
    for entry in entries:
        parts[entry.data_file.file_path in gone].append(entry)
    return parts


def _entry(file: DataFile, snapshot_id: int, sequence: int) -> ManifestEntry:
    return ManifestEntry.from_args(
        status=ManifestEntryStatus.ADDED,
        snapshot_id=snapshot_id,
        sequence_number=sequence,
        file_sequence_number=sequence,
        data_file=file,
    )


def version_of(location: str) -> int:
    """By the name of its metadata file, as every client counts."""
    number = location.rpartition("/")[2].partition("-")[0].removeprefix("v")
    return int(number) if number.isdecimal() else 0


def _summary(head: Head, changes: FileChanges) -> Summary:
    """Its totals are what engines plan by."""
    (kept_data, gone_data), (kept_deletes, gone_deletes) = (
        _divided(before, changes.gone) for before in (head.data, head.deletes)
    )
    now_data, now_deletes = (
        [*(entry.data_file for entry in kept), *added]
        for kept, added in ((kept_data, changes.added), (kept_deletes, changes.deletes))
    )
    numbers = {
        "added-data-files": len(changes.added),
        "added-records": _rows(changes.added),
        "added-delete-files": len(changes.deletes),
        "added-position-deletes": _rows(changes.deletes),
        "deleted-data-files": len(gone_data),
        "deleted-records": _rows([entry.data_file for entry in gone_data]),
        "removed-delete-files": len(gone_deletes),
    }
    totals = {
        "total-data-files": len(now_data),
        "total-records": _rows(now_data),
        "total-delete-files": len(now_deletes),
        "total-position-deletes": _rows(now_deletes),
        "total-equality-deletes": 0,
    }
    if gone_data or gone_deletes or (changes.deletes and changes.added):
        operation = Operation.OVERWRITE
    else:
        operation = Operation.DELETE if changes.deletes else Operation.APPEND
    written = {name: str(number) for name, number in numbers.items() if number}
    written |= {name: str(number) for name, number in totals.items()}
    return Summary(operation, **written, **{"engine-name": "seamline"})


def _rows(files: Sequence[DataFile]) -> int:
    return sum(file.record_count for file in files)
