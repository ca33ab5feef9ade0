"""What a PostgreSQL destination does not take of a table's shape, known from the source's catalogue alone.

Most of it would be met late: at the publish, at the first change, at the first long value.
"""

from collections.abc import Iterator

from seamline.adapters.postgres.statements import OWN_PREFIX
from seamline.domain.catalogue import Column, Table
from seamline.domain.cut_names import CUT_COLUMNS

# https://www.postgresql.org/docs/18/ddl-system-columns.html
_SYSTEM_COLUMNS = frozenset({"tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"})
_RENAME = "rename the column at the source, or leave the table out of the sync: a column has the same name everywhere"


def refusals(table: Table) -> Iterator[tuple[str, str]]:
    """What keeps the table out for good, and how to mend it."""
    for column in table.columns:
        if column.name in _SYSTEM_COLUMNS:
            yield f"{_place(table, column)} has the name of a column that PostgreSQL gives every table itself", _RENAME
        elif column.name.startswith(OWN_PREFIX):
            yield (
                f"{_place(table, column)} begins with {OWN_PREFIX}, as what Seamline stages beside a table's columns",
                _RENAME,
            )


def refusals_of_cuts(table: Table) -> Iterator[tuple[str, str]]:
    """What keeps the table out of nightly cuts."""
    for column in table.columns:
        if column.name in CUT_COLUMNS:
            yield f"{_place(table, column)} has the name of a column that every nightly cut adds", _RENAME


def _place(table: Table, column: Column) -> str:
    return f"column {column.name} of table {table.name}"
