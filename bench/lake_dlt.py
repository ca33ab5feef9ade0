"""dlt's merge into an Iceberg table, as a peer of `lake_changes`.

Its strategy `upsert` is pyiceberg's `Table.upsert`, 1,000 rows at a time, and deletes nothing (dlt 1.31,
`common/libs/pyiceberg.py`): what a batch deletes is deleted by pyiceberg beside. What dlt has begun when it is killed
lies in its own folder, and its next run goes on with that before anything else.
"""

import logging
import time
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench.lake_table import History, rows_of

_UPSERT = {"disposition": "merge", "strategy": "upsert"}


def create(warehouse: str, rows: int) -> None:
    _run(_pipeline(warehouse), rows_of(range(rows), [0] * rows), "append")
    _progress(warehouse).write_text("0")


def write(warehouse: str, rows: int, size: int, batches: int, reports: Pipe) -> None:
    """From its own progress on."""
    pipeline = _pipeline(warehouse)
    history = History(rows, size)
    for number in range(batches):
        batch = history.next()
        if number < int(_progress(warehouse).read_text()):
            continue
        began = time.perf_counter()
        if pipeline.has_pending_data:
            pipeline.run()
        _run(pipeline, batch.written, _UPSERT)
        _table(pipeline).delete(f"id IN ({', '.join(map(str, batch.deleted.tolist()))})")
        reports.send(time.perf_counter() - began)
        _progress(warehouse).write_text(str(number + 1))


def read(warehouse: str) -> pa.Table:
    found: pa.Table = _table(_pipeline(warehouse)).scan().to_arrow()
    return found


def _pipeline(warehouse: str) -> Any:
    import dlt  # what it imports takes seconds, which the other writers need not wait for

    # It reports to its makers otherwise.
    dlt.config["runtime.dlthub_telemetry"] = False
    logging.getLogger("dlt").setLevel(logging.CRITICAL)
    lake = dlt.destinations.filesystem(bucket_url=f"file://{warehouse}/dlt")
    return dlt.pipeline("peer", pipelines_dir=f"{warehouse}/dlt_pipelines", destination=lake, dataset_name="bank")


def _run(pipeline: Any, rows: pa.Table, how: Any) -> None:
    import dlt

    pipeline.run(dlt.resource(rows, name="entry", table_format="iceberg", write_disposition=how, primary_key="id"))


def _table(pipeline: Any) -> Any:
    from dlt.common.libs.pyiceberg import get_iceberg_tables

    return get_iceberg_tables(pipeline, "entry")["entry"]


def _progress(warehouse: str) -> Path:
    return Path(warehouse, "dlt.progress")
