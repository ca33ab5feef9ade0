"""Changes of a table whose rows are staged by ranges of their keys."""

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from seamline.domain.errors import Diverged
from seamline.domain.load_splits import KeyRange
from seamline.values.changes import ChangeBatch


def in_key_ranges(batch: ChangeBatch, ranges: Sequence[KeyRange]) -> ChangeBatch:
    """The changes of rows in these ranges. A row that moves in or out comes as the deletion of one key and another
    key's row: each is judged by its own.

    Diverged where a row takes values, which the log left out, from one that lies in none of these ranges.
    """
    key = batch.table.key[0]
    kept = _within(batch.rows.column(key), ranges)
    rows = batch.rows.filter(kept)
    old_key = None if batch.old_key is None else batch.old_key.filter(kept)
    if old_key is not None and _any(
        pc.and_(old_key.column(0).is_valid(), pc.invert(_within(old_key.column(0), ranges)))
    ):
        raise Diverged(
            f"a row of {batch.table.name} has changed its key, and the log left out values of the row before that",
            hint="REPLICA IDENTITY FULL lets the log have them",
            table=batch.table.name,
        )
    return replace(
        batch,
        rows=rows,
        deleted=None if batch.deleted is None else batch.deleted.filter(kept),
        offset=None if batch.offset is None else batch.offset.filter(kept),
        met=None if batch.met is None else batch.met.filter(kept),
        missing=None if batch.missing is None else batch.missing.filter(kept),
        old_key=old_key,
    )


def _within(keys: pa.Array, ranges: Sequence[KeyRange]) -> pa.Array:
    """False for a key that is NULL."""
    found = [_above(keys, low, below) for low, below in ranges]
    return pc.fill_null(reduce(pc.or_, found), pa.scalar(value=False))


def _above(keys: pa.Array, low: int | None, below: int | None) -> pa.Array:
    # Of the keys' own type: a number alone would be taken for a signed one.
    inside = keys.is_valid()
    if low is not None:
        inside = pc.and_(inside, pc.greater_equal(keys, pa.scalar(low, keys.type)))
    if below is not None:
        inside = pc.and_(inside, pc.less(keys, pa.scalar(below, keys.type)))
    return inside


def _any(flags: pa.Array) -> bool:
    return bool(pc.any(flags).as_py())
