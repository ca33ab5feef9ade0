"""The declaration of a destination of files."""

import json
from collections.abc import Iterator, Mapping, Sequence
from posixpath import normpath
from typing import Annotated, Any, ClassVar, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, field_validator, model_validator

from seamline.domain.catalogue import Kind, Table
from seamline.files.declared import CsvRows
from seamline.files.dialect import PARQUET
from seamline.sinks.files.two_phase import NOTES
from seamline.spec.destination import Destination, Misfit
from seamline.spec.fields import ConnectionId, Declared, SqlName
from seamline.spec.file_places import OF_SERVERS, Place, checked_place, location_faults

CHANGES, CHANGE_FILES = "changes", "change_files"
_ADDED = frozenset({Kind.INTEGER, Kind.UNSIGNED, Kind.DECIMAL})


def _staging(value: str) -> str:
    if urlsplit(value).scheme not in ("", "s3"):
        raise ValueError("rows are staged in a folder that every machine of the sync has, or on S3")
    return checked_place(value)


def _file_name(value: str) -> str:
    if not value or value.startswith((".", " ")) or "/" in value or not value.isprintable():
        raise ValueError("this is the name of a file: no `/`, no dot or blank in front")
    if value.lower() in NOTES:
        raise ValueError(f"{' and '.join(NOTES)} are names of our own beside the files of a delivery: take another one")
    return value


FileName = Annotated[str, AfterValidator(_file_name)]


class CsvDialect(CsvRows):
    """How a CSV file is written."""

    line_end: Literal["lf", "crlf"] = Field("lf", description="What ends a line.")
    header: bool = Field(
        default=False, description="Whether the first line is a record: `H`, sync, table, business date, version."
    )
    trailer: bool = Field(
        default=False,
        description="Whether the last line is a record: `T`, number of rows, and each control total of the table.",
    )


class FileTotal(Declared):
    """A sum that the partner can hold his file against."""

    _COUNT: ClassVar[str] = "rows"

    table: SqlName = Field(description="Name of the table in its sync.")
    sum: SqlName = Field(description="Column that is added up.")
    by: tuple[SqlName, ...] = Field(
        (), description="Columns whose values have a sum each, as a currency. In the control file only.", strict=False
    )

    @model_validator(mode="after")
    def _one_name_for_each(self) -> Self:
        """In the control file a group has its values, its count and its sum by their names."""
        names = [self._COUNT, self.sum, *self.by]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(
                f"the control file would have two things under the name {', '.join(twice)}; `rows` is how many rows a"
                " group has: let the source give that column another name, or leave the total out"
            )
        return self


class ChangeFiles(Declared):
    """How change files are kept."""

    commit_every_ms: int = Field(
        10_000,
        ge=100,
        description="The least time between two commits of a stream, each of which makes a file per table.",
    )
    compact_below_mb: int = Field(
        64, ge=1, le=4096, description="Maintenance merges files that are smaller, up to this size."
    )
    compact_from_files: int = Field(
        8, ge=2, le=10_000, description="So many small files that follow each other are merged; fewer stay."
    )
    keep_days: int | None = Field(
        None,
        ge=1,
        description="Changes are kept for so many days; older ones become the rows as they stood. Left out: every"
        " change is kept.",
    )
    before_image: bool = Field(
        default=False,
        description="Whether a change holds the row as it was before, as JSON in `_before`. The stream's process then"
        " reads each table once, and keeps its rows in a temporary file. A table begins with it when it is loaded.",
    )


