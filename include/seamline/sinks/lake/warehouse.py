"""What keeps a folder or a store from being a warehouse, and the names of a table's columns from lying in any lake."""

import os
import secrets
from collections.abc import Collection, Iterator
from pathlib import Path

from seamline.domain.catalogue import Table
from seamline.domain.errors import SeamlineError
from seamline.plan.model import SyncPlan
from seamline.sinks.lake.files import content, namespace_folder, root_of, translated
from seamline.sinks.lake.identity import ROW_HASH
from seamline.sinks.lake.stores import is_stored, opened

_CURE = "rename the column at the source, or leave the table out of the sync: a column has the same name everywhere"


def of_warehouse(warehouse: str, connection: str = "") -> Iterator[tuple[str, str]]:
    """`connection`: id of what leads to a store. Whether it may be written to shows at the first load alone."""
    if is_stored(warehouse):
        yield from _of_store(warehouse, connection)
    elif not Path(warehouse).is_dir():
        yield f"the warehouse {warehouse} is no folder here", "make it, or mount it where it lies, on every machine"
    elif not os.access(warehouse, os.W_OK | os.X_OK):
        yield f"nothing can be written into the warehouse {warehouse}", "let this login write there"


def of_links(place: str) -> Iterator[tuple[str, str]]:
    """For logs in which one of two writers makes a hard link and the other fails. Nothing where the folder itself is
    missing or closed to this login: another check says so."""
    folder = Path(place)
    if not (folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)):
        return
    probe = folder / f".seamline-probe-{secrets.token_hex(8)}"
    link = probe.with_name(f"{probe.name}-link")
    try:
        probe.touch()
        os.link(probe, link)
    except OSError as exc:
        yield (
            f"no hard link can be made in {place}: {exc.strerror}",
            "put it on a file system that has them: by them one of two writers is kept from a number that is taken",
        )
    finally:
        link.unlink(missing_ok=True)
        probe.unlink(missing_ok=True)


def _of_store(warehouse: str, connection: str) -> Iterator[tuple[str, str]]:
    try:
        root = opened(warehouse, connection)
        with translated(f"look into the warehouse {warehouse}"):
            is_there = root.container.is_dir()
    except SeamlineError as exc:
        yield exc.message, exc.hint
    else:
        if not is_there:
            yield f"{root.container}, where the warehouse is to lie, is not there", "make it, or name another"


def of_namespace(warehouse: str, namespace: str, *, others: str, connection: str = "") -> Iterator[tuple[str, str]]:
    """Two formats in one folder would sweep each other's files. `others`: what a folder of the other has in it."""
    with translated(f"look into the warehouse {warehouse}"):
        folder = namespace_folder(root_of(warehouse, connection), namespace)
        found = sorted(str(path) for path in content(folder) if (path / others).is_dir())
    if found:
        yield f"{found[0]} is a table of another format", "choose another namespace or another warehouse"


def of_names(table: Table, *, refused: str = "", reserved: Collection[str] = ()) -> Iterator[tuple[str, str]]:
    """Spark and other engines ignore the case of column names. `refused`: characters that the format does not have;
    `reserved`: names, in lower case, that its clients keep for themselves."""
    known: dict[str, str] = {}
    for column in table.columns:
        other = known.setdefault(column.name.lower(), column.name)
        if other != column.name:
            yield f"columns {other} and {column.name} of table {table.name} are one to Spark", _CURE
        if column.name.lower() == ROW_HASH:
            yield (
                f"column {column.name} of table {table.name} has the name of the hash of rows without a key",
                _CURE,
            )
        if column.name.lower() in reserved:
            yield f"column {column.name} of table {table.name} has a name that clients keep for themselves", _CURE
        if found := [letter for letter in refused if letter in column.name]:
            yield f"column {column.name!r} of table {table.name} has {found[0]!r} in its name", _CURE


def of_all_names(plan: SyncPlan, *, refused: str = "", reserved: Collection[str] = ()) -> Iterator[tuple[str, str]]:
    for entry in plan.tables:
        if entry.table is not None:
            yield from of_names(entry.table, refused=refused, reserved=reserved)
