"""What a batch of changes means for a table of a lake, whoever looks its rows up and writes them."""

import json
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seamline.domain.catalogue import Table
from seamline.domain.changes import Finding
from seamline.domain.errors import Diverged
from seamline.sinks.lake.identity import identities
from seamline.sinks.lake.rows import Flags, Numbers
from seamline.values.build import values_of
from seamline.values.changes import ChangeBatch

_CHANGED = "somebody changed the table in the destination: put its rows back as they were"


@dataclass(frozen=True, slots=True)
class NetCopies:
    """A batch of a table without a key, summed: a row may stand in it twice, written differently.

    `identities`: one of each row. `removed`: how many copies of each go. `added`: the rows that come, copy by copy.
    """

    identities: pa.Array
    removed: Numbers
    added: pa.RecordBatch


def net_copies(table: Table, batch: ChangeBatch) -> NetCopies:
    assert batch.copies is not None
    encoded = identities(table, batch.rows).dictionary_encode()
    which = encoded.indices.to_numpy()
    net = np.zeros(len(encoded.dictionary), np.int64)
    np.add.at(net, which, batch.copies.to_numpy())
    _, first = np.unique(which, return_index=True)
    added = batch.rows.take(pa.array(np.repeat(first, np.maximum(net, 0))))
    return NetCopies(encoded.dictionary, np.maximum(-net, 0), added)


def require_copies(table: Table, wanted: int, *, found: int) -> None:
    """Diverged where fewer rows are there than should go."""
    if found < wanted:
        raise Diverged(
            f"{wanted} rows of {table.name} should go, the destination holds only {found} of them",
            hint=_CHANGED,
            table=table.name,
        )


def require_stored(table: Table, *, lacking: int) -> None:
    """Diverged where a change leaves values out and its row is not there to have them."""
    if lacking:
        raise Diverged(
            f"{lacking} changes of {table.name} leave out values that did not change, of rows that the destination does"
            " not have",
            hint=_CHANGED,
            table=table.name,
        )


def findings_of(table: Table, batch: ChangeBatch, is_there: Flags) -> list[Finding]:
    """The changes that expected a row and met none, or met one and expected none."""
    assert batch.deleted is not None and batch.met is not None and batch.offset is not None
    is_known, met = (values.to_numpy(zero_copy_only=False) for values in (batch.met.is_valid(), _or_false(batch.met)))
    odd = np.flatnonzero((met != is_there) & is_known)
    if not len(odd):
        return []
    taken = pa.array(odd)
    keys = [values_of(column, batch.rows.column(column.name).take(taken)) for column in table.key_columns]
    texts = [json.dumps(dict(zip(table.key, key, strict=True)), default=str) for key in zip(*keys, strict=True)]
    beside = (values.take(taken).to_pylist() for values in (batch.deleted, batch.met, batch.offset))
    return [
        Finding(table.name, _kind(is_deleted=is_deleted, met=met), text, offset)
        for text, is_deleted, met, offset in zip(texts, *beside, strict=True)
    ]


def _or_false(flags: pa.BooleanArray) -> pa.BooleanArray:
    return pc.fill_null(flags, pa.scalar(value=False))


def _kind(*, is_deleted: bool, met: bool) -> str:
    if not met:
        return "insert met a row"
    return "delete met no row" if is_deleted else "update met no row"
