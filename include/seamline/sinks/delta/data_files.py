"""Parquet files of rows, as actions of a log name them."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from seamline.sinks.delta.state import DataFile, now_ms, path_as_action
from seamline.sinks.delta.vectors import Vector
from seamline.sinks.lake.storage import whole_bounds


def written_file(path: Path, folder: Path, vector: Vector | None = None) -> DataFile:
    """A file of the table in `folder` that lies there."""
    add: dict[str, Any] = {
        "path": path_as_action(path.relative_to(folder)),
        "partitionValues": {},
        "size": path.stat().st_size,
        "modificationTime": now_ms(),
        "dataChange": True,
        "stats": json.dumps(_statistics(pq.ParquetFile(path)), ensure_ascii=False),
    }
    return with_vector(DataFile(add), vector) if vector else DataFile(add)


def with_vector(file: DataFile, vector: Vector) -> DataFile:
    """The file without more of its rows. Its bounds stay true, and are said to be wide."""
    statistics = json.loads(file.add["stats"])
    stats = json.dumps({**statistics, "tightBounds": False}, ensure_ascii=False)
    return DataFile({**file.add, "stats": stats, "deletionVector": vector.described()})


def _statistics(file: pq.ParquetFile) -> dict[str, Any]:
    """Rows, and the bounds of whole numbers. Parquet itself has those of the others."""
    bounds = list(whole_bounds(file))
    return {
        "numRecords": file.metadata.num_rows,
        "minValues": {field.name: least for field, least, _ in bounds},
        "maxValues": {field.name: greatest for field, _, greatest in bounds},
        "tightBounds": True,
    }
