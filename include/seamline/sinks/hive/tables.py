"""The tables of a sync in a Hive metastore: made with the first cut, widened where columns have come, and refused
where they are somebody else's or a column has another type."""

import re
from collections.abc import Iterator
from pathlib import Path

from seamline.domain.catalogue import Table
from seamline.domain.cut_names import DATE_COLUMN
from seamline.domain.errors import Refused
from seamline.domain.ledger import StreamId
from seamline.sinks.hive.metastore import HiveTable, Metastore
from seamline.sinks.hive.types import hive_columns

_NAME = re.compile(r"[A-Za-z0-9_]+")
_RENAME = "rename it at the source or by `as`, or leave the table out of the sync"


def ready(metastore: Metastore, table: Table, stream: StreamId, warehouse: str) -> None:
    """The table is there afterwards, with all columns of this one. Refused where it cannot be."""
    # By Hive's custom, and apart from the folders of attempts, which are all that has files.
    folder = Path(warehouse) / f"{metastore.database}.db"
    name, columns = table.name.lower(), hive_columns(table)
    found = metastore.table(name)
    if found is None:
        # Where they are there, the service needs no right to write.
        (folder / name).mkdir(parents=True, exist_ok=True)
        if not metastore.has_database():
            metastore.make_database(folder)
        metastore.make_table(name, columns, folder / name, owner=str(stream))
        found = metastore.table(name)
    if found is not None:
        for what, cure in misfits(table, found, stream, metastore.database):
            raise Refused(what, hint=cure, table=table.name)
        known = {name for name, _ in found.columns}
        if added := [one for one in columns if one[0] not in known]:
            metastore.set_columns(name, [*found.columns, *added])


def misfits(table: Table, found: HiveTable, stream: StreamId, database: str) -> Iterator[tuple[str, str]]:
    """What keeps a table of this name in the metastore from taking the cuts of the sync's, and the cure."""
    name = f"{database}.{table.name.lower()}"
    if found.owner != str(stream) or not found.is_external or found.keys != ((DATE_COLUMN, "date"),):
        yield (
            f"table {name} exists in the metastore and was not made by {stream}",
            f"rename it there (ALTER TABLE {name} RENAME TO …), or choose another database",
        )
        return
    wanted = dict(hive_columns(table))
    for column, of in found.columns:
        if wanted.get(column, of) != of:
            yield (
                f"column {column} of {name} is {of} in the metastore and would be {wanted[column]}",
                f"rename the table there: ALTER TABLE {name} RENAME TO …; the next cut makes a new one",
            )


def of_names(tables: list[Table]) -> Iterator[tuple[str, str]]:
    """What a metastore cannot call so: names have letters, digits and underscores, without case."""
    known: dict[str, str] = {}
    for table in tables:
        if not _NAME.fullmatch(table.name):
            yield f"a Hive metastore has no table called {table.name!r}: letters a to z, digits and `_`", _RENAME
        other = known.setdefault(table.name.lower(), table.name)
        if other != table.name:
            yield f"tables {other} and {table.name} are one to a Hive metastore", _RENAME
        yield from _of_columns(table)


def _of_columns(table: Table) -> Iterator[tuple[str, str]]:
    known: dict[str, str] = {}
    for column in table.columns:
        other = known.setdefault(column.name.lower(), column.name)
        if other != column.name:
            yield f"columns {other} and {column.name} of table {table.name} are one to Hive", _RENAME
        if column.name.lower() == DATE_COLUMN:
            yield f"column {column.name} of table {table.name} has the name of the partition's column", _RENAME
