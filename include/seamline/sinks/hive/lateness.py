"""Rows of a staged table against those of the version that counts, both as Parquet files of one schema."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from seamline.domain.staged_cut import Lateness
from seamline.sinks.hive.types import typed
from seamline.values.arrow import table_of
from seamline.values.digest import row_hashes


def lateness(staged: Sequence[Path], current: Sequence[Path]) -> Lateness | None:
    """None where the two have different columns: their rows cannot be compared. A row counts as often as it is there.

    A hash of each row is in memory.
    """
    schemas = {repr(table_of(pq.read_schema(path)).columns) for path in (*staged, *current)}
    if len(schemas) > 1:
        return None
    both = _counted(staged, "staged").join(_counted(current, "current"), "hash", join_type="full outer")
    more = pc.subtract(pc.fill_null(both["staged_sum"], 0), pc.fill_null(both["current_sum"], 0))
    late, gone = pc.sum(pc.max_element_wise(more, 0)), pc.sum(pc.min_element_wise(more, 0))
    return Lateness(late.as_py() or 0, -(gone.as_py() or 0))


def _counted(paths: Sequence[Path], name: str) -> pa.Table:
    """Each hash with how often it is there, in `<name>_sum`."""
    parts = [_hashes(batch) for path in paths for batch in pq.ParquetFile(path).iter_batches()]
    hashes = pa.chunked_array(parts, pa.string())
    found = pa.table({"hash": hashes, name: pa.repeat(1, len(hashes))})
    return found.group_by("hash").aggregate([(name, "sum")])


def _hashes(stored: pa.RecordBatch) -> pa.Array:
    table = table_of(stored.schema)
    return row_hashes(table, typed(table, stored), run_key="").cast(pa.string())
