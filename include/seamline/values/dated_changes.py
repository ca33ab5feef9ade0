"""Changes of a table that holds the rows of some dates only."""

from dataclasses import replace

import pyarrow as pa

from seamline.domain.digest import Segment
from seamline.values.changes import ChangeBatch
from seamline.values.segments import in_segment

_COPIES = "seamline.copies"


def of_dates(batch: ChangeBatch, dates: Segment) -> ChangeBatch:
    """The changes that such a table takes: of one without a key those of rows of these dates, for no other row is in
    it. With a key all of them: a row may leave the dates, or be none of them before."""
    if batch.table.is_keyed:
        return batch
    fields = [*batch.rows.schema, pa.field(_COPIES, pa.int64())]
    beside = pa.RecordBatch.from_arrays([*batch.rows.columns, batch.copies], schema=pa.schema(fields))
    kept = in_segment(replace(dates, table=batch.table.name), batch.table, beside, run_key="")
    rows = pa.RecordBatch.from_arrays(kept.columns[:-1], schema=batch.rows.schema)
    return replace(batch, rows=rows, copies=kept.column(_COPIES))
