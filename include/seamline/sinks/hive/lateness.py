"""Rows of a staged table against those of the version that counts, both as Parquet files of one schema."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from seamline.domain.staged_cut import Lateness
from seamline.sinks.hive.types import typed
from seamline.sinks.lake.lateness import late_rows
from seamline.values.arrow import table_of
from seamline.values.digest import row_hashes


def lateness(staged: Sequence[Path], current: Sequence[Path]) -> Lateness | None:
    """None where the two have different columns: their rows cannot be compared. A row counts as often as it is there.

    A hash of each row is in memory.
    """
    schemas = {repr(table_of(pq.read_schema(path)).columns) for path in (*staged, *current)}
    if len(schemas) > 1:
        return None
    return late_rows(_hashes(staged), _hashes(current))


def _hashes(paths: Sequence[Path]) -> Iterator[pa.Array]:
    for path in paths:
        for stored in pq.ParquetFile(path).iter_batches():
            table = table_of(stored.schema)
            yield row_hashes(table, typed(table, stored), run_key="")
