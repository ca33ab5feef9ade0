"""Derived tables of a cut: staged rows for Spark's tasks to add up, and what they made, compared with those rows: the
server adds them up itself."""

from collections.abc import Iterator, Sequence
from decimal import Decimal

import pyarrow as pa
from pymysql.cursors import SSCursor

from seamline.adapters.connections import resolve
from seamline.databases.mysql.canonical import quoted
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.errors import SchemaConflict
from seamline.domain.verdict import TableVerdict
from seamline.kinds.derived import BREAKS_LISTED, Groups, frame_schema, verdict_of_groups
from seamline.plan.model import DerivedTablePlan, DestinationPlan
from seamline.ports import Load
from seamline.sinks.relational.dialect import Dialect
from seamline.sinks.relational.encode import document_of, escaped, hashes_of, joined
from seamline.sinks.relational.places import relation, staged_place
from seamline.sinks.relational.session import Row, Session, close, load_rows, open_session, query, translated
from seamline.sinks.relational.staging import StagingArea, index_rows
from seamline.sinks.relational.statements import load_table
from seamline.values.arrow import BYTES, TEXT

_ROWS_AT_ONCE = 50_000
_BYTES = frozenset({Kind.BINARY, Kind.BYTES, Kind.UUID})


def read_staged(
    destination: DestinationPlan, load: Load, columns: Sequence[Column], dialect: Dialect
) -> Iterator[pa.RecordBatch]:
    """All rows: these servers number no pages by which one could divide them."""
    for column in columns:
        if column.kind in _BYTES:
            raise SchemaConflict(
                f"column {column.name} of {load.table.name} is {column.source_type}: nothing is grouped by bytes there",
                hint="leave it out of derived tables",
                table=load.table.name,
            )
    schema = frame_schema(columns)
    chosen = ", ".join(
        f"CAST({quoted(field.name)} AS CHAR)" if pa.types.is_string(field.type) else quoted(field.name)
        for field in schema
    )
    session = open_session(resolve(destination.connection), dialect)
    try:
        with translated("read staged rows", table=load.table.name), session.cursor(SSCursor) as cursor:
            cursor.execute(f"SELECT {chosen} FROM {_relation(destination, load)}")
            while rows := cursor.fetchmany(_ROWS_AT_ONCE):
                yield _batch(rows, schema)
    finally:
        close(session)


def _batch(rows: Sequence[Row], schema: pa.Schema) -> pa.RecordBatch:
    values = zip(*rows, strict=True)
    return pa.RecordBatch.from_arrays(
        [
            pa.array([Decimal(one) if isinstance(one, int) else one for one in column], field.type)
            if pa.types.is_decimal(field.type)
            else pa.array(column, field.type)
            for column, field in zip(values, schema, strict=True)
        ],
        schema=schema,
    )


def stage_derived(destination: DestinationPlan, table: Table, rows: pa.Table, dialect: Dialect, *, run_id: str) -> Load:
    connection = resolve(destination.connection)
    # An area of its own: that of the cut takes tables of the same run for an earlier attempt's.
    area = StagingArea(connection, destination, dialect, run_id=f"{run_id} derived {table.name}")
    place = area.create([table])[table.name]
    name = relation(place.schema, place.name)
    session = open_session(connection, dialect)
    try:
        with translated("write a derived table", table=table.name):
            for batch in rows.to_batches(max_chunksize=_ROWS_AT_ONCE):
                lines = joined([escaped(values.cast(TEXT)) for values in batch.columns])
                if not table.is_keyed:
                    lines = joined([escaped(pa.array(hashes_of(lines), BYTES)), lines])
                load_rows(session, load_table(name, table), [document_of(lines)])
            index_rows(session, table, name)
    finally:
        close(session)
    return Load(table, place.name, rows.num_rows)


def compare_derived(
    destination: DestinationPlan, derived: DerivedTablePlan, dialect: Dialect, *, base: Load, made: Load, position: str
) -> TableVerdict:
    by = ", ".join(quoted(name) for name in derived.by)
    column = quoted(derived.column)
    wanted = f"SELECT {by}, SUM({column}) AS total FROM {_relation(destination, base)} GROUP BY {by}"
    found = f"SELECT {by}, {column} AS total FROM {_relation(destination, made)}"
    session = open_session(resolve(destination.connection), dialect)
    try:
        with translated("compare the derived table", table=derived.name):
            return verdict_of_groups(
                derived, _groups(session, wanted, found), _groups(session, found, wanted), position=position
            )
    finally:
        close(session)


def _groups(session: Session, mine: str, other: str) -> Groups:
    ((count, amount),) = query(session, f"SELECT COUNT(*), SUM(total) FROM ({mine}) AS m")
    alone = query(session, f"SELECT * FROM (({mine}) EXCEPT ALL ({other})) AS d LIMIT {BREAKS_LISTED}")
    return Groups(int(count), amount, alone)


def _relation(destination: DestinationPlan, load: Load) -> str:
    return relation(*staged_place(load, destination))
