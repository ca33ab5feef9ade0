"""Delete-insert: all rows of a table that a span touches are deleted first, then the new ones are inserted.

For a live table with a unique index that somebody added. These servers check it row by row, and refuse states between
two rows that neither the source nor the end of the span has: two rows exchange their values, or one row takes a value
that another gives up.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pymysql
from pymysql.constants import ER

from seamline.databases.mysql.canonical import text_literal
from seamline.domain.catalogue import Table
from seamline.domain.errors import SchemaConflict, SeamlineError
from seamline.sinks.relational.dialect import OWN_PREFIX
from seamline.sinks.relational.session import Session, code_of, query, said
from seamline.sinks.relational.statements import TableStatements

# MySQL says of which table it is, too. Either name may have quotes.
_INDEX = re.compile(r"for key '(.+)'$")
_CHILDREN = {ER.ROW_IS_REFERENCED, ER.ROW_IS_REFERENCED_2}
# What a DELETE and INSERT of the same row would lose without an error: dependent rows that a foreign key deletes or
# changes, and values of columns that are not of the sync. MySQL says DEFAULT_GENERATED of a default by an expression.
_DEPENDENT = (
    "SELECT CONCAT('a deleted row takes along those of ', constraint_schema, '.', table_name, ' (foreign key ',"
    " constraint_name, ')') FROM information_schema.referential_constraints WHERE unique_constraint_schema = {database}"
    " AND referenced_table_name = {table} AND delete_rule IN ('CASCADE', 'SET NULL', 'SET DEFAULT') LIMIT 1"
)
_COLUMNS = (
    "SELECT column_name FROM information_schema.columns WHERE table_schema = {database} AND table_name = {table}"
    " AND extra NOT LIKE '%VIRTUAL GENERATED%' AND extra NOT LIKE '%STORED GENERATED%'"
)
_UNIQUE = (
    "SELECT 1 FROM information_schema.statistics WHERE table_schema = {database} AND table_name = {table}"
    " AND index_name = {index} AND NOT non_unique AND index_name <> 'PRIMARY' LIMIT 1"
)
_CURE = "drop the unique index, or make one that is not unique. Nothing is applied"


def refused_on_the_way(session: Session, exc: SeamlineError, on: TableStatements | None) -> str:
    """What a unique index of this live table said, where the error is its own; else ""."""
    if on is None or not on.table.is_keyed or not is_of(session, exc.__cause__, on.database, on.table):
        return ""
    return exc.message


def is_of(session: Session, refusal: BaseException | None, database: str, table: Table) -> bool:
    """Whether an index of this table said so, and not of one that a trigger writes."""
    if not isinstance(refusal, pymysql.err.MySQLError) or code_of(refusal) != ER.DUP_ENTRY:
        return False
    index = index_in(said(refusal), table.name)
    if not index:
        return False
    places = {"database": text_literal(database), "table": text_literal(table.name), "index": text_literal(index)}
    return bool(query(session, _UNIQUE.format(**places)))


def index_in(message: str, table: str) -> str:
    """The index that refused a row of this table, in the server's words; "" where it names none."""
    named = _INDEX.search(message)
    return named[1].removeprefix(f"{table}.") if named else ""


@contextmanager
def deletable(session: Session, table: Table, database: str, *, said: str) -> Iterator[None]:
    """Guards a deletion of rows that are inserted again: SchemaConflict if more would be lost, or a foreign key
    forbids."""
    if why := _forbids(session, table, database):
        raise _cannot(table.name, said, why)
    try:
        yield
    except pymysql.err.MySQLError as exc:
        if code_of(exc) not in _CHILDREN:
            raise
        raise _cannot(table.name, said, "rows of another table refer to them") from exc


def _forbids(session: Session, table: Table, database: str) -> str:
    places = {"database": text_literal(database), "table": text_literal(table.name)}
    for (why,) in query(session, _DEPENDENT.format(**places)):
        return str(why)
    own = {column.name for column in table.columns}
    for (name,) in query(session, _COLUMNS.format(**places)):
        if name not in own and not str(name).startswith(OWN_PREFIX):
            return f"its column {name} is not of the sync, and its values would be lost"
    return ""


def _cannot(name: str, said: str, why: str) -> SchemaConflict:
    return SchemaConflict(
        f"{said}; and rows of {name} cannot be deleted and inserted again: {why}", hint=_CURE, table=name
    )
