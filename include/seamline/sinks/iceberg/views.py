"""Views of Iceberg's own kind over the cuts of tables: a metadata file each, which Spark reads (view spec, version 1).

A view has one version and is replaced by another view: what it has shown before is of no use to anybody.
"""

import time
from collections.abc import Collection
from dataclasses import dataclass
from uuid import uuid4

from pyiceberg.schema import Schema
from pyiceberg.view.metadata import (
    SQLViewRepresentation,
    ViewHistoryEntry,
    ViewMetadata,
    ViewRepresentation,
    ViewVersion,
)

from seamline.plan.model import DestinationPlan
from seamline.sinks.iceberg.io import WarehouseIO, warehouse_io, warehouse_root
from seamline.sinks.iceberg.manifests import read_metadata
from seamline.sinks.iceberg.options import LakeOptions
from seamline.sinks.lake.cut_views import CutView
from seamline.sinks.lake.files import NewFiles, make_folder, new_location, remove, remove_empty, url_of
from seamline.sinks.lake.identity import ROW_HASH

_STREAM, _TABLE, _TAG = "seamline.stream", "seamline.table", "seamline.tag"


@dataclass(frozen=True, slots=True)
class IcebergViewFiles:
    """`lake.cut_views.ViewFiles`."""

    options: LakeOptions
    destination: DestinationPlan

    def read(self, location: str) -> CutView | None:
        try:
            said = ViewMetadata.model_validate_json(self._io.path_of(location).read_bytes()).properties
            return CutView(said[_STREAM], said[_TABLE], said[_TAG])
        except (FileNotFoundError, KeyError, ValueError):
            return None

    def tags(self, table_location: str) -> Collection[str]:
        return read_metadata(table_location, self._io).refs.keys()

    def write(self, name: str, view: CutView, table_location: str) -> str:
        folder = new_location(warehouse_root(self.options), self.destination.cut_namespace, name)
        make_folder(folder / "metadata")
        files = NewFiles(folder, f"{view.stream}-{view.tag}")
        path = files.versioned(1)
        path.write_text(self._described(url_of(folder), view, table_location), encoding="utf-8")
        files.synced()
        return url_of(path)

    def drop(self, location: str) -> None:
        path = self._io.path_of(location)
        remove(path)
        # Their folders held nothing else, unless another client has put something there.
        remove_empty(path.parent)
        remove_empty(path.parent.parent)

    @property
    def _io(self) -> WarehouseIO:
        return warehouse_io(self.options)

    def _described(self, location: str, view: CutView, table_location: str) -> str:
        metadata = read_metadata(table_location, self._io)
        snapshot = metadata.snapshot_by_id(metadata.refs[view.tag].snapshot_id)
        schemas = {schema.schema_id: schema for schema in metadata.schemas}
        known = schemas.get(snapshot.schema_id if snapshot and snapshot.schema_id is not None else -1)
        fields = [field for field in (known or metadata.schema()).fields if field.name != ROW_HASH]
        columns = ", ".join(_quoted(field.name) for field in fields)
        table = ".".join(_quoted(part) for part in (self.options.catalog, self.destination.namespace, view.table))
        sql = f"SELECT {columns} FROM {table} VERSION AS OF '{view.tag}'"
        now = int(time.time() * 1000)
        shown = SQLViewRepresentation(type="sql", sql=sql, dialect="spark")
        version = ViewVersion.model_validate(
            {
                "version-id": 1,
                "schema-id": 0,
                "timestamp-ms": now,
                "summary": {"engine-name": "seamline"},
                "representations": [ViewRepresentation(shown)],
                "default-catalog": self.options.catalog,
                "default-namespace": (self.destination.namespace,),
            }
        )
        return ViewMetadata.model_validate(
            {
                "view-uuid": str(uuid4()),
                "format-version": 1,
                "location": location,
                "schemas": [Schema(*fields, schema_id=0)],
                "current-version-id": 1,
                "versions": [version],
                "version-log": [ViewHistoryEntry.model_validate({"version-id": 1, "timestamp-ms": now})],
                "properties": {_STREAM: view.stream, _TABLE: view.table, _TAG: view.tag},
            }
        ).model_dump_json(by_alias=True, exclude_none=True)


def _quoted(name: str) -> str:
    """As Spark's SQL takes any name."""
    return "`" + name.replace("`", "``") + "`"
