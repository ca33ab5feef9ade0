"""Iceberg tables by themselves: those that any tool writes, read at their newest snapshots by a login that may read."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from pyiceberg.table import StaticTable
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.separate import NOWHERE, Stand
from seamline.plan.model import DestinationPlan
from seamline.ports import Problem, Survey
from seamline.ports.separate import OpenedSide
from seamline.sinks.iceberg.io import static_table, warehouse_io
from seamline.sinks.iceberg.options import options_of
from seamline.sinks.iceberg.read_back import heads_of, live
from seamline.sinks.lake.files import translated
from seamline.sinks.lake.identity import ROW_HASH
from seamline.sinks.lake.read_back import location_in
from seamline.sinks.lake.read_view import LakeView

_KINDS: Mapping[type[IcebergType], Kind] = {
    BooleanType: Kind.BOOLEAN,
    FloatType: Kind.FLOAT,
    DoubleType: Kind.DOUBLE,
    DateType: Kind.DATE,
    StringType: Kind.STRING,
    UUIDType: Kind.UUID,
    BinaryType: Kind.BYTES,
}
_MICROSECONDS: Mapping[type[IcebergType], Kind] = {
    TimeType: Kind.TIME_OF_DAY,
    TimestampType: Kind.DATETIME,
    TimestamptzType: Kind.INSTANT,
}
_BITS = {IntegerType: 32, LongType: 64}


@dataclass(frozen=True, slots=True)
class IcebergSide:
    """`ports.separate.SeparateSide`."""

    destination: DestinationPlan

    def survey(self, tables: Sequence[str]) -> Survey:
        heads = heads_of(self.destination, options_of(self.destination))
        found, problems = list[Table](), list[Problem]()
        for name in tables:
            if name not in heads:
                problems.append(_missing(name, self.destination, heads))
                continue
            fields = self._at(heads[name]).schema().fields
            columns = [_column(field) for field in fields if field.name != ROW_HASH]
            unread = [field for field in fields if field.name != ROW_HASH and _column(field) is None]
            problems += [_no_kind(name, field) for field in unread]
            if not unread:
                found.append(Table(name, tuple(column for column in columns if column is not None)))
        return Survey(tuple(found), tuple(problems))

    def open(self, tables: Sequence[Table], count: int) -> OpenedSide:
        """Of each table the snapshot that the catalogue named at one moment. They stay readable until their writer lets
        the snapshots expire. The moment is by the clock of this machine: a lake has none."""
        options = options_of(self.destination)
        heads, now, io = heads_of(self.destination, options), datetime.now(UTC), warehouse_io(options)
        read, places = {}, []
        for table in tables:
            location = location_in(heads, table)
            snapshot = self._at(location).current_snapshot()
            read[table] = live(_widened(table), location, snapshot.snapshot_id if snapshot else None, io=io)
            places.append(f"{table.name} at snapshot {snapshot.snapshot_id}" if snapshot else f"{table.name} empty")
        place = ", ".join(places)
        return OpenedSide([LakeView(NOWHERE, read)] * count, Stand(place, now, mark=place))

    def _at(self, location: str) -> StaticTable:
        with translated(f"read {location}"):
            return static_table(location, warehouse_io(options_of(self.destination)))


def _column(field: NestedField) -> Column | None:
    """None: nothing that is compared has values of this type."""
    kind, of = field.field_type, f"{field.field_type}"
    column = Column(field.name, Kind.NATIVE, of, nullable=not field.required)
    match kind:
        case IntegerType() | LongType():
            return replace(column, kind=Kind.INTEGER, length=_BITS[type(kind)])
        case FloatType() | DoubleType():
            # By this name a FLOAT of MariaDB is known, which prints other digits than these values have.
            return replace(column, kind=_KINDS[type(kind)], source_type=f"iceberg {of}")
        case DecimalType():
            return replace(column, kind=Kind.DECIMAL, precision=kind.precision, scale=kind.scale)
        case FixedType():
            return replace(column, kind=Kind.BINARY, length=len(kind))
        case TimeType() | TimestampType() | TimestamptzType():
            return replace(column, kind=_MICROSECONDS[type(kind)], precision=6)
        case _:
            return replace(column, kind=_KINDS[type(kind)]) if type(kind) in _KINDS else None


def _widened(table: Table) -> Table:
    """Whole numbers as they lie in files: a key that the source holds in fewer bits may be any number here."""
    return replace(
        table,
        columns=tuple(
            replace(column, length=64) if column.kind is Kind.INTEGER else column for column in table.columns
        ),
    )


def _missing(name: str, destination: DestinationPlan, known: Mapping[str, str]) -> Problem:
    near = difflib.get_close_matches(name, list(known), n=1)
    what = f"table {name} is not in namespace {destination.namespace} of catalogue {options_of(destination).catalog}"
    return Problem(what, f"Did you mean `{near[0]}`?" if near else "Correct its name, or the namespace", table=name)


def _no_kind(table: str, field: NestedField) -> Problem:
    what = f"column {field.name} of table {table} is {field.field_type}, which cannot be compared"
    return Problem(what, "Compare a table without it, or a view of the source that has it as a text", table=table)
