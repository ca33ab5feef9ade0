"""What a span does to one table, after compaction, in the typed form: what a sink stages.

A keyed table has one row per key, its newest: `op`, `offset` and `met` stand beside it. A keyless table has one row
per image: `copies` stands beside it. The image that a delete had before it (`KeyedChange.replaced`) is not here: only
compaction needs it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from seamline.domain.catalogue import Table
from seamline.domain.errors import InvariantViolated
from seamline.values.arrow import field_of, schema_of


class Op(IntEnum):
    """The newest change of a key, as the log has it."""

    INSERT = 1
    UPDATE = 2
    DELETE = 3


@dataclass(frozen=True, slots=True)
class ChangeBatch:
    """Rows of one table, with arrays of equal length beside them.

    Of a keyed table, in the order of each key's first change in the span:
    `op` (int8, of `Op`). A delete's row is its image before; columns outside of the key may be NULL.
    `offset` (int64): of the newest change, in the log.
    `met` (bool): whether the first change of the key in this span expects to find a row: True for an update or delete,
    False for an insert. Meeting the opposite is a finding.
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
    op: pa.Array | None = None
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
    def is_delete(self) -> pa.BooleanArray:
        """True where a row of a keyed table goes."""
        return pc.equal(self.op, pa.scalar(Op.DELETE, pa.int8()))

    @property
    def expects_deletes(self) -> bool:
        """Whether a delete expects to find its row."""
        return self.table.is_keyed and _any(pc.and_(self.is_delete, self.met))

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
        if any(one is not None for one in (self.op, self.offset, self.met, self.missing, self.old_key)):
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
        yield from self._faults_of("op", self.op, pa.int8())
        yield from self._faults_of("offset", self.offset, pa.int64())
        yield from self._faults_of("met", self.met, pa.bool_())
        if _any(pc.invert(pc.is_in(self.op, pa.array(list(Op), pa.int8())))):
            yield "an op is none of the three"
        if self.missing is not None:
            yield from self._missing_faults(self.missing)
        yield from self._null_faults()
        if self.old_key is not None:
            yield from self._old_key_faults(self.old_key)

    def _null_faults(self) -> Iterator[str]:
        for column in self.table.columns:
            is_null = self.rows.column(column.name).is_null()
            if column.name in self.table.key:
                if _any(is_null):
                    yield f"{column.name} is of the key and holds NULL"
            elif not column.nullable:
                may_be_null = pc.or_(self.is_delete, self.is_missing(column.name))
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


def _any(flags: pa.Array) -> bool:
    return bool(pc.any(flags).as_py())
