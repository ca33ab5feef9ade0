"""The columns of a table's cuts. One that came or left since the first is NULL in those that were made without it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import psycopg

from seamline.databases.postgres.canonical import quoted
from seamline.databases.postgres.client import Session
from seamline.databases.postgres.read import Relation


class ColumnsMisfit(Exception):
    """Why a cut cannot stand beside the earlier ones of its table."""


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


def fit_columns(session: Session, *, cut: Relation, cuts: Relation) -> bool:
    """Give a cut and the partitioned table of all cuts each the columns that only the other has, as ATTACH wants it.

    Whether the partitioned table has gained any. In the caller's transaction; no row is written. ColumnsMisfit where
    the earlier cuts cannot be given what the new one needs without a change of what they hold.
    """
    gained = widen(session, cut=cut, cuts=cuts)
    new, known = stored_columns(session, cut), stored_columns(session, cuts)
    left = [f"ADD COLUMN {quoted(name)} {column.type}" for name, column in known.items() if name not in new]
    _alter(session, cut, left)
    return gained


def widen(session: Session, *, cut: Relation, cuts: Relation, but: Collection[str] = ()) -> bool:
    """The half of `fit_columns` that changes what earlier cuts share; whether it has gained a column. `but`: columns
    that no cut has of itself."""
    new, known = stored_columns(session, cut), stored_columns(session, cuts)
    misfits = [
        f"{name} is {new[name].type} now and {known[name].type} there"
        for name in sorted(new.keys() & known.keys())
        if new[name].type != known[name].type
    ]
    if misfits:
        raise ColumnsMisfit("; ".join(misfits))
    gained = [f"ADD COLUMN {quoted(name)} {column.type}" for name, column in new.items() if name not in known]
    _alter(session, cuts, gained)
    loose = [name for name in known if name not in but and not (name in new and new[name].is_required)]
    _require_no_more(session, cuts, loose)
    return bool(gained)


def allow_null(session: Session, cuts: Relation, *, but: Collection[str]) -> None:
    """Of a partitioned table that has no partition yet: each cut says for itself what it must hold."""
    _require_no_more(session, cuts, [name for name in stored_columns(session, cuts) if name not in but])


def _require_no_more(session: Session, cuts: Relation, names: Sequence[str]) -> None:
    required = [name for name, column in stored_columns(session, cuts).items() if column.is_required and name in names]
    try:
        with session.transaction():
            _alter(session, cuts, [f"ALTER COLUMN {quoted(name)} DROP NOT NULL" for name in required])
    except psycopg.errors.InvalidTableDefinition as exc:
        # A server before 18 asks the keys of the partitions as well; tables of cuts that earlier versions made.
        raise ColumnsMisfit(f"{', '.join(required)} may not be NULL there, and is no more in each row") from exc


def _alter(session: Session, place: Relation, changes: Sequence[str]) -> None:
    if changes:
        session.execute(f"ALTER TABLE {place} {', '.join(changes)}".encode())
