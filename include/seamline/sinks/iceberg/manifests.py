"""Manifests, manifest lists and metadata of a table of format 2, read and written by pyiceberg.

pyiceberg 0.12 writes no manifest of deletes; that is all that is added here.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriterV2,
    write_manifest_list,
)
from pyiceberg.serializers import FromInputFile
from pyiceberg.table.metadata import TableMetadata, TableMetadataV2
from pyiceberg.typedef import IcebergBaseModel, Record

from seamline.domain.errors import Refused
from seamline.sinks.lake.files import url_of

FILE_IO = PyArrowFileIO()
FORMAT: Final = 2
_COMPRESSION: Final = "deflate"
# Reserved by Iceberg for the columns of position deletes.
DELETED_FILE_ID, DELETED_POSITION_ID = 2147483546, 2147483545


class _Writer(ManifestWriterV2):
    """Of either content: pyiceberg's own writes data alone."""

    def __init__(self, metadata: TableMetadata, path: Path, snapshot_id: int, content: ManifestContent) -> None:
        output = FILE_IO.new_output(url_of(path))
        super().__init__(metadata.spec(), metadata.schema(), output, snapshot_id, _COMPRESSION)
        self._content = content

    def content(self) -> ManifestContent:
        return self._content

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "data" if self._content is ManifestContent.DATA else "deletes"}


@dataclass(frozen=True, slots=True)
class Head:
    """A table as one metadata file says it is. `manifests` are those of its current snapshot; `data` and `deletes` what
    lives of them."""

    location: str
    metadata: TableMetadataV2
    manifests: tuple[ManifestFile, ...]
    data: tuple[ManifestEntry, ...]
    deletes: tuple[ManifestEntry, ...]

    @property
    def paths(self) -> frozenset[str]:
        """Of all files that live."""
        return frozenset(entry.data_file.file_path for entry in (*self.data, *self.deletes))

    @property
    def snapshot_id(self) -> int | None:
        return self.metadata.current_snapshot_id


def read_metadata(location: str) -> TableMetadata:
    return FromInputFile.table_metadata(FILE_IO.new_input(location))


def write_metadata(metadata: TableMetadata, path: Path) -> str:
    """Where it lies now."""
    path.write_text(metadata_json(metadata), encoding="utf-8")
    return url_of(path)


def metadata_json(metadata: TableMetadata) -> str:
    """Of any format: pyiceberg 0.12 reads format 3 whole, but refuses to write it."""
    return IcebergBaseModel.model_dump_json(metadata)


def read_head(location: str) -> Head:
    """Refused: a table that this writer cannot continue (another format, partitions)."""
    metadata = read_metadata(location)
    if not isinstance(metadata, TableMetadataV2) or metadata.spec().fields:
        raise Refused(
            f"the table at {metadata.location} has format {metadata.format_version} and the partitions"
            f" {[field.name for field in metadata.spec().fields]}",
            hint=f"`write: native` continues tables of format {FORMAT} without partitions: undo that, or onboard again",
        )
    snapshot = metadata.current_snapshot()
    manifests = tuple(snapshot.manifests(FILE_IO)) if snapshot is not None else ()
    data, deletes = (
        tuple(entry for one in manifests if one.content == content for entry in one.fetch_manifest_entry(FILE_IO))
        for content in (ManifestContent.DATA, ManifestContent.DELETES)
    )
    if any(entry.data_file.content == DataFileContent.EQUALITY_DELETES for entry in deletes):
        raise Refused(
            f"the table at {metadata.location} has equality deletes, which somebody else has written",
            hint="onboard its sync again",
        )
    return Head(location, metadata, manifests, data, deletes)


def data_file(path: str, *, rows: int, size: int, content: DataFileContent, bounds: "Bounds") -> DataFile:
    """A Parquet file as a manifest lists it."""
    lower, upper = bounds
    return DataFile.from_args(
        content=content,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=rows,
        file_size_in_bytes=size,
        lower_bounds=lower,
        upper_bounds=upper,
    )


Bounds = tuple[dict[int, bytes], dict[int, bytes]]


def write_manifest(
    metadata: TableMetadata,
    path: Path,
    snapshot_id: int,
    content: ManifestContent,
    *,
    added: Sequence[DataFile] = (),
    removed: Iterable[ManifestEntry] = (),
    kept: Iterable[ManifestEntry] = (),
) -> ManifestFile:
    """One manifest with what a snapshot adds, takes away, or goes on with."""
    with _Writer(metadata, path, snapshot_id, content) as writer:
        for file in added:
            entry = ManifestEntry.from_args(
                status=ManifestEntryStatus.ADDED, snapshot_id=snapshot_id, sequence_number=None, data_file=file
            )
            writer.add_entry(entry)
        for entry in removed:
            writer.delete(entry)
        for entry in kept:
            writer.existing(entry)
    return writer.to_manifest_file()


def write_list(
    path: Path, snapshot_id: int, parent: int | None, sequence_number: int, manifests: Sequence[ManifestFile]
) -> str:
    """The manifest list of a snapshot; where it lies now."""
    output = FILE_IO.new_output(url_of(path))
    with write_manifest_list(FORMAT, output, snapshot_id, parent, sequence_number, _COMPRESSION) as writer:
        writer.add_manifests(list(manifests))
    return url_of(path)
