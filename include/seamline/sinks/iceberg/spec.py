"""The declaration of a destination of Iceberg tables."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from seamline.domain.catalogue import Table
from seamline.domain.staged_cut import CutSource
from seamline.sinks.iceberg.layout import Ordered, Partitioned, TableLayout
from seamline.sinks.iceberg.options import FORMAT, HIVE, JDBC, NATIVE, REST, SINGLE, SINGLE_KIND, SPARK
from seamline.sinks.lake.spec import Warehouse, folder_of
from seamline.spec.destination import Destination, Misfit
from seamline.spec.fields import ConnectionId, Declared, Name, SchemaName, SqlName

_NAMESPACE = re.compile(r"[a-z0-9_]+")


def _partition(value: str) -> str:
    Partitioned.parse(value)
    return value


def _order(value: str) -> str:
    Ordered.parse(value)
    return value


def _of_a_rest_catalogue(said: Mapping[str, Any]) -> Iterator[str]:
    """What the other keys, as far as they are right, must not say."""
    if not said.get("atomic"):
        yield (
            "a REST catalogue must move all tables of one `transactions/commit` at once, and the specification lets a"
            " server take them one by one: declare `atomic: true` if its documentation says so, else `catalog_type:"
            f" {JDBC}`"
        )
    if said.get("writer_connection"):
        yield "a stream finishes in a REST catalogue what a publish has begun: leave `writer_connection` out"


def _of_single_tables(kind: str, said: Mapping[str, Any]) -> Iterator[str]:
    """The same of a catalogue that commits single tables."""
    if kind == HIVE and not said.get("catalog_connection"):
        yield "name as `catalog_connection` what leads to the metastore: a connection of type `hive_metastore`"
    if not _NAMESPACE.fullmatch(str(said.get("namespace_", "a"))):
        yield "the catalogue keeps names in lower case: write the namespace in a to z, digits and `_`"


class TableLayoutEntry(Declared):
    """How the files of a table are laid out."""

    name: SqlName = Field(description="Name of the table in its sync.")
    partitioned_by: list[Annotated[str, AfterValidator(_partition)]] = Field(
        default_factory=list,
        description="Partitions, as Spark's DDL says them: `column`, `bucket(16, column)`, `truncate(4, column)` or"
        " `days(column)`.",
    )
    sorted_by: list[Annotated[str, AfterValidator(_order)]] = Field(
        default_factory=list,
        description="Order of the rows in files, as Spark's `WRITE ORDERED BY` says it: `column`, `column desc` or"
        " `column desc nulls last`.",
    )

    @field_validator("partitioned_by")
    @classmethod
    def _of_names_apart(cls, value: list[str]) -> list[str]:
        names = [Partitioned.parse(one).name for one in value]
        for one, name in zip(value, names, strict=True):
            if names.count(name) > 1:
                raise ValueError(f"`{one}` and another partition would both be called `{name}`: leave one out")
        return value

    @property
    def layout(self) -> dict[str, list[str]]:
        return {"partitioned_by": self.partitioned_by, "sorted_by": self.sorted_by}


class IcebergDestination(Destination):
    """Iceberg tables in a catalogue. PostgreSQL's or a REST server's: one commit moves all tables of a sync and its
    ledger. A Hive metastore or Glue: the ledger in PostgreSQL moves, then table by table."""

    namespace_key: ClassVar[str] = "namespace"
    cut_source: ClassVar[CutSource] = CutSource.LIVE
    other_connections: ClassVar[Mapping[str, str]] = {"warehouse_connection": "", "catalog_connection": ""}

    kind: Literal["iceberg"] = Field(description="What kind of system the destination is.")
    namespace_: SchemaName = Field(alias="namespace", description="Namespace of the live tables in the catalogue.")
    catalog: Name = Field(
        description="Name of the catalogue: all its clients must call it so, as Spark does below `spark.sql.catalog`."
        " `connection` leads to the PostgreSQL database that holds it (Iceberg's JDBC catalogue), or to the server of"
        " the REST catalogue by a connection of type `iceberg`, or to the PostgreSQL database of the ledger beside a"
        " Hive metastore or Glue."
    )
    atomic: bool = Field(
        default=False,
        description="Whether the server of a REST catalogue moves all tables of one `transactions/commit` at once, or"
        " none. Its documentation says so: no call can ask. `catalog_type: rest` needs it.",
    )
    catalog_connection: ConnectionId | None = Field(
        None,
        description="Connection id of what leads to a catalogue that commits single tables: to a Hive metastore of type"
        " `hive_metastore`, to Glue of type `aws`. Where it is left out for Glue, each machine's own credentials are"
        " asked.",
    )
    catalog_type: Literal["jdbc", "rest", "hive", "glue"] = Field(
        "jdbc",
        validate_default=True,
        description="What catalogue it is: Iceberg's JDBC catalogue in PostgreSQL, one behind a REST server, or a Hive"
        " metastore or Glue, which commit single tables: commands then call the destination's kind `iceberg_single`.",
    )
    warehouse: Warehouse = Field(
        description="Where the tables' files lie: a folder, which must be there under the same absolute path on every"
        " machine of the sync; a bucket of S3, as `s3://bucket/prefix`; or a folder of HDFS, as"
        " `hdfs://namenode:8020/folder`."
    )
    warehouse_connection: ConnectionId | None = Field(
        None,
        description="Connection id of what leads to the warehouse: to S3 of type `aws`, and where it is left out, each"
        " machine's own credentials are asked (variables, `~/.aws`, its role); to HDFS of type `webhdfs`.",
    )
    write: Literal["native", "spark"] = Field(
        "native",
        description="Who writes changes: `native` in the stream's own process, a commit in a fraction of a second; or"
        " `spark` by statements of the stream host's Spark session, a commit in seconds.",
    )

    commit_every_ms: int = Field(
        10_000,
        ge=0,
        description="Least time between two commits, milliseconds: each is a snapshot and files of every table that it"
        " changes. Where `stream.commit_every_ms` of the sync is more, that counts.",
    )

    format_version: Literal[2, 3] = Field(
        FORMAT,
        description="Format of new tables. 3, whose deletes are vectors and whose rows have ids, needs `write: spark`.",
    )
    tables: list[TableLayoutEntry] = Field(
        default_factory=list,
        description="Tables with partitions or an order. `write: native` takes partitions by the values of columns"
        " alone; others, and an order, need `write: spark`.",
    )

    @field_validator("catalog_type", mode="before")
    @classmethod
    def _of_one_commit(cls, value: Any, info: ValidationInfo) -> Any:
        if value == REST and (fault := next(_of_a_rest_catalogue(info.data), "")):
            raise ValueError(fault)
        if value in SINGLE and (fault := next(_of_single_tables(value, info.data), "")):
            raise ValueError(fault)
        if value in (JDBC, REST) and info.data.get("catalog_connection"):
            raise ValueError("`connection` leads to this catalogue: leave `catalog_connection` out")
        return value

    @field_validator("format_version")
    @classmethod
    def _format_as_written(cls, value: int, info: ValidationInfo) -> int:
        if value != FORMAT and info.data.get("write") == NATIVE:
            raise ValueError(f"`write: {NATIVE}` writes tables of format {FORMAT}: `write: {SPARK}`")
        return value

    @field_validator("tables")
    @classmethod
    def _laid_out_as_written(cls, value: list[TableLayoutEntry], info: ValidationInfo) -> list[TableLayoutEntry]:
        is_native = info.data.get("write") == NATIVE
        names = [entry.name for entry in value]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"table {name} stands here twice: leave one out")
        for entry in value if is_native else ():
            if not TableLayout.of(entry.layout).is_by_values:
                raise ValueError(
                    f"`write: {NATIVE}` writes partitions by the values of columns, and no order, as table {entry.name}"
                    f" has: `write: {SPARK}`"
                )
        return value

    @field_validator("write")
    @classmethod
    def _where_spark_writes(cls, value: str, info: ValidationInfo) -> str:
        if value == SPARK and info.data.get("catalog_type") == REST:
            raise ValueError(f"`write: {SPARK}` does not write into a REST catalogue yet: `write: {NATIVE}`")
        if value == SPARK and info.data.get("catalog_type") in SINGLE:
            raise ValueError(f"`write: {SPARK}` does not write beside such a catalogue yet: `write: {NATIVE}`")
        if value == SPARK and str(info.data.get("warehouse", "")).startswith("hdfs://"):
            raise ValueError(f"`write: {SPARK}` does not write to HDFS yet: `write: {NATIVE}`")
        return value

    @field_validator("warehouse_connection")
    @classmethod
    def _of_a_store(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None and str(info.data.get("warehouse", "")).startswith("/"):
            raise ValueError("the warehouse is a folder: nothing leads there, leave `warehouse_connection` out")
        return value

    @classmethod
    def kind_of(cls, said: Mapping[str, Any]) -> str:
        return SINGLE_KIND if said.get("catalog_type") in SINGLE else ""

    @classmethod
    def lacks(cls, said: Mapping[str, Any]) -> Mapping[str, str]:
        if said.get("catalog_type") != REST:
            return {}
        return {
            "derived": "has a REST catalogue, and derived tables there are not built",
            "reconcile.expectations": "has a REST catalogue, and no PostgreSQL beside it in which rows are checked",
            "reconcile.rules": "has a REST catalogue, and no PostgreSQL beside it in which rows are checked",
        }

    @classmethod
    def folder(cls, said: Mapping[str, Any]) -> str:
        return folder_of(said)

    def misfits(self, tables: Mapping[str, Table]) -> Iterator[Misfit]:
        for number, entry in enumerate(self.tables):
            if entry.name in tables:
                for place, cause, cure in TableLayout.of(entry.layout).misfits(tables[entry.name]):
                    yield ("tables", number, *place), cause, cure

    @property
    def namespace(self) -> str:
        return self.namespace_

    @property
    def options(self) -> Mapping[str, str]:
        said = {"catalog": self.catalog, "warehouse": self.warehouse, "write": self.write}
        if self.warehouse_connection:
            said["warehouse_connection"] = self.warehouse_connection
        if self.catalog_type != JDBC:
            said["catalog_type"] = self.catalog_type
        if self.catalog_connection:
            said["catalog_connection"] = self.catalog_connection
        if self.format_version != FORMAT:
            said["format_version"] = str(self.format_version)
        if self.tables:
            said["layouts"] = json.dumps({entry.name: entry.layout for entry in self.tables}, sort_keys=True)
        return said

    @property
    def commit_interval_ms(self) -> int:
        return self.commit_every_ms


class SingleIcebergDestination(IcebergDestination):
    """Iceberg tables in a Hive metastore or Glue: the same keys under the kind that they make of it."""

    kind: Literal["iceberg_single"] = Field(  # type: ignore[assignment]
        description="What kind of system the destination is: Iceberg tables whose catalogue commits them one by one."
    )
    catalog_type: Literal["hive", "glue"] = Field(description="What catalogue it is: a Hive metastore, or Glue.")
