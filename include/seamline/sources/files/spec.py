"""The declaration of a source of files."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from seamline.domain.column_types import column_of
from seamline.files.declared import CsvRows
from seamline.files.dialect import CSV, PARQUET
from seamline.sources.files import patterns, records
from seamline.sources.files.layout import LAYOUT
from seamline.spec.fields import ConnectionId, Declared, SqlName
from seamline.spec.file_places import Place, location_faults
from seamline.spec.source import DeclaredSource

_FIELDS = (patterns.DATE, patterns.TABLE, patterns.VERSION)


def _file(value: str) -> str:
    if fault := patterns.fault_of(value, fields=_FIELDS):
        raise ValueError(fault)
    return value


def _delivery(value: str) -> str:
    if fault := patterns.fault_of(value, fields=(patterns.DATE, patterns.VERSION)):
        raise ValueError(fault)
    *folders, last = value.rstrip("/").split("/")
    if any(patterns.has(one, patterns.VERSION) for one in folders) or last.count(f"{{{patterns.VERSION}}}") > 1:
        raise ValueError("{version} stands once, in the name of the last folder")
    return value.rstrip("/")


def _type(value: str) -> str:
    column_of("", value)
    return value


def _record(fields: tuple[str, ...]) -> tuple[str, ...]:
    for one in fields:
        if fault := records.fault_of(one):
            raise ValueError(fault)
    return fields


FilePattern = Annotated[str, AfterValidator(_file)]
Record = Annotated[tuple[str, ...], AfterValidator(_record)]
_RECORD = (
    " Each field is a text, `*` for anything, `{table}`, `{date}` or `{date:%Y%m%d}`, `{rows}` for their number, or"
    " `{sum:column}`."
)


class ReadCsv(CsvRows):
    """How a CSV file is read. Its lines end with LF or CR LF."""

    quotes: bool = Field(
        default=True,
        description="Whether texts may stand in quotes. With false a quote is a letter like any other, and no text"
        " holds a delimiter or the end of a line.",
    )
    header: Record = Field((), description=f"The fields of a first line that is a record.{_RECORD}", strict=False)
    trailer: Record = Field((), description=f"The fields of a last line that is a record.{_RECORD}", strict=False)

    def faults(self) -> Iterator[str]:
        yield from super().faults()
        for key, fields in (("header", self.header), ("trailer", self.trailer)):
            yield from self.lost(key, "".join(fields))


class FileColumn(Declared):
    """A column of a table, in the order of the file."""

    name: SqlName = Field(description="Name of the column.")
    type: Annotated[str, AfterValidator(_type)] = Field(
        description="smallint, integer, bigint, unsigned, decimal(18,2), float, double, boolean, char(3), varchar(40),"
        " text, bytes, date, datetime, instant, time or uuid."
    )
    nullable: bool = Field(default=True, description="Whether it may hold NULL. A column of the key never may.")
    form: str = Field(
        "", description="How a date or a datetime is written in CSV, as `%Y%m%d`; left out: as 2026-11-27 12:00:00."
    )

    @model_validator(mode="after")
    def _only_dates_have_forms(self) -> Self:
        if self.form and column_of(self.name, self.type).kind.value not in ("date", "datetime", "instant"):
            raise ValueError(f"a {self.type} has no `form`: only dates and datetimes have one")
        return self


class FileTable(Declared):
    """A table, and the file that holds its rows."""

    table: SqlName = Field(description="Name of the table; a sync names it so.")
    file: FilePattern = Field(
        "",
        description="Name of its file below the folder of the delivery, with {date}, {table}, {version}. Left out: as"
        " the control file names it, or `{table}.csv` or `.parquet` where there is none.",
    )
    columns: tuple[FileColumn, ...] = Field(
        (), description="Its columns. Left out: as the control file describes them.", strict=False
    )
    key: tuple[SqlName, ...] = Field(
        (), description="Columns that together are unique; without them rows are kept as a multiset.", strict=False
    )
    header: Record | None = Field(None, description="As `csv.header`, for this table.", strict=False)
    trailer: Record | None = Field(None, description="As `csv.trailer`, for this table.", strict=False)

    @model_validator(mode="after")
    def _names_are_known(self) -> Self:
        names = [column.name for column in self.columns]
        if len(names) != len(set(names)):
            raise ValueError("a column stands twice")
        if missing := [name for name in self.key if self.columns and name not in names]:
            raise ValueError(f"`key` names columns that are not there: {', '.join(missing)}")
        if self.key and not self.columns:
            raise ValueError("declare `columns` with `key`, or neither")
        return self


class FilesSource(DeclaredSource):
    """Files that somebody delivers, one set for each business date. They have no log."""

    connection_type: ClassVar[str] = ""

    kind: Literal["files"] = Field(description="What kind of system the source is.")
    connection: ConnectionId = Field(
        "", description="Connection id of what leads to the place: type aws, sftp, ftp or webhdfs. A folder has none."
    )
    location: Place = Field(
        description="Where the files are delivered: a folder as an absolute path, `s3://bucket/folder`,"
        " `sftp:///folder`, `ftp:///folder` or `hdfs:///folder`."
    )
    delivery: Annotated[str, AfterValidator(_delivery)] = Field(
        "",
        description="Folder of the delivery of a date, below `location`, with {date} or {date:%Y%m%d}, and {version} in"
        " the name of the last folder where a correction comes in a folder of its own. Left out: `location` itself.",
    )
    flag_file: FilePattern = Field(
        "_SUCCESS",
        description="Name of the file that comes last; with {table} there is one for each table.",
        min_length=1,
    )
    control_file: FilePattern = Field(
        "control.json", description='Name of the control file. "": there is none, and trailers are all there is.'
    )
    format: Literal["csv", "parquet"] = Field("csv", description="Of the files with rows.")
    csv: ReadCsv = Field(default_factory=ReadCsv, description="How rows stand in CSV files.")
    tables: tuple[FileTable, ...] = Field(
        (), description="The tables. Those that are left out are as the control file describes them.", strict=False
    )

    @model_validator(mode="after")
    def _goes_together(self) -> Self:
        for fault in self._faults():
            raise ValueError(fault)
        return self

    def _faults(self) -> Iterator[str]:
        yield from location_faults(self.location, self.connection)
        if self.format == PARQUET and (self.csv.header or self.csv.trailer):
            yield "a Parquet file has no header and no trailer: leave them out, or write `format: csv`"
        if not any(patterns.has(one, patterns.DATE) for one in (self.delivery, self.flag_file)):
            yield "neither `delivery` nor `flag_file` has a {date}: nothing says which date is delivered"
        yield from self._named_twice()
        for table in self.tables:
            yield from self._of_table(table)

    def _named_twice(self) -> Iterator[str]:
        names = [table.table for table in self.tables]
        # A name without {table} is of one table.
        files = [table.file.replace("{table}", table.table) for table in self.tables if table.file]
        for what, some in (("table", names), ("file", files)):
            if twice := sorted({one for one in some if some.count(one) > 1}):
                yield f"{what} {', '.join(twice)} is declared twice: its rows would come twice, or from one file alone"

    def _of_table(self, table: FileTable) -> Iterator[str]:
        names = "".join(column.name for column in table.columns) if self.csv.column_names else ""
        for key, text in (("header", table.header or ()), ("trailer", table.trailer or ()), ("columns", names)):
            yield from self.csv.lost(key, "".join(text)) if self.format == CSV else ()
        if self.control_file:
            return
        if not table.columns:
            yield f"no control file describes {table.table}: declare its `columns`"
        if self.format == CSV and records.ROWS not in self._trailer(table):
            yield (
                f"nothing says how many rows {table.table} has: name a `control_file`, or a `trailer` with {{rows}}, so"
                " that half a file is noticed"
            )

    def _trailer(self, table: FileTable) -> Sequence[str]:
        return self.csv.trailer if table.trailer is None else table.trailer

    def _said(self, table: FileTable) -> Mapping[str, Any]:
        said = table.model_dump(mode="json")
        header = self.csv.header if table.header is None else table.header
        file = table.file or ("" if self.control_file else f"{{table}}.{self.format}")
        return {**said, "header": header, "trailer": self._trailer(table), "file": file}

    @property
    def namespace(self) -> str:
        return self.location

    @property
    def place_in_words(self) -> str:
        return f"in {self.location}"

    @property
    def places(self) -> Mapping[str, str]:
        return {self.location: self.connection} if self.connection else {}

    @property
    def announced_by(self) -> str:
        return f"{self.delivery}/{self.flag_file}" if self.delivery else self.flag_file

    def plan_fields(self) -> Mapping[str, Any]:
        said = {
            "delivery": self.delivery,
            "flag_file": self.flag_file,
            "control_file": self.control_file,
            "format": self.format,
            "csv": {
                "delimiter": self.csv.delimiter,
                "encoding": self.csv.encoding,
                "null": self.csv.null,
                "column_names": self.csv.column_names,
                # Where nothing is declared, the plan is the one of earlier versions.
                **({} if self.csv.quotes else {"quotes": False}),
            },
            "tables": [self._said(table) for table in self.tables],
            "unnamed": {**self._said(FileTable(table="unnamed")), "table": ""},
        }
        return {"options": ((LAYOUT, json.dumps(said)),)}
