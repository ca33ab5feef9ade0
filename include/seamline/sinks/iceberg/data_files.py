"""Parquet files: those of rows, and those of position deletes."""

import struct
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFile, DataFileContent

from seamline.domain.catalogue import Table
from seamline.sinks.iceberg.files import url_of
from seamline.sinks.iceberg.manifests import DELETED_FILE_ID, DELETED_POSITION_ID, Bounds, data_file
from seamline.sinks.iceberg.rows import Numbers
from seamline.sinks.iceberg.types import stored

_COMPRESSION, _LEVEL = "zstd", 1
_FIELD_ID = "PARQUET:field_id"
_DELETES = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={_FIELD_ID: str(DELETED_FILE_ID)}),
        pa.field("pos", pa.int64(), nullable=False, metadata={_FIELD_ID: str(DELETED_POSITION_ID)}),
    ]
)
_PACKED = {pa.int32(): "<i", pa.int64(): "<q"}


def write_rows(table: Table, rows: pa.RecordBatch, path: Path) -> DataFile:
    """Rows of the typed form as one data file. At least one row: a Parquet file without any breaks Spark's reader."""
    found = stored(table, rows)
    write_parquet(found, path)
    return file_of(path, found.num_rows, bounds_of(found), content=DataFileContent.DATA)


def write_parquet(rows: pa.Table, path: Path) -> None:
    pq.write_table(rows, path, compression=_COMPRESSION, compression_level=_LEVEL)


def write_deletes(positions: Mapping[str, Numbers], path: Path) -> DataFile:
    """Position deletes of some data files as one file, in the order that Iceberg asks for."""
    names = sorted(positions)
    counts = [len(positions[name]) for name in names]
    rows = pa.Table.from_arrays(
        [
            pa.array(names, pa.string()).take(pa.array(np.repeat(np.arange(len(names)), counts))),
            pa.array(np.concatenate([np.sort(positions[name]) for name in names]).astype(np.int64)),
        ],
        schema=_DELETES,
    )
    write_parquet(rows, path)
    bounds = ({DELETED_FILE_ID: names[0].encode()}, {DELETED_FILE_ID: names[-1].encode()})
    return file_of(path, rows.num_rows, bounds, content=DataFileContent.POSITION_DELETES)


def file_of(path: Path, rows: int, bounds: Bounds, *, content: DataFileContent) -> DataFile:
    return data_file(url_of(path), rows=rows, size=path.stat().st_size, content=content, bounds=bounds)


def bounds_of(rows: pa.Table) -> Bounds:
    """Of the columns of whole numbers, by which readers pass over files. Parquet itself has those of the others."""
    lower, upper = dict[int, bytes](), dict[int, bytes]()
    for field, values in zip(rows.schema, rows.columns, strict=True):
        ends = pc.min_max(values).as_py() if field.type in _PACKED else {"min": None}
        if ends["min"] is not None:
            number = int(field.metadata[_FIELD_ID.encode()])
            lower[number], upper[number] = (struct.pack(_PACKED[field.type], ends[end]) for end in ("min", "max"))
    return lower, upper
