"""What stands already where the cuts of a table would stand."""

from collections.abc import Iterator, Sequence

from seamline.databases.postgres.canonical import text_literal
from seamline.databases.postgres.client import Session
from seamline.databases.postgres.read import Relation
from seamline.domain.cut_names import changes_view, current_view, proven_view
from seamline.plan.model import DestinationPlan

_KINDS = {"v": "view", "m": "materialized view", "f": "foreign table", "S": "sequence", "i": "index"}
# What the views of cuts read, whichever sync made them.
_NUMBERS = "seamline.cut_number"
_OF_CUTS = ("seamline.cut_pointer", "seamline.cut_table")


def name_conflicts(
    session: Session, destination: DestinationPlan, *, sync: str, tables: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """What is in the way of the cuts of these tables, and how to mend it."""
    for table in tables:
        for view in views_of(destination, table):
            kind, definition = _seen(session, view)
            yield from in_place_of_view(view, table, kind=kind, definition=definition, sync=sync)
        yield from in_place_of_cuts(session, destination, table)


def in_place_of_cuts(session: Session, destination: DestinationPlan, table: str) -> Iterator[tuple[str, str]]:
    """What is wrong with the relation that has the name of all cuts of a table."""
    cuts = Relation(destination.cut_namespace, table)
    kind, definition = _seen(session, cuts)
    is_versioned, shows_versions = table in destination.versioned, kind == "v" and _NUMBERS in definition
    if not kind or (shows_versions if is_versioned else kind == "p"):
        return
    if kind == "p" or shows_versions:
        was, now = ("copies", "versions") if is_versioned else ("versions", "copies")
        yield (
            f"the cuts of table {table} in {destination.cut_namespace} are stored as {was}, and declared to be {now}",
            put_aside(destination, table, "…", what="TABLE" if kind == "p" else "VIEW"),
        )
        return
    word = _KINDS.get(kind, "table")
    yield (
        f"{cuts} is a {word}, and the cuts of table {table} need this name",
        f"ALTER {word.upper()} {cuts} RENAME TO …; where it is a partition of the cuts of another table, leave {table}"
        " out of the sync",
    )


def put_aside(destination: DestinationPlan, table: str, aside: str, *, what: str) -> str:
    """The statements that give the name of all cuts free. `aside`: the new name, as SQL has it. `what`: VIEW where they
    are versions, else TABLE."""
    views = ", ".join(str(view) for view in views_of(destination, table))
    parent = Relation(destination.cut_namespace, table)
    return f"DROP VIEW IF EXISTS {views}; ALTER {what} {parent} RENAME TO {aside}"


def views_of(destination: DestinationPlan, table: str) -> tuple[Relation, Relation, Relation]:
    """That of the versions that count, that of the newest proven cut, and that of what differs between two."""
    return (
        Relation(destination.cut_namespace, current_view(table)),
        Relation(destination.namespace, proven_view(table)),
        Relation(destination.cut_namespace, changes_view(table)),
    )


def in_place_of_view(view: Relation, table: str, *, kind: str, definition: str, sync: str) -> Iterator[tuple[str, str]]:
    """What is wrong with the relation that has the name of a cut view. `kind`: its relkind, "" if there is none."""
    if not kind or (kind == "v" and f"sync = {text_literal(sync)}::text" in definition):
        return
    need = f"and the cuts of table {table} need this name for a view"
    if kind in ("r", "p"):
        yield (
            f"{view} is a table, {need}",
            f"let one of the two tables go into a destination with another schema, or leave it out of its sync. Where"
            f" nobody writes {view}: ALTER TABLE {view} RENAME TO …",
        )
    elif kind == "v" and any(name in definition for name in _OF_CUTS):
        yield (
            f"{view} is the view of another sync's cuts, {need}",
            f"where that sync cuts {table} no longer: DROP VIEW {view}. Rights on it are granted again",
        )
    else:
        word = _KINDS.get(kind, "relation")
        yield f"{view} is a {word} that no sync made, {need}", f"ALTER {word.upper()} {view} RENAME TO …"


def _seen(session: Session, place: Relation) -> tuple[str, str]:
    """relkind and, of a view, its definition; "" for none."""
    row = session.execute(
        "SELECT c.relkind::text, CASE WHEN c.relkind = 'v' THEN coalesce(pg_get_viewdef(c.oid), '') ELSE '' END"
        " FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = %s",
        (place.schema, place.name),
    ).fetchone()
    return (str(row[0]), str(row[1])) if row else ("", "")
