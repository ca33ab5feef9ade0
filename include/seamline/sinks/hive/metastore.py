"""A Hive metastore by its own Thrift service: tables, and where the partition of each date lies.

What is sent is understood by metastores from 2.3 on. A repeat of any call here finds done what is done.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from hive_metastore import ttypes
from hive_metastore.ThriftHiveMetastore import Client
from thrift.transport.TTransport import TBufferedTransport

from seamline.adapters.connections import Connection
from seamline.domain.cut_names import DATE_COLUMN
from seamline.domain.errors import Refused, TransientError
from seamline.sinks.lake.files import path_of, url_of
from seamline.sinks.lake.thrift_metastore import opened, translated

_INPUT = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat"
_OUTPUT = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat"
_SERDE = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"
# Whose cuts a table holds.
OWNER = "seamline.stream"
# Else the service reads the folders of what is altered to count files and bytes.
_NO_STATISTICS = ttypes.EnvironmentContext({"DO_NOT_UPDATE_STATS": "true"})

Columns = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class HiveTable:
    """`columns`: name and type, without the partition's. `owner`: the stream whose cuts it holds; "" of somebody
    else's. `keys`: names and types of what it is partitioned by."""

    columns: tuple[tuple[str, str], ...]
    keys: tuple[tuple[str, str], ...]
    owner: str
    is_external: bool


class Metastore:
    """One connection to the service, one database in it. Not safe to share between threads."""

    def __init__(self, client: Client, transport: TBufferedTransport, database: str) -> None:
        self._client = client
        self._transport = transport
        self.database = database

    def close(self) -> None:
        self._transport.close()

    # ---- tables -----------------------------------------------------------------------------------------------------

    def has_database(self) -> bool:
        with translated("look for a database"):
            try:
                self._client.get_database(self.database)
            except ttypes.NoSuchObjectException:
                return False
            return True

    def make_database(self, folder: Path) -> None:
        wanted = ttypes.Database(name=self.database, locationUri=url_of(folder), parameters={})
        with translated(f"make database {self.database}"), suppress(ttypes.AlreadyExistsException):
            self._client.create_database(wanted)

    def table(self, name: str) -> HiveTable | None:
        found = self._table(name)
        return None if found is None else _described(found)

    def make_table(self, name: str, columns: Columns, folder: Path, *, owner: str) -> None:
        """An external table by business date, without partitions. It is left alone where it is there."""
        wanted = ttypes.Table(
            tableName=name,
            dbName=self.database,
            owner="seamline",
            createTime=0,
            lastAccessTime=0,
            retention=0,
            sd=_storage(name, columns, folder),
            partitionKeys=[ttypes.FieldSchema(name=DATE_COLUMN, type="date", comment="")],
            # Whoever drops the table leaves its files: they go when their cuts do.
            parameters={"EXTERNAL": "TRUE", "external.table.purge": "false", OWNER: owner},
            tableType="EXTERNAL_TABLE",
        )
        with translated(f"make table {self.database}.{name}"), suppress(ttypes.AlreadyExistsException):
            self._client.create_table(wanted)

    def set_columns(self, name: str, columns: Columns) -> None:
        """Of the table; partitions keep those that they were made with."""
        found = self._table(name)
        if found is None:
            raise _gone(self.database, name)
        found.sd.cols = _fields(columns)
        with translated(f"alter table {self.database}.{name}"):
            self._client.alter_table_with_environment_context(self.database, name, found, _NO_STATISTICS)

    # ---- partitions -------------------------------------------------------------------------------------------------

    def location(self, table: str, day: date) -> Path | None:
        """Where the partition of a date lies; None where the table has no such partition."""
        found = self._partition(table, day)
        return None if found is None else path_of(found.sd.location)

    def place(self, table: str, day: date, columns: Columns, folder: Path, *, parameters: Mapping[str, str]) -> None:
        """Let the partition of a date lie there, whether it is there or not: one call, which readers see whole."""
        known = self._partition(table, day)
        wanted = ttypes.Partition(
            values=[day.isoformat()],
            dbName=self.database,
            tableName=table,
            createTime=known.createTime if known else 0,
            lastAccessTime=0,
            sd=_storage(table, columns, folder),
            parameters=dict(parameters),
        )
        with translated(f"place the partition {day} of {self.database}.{table}"):
            try:
                if known is None:
                    self._client.add_partitions([wanted])
                else:
                    self._client.alter_partitions_with_environment_context(
                        self.database, table, [wanted], _NO_STATISTICS
                    )
            except ttypes.AlreadyExistsException as exc:
                raise TransientError(
                    f"somebody else made partition {day} of {self.database}.{table} just now", table=table
                ) from exc

    def drop(self, table: str, day: date) -> None:
        """Without its files."""
        doing = f"drop the partition {day} of {self.database}.{table}"
        with translated(doing), suppress(ttypes.NoSuchObjectException):
            self._client.drop_partition(self.database, table, [day.isoformat()], deleteData=False)

    def _table(self, name: str) -> "ttypes.Table | None":
        with translated(f"look for table {self.database}.{name}"):
            try:
                return self._client.get_table(self.database, name)
            except ttypes.NoSuchObjectException:
                return None

    def _partition(self, table: str, day: date) -> "ttypes.Partition | None":
        with translated(f"look for the partition {day} of {self.database}.{table}"):
            try:
                return self._client.get_partition(self.database, table, [day.isoformat()])
            except ttypes.NoSuchObjectException:
                return None


def open_metastore(connection: Connection, database: str) -> Metastore:
    """TransientError where the service does not answer."""
    client, transport = opened(connection)
    return Metastore(client, transport, database)


def _described(found: "ttypes.Table") -> HiveTable:
    def pairs(fields: "Sequence[ttypes.FieldSchema]") -> tuple[tuple[str, str], ...]:
        return tuple((str(field.name), str(field.type)) for field in fields)

    owner = str((found.parameters or {}).get(OWNER, ""))
    is_external = found.tableType == "EXTERNAL_TABLE"
    return HiveTable(pairs(found.sd.cols), pairs(found.partitionKeys or ()), owner, is_external)


def _storage(name: str, columns: Columns, folder: Path) -> "ttypes.StorageDescriptor":
    return ttypes.StorageDescriptor(
        cols=_fields(columns),
        location=url_of(folder),
        inputFormat=_INPUT,
        outputFormat=_OUTPUT,
        compressed=False,
        numBuckets=-1,
        serdeInfo=ttypes.SerDeInfo(name=name, serializationLib=_SERDE, parameters={"serialization.format": "1"}),
        bucketCols=[],
        sortCols=[],
        parameters={},
        storedAsSubDirectories=False,
    )


def _fields(columns: Columns) -> "list[ttypes.FieldSchema]":
    return [ttypes.FieldSchema(name=name, type=of, comment="") for name, of in columns]


def _gone(database: str, name: str) -> Refused:
    return Refused(f"table {database}.{name} is not in the metastore any more", hint="try again", table=name)
