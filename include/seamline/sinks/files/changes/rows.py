"""What a span does to a table, as rows of a change file."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

import pyarrow as pa
import pyarrow.compute as pc

from seamline.domain.catalogue import Table
from seamline.kinds.held_rows import HeldRows, fill, keys_of, require_copies
from seamline.kinds.row_json import batch_of_texts, documents, text_of
from seamline.sinks.files.changes import columns
from seamline.sinks.files.changes.columns import ChangeForm
from seamline.values.changes import ChangeBatch, in_effect

_OPS = pa.array([columns.COMES, columns.CHANGES, columns.GOES])
_MILLISECOND_US = 1_000


@dataclass(slots=True)
class CommitMarks:
    """What each row says of the commit that brought it. `position`: JSON of where it stands in the source's log.
    `committed_ms`: when its last transaction was committed at the source; 0 where that is not known."""

    commit: int
    position: str
    committed_ms: int
    _order: "count[int]" = field(default_factory=count)

    def control(self, rows: int) -> dict[str, pa.Array | pa.Scalar]:
        """The columns of so many rows that follow."""
        at = self.committed_ms * _MILLISECOND_US if self.committed_ms else None
        return {
            columns.COMMIT: pa.scalar(self.commit, pa.int64()),
            columns.ORDER: pa.array([next(self._order) for _ in range(rows)], pa.int64()),
            columns.POSITION: pa.scalar(self.position, pa.string()),
            columns.COMMITTED_AT: pa.scalar(at, pa.timestamp("us", "UTC")),
        }


def needs_held(form: ChangeForm, batches: Sequence[ChangeBatch]) -> bool:
    """Whether what is held decides what these changes are: rows before them, values that the log left out, copies that
    go."""
    return form.has_before or any(
        batch.missing is not None or (batch.copies is not None and bool(pc.any(pc.less(batch.copies, 0)).as_py()))
        for batch in in_effect(batches)
    )


def changes_of(
    form: ChangeForm, batches: Sequence[ChangeBatch], marks: CommitMarks, held: HeldRows | None
) -> Iterator[pa.RecordBatch]:
    """The changes of one commit in their order; `held`, where it is given, follows them.

    Diverged: a change needs a row, or a copy to remove, that is not held.
    """
    for batch in in_effect(batches):
        if batch.truncate_first:
            yield form.with_control(None, {**marks.control(1), **_one(form.table, columns.TRUNCATED)}, 1)
            if held is not None:
                held.empty()
        yield _keyed(form, batch, marks, held) if form.table.is_keyed else _keyless(form, batch, marks, held)


def read_rows(form: ChangeForm, rows: pa.RecordBatch, marks: CommitMarks) -> pa.RecordBatch:
    """Rows of a load."""
    control = {**marks.control(rows.num_rows), **_one(form.table, columns.READ)}
    return form.with_control(rows, control, rows.num_rows)


def _one(table: Table, op: str) -> dict[str, pa.Scalar]:
    found = {columns.OP: pa.scalar(op, pa.string())}
    if not table.is_keyed:
        found[columns.COPIES] = pa.scalar(0 if op == columns.TRUNCATED else 1, pa.int64())
    return found


def _keyed(form: ChangeForm, batch: ChangeBatch, marks: CommitMarks, held: HeldRows | None) -> pa.RecordBatch:
    # Of a table that does not hold every row nobody knows whether a row was there: it is written as a change.
    is_new = pc.invert(pc.fill_null(batch.met, fill_value=True))
    op = pc.if_else(batch.deleted, columns.GOES, pc.if_else(is_new, columns.COMES, columns.CHANGES))
    control = {**marks.control(batch.rows.num_rows), columns.OP: op, columns.OFFSET: batch.offset}
    rows = batch.rows
    if held is not None:
        keys = keys_of(form.table, rows)
        if form.has_before:
            before = [held.row(key) for key in keys]
            control[columns.BEFORE] = pa.array([None if row is None else row.decode() for row in before], pa.string())
        rows = _followed(form.table, batch, keys, held)
    return form.with_control(rows, control, rows.num_rows)


def _followed(table: Table, batch: ChangeBatch, keys: list[bytes], held: HeldRows) -> pa.RecordBatch:
    found = documents(table, table.columns, batch.rows)
    fill(batch, found, keys, held)
    texts = [text_of(one) for one in found]
    deleted = batch.deleted.to_pylist() if batch.deleted is not None else []
    held.put((key, None if goes else text) for key, text, goes in zip(keys, texts, deleted, strict=True))
    return batch.rows if batch.missing is None else batch_of_texts(table, texts)


def _keyless(form: ChangeForm, batch: ChangeBatch, marks: CommitMarks, held: HeldRows | None) -> pa.RecordBatch:
    if held is not None:
        _count(form.table, batch, held)
    op = pc.if_else(pc.greater(batch.copies, 0), columns.COMES, columns.GOES)
    control = {**marks.control(batch.rows.num_rows), columns.OP: op, columns.COPIES: batch.copies}
    return form.with_control(batch.rows, control, batch.rows.num_rows)


def _count(table: Table, batch: ChangeBatch, held: HeldRows) -> None:
    """One row may stand in a batch twice, written differently, with copies of either sign."""
    net: dict[bytes, int] = {}
    copies = batch.copies.to_pylist() if batch.copies is not None else []
    for document, number in zip(documents(table, table.columns, batch.rows), copies, strict=True):
        row = text_of(document)
        net[row] = net.get(row, 0) + number
    for row, number in net.items():
        if number < 0:
            require_copies(table, row, -number, held)
    held.count(net)
