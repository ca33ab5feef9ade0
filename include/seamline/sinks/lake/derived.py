"""Derived tables of a lake: the power `Derives` over what a run holds of the live tables.

What a table is staged as is the snapshot that the run holds. A derived table is staged as a folder of files, as a load
is, and becomes a snapshot of its own table when its cut is published. Both sides of a comparison are read back from
the files, and summed here.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Protocol
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from seamline.adapters.connections import resolve
from seamline.databases.postgres.client import open_session
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.errors import SchemaConflict
from seamline.domain.verdict import TableVerdict
from seamline.kinds.bulk import ArrowRows, StagedPlace
from seamline.kinds.derived import BREAKS_LISTED, Groups, StagedPart, frame_schema, verdict_of_groups
from seamline.plan.model import DerivedTablePlan, DestinationPlan
from seamline.ports import Load
from seamline.sinks.lake.files import root_of, sync
from seamline.sinks.lake.loads import load, name_of, new_place, staged_files
from seamline.sinks.lake.pointers import Pointers
from seamline.sinks.lake.read_back import location_in
from seamline.sinks.lake.storage import RowStorage
from seamline.sinks.lake.stores import FilePath
from seamline.values.arrow import arrow_type, schema_of, table_of
from seamline.values.digest import canonical_texts

# The definition of a derived table, beside its files: no plan says it to whoever publishes the cut.
_DEFINITION = "definition.arrow"
_ROWS_AT_ONCE = 1_000_000
_EXACT_DIGITS = 76
_SIDE = "seamline side"
_NOT_GROUPED = frozenset({Kind.BINARY, Kind.BYTES, Kind.INTERVAL})
_BY_NUMBER = frozenset({Kind.TIME, Kind.TIME_OF_DAY})


class PinnedFiles(Protocol):
    """Columns of a table at one snapshot, whose files have the same order at any time."""

    @property
    def parts(self) -> int:
        """How many files there are."""

    def batches_of(self, files: slice) -> Iterator[pa.RecordBatch]:
        """The rows of these, as the table stores them."""


# Opens the named columns of a table, by its name, where its pointer leads, and a snapshot id.
OpenFiles = Callable[[str, str, int, Sequence[str]], PinnedFiles]


@dataclass(frozen=True, slots=True)
class LakeDerived:
    """The methods of `kinds.sink.Derives`, by the same names. `loads_in`: the namespace that loads are staged in."""

    catalogue: Pointers
    warehouse: str | FilePath
    loads_in: str
    storage: RowStorage
    open_files: OpenFiles

    def staged_parts(self, destination: DestinationPlan, load: Load, *, parts_max: int) -> Sequence[StagedPart]:
        files = self._pinned(destination, load, load.table.columns[:1]).parts
        count = max(1, min(files, parts_max))
        ends = [files * number // count for number in range(1, count)]
        return [StagedPart(*one) for one in zip([0, *ends], [*ends, None], strict=True)]

    def read_staged(
        self, destination: DestinationPlan, load: Load, columns: Sequence[Column], part: StagedPart
    ) -> Iterator[pa.RecordBatch]:
        chosen = replace(load.table, columns=tuple(columns), key=())
        for batch in self._pinned(destination, load, columns).batches_of(slice(part.start, part.end)):
            yield _frame(chosen, self.storage.typed(chosen, batch))

    def stage_derived(self, destination: DestinationPlan, table: Table, rows: pa.Table, *, run_id: str) -> Load:  # noqa: ARG002
        # Of this attempt: one that wakes up late writes where nobody looks any more.
        location = new_place(root_of(self.warehouse), self.loads_in, table.name)
        definition = location / _DEFINITION
        definition.write_bytes(schema_of(table).serialize())
        sync(definition)
        place = StagedPlace(table, self.loads_in, name_of(self.warehouse, location))
        batches = (_typed(table, batch) for batch in rows.to_batches(max_chunksize=_ROWS_AT_ONCE))
        count = load(self.warehouse, place, ArrowRows(schema_of(table), batches), self.storage)
        return Load(table, place.name, count)

    def read_derived(self, made: Load) -> Iterator[pa.RecordBatch]:
        for batch in staged_files(self.warehouse, made).batches(made.table, self.storage):
            yield _frame(made.table, batch)

    def compare_derived(
        self, destination: DestinationPlan, derived: DerivedTablePlan, *, base: Load, made: Load, position: str
    ) -> TableVerdict:
        columns = [base.table.column(name) for name in (*derived.by, derived.column)]
        wanted = _summed(derived, self.read_staged(destination, base, columns, StagedPart(0, None)))
        found = _rows(derived, self.read_derived(made), made.table)
        missing, unexpected = _differences(derived, wanted, found)
        return verdict_of_groups(
            derived,
            Groups(wanted.num_rows, _amount(derived, wanted), missing),
            Groups(found.num_rows, _amount(derived, found), unexpected),
            position=position,
        )

    def _pinned(self, destination: DestinationPlan, load: Load, columns: Sequence[Column]) -> PinnedFiles:
        with closing(open_session(resolve(destination.connection), application_name="seamline derives")) as session:
            heads = self.catalogue.pointers(session, destination.namespace)
        names = [column.name for column in columns]
        return self.open_files(load.table.name, location_in(heads, load.table), int(load.staged_as), names)


def definition_of(location: FilePath) -> Table:
    """Of a derived table that is staged there."""
    return table_of(pa.ipc.read_schema(pa.BufferReader((location / _DEFINITION).read_bytes())))


# ---- frames ---------------------------------------------------------------------------------------------------------


def _frame(table: Table, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows of the typed form as Spark's tasks get them."""
    schema = frame_schema(table.columns)
    arrays = [_framed(column, values) for column, values in zip(table.columns, rows.columns, strict=True)]
    cast = [values.cast(field.type) for values, field in zip(arrays, schema, strict=True)]
    return pa.RecordBatch.from_arrays(cast, schema=schema)


