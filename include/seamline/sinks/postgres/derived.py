"""Derived tables of a cut: staged rows for Spark's tasks to add up, and what they made, compared with those rows:
PostgreSQL adds them up itself."""

from collections.abc import Iterator, Sequence
from contextlib import closing

import pyarrow as pa

from seamline.adapters.connections import resolve
from seamline.databases.postgres.canonical import quoted
from seamline.databases.postgres.client import Row, Session, open_session, translated
from seamline.domain.catalogue import Column, Table
from seamline.domain.verdict import TableVerdict
from seamline.kinds.derived import BREAKS_LISTED, Groups, StagedPart, verdict_of_groups
from seamline.plan.model import DerivedTablePlan, DestinationPlan
from seamline.ports import Load
from seamline.sinks.postgres.arrow_rows import page_ranges, read_batches, write_table
from seamline.sinks.postgres.staging import StagingArea, build_index, relation


def staged_parts(destination: DestinationPlan, load: Load, *, parts_max: int) -> Sequence[StagedPart]:
    with closing(_session(destination)) as session:
        return page_ranges(session, _relation(destination, load), parts=parts_max)


def read_staged(
    destination: DestinationPlan, load: Load, columns: Sequence[Column], part: StagedPart
) -> Iterator[pa.RecordBatch]:
    with closing(_session(destination)) as session:
        yield from read_batches(session, _relation(destination, load), columns, part)


def stage_derived(destination: DestinationPlan, table: Table, rows: pa.Table, *, run_id: str) -> Load:
    connection = resolve(destination.connection)
    # An area of its own: that of the cut takes tables of the same run for an earlier attempt's.
    area = StagingArea(connection, destination, run_id=f"{run_id} derived {table.name}")
    place = area.create([table])[table.name]
    with closing(_session(destination)) as session:
        write_table(session, relation(place), rows)
    build_index(connection, place)
    return Load(table, place.name, rows.num_rows)


def compare_derived(
    destination: DestinationPlan, derived: DerivedTablePlan, *, base: Load, made: Load, position: str
) -> TableVerdict:
    by = ", ".join(quoted(name) for name in derived.by)
    column = quoted(derived.column)
    cut, kept = _relation(destination, base), _relation(destination, made)
    wanted = f"SELECT {by}, sum({column})::numeric AS total FROM {cut} GROUP BY {by}"
    found = f"SELECT {by}, {column}::numeric AS total FROM {kept}"
    with closing(_session(destination)) as session, translated("compare the derived table", table=derived.name):
        return verdict_of_groups(
            derived, _groups(session, wanted, found), _groups(session, found, wanted), position=position
        )


def _groups(session: Session, mine: str, other: str) -> Groups:
    row: Row = session.execute(f"SELECT count(*), sum(total) FROM ({mine}) AS m".encode()).fetchone() or (0, None)
    alone = session.execute(
        f"SELECT * FROM (({mine}) EXCEPT ALL ({other})) AS d ORDER BY d LIMIT {BREAKS_LISTED}".encode()
    )
    return Groups(int(row[0]), row[1], alone.fetchall())


def _relation(destination: DestinationPlan, load: Load) -> str:
    return f"{quoted(destination.stage_namespace)}.{quoted(load.staged_as)}"


def _session(destination: DestinationPlan) -> Session:
    return open_session(resolve(destination.connection), application_name="seamline derived")
