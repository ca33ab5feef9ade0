"""The columns of a table's cuts. One that came or left since the first is NULL in those that were made without it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from seamline.adapters.postgres.canonical import quoted
from seamline.adapters.postgres.client import Session
from seamline.adapters.postgres.read import Relation
from seamline.domain.errors import SchemaConflict


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """`type` as DDL names it, with the collation where it is not the type's own."""

    type: str
    is_required: bool


def stored_columns(session: Session, place: Relation) -> Mapping[str, StoredColumn]:
    """In the order of the relation; empty where there is none."""
    rows = session.execute(
        "SELECT a.attname, format_type(a.atttypid, a.atttypmod) || CASE WHEN a.attcollation = t.typcollation THEN ''"
        " ELSE ' COLLATE ' || a.attcollation::regcollation::text END, a.attnotnull"
        " FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace"
        " JOIN pg_type t ON t.oid = a.atttypid"
        " WHERE n.nspname = %s AND c.relname = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum",
        (place.schema, place.name),
    ).fetchall()
    return {str(name): StoredColumn(str(shown), bool(is_required)) for name, shown, is_required in rows}


def fit_columns(session: Session, *, cut: Relation, cuts: Relation, views: Sequence[Relation]) -> bool:
    """Give a cut and the partitioned table of all cuts each the columns that only the other has, as ATTACH wants it.

    Whether the partitioned table has gained any. In the caller's transaction; no row is written. SchemaConflict where
    a column is of another type than in the cuts; `views` are those over the cuts.
    """
    new, known = stored_columns(session, cut), stored_columns(session, cuts)
    retyped = {name: new[name].type for name in new.keys() & known.keys() if new[name].type != known[name].type}
    if retyped:
        raise _of_another_type(cuts, retyped, known, views)
    gained = [f"ADD COLUMN {quoted(name)} {column.type}" for name, column in new.items() if name not in known]
    _alter(session, cuts, [*gained, *_no_more_required(known, new)])
    left = [f"ADD COLUMN {quoted(name)} {column.type}" for name, column in known.items() if name not in new]
    _alter(session, cut, left)
    return bool(gained)


def _no_more_required(known: Mapping[str, StoredColumn], new: Mapping[str, StoredColumn]) -> Iterator[str]:
    for name, column in known.items():
        if column.is_required and not (name in new and new[name].is_required):
            yield f"ALTER COLUMN {quoted(name)} DROP NOT NULL"


def _alter(session: Session, place: Relation, changes: list[str]) -> None:
    if changes:
        session.execute(f"ALTER TABLE {place} {', '.join(changes)}".encode())


def _of_another_type(
    cuts: Relation, retyped: Mapping[str, str], known: Mapping[str, StoredColumn], views: Sequence[Relation]
) -> SchemaConflict:
    listed = ", ".join(f"{name} is {now} now and {known[name].type} there" for name, now in sorted(retyped.items()))
    over = ", ".join(str(view) for view in views)
    changes = ", ".join(f"ALTER COLUMN {quoted(name)} TYPE {now}" for name, now in sorted(retyped.items()))
    return SchemaConflict(
        f"table {cuts.name} does not fit its earlier cuts: {listed}",
        hint="nothing was published. Give the earlier cuts that type, which may write them anew, and repeat the"
        f" publish: BEGIN; DROP VIEW {over}; ALTER TABLE {cuts} {changes}; COMMIT",
        table=cuts.name,
    )
