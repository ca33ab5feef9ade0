"""What a span does to one table, after compaction, in the typed form: what a sink stages.

A keyed table has one row per key, its newest: `deleted`, `offset` and `met` stand beside it. A keyless table has one
row per image: `copies` stands beside it. The image that a delete had before it (`KeyedChange.replaced`) is not here:
only compaction needs it.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Protocol, runtime_checkable

import pyarrow as pa
import pyarrow.compute as pc

from seamline.domain.catalogue import PARK_IT, Table
from seamline.domain.changes import KeyedChange, TableChanges
from seamline.domain.errors import InvariantViolated, SchemaConflict
from seamline.values.arrow import field_of, schema_of


class ChangeDecoder(Protocol):
    """Gives row images, as a kind of source has them in its log, their types."""

    def rows(self, table: Table, images: Sequence[bytes]) -> tuple[pa.RecordBatch, pa.RecordBatch | None]:
        """The rows in the table's schema, in the order of the images, and as `ChangeBatch.missing` what they lack; None
        where they lack nothing.

        LogCorrupted: an image is no JSON object. SchemaConflict: other columns or types than planned, or a value that
        the typed form does not have. A column that takes no NULL may hold it: who asks knows where it may.
        """


@runtime_checkable
class TakesRowsOut(ChangeDecoder, Protocol):
    """A decoder of tables that hold only some of the source's rows."""

    def held(
        self, table: Table, images: Sequence[bytes], *, deleted: Sequence[bool]
    ) -> tuple[pa.RecordBatch, pa.RecordBatch | None, pa.BooleanArray | None]:
        """As `rows`, and which of them the table holds; None where it holds all. The others have their key alone, as
        have those that are `deleted`."""


