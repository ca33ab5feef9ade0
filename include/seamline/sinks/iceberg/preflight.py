"""What keeps Iceberg tables from taking a sync's: the catalogue's database, the warehouse, names of columns."""

import os
from collections.abc import Iterator
from pathlib import Path

from seamline.domain.catalogue import Table
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.ports import Problem
from seamline.sinks.iceberg.options import options_of
from seamline.sinks.lake.catalogue import Catalogue
from seamline.sinks.lake.identity import ROW_HASH
from seamline.sinks.lake.preflight import problems as problems_of_the_catalogue

# Iceberg's metadata columns (`MetadataColumns`, Iceberg 1.12): Spark opens no table that has one of its own.
_OF_ICEBERG = frozenset(
    {
        "_file",
        "_pos",
        "_deleted",
        "_spec_id",
        "_partition",
        "_change_type",
        "_change_ordinal",
        "_commit_snapshot_id",
        "_row_id",
        "_last_updated_sequence_number",
    }
)


def problems(plan: SyncPlan, destination: DestinationPlan) -> tuple[Problem, ...]:
    options = options_of(destination)
    found = [*_of_the_warehouse(options.warehouse)]
    found += [one for table in plan.tables if table.table is not None for one in of_names(table.table)]
    return (
        *(Problem(f"destination {destination.name}: {what}", cure) for what, cure in found),
        *problems_of_the_catalogue(plan, destination, Catalogue(options.catalog)),
    )


def of_names(table: Table) -> Iterator[tuple[str, str]]:
    """Spark and other engines ignore the case of column names."""
    cure = "rename the column at the source, or leave the table out of the sync: a column has the same name everywhere"
    known: dict[str, str] = {}
    for column in table.columns:
        other = known.setdefault(column.name.lower(), column.name)
        if other != column.name:
            yield f"columns {other} and {column.name} of table {table.name} are one to Spark", cure
        if column.name.lower() in _OF_ICEBERG:
            yield (
                f"column {column.name} of table {table.name} has a name that Iceberg's clients keep for themselves",
                cure,
            )
        if column.name.lower() == ROW_HASH:
            yield f"column {column.name} of table {table.name} has the name of the hash of rows without a key", cure


def _of_the_warehouse(warehouse: str) -> Iterator[tuple[str, str]]:
    if not Path(warehouse).is_dir():
        yield f"the warehouse {warehouse} is no folder here", "make it, or mount it where it lies, on every machine"
    elif not os.access(warehouse, os.W_OK | os.X_OK):
        yield f"nothing can be written into the warehouse {warehouse}", "let this login write there"
