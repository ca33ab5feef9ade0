"""Changes of the log as canonical texts: by these a comparison brings a side to a later position."""

from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from seamline.domain.canonical import exact_columns, row_of_texts
from seamline.domain.catalogue import Table
from seamline.domain.changes import TableChanges
from seamline.domain.errors import InvariantViolated
from seamline.domain.log_patch import PatchedRow, TablePatch
from seamline.values.changes import ChangeBatch, ChangeDecoder, change_batch
from seamline.values.digest import key_texts
from seamline.values.segments import texts_of


def patch_of(table: Table, changes: TableChanges, decoder: ChangeDecoder) -> TablePatch:
    """By the path of a stream's changes, as far as a sink takes them. Raises as `change_batch` does."""
    batch = change_batch(table, changes, decoder)
    names = [column.name for column in table.columns]
    rows = [dict(zip(names, texts, strict=True)) for texts in texts_of(table.columns, batch.rows)]
    if table.is_keyed:
        return TablePatch(rows=_by_key(table, batch, rows), emptied=batch.truncate_first)
    copies: dict[str, tuple[dict[str, str | None], int]] = {}
    if batch.copies is None:
        raise InvariantViolated("a batch of a table without a key has no copies", table=table.name)
    for row, count in zip(rows, batch.copies.to_pylist(), strict=True):
        # Two images of the log may be written differently and be one row.
        text = row_of_texts(exact_columns(table), row)
        _, known = copies.get(text, (row, 0))
        copies[text] = row, known + count
    return TablePatch(copies={text: one for text, one in copies.items() if one[1]}, emptied=batch.truncate_first)


def _by_key(table: Table, batch: ChangeBatch, rows: list[dict[str, str | None]]) -> dict[str, PatchedRow]:
    keys = key_texts(table, batch.rows).to_pylist()
    deleted = batch.deleted.to_pylist() if batch.deleted is not None else [False] * len(rows)
    missing, taken_from = _missing(table, batch), _old_keys(table, batch)
    found: dict[str, PatchedRow] = {}
    for number, (key, row) in enumerate(zip(keys, rows, strict=True)):
        if deleted[number]:
            found[key] = PatchedRow(None)
        else:
            lacking = tuple(name for name, flags in missing.items() if flags[number])
            found[key] = PatchedRow(row, lacking, (taken_from[number] or key) if lacking else "")
    return found


def _missing(table: Table, batch: ChangeBatch) -> dict[str, list[bool]]:
    if batch.missing is None:
        return {}
    return {column.name: batch.is_missing(column.name).to_pylist() for column in table.columns}


def _old_keys(table: Table, batch: ChangeBatch) -> list[str | None]:
    """The canonical key under which each row stood before, where that is another one."""
    if batch.old_key is None:
        return [None] * batch.rows.num_rows
    given = reduce(pc.and_, [column.is_valid() for column in batch.old_key.columns])
    keys = pa.RecordBatch.from_arrays(batch.old_key.columns, schema=batch.old_key.schema).filter(given)
    texts = iter(_texts_of_keys(table, keys))
    return [next(texts) if is_given else None for is_given in given.to_pylist()]


def _texts_of_keys(table: Table, keys: pa.RecordBatch) -> list[str]:
    columns = table.key_columns
    names = [column.name for column in columns]
    return [row_of_texts(columns, dict(zip(names, texts, strict=True))) for texts in texts_of(columns, keys)]
