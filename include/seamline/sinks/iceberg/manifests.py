"""Manifests, manifest lists and metadata of a table, read and written by pyiceberg.

pyiceberg 0.12 writes no manifest of deletes, and nothing of format 3, of which it reads too little to be written again:
that is added here. Files and entries have the fields of format 3 in every table.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from pyiceberg.avro.file import AvroFile, AvroOutputFile
from pyiceberg.manifest import (
    DATA_FILE_TYPE,
    MANIFEST_ENTRY_SCHEMAS,
    MANIFEST_LIST_FILE_SCHEMAS,
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestListWriter,
    ManifestListWriterV2,
    ManifestWriterV2,
    _inherit_from_manifest,
)
from pyiceberg.serializers import FromInputFile
from pyiceberg.table.metadata import TableMetadata, TableMetadataV1, TableMetadataV2, TableMetadataV3
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.typedef import IcebergBaseModel, Record, TableVersion

from seamline.domain.errors import Refused
from seamline.sinks.iceberg.io import LOCAL_IO, WarehouseIO
from seamline.sinks.lake.files import url_of
from seamline.sinks.lake.stores import FilePath

_WITH_ROW_IDS: Final = 3
_FIRST_ROW_ID = [field.name for field in DATA_FILE_TYPE[_WITH_ROW_IDS].fields].index("first_row_id")
_COMPRESSION: Final = "deflate"
# Reserved by Iceberg for the columns of position deletes.
DELETED_FILE_ID, DELETED_POSITION_ID = 2147483546, 2147483545


class _Writer(ManifestWriterV2):
    """Of either content and of format 3: pyiceberg's own writes data of format 2 alone."""

    def __init__(
        self, metadata: TableMetadata, path: FilePath, snapshot_id: int, content: ManifestContent, io: WarehouseIO
    ) -> None:
        output = io.new_output(url_of(path))
        super().__init__(metadata.spec(), metadata.schema(), output, snapshot_id, _COMPRESSION)
        self._content = content
        self._version = metadata.format_version

    @property
    def version(self) -> TableVersion:
        return self._version

    def content(self) -> ManifestContent:
        return self._content

    def new_writer(self) -> AvroOutputFile[ManifestEntry]:
        return AvroOutputFile[ManifestEntry](
            self._output_file,
            self._with_partition(self._version),
            "manifest_entry",
            record_schema=self._with_partition(_WITH_ROW_IDS),
            metadata=self._meta,
        )

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "data" if self._content is ManifestContent.DATA else "deletes"}


class _ListWriter(ManifestListWriterV2):
    """Of format 3 too, where a manifest of rows says the id of the first."""

    def __init__(self, path: FilePath, snapshot: Snapshot, io: WarehouseIO) -> None:
        assert snapshot.sequence_number is not None, "every snapshot here has one"
        output = io.new_output(url_of(path))
        super().__init__(
            output, snapshot.snapshot_id, snapshot.parent_snapshot_id, snapshot.sequence_number, _COMPRESSION
        )
        self._row_id = snapshot.first_row_id
        if self._row_id is not None:
            self._format_version = _WITH_ROW_IDS
            self._meta = {**self._meta, "format-version": str(_WITH_ROW_IDS), "first-row-id": str(self._row_id)}

    def __enter__(self) -> ManifestListWriter:
        schema = MANIFEST_LIST_FILE_SCHEMAS[self._format_version]
        self._writer = AvroOutputFile[ManifestFile](
            self._output_file, schema, "manifest_file", record_schema=schema, metadata=self._meta
        )
        self._writer.__enter__()
        return self

    def prepare_manifest(self, manifest_file: ManifestFile) -> ManifestFile:
        found = super().prepare_manifest(manifest_file)
        if self._row_id is None:
            return found
        first = self._row_id if found.content is ManifestContent.DATA else None
        self._row_id += rows_with_ids(found)
        return ManifestFile(*found._data, first)  # noqa: SLF001 (pyiceberg binds no field beyond format 2)


def rows_with_ids(manifest: ManifestFile) -> int:
    """How many row ids a manifest takes: those of its living rows."""
    if manifest.content is not ManifestContent.DATA:
        return 0
    return (manifest.added_rows_count or 0) + (manifest.existing_rows_count or 0)


