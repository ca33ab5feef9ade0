"""A table's layout as Iceberg has it, and rows divided by it: each file of a load lies in one partition."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.partitioning import PARTITION_FIELD_ID_START, UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform, Transform, TruncateTransform
from pyiceberg.typedef import Record

from seamline.domain.catalogue import Table
from seamline.kinds.bulk import StagedPlace, TableRows
from seamline.sinks.iceberg import types
from seamline.sinks.iceberg.io import warehouse_root
from seamline.sinks.iceberg.layout import Partitioned, TableLayout
from seamline.sinks.iceberg.options import LakeOptions
from seamline.sinks.iceberg.types import iceberg_type
from seamline.sinks.lake import loads as lake_loads
from seamline.sinks.lake.rows import Numbers
from seamline.sinks.lake.storage import parquet_file
from seamline.sinks.lake.stores import FilePath


def load(options: LakeOptions, place: StagedPlace, rows: TableRows) -> int:
    """`SinkKind.load`."""
    layout = options.layout(place.table.name)
    parts = None if layout == TableLayout() else Division(place.table, layout).parts
    return lake_loads.load(warehouse_root(options), place, rows, types, parts=parts)


def spec_of(layout: TableLayout, schema: Schema) -> PartitionSpec:
    if not layout.partitioned_by:
        return UNPARTITIONED_PARTITION_SPEC
    fields = [
        PartitionField(schema.find_field(one.column).field_id, number, _transform(one), one.name)
        for number, one in enumerate(layout.partitioned_by, PARTITION_FIELD_ID_START)
    ]
    return PartitionSpec(*fields)


def order_of(layout: TableLayout, schema: Schema) -> SortOrder:
    if not layout.sorted_by:
        return UNSORTED_SORT_ORDER
    fields = [
        SortField(
            source_id=schema.find_field(one.column).field_id,
            transform=IdentityTransform(),
            direction=SortDirection.DESC if one.is_descending else SortDirection.ASC,
            null_order=NullOrder.NULLS_FIRST if one.are_nulls_first else NullOrder.NULLS_LAST,
        )
        for one in layout.sorted_by
    ]
    return SortOrder(*fields, order_id=1)


class Division:
    """Of one table's stored rows by its layout."""

    def __init__(self, table: Table, layout: TableLayout) -> None:
        self._layout = layout
        self._transforms = [
            (one.column, _transform(one).transform(iceberg_type(table.column(one.column))))
            for one in layout.partitioned_by
        ]

    @property
    def is_whole(self) -> bool:
        """Whether there are no partitions."""
        return not self._transforms

    def parts(self, rows: pa.Table) -> Iterator[pa.Table]:
        """The rows of each partition, in the table's order as far as NULL does not matter."""
        for taken in self.places(rows):
            yield self._sorted(rows.take(pa.array(taken)))

    def places(self, rows: pa.Table) -> Iterator[Numbers]:
        """Which rows lie in each partition, in the order that they have."""
        place = np.zeros(rows.num_rows, np.int64)
        for name, transform in self._transforms:
            numbers, values = _transformed(rows.column(name), transform)
            _, place = np.unique(place * len(values) + numbers, return_inverse=True)
        order = np.argsort(place, kind="stable")
        ends = np.flatnonzero(np.diff(place[order])) + 1
        yield from np.split(order, ends)

    def partition_of(self, file: FilePath) -> Record:
        """The partition of a file that holds one: that of its first row."""
        if not self._transforms:
            return Record()
        names = list(dict.fromkeys(name for name, _ in self._transforms))
        return self.partition_of_first(
            pa.Table.from_batches([next(parquet_file(file).iter_batches(batch_size=1, columns=names))])
        )

    def partition_of_first(self, rows: pa.Table) -> Record:
        """The partition of stored rows that all lie in one."""
        first = rows.slice(0, 1)
        found = (_transformed(first.column(name), transform) for name, transform in self._transforms)
        return Record(*(values[numbers[0]] for numbers, values in found))

    def _sorted(self, rows: pa.Table) -> pa.Table:
        if not self._layout.sorted_by:
            return rows
        keys = {f"k{number}": one for number, one in enumerate(self._layout.sorted_by)}
        compared = pa.table({name: _plain(rows.column(one.column)) for name, one in keys.items()})
        by = [(name, "descending" if one.is_descending else "ascending") for name, one in keys.items()]
        return rows.take(pc.sort_indices(compared, sort_keys=by))


def _transform(one: Partitioned) -> Transform[Any, Any]:
    match one.transform:
        case "bucket":
            return BucketTransform(one.width)
        case "truncate":
            return TruncateTransform(one.width)
        case "day":
            return DayTransform()
        case _:
            return IdentityTransform()


def _plain(column: pa.ChunkedArray) -> pa.Array:
    values = column.combine_chunks()
    return values.storage if isinstance(values, pa.ExtensionArray) else values


def _transformed(column: pa.ChunkedArray, transform: Any) -> tuple[Numbers, list[Any]]:
    """Of each row the number of its value among the transformed ones."""
    values = _plain(column)
    # As Iceberg counts: days and microseconds since 1970.
    if pa.types.is_date32(values.type):
        values = values.cast(pa.int32())
    elif pa.types.is_timestamp(values.type):
        values = values.cast(pa.int64())
    encoded = values.dictionary_encode()
    made: dict[Any, int] = {}
    number_of = [made.setdefault(transform(value), len(made)) for value in encoded.dictionary.to_pylist()]
    # NULL stays NULL, whatever is made of values.
    number_of.append(made.setdefault(None, len(made)))
    places = pc.fill_null(encoded.indices, len(number_of) - 1).to_numpy()
    return np.array(number_of, np.int64)[places], list(made)
