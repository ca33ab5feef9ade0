"""Metadata files of an Iceberg table as other clients leave them, to which nothing leads yet."""

import pytest
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update import TableUpdate, update_table_metadata

from seamline.sinks.iceberg import snapshot
from seamline.sinks.iceberg.manifests import read_head, read_metadata, write_metadata
from seamline.sinks.iceberg.snapshot import FileChanges, staged_head
from seamline.sinks.lake.files import NewFiles


def appended(pointer: str, operation: Operation | None = None) -> str:
    """The metadata file of the same table with one snapshot more; of a compaction where `operation` says so."""
    head = read_head(pointer)
    with pytest.MonkeyPatch.context() as patch:
        if operation is not None:
            patch.setattr(snapshot, "_summary", lambda *_: Summary(operation, **{"engine-name": "other"}))
        return staged_head(head, FileChanges(), NewFiles(head.metadata.location, "any")).location


def compacted(pointer: str) -> str:
    return appended(pointer, Operation.REPLACE)


def altered(pointer: str, *updates: TableUpdate) -> str:
    """As a client that changes no rows leaves the table."""
    before: TableMetadata = read_metadata(pointer)
    after = update_table_metadata(before, updates, metadata_location=pointer)
    files = NewFiles(before.location, "theirs")
    return write_metadata(after, files.versioned(snapshot.version_of(pointer) + 1))