@dataclass(frozen=True, slots=True)
class Head:
    """A table as one metadata file says it is. `manifests` are those of its current snapshot; `data` and `deletes` what
    lives of them. `io`: reaches its files."""

    location: str
    metadata: TableMetadataV2 | TableMetadataV3
    manifests: tuple[ManifestFile, ...]
    data: tuple[ManifestEntry, ...]
    deletes: tuple[ManifestEntry, ...]
    io: WarehouseIO = field(default=LOCAL_IO, compare=False, repr=False)

    @property
    def paths(self) -> frozenset[str]:
        """Of all files that live."""
        return frozenset(entry.data_file.file_path for entry in (*self.data, *self.deletes))

    @property
    def snapshot_id(self) -> int | None:
        return self.metadata.current_snapshot_id


def read_metadata(location: str, io: WarehouseIO = LOCAL_IO) -> TableMetadata:
    return FromInputFile.table_metadata(io.new_input(location))


def write_metadata(metadata: TableMetadata, path: FilePath) -> str:
    """Where it lies now."""
    path.write_text(metadata_json(metadata), encoding="utf-8")
    return url_of(path)


def metadata_json(metadata: TableMetadata) -> str:
    """Of any format: pyiceberg 0.12 reads format 3 whole, but refuses to write it."""
    return IcebergBaseModel.model_dump_json(metadata)


def read_head(location: str, io: WarehouseIO = LOCAL_IO) -> Head:
    """Refused: a table that somebody else has changed beyond what is continued here."""
    metadata = read_metadata(location, io)
    if isinstance(metadata, TableMetadataV1) or len(metadata.partition_specs) > 1:
        raise Refused(
            f"the table at {metadata.location} has format {metadata.format_version} and"
            f" {len(metadata.partition_specs)} ways of partitions",
            hint="somebody has altered it: onboard its sync again, after the table is renamed or dropped",
        )
    snapshot = metadata.current_snapshot()
    manifests = tuple(snapshot.manifests(io)) if snapshot is not None else ()
    data, deletes = (
        tuple(entry for one in manifests if one.content == content for entry in _living(one, io))
        for content in (ManifestContent.DATA, ManifestContent.DELETES)
    )
    if any(entry.data_file.content == DataFileContent.EQUALITY_DELETES for entry in deletes):
        raise Refused(
            f"the table at {metadata.location} has equality deletes, which somebody else has written",
            hint="onboard its sync again",
        )
    return Head(location, metadata, manifests, data, deletes, io)


def _living(manifest: ManifestFile, io: WarehouseIO) -> Iterator[ManifestEntry]:
    """As `ManifestFile.fetch_manifest_entry`, with what format 3 has more."""
    with AvroFile[ManifestEntry](
        io.new_input(manifest.manifest_path),
        MANIFEST_ENTRY_SCHEMAS[_WITH_ROW_IDS],
        read_types={-1: ManifestEntry, 2: DataFile},
        read_enums={0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent},
    ) as entries:
        for entry in entries:
            if entry.status != ManifestEntryStatus.DELETED:
                yield _inherit_from_manifest(entry, manifest)


def as_new(file: DataFile) -> DataFile:
    """As another table lists it, which gives its rows ids of their own."""
    found = DataFile(*(file[number] for number in range(len(file))))
    found[_FIRST_ROW_ID] = None
    return found


def data_file(
    path: str, *, rows: int, size: int, content: DataFileContent, bounds: "Bounds", partition: Record
) -> DataFile:
    """A Parquet file as a manifest lists it."""
    lower, upper = bounds
    return DataFile.from_args(
        _WITH_ROW_IDS,
        content=content,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=partition,
        record_count=rows,
        file_size_in_bytes=size,
        lower_bounds=lower,
        upper_bounds=upper,
    )


Bounds = tuple[dict[int, bytes], dict[int, bytes]]


def write_manifest(
    head: Head,
    path: FilePath,
    snapshot_id: int,
    content: ManifestContent,
    *,
    added: Sequence[DataFile] = (),
    removed: Iterable[ManifestEntry] = (),
    kept: Iterable[ManifestEntry] = (),
) -> ManifestFile:
    """One manifest with what a snapshot of a table adds, takes away, or goes on with."""
    with _Writer(head.metadata, path, snapshot_id, content, head.io) as writer:
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


def write_list(path: FilePath, snapshot: Snapshot, manifests: Sequence[ManifestFile], io: WarehouseIO) -> None:
    """The manifest list of a snapshot. One that has a first row id gives each manifest of rows its own, in order."""
    with _ListWriter(path, snapshot, io) as writer:
        writer.add_manifests(list(manifests))
