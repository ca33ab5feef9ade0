"""Parquet files of rows, as actions of a log name them."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from seamline.sinks.delta.state import DataFile, now_ms, path_as_action
from seamline.sinks.delta.vectors import Vector

_NUMBERS = frozenset({pa.int32(), pa.int64()})


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
    """Rows, and the bounds of whole numbers, by which readers pass over files."""
    groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
    least, greatest = dict[str, int](), dict[str, int]()
    for place, field in enumerate(file.schema_arrow):
        found = [group.column(place).statistics for group in groups] if field.type in _NUMBERS else []
        known = [one for one in found if one is not None and one.has_min_max]
        # A group of NULLs alone has none; one without statistics may hold anything.
        if known and all(one is not None for one in found):
            least[field.name], greatest[field.name] = min(one.min for one in known), max(one.max for one in known)
    return {"numRecords": file.metadata.num_rows, "minValues": least, "maxValues": greatest, "tightBounds": True}
