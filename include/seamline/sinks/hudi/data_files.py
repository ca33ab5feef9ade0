"""Parquet files of rows, under the names by which Hudi knows them."""

from pathlib import Path
from uuid import uuid4

import pyarrow.parquet as pq

from seamline.sinks.hudi.instants import text_of
from seamline.sinks.hudi.state import DataFile


def new_name(instant: int, epoch: int) -> str:
    """`<file id>_<write token>_<instant>.parquet`. Each file is a file group of its own: a change replaces it."""
    return f"{uuid4()}-0_0-{epoch}-0_{text_of(instant)}.parquet"


def written_file(path: Path) -> DataFile:
    return DataFile(path.name, pq.read_metadata(path).num_rows, path.stat().st_size)