@dataclass(frozen=True, slots=True)
class ChangeBatch:
    """Rows of one table, with arrays of equal length beside them.

    Of a keyed table, in the order of each key's first change in the span:
    `deleted` (bool): the row goes. It has its key; its other columns may be NULL.
    `offset` (int64): of the newest change, in the log.
    `met` (bool): whether the first change of the key in this span expects to find a row: True for an update or delete,
    False for an insert. Meeting the opposite is a finding. NULL throughout for a table that does not hold every row:
    nobody knows.
    `missing`: per column of which the log left values out, by its name, True where this row's value is the stored one.
    The row has NULL there.
    `old_key`: the key columns, with the key of the stored row that has the missing values, where that is not the row's
    own; else NULL.

    Of a keyless table, in any order:
    `copies` (int64): how many to add, or to remove where negative; never 0.

    `truncate_first`: before these changes the table was emptied, also of those that chunks before this one hold.
    `chunk` 1, 2, …: a part of a transaction that is larger than memory. The sink spills it where readers see nothing,
    and joins the chunks, in this order, in the one commit of the transaction; 0 is a whole batch, or what comes behind
    all chunks. `changes_in`: how many changes of the log this came from.
    """

    table: Table
    rows: pa.RecordBatch
    deleted: pa.Array | None = None
    offset: pa.Array | None = None
    copies: pa.Array | None = None
    met: pa.Array | None = None
    missing: pa.RecordBatch | None = None
    old_key: pa.RecordBatch | None = None
    truncate_first: bool = False
    changes_in: int = 0
    chunk: int = 0

    def __post_init__(self) -> None:
        """InvariantViolated where the parts do not fit each other: our own bug, found before anything is sent."""
        for fault in self._faults():
            raise InvariantViolated(f"a batch of changes does not fit together: {fault}", table=self.table.name)

    @property
    def is_empty(self) -> bool:
        return not self.rows.num_rows and not self.truncate_first

    @property
    def expects_deletes(self) -> bool:
        """Whether a delete expects to find its row."""
        return self.table.is_keyed and _any(pc.and_(self.deleted, self.met))

    def is_missing(self, column: str) -> pa.BooleanArray:
        """True where the log left the column's value out."""
        if self.missing is None or column not in self.missing.schema.names:
            return pa.array([False] * self.rows.num_rows, pa.bool_())
        return self.missing.column(column)

    def _faults(self) -> Iterator[str]:
        """The first is certain; those behind it may come of it."""
        if not self.rows.schema.equals(schema_of(self.table), check_metadata=True):
            yield "the rows have another schema"
        if self.chunk < 0:
            yield "the chunk's number is negative"
        yield from self._keyed_faults() if self.table.is_keyed else self._keyless_faults()

    def _keyless_faults(self) -> Iterator[str]:
        if any(one is not None for one in (self.deleted, self.offset, self.met, self.missing, self.old_key)):
            yield "a table without a key has copies alone"
        yield from self._faults_of("copies", self.copies, pa.int64())
        if _any(pc.equal(self.copies, 0)):
            yield "a row of 0 copies is no change"
        for column in self.table.columns:
            if not column.nullable and self.rows.column(column.name).null_count:
                yield f"{column.name} is NOT NULL and holds NULL"

    def _keyed_faults(self) -> Iterator[str]:
        if self.copies is not None:
            yield "a table with a key has no copies"
        yield from self._faults_of("deleted", self.deleted, pa.bool_())
        yield from self._faults_of("offset", self.offset, pa.int64())
        is_unknown = self.met is not None and self.met.null_count == len(self.met)
        met = pc.fill_null(self.met, pa.scalar(value=False)) if is_unknown else self.met
        yield from self._faults_of("met", met, pa.bool_())
        if self.missing is not None:
            yield from self._missing_faults(self.missing)
        yield from self._null_faults()
        if self.old_key is not None:
            yield from self._old_key_faults(self.old_key)

    def _null_faults(self) -> Iterator[str]:
        for column in self.table.columns:
            if not self.rows.column(column.name).null_count:
                continue
            is_null = self.rows.column(column.name).is_null()
            if column.name in self.table.key:
                if _any(is_null):
                    yield f"{column.name} is of the key and holds NULL"
            elif not column.nullable:
                may_be_null = pc.or_(self.deleted, self.is_missing(column.name))
                if _any(pc.and_not(is_null, may_be_null)):
                    yield f"{column.name} is NOT NULL and holds NULL"

    def _missing_faults(self, missing: pa.RecordBatch) -> Iterator[str]:
        for name in missing.schema.names:
            if name not in self.rows.schema.names:
                yield f"missing has a column {name}, the table has none"
            yield from self._faults_of(f"missing.{name}", missing.column(name), pa.bool_())
            if _any(pc.and_(missing.column(name), self.rows.column(name).is_valid())):
                yield f"{name} has a value in a row where it is missing"

    def _old_key_faults(self, old_key: pa.RecordBatch) -> Iterator[str]:
        if not old_key.schema.equals(old_key_schema(self.table)):
            yield "old_key has another schema"
        if old_key.num_rows != self.rows.num_rows:
            yield f"old_key has {old_key.num_rows} values of {self.rows.num_rows} rows"
        is_given = old_key.column(0).is_valid()
        if not all(column.is_valid().equals(is_given) for column in old_key.columns):
            yield "an old key is given in part"
        lacks_any = reduce(pc.or_, [self.is_missing(column.name) for column in self.table.columns])
        if _any(pc.and_not(is_given, lacks_any)):
            yield "a row has an old key and all its values"

    def _faults_of(self, name: str, array: pa.Array | None, of: pa.DataType) -> Iterator[str]:
        if array is None:
            yield f"{name} is not given"
        elif array.type != of:
            yield f"{name} is {array.type}, should be {of}"
        elif len(array) != self.rows.num_rows:
            yield f"{name} has {len(array)} values of {self.rows.num_rows} rows"
        elif array.null_count:
            yield f"{name} holds NULL"


def old_key_schema(table: Table) -> pa.Schema:
    """The schema of `ChangeBatch.old_key`: the key columns, each of which may be NULL."""
    return pa.schema([field_of(replace(column, nullable=True)) for column in table.key_columns])


def change_batch(table: Table, changes: TableChanges, decoder: ChangeDecoder) -> ChangeBatch:
    """The changes of a table in the typed form. Raises as `ChangeDecoder.rows` does, and SchemaConflict for a NULL in a
    column that takes none."""
    return _keyed(table, changes, decoder) if table.is_keyed else _keyless(table, changes, decoder)


def in_effect(batches: Sequence[ChangeBatch]) -> Sequence[ChangeBatch]:
    """The batches of one commit of a table, one after another: chunks in their order, then what comes behind them.

    A truncate undoes every chunk before it, so these are left out.
    """
    in_order = sorted(batches, key=lambda batch: (batch.chunk == 0, batch.chunk))
    first = max((number for number, batch in enumerate(in_order) if batch.truncate_first), default=0)
    return in_order[first:]


def under_name(batch: ChangeBatch, table: Table) -> ChangeBatch:
    """The changes as those of a table of the same columns under another name."""
    return replace(batch, table=table, rows=batch.rows.replace_schema_metadata(schema_of(table).metadata))


