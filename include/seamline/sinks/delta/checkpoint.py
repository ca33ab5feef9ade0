"""Checkpoints of a Delta log, as one Parquet file (the protocol's V1 spec, classic name)."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from seamline.sinks.delta.state import Action, TableState

_TEXTS = pa.map_(pa.string(), pa.string())
_VECTOR = pa.struct(
    {
        "storageType": pa.string(),
        "pathOrInlineDv": pa.string(),
        "offset": pa.int32(),
        "sizeInBytes": pa.int32(),
        "cardinality": pa.int64(),
    }
)
_SCHEMA = pa.schema(
    {
        "txn": pa.struct({"appId": pa.string(), "version": pa.int64(), "lastUpdated": pa.int64()}),
        "add": pa.struct(
            {
                "path": pa.string(),
                "partitionValues": _TEXTS,
                "size": pa.int64(),
                "modificationTime": pa.int64(),
                "dataChange": pa.bool_(),
                "stats": pa.string(),
                "tags": _TEXTS,
                "deletionVector": _VECTOR,
            }
        ),
        "remove": pa.struct(
            {
                "path": pa.string(),
                "deletionTimestamp": pa.int64(),
                "dataChange": pa.bool_(),
                "extendedFileMetadata": pa.bool_(),
                "partitionValues": _TEXTS,
                "size": pa.int64(),
                "deletionVector": _VECTOR,
            }
        ),
        "metaData": pa.struct(
            {
                "id": pa.string(),
                "name": pa.string(),
                "description": pa.string(),
                "format": pa.struct({"provider": pa.string(), "options": _TEXTS}),
                "schemaString": pa.string(),
                "partitionColumns": pa.list_(pa.string()),
                "configuration": _TEXTS,
                "createdTime": pa.int64(),
            }
        ),
        "protocol": pa.struct(
            {
                "minReaderVersion": pa.int32(),
                "minWriterVersion": pa.int32(),
                "readerFeatures": pa.list_(pa.string()),
                "writerFeatures": pa.list_(pa.string()),
            }
        ),
    }
)


def write(state: TableState, path: Path) -> int:
    """How many actions it holds."""
    rows = [{kind: _known(kind, content)} for action in _actions(state) for kind, content in action.items()]
    pq.write_table(pa.Table.from_pylist(rows, schema=_SCHEMA), path)
    return len(rows)


def read(path: Path, version: int) -> TableState:
    """The state of the version that the checkpoint is of, whoever wrote it."""
    names = [name for name in pq.read_schema(path).names if name in _SCHEMA.names]
    found = pq.read_table(path, columns=names, partitioning=None).to_pylist(maps_as_pydicts="strict")
    actions = [{kind: _without_nulls(content)} for row in found for kind, content in row.items() if content is not None]
    return TableState(version - 1).after(actions)


def _actions(state: TableState) -> Iterator[Action]:
    yield {"protocol": state.protocol}
    yield {"metaData": state.metadata}
    for name, version in state.transactions.items():
        yield {"txn": {"appId": name, "version": version}}
    for content in state.removed.values():
        yield {"remove": {**content, "dataChange": False}}
    for file in state.files.values():
        yield {"add": {**file.add, "dataChange": False}}


def _known(kind: str, content: Mapping[str, Any]) -> dict[str, Any]:
    names = {field.name for field in _SCHEMA.field(kind).type}
    return {name: value for name, value in content.items() if name in names}


def _without_nulls(content: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _without_nulls(value) if name in ("deletionVector", "format") else value
        for name, value in content.items()
        if value is not None
    }
