"""Tables of a sync at one position as Spark reads them.

    from seamline_spark.data_source import SeamlineDataSource

    spark.dataSource.register(SeamlineDataSource)
    spark.read.format("seamline").option("sync", "settlement").option("date", "2026-11-27").option("table", "account")

Where `date` is left out, the newest proven cut is read; `live` reads the newest commit, each `load` its own, and of a
database only while its stream stands there. All tables of one cut stand at one position. `since` names another cut:
then the rows are those that differ between the two, with `cut_change` before them. `destination` names one of several.
The driver asks the platform database where the tables are; the executors read the warehouse, or the database by a
connection that they resolve themselves: options, plan and log have its id at most.
"""

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

import pyarrow as pa
from pyspark.errors import PySparkValueError
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from seamline.kinds.reading import PinnedTable
from seamline.reading import open_changes, open_sync

# Beyond so many a table's parts are read by the same tasks: a part may be a small file.
_TASKS_MAX = 64
_OPTIONS = ("sync", "table", "destination", "date", "since")
_LISTED = ", ".join(_OPTIONS)


class SeamlineDataSource(DataSource):
    """`format("seamline")`, for reading."""

    @classmethod
    def name(cls) -> str:
        return "seamline"

    def schema(self) -> StructType:
        return from_arrow_schema(plain(self._table().schema), prefer_timestamp_ntz=True)

    def reader(self, schema: StructType) -> "SeamlineReader":
        return SeamlineReader(self._table(), schema)

    def _table(self) -> PinnedTable:
        options = {name: self.options.get(name, "") for name in _OPTIONS}
        for name in self.options:
            if name.lower() not in _OPTIONS:
                near = "".join(f", did you mean {one!r}?" for one in get_close_matches(name, _OPTIONS, n=1))
                raise PySparkValueError(f"format seamline has no option {name!r}{near or f': {_LISTED}'}")
        for name in ("sync", "table"):
            if not options[name]:
                raise PySparkValueError(f"format seamline needs .option({name!r}, …)")
        at = options["date"] or "proven"
        if options["since"]:
            return open_changes(
                options["sync"], options["table"], since=options["since"], at=at, destination=options["destination"]
            )
        return open_sync(options["sync"], at=at, destination=options["destination"]).table(options["table"])


@dataclass
class Part(InputPartition):
    """What one task reads: one part of so many."""

    number: int
    of: int


class SeamlineReader(DataSourceReader):
    """A table whose snapshot is known: whatever is committed meanwhile, its tasks read the same."""

    def __init__(self, table: PinnedTable, schema: StructType) -> None:
        self._table = table
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        of = max(1, min(self._table.parts, _TASKS_MAX))
        return [Part(number, of) for number in range(of)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Part)
        schema = to_arrow_schema(self._schema)
        for batch in self._table.batches(part=partition.number, of=partition.of):
            columns = [_as_text(column) for column in batch.columns]
            yield pa.RecordBatch.from_arrays(columns, names=batch.schema.names).cast(schema)


def plain(schema: pa.Schema) -> pa.Schema:
    """As Spark has it, which has no type for a UUID: it is its text."""
    return pa.schema([field.with_type(pa.string()) if _is_uuid(field.type) else field for field in schema])


def _as_text(column: pa.Array) -> pa.Array:
    if not _is_uuid(column.type):
        return column
    return pa.array([None if value is None else _text(value) for value in column.to_pylist()], pa.string())


def _text(value: uuid.UUID | bytes) -> str:
    return str(value if isinstance(value, uuid.UUID) else uuid.UUID(bytes=value))


def _is_uuid(type_: pa.DataType) -> bool:
    return isinstance(type_, pa.UuidType)
