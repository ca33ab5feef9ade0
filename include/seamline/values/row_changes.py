"""What a table has at one place and not, or otherwise, at another.

Rows are told apart by 128 bits of a hash of their values' texts, so a comparison holds 64 bytes of each row in memory
and never a row of both sides. A value has changed where it is stored otherwise. A column that one side lacks is NULL
there.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seamline.domain.cut_names import SINCE_COLUMNS
from seamline.domain.errors import InvariantViolated, SchemaConflict

CHANGE = SINCE_COLUMNS[0]
ADDED, CHANGED_TO, REMOVED, CHANGED_FROM = "added", "changed_to", "removed", "changed_from"
_HASH_BYTES = 16
_TEXT = pa.large_utf8()
_COLON, _NOTHING = (pa.scalar(text, _TEXT) for text in (":", ""))
_BYTES = (pa.binary(), pa.large_binary())
_NULL = "~"

Batches = Callable[[], Iterable[pa.RecordBatch]]
_Codes = np.ndarray[tuple[int], np.dtype[np.int64]]
_Mask = np.ndarray[tuple[int], np.dtype[np.bool_]]


@dataclass(frozen=True, slots=True)
class Side:
    """A table at one place. `batches` reads all of its rows, in one order however often."""

    schema: pa.Schema
    batches: Batches


@dataclass(frozen=True, slots=True)
class _Hashes:
    """Of each row of a side: of its key, or without one of all of its values, and of all of its values."""

    keys: pa.Array
    rows: pa.Array


def changes_schema(since: pa.Schema, until: pa.Schema) -> pa.Schema:
    """`cut_change`, then the columns of the later side, then those that only the earlier one has. SchemaConflict: a
    column has another type."""
    for field in since:
        place = until.get_field_index(field.name)
        if place >= 0 and until.field(place).type != field.type:
            raise SchemaConflict(
                f"column {field.name} is {field.type} at the first place and {until.field(place).type} at the second",
                hint="compare two places between which it did not change, or read both and cast it",
            )
    gone = [field for field in since if until.get_field_index(field.name) < 0]
    columns = (pa.field(field.name, field.type) for field in (*until, *gone))
    return pa.schema([pa.field(CHANGE, pa.string(), nullable=False), *columns])


def changes_between(since: Side, until: Side, key: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Rows of `until` that are `added` or `changed_to`, then those of `since` that are `removed` or `changed_from`.

    Each side is read twice. Without a key, identical rows are the same row, by their number, and none is changed.
    InvariantViolated: two rows of a side have one key.
    """
    schema = changes_schema(since.schema, until.schema)
    before, after = (_hashes(side, schema, key) for side in (since, until))
    first, second = _codes(before.keys, after.keys)
    if key:
        of_old, of_new = _codes(before.rows, after.rows)
        old, new = (first, of_old), (second, of_new)
        came, went = _of_keyed(new, old), _of_keyed(old, new)
    else:
        came, went = _of_keyless(second, first), _of_keyless(first, second)
    yield from _shown(until, schema, *came, words=(ADDED, CHANGED_TO))
    yield from _shown(since, schema, *went, words=(REMOVED, CHANGED_FROM))


def _of_keyed(mine: tuple[_Codes, _Codes], other: tuple[_Codes, _Codes]) -> tuple[_Mask, _Mask]:
    """Of each of my rows, whether the other side has no row of its key, and whether it has another one."""
    (keys, rows), (other_keys, other_rows) = mine, other
    for found in (keys, other_keys):
        if len(np.unique(found)) != len(found):
            raise InvariantViolated("two rows of a table have one key")
    size = max(keys.max(initial=-1), other_keys.max(initial=-1)) + 1
    row_of_key = np.full(size, -1, np.int64)
    row_of_key[other_keys] = other_rows
    found = row_of_key[keys]
    return found < 0, (found >= 0) & (found != rows)


def _of_keyless(mine: _Codes, other: _Codes) -> tuple[_Mask, _Mask]:
    """The same of rows that are told apart by their number alone."""
    size = max(mine.max(initial=-1), other.max(initial=-1)) + 1
    order = np.argsort(mine, kind="stable")
    counts = np.bincount(mine, minlength=size)
    starts = np.cumsum(counts) - counts
    number = np.empty(len(mine), np.int64)
    number[order] = np.arange(len(mine)) - starts[mine[order]]
    return number >= np.bincount(other, minlength=size)[mine], np.zeros(len(mine), np.bool_)


def _shown(
    side: Side, schema: pa.Schema, is_alone: _Mask, is_changed: _Mask, *, words: tuple[str, str]
) -> Iterator[pa.RecordBatch]:
    start = 0
    for batch in side.batches():
        part = slice(start, start + batch.num_rows)
        start += batch.num_rows
        shown = pa.array(is_alone[part] | is_changed[part])
        change = pa.array(np.where(is_alone[part], *words)).cast(pa.string())
        columns = (_column(batch, field) for field in list(schema)[1:])
        found = pa.RecordBatch.from_arrays([change, *columns], schema=schema).filter(shown)
        if found.num_rows:
            yield found


def _hashes(side: Side, schema: pa.Schema, key: Sequence[str]) -> _Hashes:
    names = schema.names[1:]
    of_rows: list[bytes] = []
    of_keys: list[bytes] = []
    for batch in side.batches():
        texts = {name: _texts(_column(batch, schema.field(name))) for name in names}
        of_rows.append(_hashed([texts[name] for name in names], batch.num_rows))
        of_keys.append(_hashed([texts[name] for name in key], batch.num_rows) if key else of_rows[-1])
    return _Hashes(*(_array(b"".join(found)) for found in (of_keys, of_rows)))


def _array(hashes: bytes) -> pa.Array:
    width = pa.binary(_HASH_BYTES)
    return pa.Array.from_buffers(width, len(hashes) // _HASH_BYTES, [None, pa.py_buffer(hashes)])


def _codes(first: pa.Array, second: pa.Array) -> tuple[_Codes, _Codes]:
    """A number for each hash, the same for equal ones."""
    indices = pa.concat_arrays([first, second]).dictionary_encode().indices.to_numpy().astype(np.int64)
    return indices[: len(first)], indices[len(first) :]


def _column(batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    place = batch.schema.get_field_index(field.name)
    return batch.column(place) if place >= 0 else pa.nulls(batch.num_rows, field.type)


def _hashed(texts: Sequence[pa.Array], rows: int) -> bytes:
    """Each value with its length before it, so that two rows have one text only where all values are equal."""
    fields = [pc.binary_join_element_wise(pc.binary_length(one).cast(_TEXT), one, _COLON) for one in texts]
    whole = pc.binary_join_element_wise(*fields, _NOTHING, null_handling="replace", null_replacement=_NULL)
    assert len(whole) == rows
    return b"".join(hashlib.sha256(text.encode()).digest()[:_HASH_BYTES] for text in whole.to_pylist())


def _texts(values: pa.Array) -> pa.Array:
    """By which no two different values of a type are equal; NULL stays NULL."""
    kind = values.type
    if isinstance(kind, pa.ExtensionType):
        return _texts(values.storage)
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        return values.view(pa.int32() if kind.bit_width == 32 else pa.int64()).cast(_TEXT)
    if pa.types.is_nested(kind) or pa.types.is_fixed_size_binary(kind) or kind in _BYTES:
        return pa.array([None if value is None else repr(value) for value in values.to_pylist()], _TEXT)
    return values.cast(_TEXT)