def _keyless(table: Table, changes: TableChanges, decoder: ChangeDecoder) -> ChangeBatch:
    rows, missing, held = _held(table, list(changes.net), [False] * len(changes.net), decoder)
    if missing is not None:
        raise InvariantViolated("a row of a table without a key lacks values", table=table.name)
    copies = pa.array(list(changes.net.values()), pa.int64())
    if held is not None:
        rows, copies = rows.filter(held), copies.filter(held)
    _require_values(table, rows)
    return ChangeBatch(
        table,
        rows,
        copies=copies,
        truncate_first=changes.truncate_first,
        changes_in=changes.changes_in,
        chunk=changes.chunk,
    )


def _keyed(table: Table, changes: TableChanges, decoder: ChangeDecoder) -> ChangeBatch:
    keyed, key = changes.keyed, frozenset(table.key)
    images = [_key_alone(change.row, key) if change.is_delete else change.row for change in keyed]
    goes = [change.is_delete for change in keyed]
    rows, missing, held = _held(table, images, goes, decoder)
    deleted = pa.array(goes, pa.bool_())
    met = pa.array([change.met_row for change in keyed], pa.bool_())
    if held is not None:
        # A row that is not held any more goes, whether it was held before or not.
        deleted, met = pc.or_(deleted, pc.invert(held)), pa.nulls(len(keyed), pa.bool_())
    _require_values(table, rows, deleted=deleted, missing=missing)
    return ChangeBatch(
        table,
        rows,
        deleted=deleted,
        offset=pa.array([change.offset for change in keyed], pa.int64()),
        met=met,
        missing=missing,
        old_key=None if missing is None else _old_keys(table, keyed, missing, decoder),
        truncate_first=changes.truncate_first,
        changes_in=changes.changes_in,
        chunk=changes.chunk,
    )


def _held(
    table: Table, images: Sequence[bytes], deleted: Sequence[bool], decoder: ChangeDecoder
) -> tuple[pa.RecordBatch, pa.RecordBatch | None, pa.BooleanArray | None]:
    if isinstance(decoder, TakesRowsOut):
        return decoder.held(table, images, deleted=deleted)
    return (*decoder.rows(table, images), None)


def _old_keys(
    table: Table, keyed: Sequence[KeyedChange], missing: pa.RecordBatch, decoder: ChangeDecoder
) -> pa.RecordBatch | None:
    """None where no row that lacks values has changed its key."""
    lacks = reduce(pc.or_, missing.columns).to_pylist()
    found = [change.taken_from if lack else None for change, lack in zip(keyed, lacks, strict=True)]
    given = [one for one in found if one is not None]
    if not given:
        return None
    keys, _ = decoder.rows(replace(table, columns=table.key_columns), given)
    numbers = iter(range(len(given)))
    places = pa.array([None if one is None else next(numbers) for one in found], pa.int64())
    return pa.RecordBatch.from_arrays([column.take(places) for column in keys.columns], schema=old_key_schema(table))


def _require_values(
    table: Table, rows: pa.RecordBatch, *, deleted: pa.Array | None = None, missing: pa.RecordBatch | None = None
) -> None:
    """SchemaConflict for a NULL that the planned table cannot have."""
    for column, values in zip(table.columns, rows.columns, strict=True):
        is_key = column.name in table.key
        if not values.null_count or (column.nullable and not is_key):
            continue
        is_faulty = values.is_null()
        if deleted is not None and not is_key:
            is_faulty = pc.and_not(is_faulty, deleted)
        if missing is not None and column.name in missing.schema.names:
            is_faulty = pc.and_not(is_faulty, missing.column(column.name))
        if _any(is_faulty):
            raise SchemaConflict(
                f"a row image of {table.name} holds NULL in column {column.name}, which takes none",
                hint=f"the schema of the table changed: {PARK_IT}",
                table=table.name,
            )


def _key_alone(image: bytes, key: frozenset[str]) -> bytes:
    """A row that goes, by its key. What else stands in its image is not to be read: where the log of PostgreSQL has the
    key alone, Debezium writes stand-ins into columns that take no NULL."""
    try:
        row = json.loads(image)
    except ValueError:
        return image  # the decoder finds it, and says so
    if not isinstance(row, dict):
        return image
    # Written without spaces, as captures do: the reader of images counts the NULLs of such texts.
    alone = {name: value if name in key else None for name, value in row.items()}
    return json.dumps(alone, separators=(",", ":")).encode()


def _any(flags: pa.Array) -> bool:
    return bool(pc.any(flags).as_py())