def _framed(column: Column, values: pa.Array) -> pa.Array:
    if column.kind in _NOT_GROUPED:
        raise SchemaConflict(
            f"column {column.name} is {column.source_type}: nothing is grouped by such values in a lake",
            hint="leave it out of derived tables",
        )
    if column.kind in _BY_NUMBER:
        return values.view(pa.int64())
    return canonical_texts(column, values) if column.kind is Kind.UUID else values


def _typed(table: Table, frame: pa.RecordBatch) -> pa.RecordBatch:
    """The inverse of `_frame`."""
    arrays = [_value(column, values) for column, values in zip(table.columns, frame.columns, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema_of(table))


def _value(column: Column, values: pa.Array) -> pa.Array:
    of = arrow_type(column)
    if column.kind is Kind.UUID:
        return pa.array([None if text is None else UUID(text).bytes for text in values.to_pylist()], of)
    if column.kind in _BY_NUMBER:
        return values.cast(pa.int64()).view(of)
    try:
        if column.kind is Kind.INSTANT:
            # With the zone, as `_frame` writes it, or without, as Spark does.
            return pc.utf8_rtrim(values, "Z").cast(pa.timestamp("us")).cast(of)
        return values.cast(of)
    except pa.ArrowInvalid as exc:
        raise SchemaConflict(
            f"column {column.name} {column.source_type} holds a value that a lake cannot group by: {exc}",
            hint="leave it out of derived tables",
        ) from exc


# ---- sums -----------------------------------------------------------------------------------------------------------


def _rows(derived: DerivedTablePlan, frames: Iterable[pa.RecordBatch], table: Table) -> pa.Table:
    """As `_summed` has them, but nothing is added up."""
    schema = frame_schema(table.columns)
    return _wide(derived, pa.Table.from_batches(frames, schema))


def _summed(derived: DerivedTablePlan, frames: Iterable[pa.RecordBatch]) -> pa.Table:
    """A row per group with its exact sum. What is in memory is the groups and some batches."""
    held, rows, groups = list[pa.Table](), 0, 0
    for frame in frames:
        held.append(_wide(derived, pa.Table.from_batches([frame])))
        rows += frame.num_rows
        if rows > _ROWS_AT_ONCE + 2 * groups:
            held = [_added(derived, held)]
            rows = groups = held[0].num_rows
    return _added(derived, held)


def _added(derived: DerivedTablePlan, parts: Sequence[pa.Table]) -> pa.Table:
    if not parts:
        return pa.table({name: pa.array([], pa.null()) for name in (*derived.by, derived.column)})
    added = pc.ScalarAggregateOptions(min_count=1)
    sums = pa.concat_tables(parts).group_by(list(derived.by)).aggregate([(derived.column, "sum", added)])
    return sums.rename_columns([*derived.by, derived.column])


def _wide(derived: DerivedTablePlan, rows: pa.Table) -> pa.Table:
    """With sums of 76 digits, which no table fills."""
    values = rows.column(derived.column)
    scale = values.type.scale if pa.types.is_decimal(values.type) else 0
    exact = values.cast(pa.decimal256(_EXACT_DIGITS, scale))
    return rows.select(list(derived.by)).append_column(derived.column, exact)


def _amount(derived: DerivedTablePlan, rows: pa.Table) -> Decimal | None:
    found: Decimal | None = pc.sum(rows.column(derived.column), min_count=1).as_py()
    return found


def _differences(
    derived: DerivedTablePlan, wanted: pa.Table, found: pa.Table
) -> tuple[Sequence[Sequence[object]], Sequence[Sequence[object]]]:
    """The rows that are only wanted, and those that are only found."""
    sides = [
        rows.append_column(_SIDE, pa.array([side] * rows.num_rows, pa.int64()))
        for rows, side in ((wanted, 1), (found, -1))
    ]
    both = pa.concat_tables(sides, promote_options="permissive")
    names = [*derived.by, derived.column]
    counted = both.group_by(names).aggregate([(_SIDE, "sum")]).select([*names, f"{_SIDE}_sum"])
    side = counted.column(f"{_SIDE}_sum")
    missing, unexpected = (
        counted.filter(mask).slice(0, BREAKS_LISTED).drop_columns(f"{_SIDE}_sum")
        for mask in (pc.greater(side, 0), pc.less(side, 0))
    )
    return [list(row.values()) for row in missing.to_pylist()], [list(row.values()) for row in unexpected.to_pylist()]
