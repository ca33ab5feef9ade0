"""A Hive metastore as the catalogue of Iceberg tables, by the properties that all of Iceberg's clients know."""

from collections.abc import Mapping
from contextlib import suppress

from hive_metastore import ttypes
from hive_metastore.ThriftHiveMetastore import Client
from pyiceberg.table.metadata import TableMetadata
from thrift.transport.TTransport import TBufferedTransport

from seamline.adapters.connections import Connection
from seamline.sinks.iceberg.single.catalogue import POINTER, Entry, columns_of, entry_of, parameters_of
from seamline.sinks.lake.thrift_metastore import opened, translated

_INPUT, _OUTPUT = "org.apache.hadoop.mapred.FileInputFormat", "org.apache.hadoop.mapred.FileOutputFormat"
_SERDE = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
# What a metastore answers that compares, and found another value (HIVE-26882).
_MOVED = "The table has been modified"


class HiveCatalogue:
    """`SingleCatalogue`. No lock of the metastore is taken: one outlives a killed worker by minutes."""

    def __init__(self, client: Client, transport: TBufferedTransport, database: str) -> None:
        self._client = client
        self._transport = transport
        self._database = database

    def close(self) -> None:
        self._transport.close()

    def entries(self) -> Mapping[str, Entry]:
        with translated(f"list the tables of database {self._database}"):
            names = self._client.get_all_tables(self._database)
            found = self._client.get_table_objects_by_name(self._database, names) if names else []
        return {str(one.tableName): entry_of(one.parameters or {}) for one in found}

    def make_namespace(self, folder: str) -> None:
        wanted = ttypes.Database(name=self._database, locationUri=folder, parameters={})
        with translated(f"make database {self._database}"):
            try:
                self._client.get_database(self._database)
            except ttypes.NoSuchObjectException:
                with suppress(ttypes.AlreadyExistsException):
                    self._client.create_database(wanted)

    def add(self, name: str, pointer: str, metadata: TableMetadata) -> bool:
        wanted = ttypes.Table(
            tableName=name,
            dbName=self._database,
            owner="seamline",
            createTime=0,
            lastAccessTime=0,
            retention=0,
            sd=_storage(metadata),
            partitionKeys=[],
            # Whoever drops the table leaves its files to the ledger.
            parameters={**parameters_of(pointer), "external.table.purge": "false"},
            tableType="EXTERNAL_TABLE",
        )
        with translated(f"add table {self._database}.{name}"):
            try:
                self._client.create_table(wanted)
            except ttypes.AlreadyExistsException:
                return False
        return True

    def move(self, name: str, old: str, new: str, metadata: TableMetadata) -> bool:
        """A metastore that has HIVE-26882 compares by itself. Of an older one two writers may both have read `old`; the
        next look at the catalogue mends what comes of it."""
        with translated(f"move table {self._database}.{name}"):
            try:
                found = self._client.get_table(self._database, name)
                if entry_of(found.parameters or {}).pointer != old:
                    return False
                found.sd = _storage(metadata)
                found.parameters = parameters_of(new, old, found.parameters)
                expected = ttypes.EnvironmentContext(
                    {"expected_parameter_key": POINTER, "expected_parameter_value": old, "DO_NOT_UPDATE_STATS": "true"}
                )
                self._client.alter_table_with_environment_context(self._database, name, found, expected)
            except ttypes.NoSuchObjectException:
                return False
            except ttypes.MetaException as exc:
                if _MOVED in str(exc.message):
                    return False
                raise
        return True

    def drop(self, name: str) -> None:
        with translated(f"drop table {self._database}.{name}"), suppress(ttypes.NoSuchObjectException):
            self._client.drop_table(self._database, name, deleteData=False)


def open_hive(connection: Connection, database: str) -> HiveCatalogue:
    """TransientError where the service does not answer."""
    client, transport = opened(connection)
    return HiveCatalogue(client, transport, database)


def _storage(metadata: TableMetadata) -> ttypes.StorageDescriptor:
    return ttypes.StorageDescriptor(
        cols=[ttypes.FieldSchema(name=name, type=of, comment="") for name, of in columns_of(metadata)],
        location=metadata.location,
        inputFormat=_INPUT,
        outputFormat=_OUTPUT,
        compressed=False,
        numBuckets=-1,
        serdeInfo=ttypes.SerDeInfo(serializationLib=_SERDE, parameters={}),
        bucketCols=[],
        sortCols=[],
        parameters={},
        storedAsSubDirectories=False,
    )
