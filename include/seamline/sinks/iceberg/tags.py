"""Tags: a snapshot that has one is let go of by nobody, and every client finds it by the tag's name."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import RemoveSnapshotRefUpdate, SetSnapshotRefUpdate, TableUpdate, update_table_metadata

from seamline.domain.errors import Refused
from seamline.sinks.iceberg.io import LOCAL_IO, WarehouseIO
from seamline.sinks.iceberg.manifests import read_metadata, write_metadata
from seamline.sinks.iceberg.snapshot import obsolete, version_of
from seamline.sinks.lake.files import NewFiles, remove
from seamline.sinks.lake.stores import FilePath
from seamline.sinks.lake.tagging import TableTags, Tag, Tagged


@dataclass(frozen=True, slots=True)
class _Staged:
    """`lake.tagging.Tagged`: a metadata file with other tags, to which no pointer leads yet."""

    location: str
    snapshot_id: int
    unneeded: Sequence[FilePath]
    files: NewFiles

    def drop(self) -> None:
        self.files.drop()

    def drop_unneeded(self) -> None:
        for path in self.unneeded:
            remove(path)


@dataclass(frozen=True, slots=True)
class IcebergTags:
    """`lake.tagging.Tagging` over metadata files: a table's rows and its head stay what they are."""

    io: WarehouseIO = LOCAL_IO

    def heads(self, locations: dict[str, str]) -> dict[str, int]:
        return {table: _head(read_metadata(location, self.io), table) for table, location in locations.items()}

    def staged(self, table: str, location: str, tags: TableTags, *, mark: str) -> Tagged | None:
        before = read_metadata(location, self.io)
        updates = tag_updates(before, tags, table)
        if not updates:
            return None
        files = NewFiles(self.io.path_of(before.location), mark)
        after = update_table_metadata(before, tuple(updates), metadata_location=location)
        new = write_metadata(after, files.versioned(version_of(location) + 1))
        files.synced()
        return _Staged(new, _head(before, table), obsolete(before, after, self.io), files)


def tag_updates(metadata: TableMetadata, tags: TableTags, table: str) -> list[TableUpdate]:
    """Refused: a snapshot is gone."""
    return [*_dropped(metadata, tags.dropped), *(_set(metadata, tag, table) for tag in tags.put)]


def _set(metadata: TableMetadata, tag: Tag, table: str) -> TableUpdate:
    snapshot = metadata.snapshot_by_id(tag.snapshot_id)
    if snapshot is None:
        raise Refused(
            f"snapshot {tag.snapshot_id} of {table} is gone, tag {tag.name} cannot hold it",
            hint="somebody has let go of it in spite of its tag: trigger the date again",
            table=table,
        )
    return SetSnapshotRefUpdate(
        ref_name=tag.name,
        type="tag",
        snapshot_id=tag.snapshot_id,
        # Clients count a tag's age from the time of its snapshot.
        max_ref_age_ms=max(1, _milliseconds(tag.until) - snapshot.timestamp_ms),
        max_snapshot_age_ms=None,
        min_snapshots_to_keep=None,
    )


def _dropped(metadata: TableMetadata, names: Collection[str]) -> list[TableUpdate]:
    return [RemoveSnapshotRefUpdate(ref_name=name) for name in names if name in metadata.refs]


def _head(metadata: TableMetadata, table: str) -> int:
    if metadata.current_snapshot_id is None:
        raise Refused(f"table {table} has no snapshot", hint="somebody has changed it: onboard it again", table=table)
    return metadata.current_snapshot_id


def _milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
