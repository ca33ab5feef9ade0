"""Cuts stored as versions: a row is written once, with the first cut that has it and the first that has it no more.

`<schema>_cut.<table>__rows_1` holds the rows of all cuts of a table. Each cut has a number there, in the order in which
cuts came into place, whatever their dates: so a date that is cut again, or late, is one more number, and no earlier
cut changes. A cut with number n has the rows with `cut_valid_from <= n < cut_valid_to`. `seamline.cut_number` knows
which number is which cut.

What a new cut writes is the difference between its staged rows and those of the number before it: rows that it lacks
get their end, rows that it has beyond begin. Then what its number shows is digested, and must be what was compared. All
of that is one transaction, so a cut that stops half-way leaves nothing; one that is in place and was never published
is a number that no view shows, until it expires.

Readers find what they find with copies: `<schema>_cut.<table>` shows every published cut, beside it is a view by the
name that a partition would have. A second `__rows` table begins where the earlier cuts were put aside.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from seamline.databases.postgres.canonical import quoted, text_literal
from seamline.databases.postgres.client import Session
from seamline.databases.postgres.read import Relation
from seamline.domain.cut_names import (
    DATE_COLUMN,
    STILL_VALID,
    VALID_FROM,
    VALID_TO,
    VERSION_COLUMN,
    fitted,
    partition_name,
    rows_table,
)
from seamline.domain.errors import SchemaConflict
from seamline.kinds.cut_rules import CutMisfit, other_storage, require_same_key
from seamline.plan.model import DestinationPlan
from seamline.sinks.postgres.cut_changes import primary_key
from seamline.sinks.postgres.cut_columns import ColumnsMisfit, allow_null, fit_columns, stored_columns, widen
from seamline.sinks.postgres.cut_places import in_place_of_cuts, put_aside

CATALOGUE = """
CREATE TABLE IF NOT EXISTS seamline.cut_rows (
    rows_table text PRIMARY KEY,
    table_name text NOT NULL,
    last_number bigint NOT NULL,
    begun_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE TABLE IF NOT EXISTS seamline.cut_number (
    sync text NOT NULL,
    table_name text NOT NULL,
    business_date date NOT NULL,
    version integer NOT NULL,
    rows_table text NOT NULL REFERENCES seamline.cut_rows,
    number bigint NOT NULL,
    PRIMARY KEY (sync, table_name, business_date, version),
    UNIQUE (rows_table, number),
    FOREIGN KEY (sync, business_date, version) REFERENCES seamline.cut
);
"""
_OWN = (VALID_FROM, VALID_TO)
_OF_TABLE = "sync = %s AND table_name = %s AND business_date = %s AND version = %s"
_IDENTITY, _COPY, _PLACE = (quoted(f"seamline.{name}") for name in ("identity", "copy", "place"))


@dataclass(frozen=True, slots=True)
class StoredVersion:
    """A cut of a table as it is stored. `shown`: the view of its rows. `is_wider`: the rows have gained a column."""

    rows: Relation
    number: int
    shown: Relation
    key: Sequence[str]
    is_wider: bool


def make_room(
    session: Session, destination: DestinationPlan, staged: Relation, table: str, *, day: date
) -> Relation | None:
    """Give the stored rows the columns that the staged ones have beyond them; the table of rows, None where nothing was
    to be done or the two do not fit: `store_version` says why. In a short transaction of the caller's, before that
    which writes: readers wait for it."""
    try:
        with session.transaction():
            rows = _rows_in_use(session, destination, Relation(destination.cut_namespace, table), day)
            if rows is None or primary_key(session, staged) != key_of(session, rows):
                return None
            return rows if widen(session, cut=staged, cuts=rows, but=_OWN) else None
    except (CutMisfit, ColumnsMisfit):
        return None


def store_version(
    session: Session, destination: DestinationPlan, staged: Relation, table: str, *, sync: str, day: date, version: int
) -> StoredVersion:
    """Write what the staged rows differ in from the cut before, and drop them. In the caller's transaction.

    CutMisfit: the table has columns, or a key, that the stored rows cannot have.
    """
    key, own_columns = primary_key(session, staged), list(stored_columns(session, staged))
    parent = Relation(destination.cut_namespace, table)
    rows = _rows_in_use(session, destination, parent, day) or _begin(session, destination, table, staged, key)
    number = _next_number(session, rows)
    session.execute(
        f"ALTER TABLE {staged} ADD COLUMN {VALID_FROM} bigint NOT NULL DEFAULT {number},"
        f" ADD COLUMN {VALID_TO} bigint NOT NULL DEFAULT {STILL_VALID}".encode()
    )
    aside = aside_of(destination, table, day, what="VIEW")
    require_same_key(table, key, key_of(session, rows), aside=aside)
    try:
        is_wider = fit_columns(session, cut=staged, cuts=rows)
    except ColumnsMisfit as exc:
        raise CutMisfit(table, str(exc), aside=aside) from exc
    _write(session, rows, staged, key, number)
    session.execute(
        "INSERT INTO seamline.cut_number VALUES (%s, %s, %s, %s, %s, %s)",
        (sync, table, day, version, rows.name, number),
    )
    shown = Relation(destination.cut_namespace, partition_name(table, day, version))
    columns = ", ".join(quoted(name) for name in own_columns)
    session.execute(
        f"CREATE VIEW {shown} AS SELECT {columns}, DATE '{day.isoformat()}' AS {DATE_COLUMN},"
        f" {version} AS {VERSION_COLUMN} FROM {rows} WHERE {VALID_FROM} <= {number} AND {number} < {VALID_TO}".encode()
    )
    session.execute(f"DROP TABLE {staged}".encode())
    session.execute(f"ANALYZE {rows}".encode())
    return StoredVersion(rows, number, shown, key, is_wider)


def aside_of(destination: DestinationPlan, table: str, day: date, *, what: str) -> str:
    """`cut_places.put_aside` under a name with the date at which other cuts begin."""
    return put_aside(destination, table, quoted(fitted(f"{table}_until_{day:%Y%m%d}")), what=what)


def all_cuts_query(session: Session, rows: Relation) -> str:
    """Of the view of all published cuts. Its columns stay in their order, for it is replaced when one has come."""
    instead = {VALID_FROM: f"n.business_date AS {DATE_COLUMN}", VALID_TO: f"n.version AS {VERSION_COLUMN}"}
    shown = ", ".join(instead.get(name, f"v.{quoted(name)}") for name in stored_columns(session, rows))
    return (
        f"SELECT {shown} FROM seamline.cut_number AS n"
        " JOIN seamline.cut_table AS t USING (sync, table_name, business_date, version)"
        f" JOIN {rows} AS v ON v.{VALID_FROM} <= n.number AND n.number < v.{VALID_TO}"
        f" WHERE n.rows_table = {text_literal(rows.name)}"
    )


def drop_version(
    session: Session, destination: DestinationPlan, sync: str, table: str, day: date, version: int
) -> Relation | None:
    """Take a cut's number and its view; the table of its rows, None where the cut is not stored as a version. Its rows
    go by `drop_rows_of_no_cut`. In the caller's transaction."""
    row = session.execute(
        f"DELETE FROM seamline.cut_number WHERE {_OF_TABLE} RETURNING rows_table", (sync, table, day, version)
    ).fetchone()
    if row is None:
        return None
    shown = Relation(destination.cut_namespace, partition_name(table, day, version))
    session.execute(f"DROP VIEW IF EXISTS {shown}".encode())
    return Relation(destination.cut_namespace, str(row[0]))


def drop_rows_of_no_cut(session: Session, rows: Relation) -> int:
    """Delete the rows that no cut has any more; their bytes. Those of the newest number stay, for the next cut is
    written as the difference from them, until there is no cut at all. Nobody who reads waits for it. Nothing of a table
    that was put aside and is dropped."""
    there = session.execute("SELECT to_regclass(%s) IS NOT NULL", (str(rows),)).fetchone()
    if there is None or not there[0]:
        return 0
    numbers = f"FROM seamline.cut_number AS n WHERE n.rows_table = {text_literal(rows.name)}"
    row = session.execute(
        f"WITH gone AS (DELETE FROM {rows} AS v WHERE (v.{VALID_TO} < {STILL_VALID}"
        f" AND NOT EXISTS (SELECT {numbers} AND v.{VALID_FROM} <= n.number AND n.number < v.{VALID_TO}))"
        f" OR NOT EXISTS (SELECT {numbers}) RETURNING pg_column_size(v.*) AS size)"
        " SELECT coalesce(sum(size), 0) FROM gone".encode()
    ).fetchone()
    return int(row[0]) if row else 0


def key_of_version(
    session: Session, destination: DestinationPlan, sync: str, table: str, *, day: date, version: int
) -> Sequence[str]:
    """The key of a table whose cut is stored as a version; () where it is stored as a copy, or has none."""
    there = session.execute("SELECT to_regclass('seamline.cut_number') IS NOT NULL").fetchone()
    if there is None or not there[0]:
        return ()
    row = session.execute(
        f"SELECT rows_table FROM seamline.cut_number WHERE {_OF_TABLE}", (sync, table, day, version)
    ).fetchone()
    return key_of(session, Relation(destination.cut_namespace, str(row[0]))) if row else ()


# ---- where the rows stand --------------------------------------------------------------------------------------------


def _rows_in_use(session: Session, destination: DestinationPlan, parent: Relation, day: date) -> Relation | None:
    """None where the name of all cuts is free: then another table of rows begins. A table of the same name in another
    schema of the database has rows of its own, which the catalogue names beside these."""
    row = session.execute(
        "SELECT c.relkind::text, (SELECT r.rows_table FROM seamline.cut_rows AS r JOIN pg_class AS t"
        " ON t.relname = r.rows_table AND t.relnamespace = c.relnamespace WHERE r.table_name = %s"
        " ORDER BY r.begun_at DESC LIMIT 1) FROM pg_class AS c WHERE c.oid = to_regclass(%s)",
        (parent.name, str(parent)),
    ).fetchone()
    if row is None:
        return None
    if row[0] == "p":
        aside = aside_of(destination, parent.name, day, what="TABLE")
        raise other_storage(parent.name, now="versions", was="copies", aside=aside)
    for what, cure in in_place_of_cuts(session, destination, parent.name):
        raise SchemaConflict(what, hint=f"nothing was published. {cure}. Then repeat the publish", table=parent.name)
    if row[1] is None:
        aside = aside_of(destination, parent.name, day, what="VIEW")
        raise SchemaConflict(
            f"{parent} shows cuts whose rows are not in this schema any more",
            hint=f"move the table of rows back, or put the earlier cuts aside: {aside}. Then repeat the publish",
            table=parent.name,
        )
    return Relation(destination.cut_namespace, str(row[1]))


def _begin(
    session: Session, destination: DestinationPlan, table: str, staged: Relation, key: Sequence[str]
) -> Relation:
    row = session.execute("SELECT count(*) FROM seamline.cut_rows WHERE table_name = %s", (table,)).fetchone()
    rows = Relation(destination.cut_namespace, rows_table(table, (int(row[0]) if row else 0) + 1))
    session.execute(
        f"CREATE TABLE {rows} (LIKE {staged}, {VALID_FROM} bigint NOT NULL, {VALID_TO} bigint NOT NULL)".encode()
    )
    allow_null(session, rows, but=(*_OWN, *key))
    if key:
        columns = ", ".join(quoted(name) for name in (*key, VALID_FROM))
        session.execute(f"ALTER TABLE {rows} ADD PRIMARY KEY ({columns})".encode())
    session.execute("INSERT INTO seamline.cut_rows VALUES (%s, %s, 0)", (rows.name, table))
    return rows


def key_of(session: Session, rows: Relation) -> Sequence[str]:
    """That of the source: stored rows have the number of their first cut in theirs beside it."""
    return [name for name in primary_key(session, rows) if name not in _OWN]


def _next_number(session: Session, rows: Relation) -> int:
    """Never one that a cut had before, also where that cut has expired."""
    row = session.execute(
        "UPDATE seamline.cut_rows SET last_number = last_number + 1 WHERE rows_table = %s RETURNING last_number",
        (rows.name,),
    ).fetchone()
    return int(row[0]) if row else 1


# ---- what differs ----------------------------------------------------------------------------------------------------


def _write(session: Session, rows: Relation, staged: Relation, key: Sequence[str], number: int) -> None:
    columns = [quoted(name) for name in stored_columns(session, rows)]
    values = [quoted(name) for name in stored_columns(session, rows) if name not in _OWN]
    listed = ", ".join(columns)
    if key:
        end, begun = _by_key(rows, staged, key, values)
        gone, come = f"WHERE {end}", f"{staged} AS s WHERE {begun}"
    else:
        gone, come = _by_copies(rows, staged, values)
    for statement in (
        f"UPDATE {rows} AS v SET {VALID_TO} = {number} {gone} AND v.{VALID_TO} = {STILL_VALID}",
        f"INSERT INTO {rows} ({listed}) SELECT {listed} FROM {come}",
    ):
        session.execute(statement.encode())


def _by_key(rows: Relation, staged: Relation, key: Sequence[str], values: Sequence[str]) -> tuple[str, str]:
    """Which rows end and which begin. The images of rows are compared: `=` would keep -0.0 where there is 0.0 now."""
    left, right = (", ".join(f"{one}.{name}" for name in values) for one in ("v", "s"))
    same = " AND ".join(f"v.{quoted(name)} = s.{quoted(name)}" for name in key)
    same += f" AND ROW({left})::record OPERATOR(pg_catalog.*=) ROW({right})::record"
    return (
        f"NOT EXISTS (SELECT FROM {staged} AS s WHERE {same})",
        f"NOT EXISTS (SELECT FROM {rows} AS v WHERE v.{VALID_TO} = {STILL_VALID} AND {same})",
    )


def _by_copies(rows: Relation, staged: Relation, values: Sequence[str]) -> tuple[str, str]:
    """The same of rows without a key: the third copy of a row here is the third one there. Rows are joined by where
    they lie: an array of their places has room for 67 million."""
    text = f'ROW({", ".join(values)})::text COLLATE "C"'
    numbered = f"{text} AS {_IDENTITY}, row_number() OVER (PARTITION BY {text}) AS {_COPY}"
    stored = f"(SELECT ctid AS {_PLACE}, {numbered} FROM {rows} WHERE {VALID_TO} = {STILL_VALID}) AS o"
    come = f"(SELECT *, {numbered} FROM {staged}) AS c"
    same = f"o.{_IDENTITY} = c.{_IDENTITY} AND o.{_COPY} = c.{_COPY}"
    gone = f"SELECT o.{_PLACE} FROM {stored} WHERE NOT EXISTS (SELECT FROM {come} WHERE {same})"
    return (
        f"FROM ({gone}) AS gone WHERE v.ctid = gone.{_PLACE}",
        f"{come} WHERE NOT EXISTS (SELECT FROM {stored} WHERE {same})",
    )
