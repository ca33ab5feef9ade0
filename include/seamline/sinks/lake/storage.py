"""How rows of the typed form lie in the Parquet files of a lake's table, and the way back."""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from seamline.domain.catalogue import Column, Table
from seamline.sinks.lake.files import for_arrow, path_of
from seamline.sinks.lake.stores import FilePath

COMPRESSION, LEVEL = "zstd", 1
_WHOLE = frozenset({pa.int32(), pa.int64()})


class RowStorage(Protocol):
    """The types of one format of tables. A module may be one."""

    def storage_schema(self, table: Table) -> pa.Schema:
        """Of the Parquet files, the row hash of tables without a key with it."""

    def stored(self, table: Table, rows: pa.RecordBatch) -> pa.Table:
        """Rows of the typed form as they lie there. SchemaConflict for a value that the lake's type does not have."""

    def typed_column(self, column: Column, values: pa.Array | pa.ChunkedArray) -> pa.Array:
        """Stored values of one column in the typed form."""

    def typed(self, table: Table, rows: pa.Table | pa.RecordBatch) -> pa.RecordBatch:
        """The inverse of `stored`: all columns of the table, by their names."""


def write_parquet(rows: pa.Table, path: FilePath) -> None:
    where, filesystem = for_arrow(path)
    pq.write_table(rows, where, filesystem=filesystem, compression=COMPRESSION, compression_level=LEVEL)


def parquet_writer(path: FilePath, schema: pa.Schema) -> pq.ParquetWriter:
    where, filesystem = for_arrow(path)
    return pq.ParquetWriter(where, schema, filesystem=filesystem, compression=COMPRESSION, compression_level=LEVEL)


def parquet_file(path: FilePath) -> pq.ParquetFile:
    where, filesystem = for_arrow(path)
    return pq.ParquetFile(where, filesystem=filesystem)


def read_parquet(path: FilePath, names: Sequence[str], **how: Any) -> pa.Table:
    """These columns alone."""
    where, filesystem = for_arrow(path)
    return pq.read_table(where, filesystem=filesystem, columns=list(names), partitioning=None, **how)


def whole_bounds(file: pq.ParquetFile) -> Iterator[tuple[pa.Field, int, int]]:
    """Of each column of whole numbers the least and the greatest, by which readers pass over files."""
    groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
    for place, field in enumerate(file.schema_arrow):
        found = [group.column(place).statistics for group in groups] if field.type in _WHOLE else []
        known = [one for one in found if one is not None and one.has_min_max]
        # A group of NULLs alone has none; one without statistics may hold anything.
        if known and all(one is not None for one in found):
            yield field, min(one.min for one in known), max(one.max for one in known)


def read_columns(path: str | FilePath, names: Sequence[str]) -> pa.Table:
    return read_parquet(_path(path), names)


def read_parts(path: str | FilePath, names: Sequence[str]) -> Iterator[pa.Table]:
    """The same, one row group at a time."""
    with parquet_file(_path(path)) as file:
        for number in range(file.num_row_groups):
            yield file.read_row_group(number, columns=list(names)).select(list(names))


def _path(path: str | FilePath) -> FilePath:
    return path_of(path) if isinstance(path, str) else path
