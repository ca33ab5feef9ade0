"""What keeps a destination of files from taking a sync's cuts: its place, its staging, names. Changes nothing."""

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

from seamline.domain.errors import ConfigError
from seamline.files.stores.opening import open_store
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.ports import Problem
from seamline.sinks.files.changes.columns import RESERVED
from seamline.sinks.files.cuts import OWN
from seamline.sinks.files.options import FilesOptions, options_of
from seamline.sinks.lake.warehouse import of_links

_RENAME_COLUMN = "rename it at the source, or leave the table out of this destination"
_RENAME = "rename it at the source or by `as`, or leave the table out of the sync"


def problems(plan: SyncPlan, destination: DestinationPlan) -> tuple[Problem, ...]:
    """TransientError where a server does not answer; a refused login is a problem like any other."""
    options = options_of(destination)
    found = [
        *_of_the_place(destination),
        *_of_staging(destination, options),
        *_of_names(plan, options),
    ]
    return tuple(Problem(f"destination {destination.name}: {what}", cure) for what, cure in found)


def problems_of_changes(plan: SyncPlan, destination: DestinationPlan) -> tuple[Problem, ...]:
    """The same for files of changes."""
    found = [
        *_of_the_place(destination),
        *_of_staging(destination, options_of(destination)),
        *_of_folders(plan),
        *_of_columns(plan),
    ]
    return tuple(Problem(f"destination {destination.name}: {what}", cure) for what, cure in found)


def _of_folders(plan: SyncPlan) -> Iterator[tuple[str, str]]:
    """Each table has a folder, and not every store distinguishes letters of either case."""
    known: dict[str, str] = {}
    for table in plan.tables:
        other = known.setdefault(table.name.lower(), table.name)
        if other != table.name:
            yield f"the folder of table {table.name} and that of table {other} have one name", _RENAME


def _of_columns(plan: SyncPlan) -> Iterator[tuple[str, str]]:
    for entry in plan.tables:
        for column in entry.table.columns if entry.table is not None else ():
            if column.name.lower() in RESERVED:
                yield f"column {column.name} of {entry.name} has a name of change files' own", _RENAME_COLUMN


def _of_the_place(destination: DestinationPlan) -> Iterator[tuple[str, str]]:
    if not urlsplit(destination.namespace).scheme:
        yield from _of_folder("location", destination.namespace)
        yield from of_links(destination.namespace)
        return
    try:
        with closing(open_store(destination.namespace, destination.connection)) as store:
            store.names(OWN)
    except ConfigError as exc:
        yield exc.message, exc.hint


def _of_staging(destination: DestinationPlan, options: FilesOptions) -> Iterator[tuple[str, str]]:
    # One below the place is made with the first load.
    if not urlsplit(options.staging).scheme and not options.staging.startswith(f"{destination.namespace}/"):
        yield from _of_folder("staging", options.staging)


def _of_folder(key: str, folder: str) -> Iterator[tuple[str, str]]:
    if not Path(folder).is_dir():
        yield f"the {key} {folder} is no folder here", "make it, or mount it where it lies, on every machine"
    elif not os.access(folder, os.W_OK | os.X_OK):
        yield f"nothing can be written into the {key} {folder}", "let this login write there"


def _of_names(plan: SyncPlan, options: FilesOptions) -> Iterator[tuple[str, str]]:
    """Names of files that not every store distinguishes."""
    known: dict[str, str] = {options.control_file.lower(): "the control file", options.flag_file.lower(): "the flag"}
    for table in plan.tables:
        name = f"{table.name}.{options.format}".lower()
        other = known.setdefault(name, f"table {table.name}")
        if other != f"table {table.name}":
            yield f"the file of table {table.name} and that of {other} have one name", _RENAME