class FilesDestination(Destination):
    """Files for partners, a folder per business date and version; or files of changes that a stream writes."""

    namespace_key: ClassVar[str] = "location"

    kind: Literal["files"] = Field(description="What kind of system the destination is.")
    mode: Literal["cuts", "changes"] = Field(
        "cuts",
        description="`cuts`: deliveries by business date, made by nights. `changes`: files of what a stream brings, per"
        " table; commands call this kind `change_files`.",
    )
    connection: ConnectionId = Field(
        "", description="Connection id of what leads to the place: type aws, sftp, ftp or webhdfs. A folder has none."
    )
    location: Place = Field(
        description="Where the files are delivered: a folder as an absolute path, `s3://bucket/folder`,"
        " `sftp:///folder`, `ftp:///folder` or `hdfs:///folder`. It must be there."
    )
    staging: Annotated[str, AfterValidator(_staging)] = Field(
        "",
        description="Folder, or place on S3, where rows wait until they are compared; every machine of the sync has it."
        " Left out: `.seamline/_staging` in `location`, where that is a folder or on S3.",
    )
    staging_connection: ConnectionId | None = Field(
        None, description="Connection id of what leads to a `staging` on S3; left out: `connection`, if that is on S3."
    )
    format: Literal["csv", "parquet"] = Field("csv", description="Of the files with rows.")
    csv: CsvDialect = Field(default_factory=CsvDialect, description="How rows stand in CSV files.")
    control_totals: tuple[FileTotal, ...] = Field(
        (), description="Sums that control file and trailers hold.", strict=False
    )
    control_file: FileName = Field("control.json", description="Name of the control file of each delivery.")
    flag_file: FileName = Field(
        "_SUCCESS", description="Name of the empty file that comes last: whoever sees it sees all others whole."
    )

    changes: ChangeFiles = Field(
        default_factory=ChangeFiles, description="How change files are kept; with `mode: changes` alone."
    )

    @field_validator("writer_connection")
    @classmethod
    def _no_writer(cls, value: str | None) -> str | None:
        if value is not None:
            raise ValueError("one login writes here: leave `writer_connection` out")
        return value

    @model_validator(mode="after")
    def _goes_together(self) -> Self:
        for fault in self._faults():
            raise ValueError(fault)
        return self

    def _faults(self) -> Iterator[str]:
        yield from location_faults(self.location, self.connection)
        if urlsplit(self.location).scheme in OF_SERVERS and not self.staging:
            yield "rows cannot wait on a partner's server: name a folder as `staging`"
        if self.format == PARQUET and (self.csv.header or self.csv.trailer):
            yield "a Parquet file has no header and no trailer: leave them out, or write `format: csv`"
        if self.flag_file == self.control_file:
            yield "`flag_file` and `control_file` are one name"
        yield from self._faults_of_mode()

    def _faults_of_mode(self) -> Iterator[str]:
        if "changes" in self.model_fields_set and self.mode != CHANGES:
            yield "`changes` is of change files: write `mode: changes`, or leave it out"
        deliveries = {"control_totals", "control_file", "flag_file"} & self.model_fields_set
        if deliveries and self.mode == CHANGES:
            yield f"change files are no deliveries: leave {', '.join(f'`{key}`' for key in sorted(deliveries))} out"
        if self.mode == CHANGES and (self.csv.header or self.csv.trailer):
            yield "a change file has no header and no trailer record: leave them out"

    @property
    def namespace(self) -> str:
        return self.location

    @property
    def places(self) -> Mapping[str, str]:
        of_staging = self.staging_connection or self.connection
        staged = {self.staging: of_staging} if urlsplit(self.staging).scheme and of_staging else {}
        return {**staged, **({self.location: self.connection} if self.connection else {})}

    @classmethod
    def kind_of(cls, said: Mapping[str, Any]) -> str:
        return CHANGE_FILES if said.get("mode") == CHANGES else ""

    @property
    def options(self) -> Mapping[str, str]:
        return {
            "staging": self.staging or f"{self.location}/.seamline/_staging",
            "staging_connection": self.staging_connection or (self.connection if not self.staging else ""),
            "format": self.format,
            "csv": self.csv.model_dump_json(),
            "control_totals": json.dumps([one.model_dump(mode="json") for one in self.control_totals]),
            "control_file": self.control_file,
            "flag_file": self.flag_file,
        }

    @classmethod
    def folder(cls, said: Mapping[str, Any]) -> str:
        location, connection = said.get("location"), said.get("connection")
        if not isinstance(location, str):
            return ""
        parts = urlsplit(location)
        # One folder, however it is written.
        place = f"{parts.scheme}://{parts.netloc}" if parts.scheme else ""
        place += normpath(f"/{parts.path.lstrip('/')}")
        return f"{place} of connection {connection}" if connection else place

    def misfits(self, tables: Mapping[str, Table]) -> Iterator[Misfit]:
        for number, total in enumerate(self.control_totals):
            table = tables.get(total.table)
            if table is not None:
                yield from _of_total(("control_totals", number), total, table)


class ChangeFilesDestination(FilesDestination):
    """Files of what a stream brings: the same keys under the kind that they make of it."""

    kind: Literal["change_files"] = Field(description="What kind of system the destination is: files of changes.")  # type: ignore[assignment]
    mode: Literal["changes"] = Field("changes", description="What the files hold.")

    @property
    def options(self) -> Mapping[str, str]:
        return {
            **super().options,
            "location": self.location,
            "compact_below_mb": str(self.changes.compact_below_mb),
            "compact_from_files": str(self.changes.compact_from_files),
            "keep_days": str(self.changes.keep_days or ""),
            "before_image": str(self.changes.before_image).lower(),
        }

    @property
    def commit_interval_ms(self) -> int:
        return self.changes.commit_every_ms


def _of_total(place: tuple[str | int, ...], total: FileTotal, table: Table) -> Iterator[Misfit]:
    known = {column.name: column for column in table.columns}
    for key, names in (("sum", [total.sum]), ("by", total.by)):
        yield from _unknown((*place, key), names, known, table.name)
    column = known.get(total.sum)
    if column is not None and column.kind not in _ADDED:
        yield (*place, "sum"), f"{table.name}.{total.sum} is {column.source_type}", "Name a column of exact numbers"


def _unknown(
    place: tuple[str | int, ...], names: Sequence[str], known: Mapping[str, object], table: str
) -> Iterator[Misfit]:
    for name in names:
        if name not in known:
            yield place, f"table {table} has no column {name}", f"It has {', '.join(known)}"
