"""Delete-insert: all rows of a table that a span touches are deleted first, then the new ones are inserted.

For a live table with a unique index that somebody added and that is checked row by row. It refuses states between two
rows that neither the source nor the end of the span has: two rows exchange their values, or one row takes a value that
another gives up. The usual way is one MERGE, whose order cannot be chosen.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from psycopg import errors

from seamline.databases.postgres.client import Row, Session
from seamline.domain.catalogue import Table
from seamline.domain.errors import SchemaConflict, SeamlineError
from seamline.sinks.postgres.arrays import BinaryArray
from seamline.sinks.postgres.statements import SpanStatements, TableStatements

# What a DELETE and INSERT of the same row would lose without an error: dependent rows that a foreign key deletes or
# changes, and values of columns that are not of the sync.
_FORBIDS = """
SELECT 'a deleted row takes along those of ' || conrelid::regclass || ' (foreign key ' || conname || ')'
FROM pg_constraint WHERE contype = 'f' AND confrelid = %(live)s::regclass AND confdeltype IN ('c', 'n', 'd')
UNION ALL
SELECT 'its column ' || attname || ' is not of the sync, and its values would be lost' FROM pg_attribute
WHERE attrelid = %(live)s::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''
AND NOT attname = ANY(%(columns)s) ORDER BY 1 LIMIT 1
"""
_CURE = "make the unique constraint DEFERRABLE INITIALLY DEFERRED: it is then checked at the commit. Nothing is applied"


def refused_on_the_way(exc: SeamlineError, on: TableStatements | None) -> str:
    """What a unique index of this live table said, where the error is its own; else ""."""
    cause = exc.__cause__
    if on is None or not on.table.is_keyed or not isinstance(cause, errors.UniqueViolation):
        return ""
    return exc.message if is_of(cause, on.schema, on.table.name) else ""


def is_of(refusal: errors.UniqueViolation, schema: str, table: str) -> bool:
    """Whether an index of this table said so, and not of one that a trigger writes."""
    return (refusal.diag.schema_name, refusal.diag.table_name) == (schema, table)


def delete_and_insert(
    session: Session,
    on: TableStatements,
    do: SpanStatements,
    parameter: tuple[BinaryArray, ...] | None,
    *,
    said: str,
) -> list[Row]:
    """Leaves and returns the same as `do.merge`. `said`: the index's error in the other order."""
    with deletable(session, on.table, on.live, said=said):
        session.execute(on.create_images.encode())
        session.execute(do.set_apart(on.images), parameter, prepare=False)
        session.execute(do.delete_touched, parameter, prepare=False)
    session.execute(on.insert_images.encode())
    return session.execute(on.image_findings.encode()).fetchall()


@contextmanager
def deletable(session: Session, table: Table, live: str, *, said: str) -> Iterator[None]:
    """Guards a deletion of rows that are inserted again: SchemaConflict if more would be lost, or a foreign key
    forbids."""
    columns = [column.name for column in table.columns]
    forbids = session.execute(_FORBIDS, {"live": live, "columns": columns}).fetchone()
    if forbids is not None:
        raise _cannot(table.name, said, forbids[0])
    try:
        yield
    except errors.ForeignKeyViolation as exc:
        raise _cannot(table.name, said, exc.diag.message_primary or str(exc)) from exc


def _cannot(name: str, said: str, why: str) -> SchemaConflict:
    return SchemaConflict(
        f"{said}; and rows of {name} cannot be deleted and inserted again: {why}", hint=_CURE, table=name
    )
