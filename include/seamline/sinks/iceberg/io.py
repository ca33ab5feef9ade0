"""The files of tables as pyiceberg asks for them: those of one warehouse, by the file system that reaches it."""

from urllib.parse import urlsplit

from pyarrow.fs import FileSystem
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import StaticTable

from seamline.adapters.connections import resolve
from seamline.domain.errors import Refused
from seamline.sinks.iceberg.options import LakeOptions
from seamline.sinks.lake.files import path_of, root_of
from seamline.sinks.lake.stores import FilePath, StoredPath, is_stored, opened, stored_path


class WarehouseIO(PyArrowFileIO):
    """Of a warehouse in a store, or of the folders of this machine. It is asked for files by their URLs."""

    def __init__(self, root: StoredPath | None = None) -> None:
        super().__init__()
        self._root = root

    def path_of(self, url: str) -> FilePath:
        """Of a file that any writer named. Refused: it lies in another store."""
        if self._root is not None:
            return stored_path(self._root, url)
        if is_stored(url.removeprefix("file://")):
            raise Refused(f"{url} lies in a store, and this warehouse is a folder", hint="onboard that table again")
        return path_of(url)

    def _initialize_fs(self, scheme: str, netloc: str | None = None) -> FileSystem:
        if self._root is None and scheme == "file":
            return super()._initialize_fs(scheme, netloc)
        if self._root is None or scheme == "file":
            raise Refused(f"a file at {scheme}://{netloc} lies in another store", hint="onboard its table again")
        stored_path(self._root, f"{scheme}://{netloc}/")
        return self._root.filesystem


LOCAL_IO = WarehouseIO()
# Of the jar that Iceberg's S3 client needs beside its own.
S3_CLIENT = "software.amazon.awssdk.services.s3.S3Client"


def warehouse_root(options: LakeOptions) -> FilePath:
    return root_of(options.warehouse, options.warehouse_connection)


def warehouse_io(options: LakeOptions) -> WarehouseIO:
    root = warehouse_root(options)
    return WarehouseIO(root) if isinstance(root, StoredPath) else LOCAL_IO


def io_of(location: str, connection: str = "") -> WarehouseIO:
    """What reaches a file of a warehouse, by its URL alone."""
    if not is_stored(location.removeprefix("file://")):
        return LOCAL_IO
    parts = urlsplit(location)
    return WarehouseIO(opened(f"{parts.scheme}://{parts.netloc}", connection))


def java_client(options: LakeOptions) -> dict[str, str]:
    """By what Iceberg's own clients reach the warehouse, as properties of a table. It may hold secrets.

    Refused: the connection takes a role.
    """
    if not is_stored(options.warehouse):
        return {"io-impl": "org.apache.iceberg.hadoop.HadoopFileIO"}
    found = {"io-impl": "org.apache.iceberg.aws.s3.S3FileIO"}
    if not options.warehouse_connection:
        return found
    known = resolve(options.warehouse_connection)
    if known.extra.get("role_arn"):
        raise Refused(
            f"Connection `{known.connection_id}` takes a role, and Spark's S3 client takes none",
            hint="let the machines have that role and leave `warehouse_connection` out, or take `write: native`",
        )
    said = {
        "s3.endpoint": known.extra.get("endpoint_url"),
        "s3.path-style-access": "true" if known.extra.get("endpoint_url") else None,
        "client.region": known.extra.get("region_name"),
        "s3.access-key-id": known.login,
        "s3.secret-access-key": known.password,
        "s3.session-token": known.extra.get("aws_session_token"),
    }
    return found | {name: str(value) for name, value in said.items() if value}


def static_table(location: str, io: WarehouseIO = LOCAL_IO) -> StaticTable:
    """The table that a metadata file describes."""
    metadata = FromInputFile.table_metadata(io.new_input(location))
    catalog = NoopCatalog("static-table")
    return StaticTable(("static-table", location), metadata, location, io, catalog)
