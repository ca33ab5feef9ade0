"""Parquet files: those of rows, and those of position deletes."""

import struct
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFile, DataFileContent
from pyiceberg.typedef import Record

from seamline.sinks.iceberg.manifests import DELETED_FILE_ID, DELETED_POSITION_ID, Bounds, data_file
from seamline.sinks.iceberg.partitions import Division
from seamline.sinks.lake.files import url_of
from seamline.sinks.lake.loads import StagedFiles
from seamline.sinks.lake.rows import Numbers
from seamline.sinks.lake.storage import parquet_file, whole_bounds, write_parquet
from seamline.sinks.lake.stores import FilePath

_FIELD_ID = "PARQUET:field_id"
_DELETES = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={_FIELD_ID: str(DELETED_FILE_ID)}),
        pa.field("pos", pa.int64(), nullable=False, metadata={_FIELD_ID: str(DELETED_POSITION_ID)}),
    ]
)
_PACKED = {pa.int32(): "<i", pa.int64(): "<q"}


def written_file(path: FilePath, *, partition: Record | None = None) -> DataFile:
    """A data file that lies there, as a manifest lists it."""
    found = parquet_file(path)
    rows, bounds = found.metadata.num_rows, _bounds_of(found)
    return _file_of(path, rows, bounds, content=DataFileContent.DATA, partition=partition)


def data_files(staged: StagedFiles, division: Division) -> list[DataFile]:
    """Those of a load."""
    return [written_file(path, partition=division.partition_of(path)) for path in staged.paths]


def write_deletes(positions: Mapping[str, Numbers], path: FilePath, *, partition: Record) -> DataFile:
    """Position deletes of data files of one partition as one file, in the order that Iceberg asks for: a reader applies
    it to files of that partition alone."""
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
    return _file_of(path, rows.num_rows, bounds, content=DataFileContent.POSITION_DELETES, partition=partition)


def _file_of(
    path: FilePath, rows: int, bounds: Bounds, *, content: DataFileContent, partition: Record | None = None
) -> DataFile:
    size, where = path.stat().st_size, partition or Record()
    return data_file(url_of(path), rows=rows, size=size, content=content, bounds=bounds, partition=where)


def _bounds_of(file: pq.ParquetFile) -> Bounds:
    """Parquet itself has those of the columns that are not whole numbers."""
    lower, upper = dict[int, bytes](), dict[int, bytes]()
    for field, least, greatest in whole_bounds(file):
        number, packed = int(field.metadata[_FIELD_ID.encode()]), _PACKED[field.type]
        lower[number], upper[number] = struct.pack(packed, least), struct.pack(packed, greatest)
    return lower, upper
