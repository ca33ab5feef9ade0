"""The view `<schema>_cut.<table>_cut_changes`: what a table has in one cut and not, or otherwise, in another.

Each pair of dates is in it, each at the version that counts, and each earlier version of a date beside the one that
counts. A reader names the two dates, and no other partition is read. Rows are the same row by the primary key that the
newest cut has, and without one by all of their values, identical ones by their number. A value has changed where it is
stored otherwise: the images of rows are compared, so any type will do.
"""

from collections.abc import Sequence

from seamline.databases.postgres.canonical import quoted, text_literal
from seamline.databases.postgres.client import Session
from seamline.databases.postgres.read import Relation
from seamline.domain.cut_names import CUT_COLUMNS, DATE_COLUMN, SINCE_COLUMNS, VERSION_COLUMN
from seamline.sinks.postgres.cut_columns import stored_columns

_COPY, _ROW = quoted("seamline.copy"), quoted("seamline.row")
_PAIR = (*SINCE_COLUMNS[1:], *CUT_COLUMNS)


def make_changes_view(
    session: Session, view: Relation, *, cuts: Relation, key: Sequence[str], sync: str, rows_table: str = ""
) -> None:
    """In the caller's transaction. A view that is there is replaced, which waits for its readers, only where the table
    has gained a column, or the newest cut another key. `rows_table`: where the cuts are stored as versions, the table
    of their rows."""
    columns = [name for name in stored_columns(session, cuts) if name not in CUT_COLUMNS]
    says = f"of columns {len(columns)}; rows are the same row by {', '.join(map(quoted, key)) or 'all of their values'}"
    says += f"; versions in {rows_table}" if rows_table else ""
    row = session.execute(
        "SELECT obj_description(to_regclass(%s)), reloptions FROM (VALUES (1)) AS one LEFT JOIN pg_class"
        " ON oid = to_regclass(%s)",
        (str(view), str(view)),
    ).fetchone()
    said, options = row or (None, None)
    if said == says:
        return
    kept = f" WITH ({', '.join(options)})" if options else ""
    pairs = _pairs(cuts, sync, _versions_there(rows_table) if rows_table else _partitions_there(cuts))
    query = _query(cuts, columns, key, pairs)
    session.execute(f"CREATE OR REPLACE VIEW {view}{kept} AS {query}".encode())
    session.execute(f"COMMENT ON VIEW {view} IS {text_literal(says)}".encode())


def primary_key(session: Session, place: Relation) -> Sequence[str]:
    rows = session.execute(
        "SELECT a.attname FROM pg_index i, unnest(i.indkey::int2[]) WITH ORDINALITY AS k (number, place)"
        " JOIN pg_attribute a ON a.attnum = k.number WHERE i.indrelid = to_regclass(%s) AND i.indisprimary"
        " AND a.attrelid = i.indrelid ORDER BY k.place",
        (str(place),),
    ).fetchall()
    return [str(name) for (name,) in rows]


def _query(cuts: Relation, columns: Sequence[str], key: Sequence[str], pairs: str) -> str:
    by = [quoted(name) for name in key] or [_ROW, _COPY]
    rows = str(cuts) if key else _numbered(cuts, columns)
    row_of = {one: ", ".join(f"{one}.{quoted(name)}" for name in columns) for one in ("n", "o")}
    is_same_row = " AND ".join(f"n.{name} = o.{name}" for name in by)
    is_changed = f"record_image_ne(ROW({row_of['n']}), ROW({row_of['o']}))"
    arms = (("n", "o", "added", "changed_to"), ("o", "n", "removed", "changed_from"))
    return " UNION ALL ".join(
        f"SELECT CASE WHEN {other}.{VERSION_COLUMN} IS NULL THEN {text_literal(alone)} ELSE {text_literal(changed)} END"
        f" AS {SINCE_COLUMNS[0]}, {', '.join(f'p.{name}' for name in _PAIR)}, {row_of[one]}"
        f" FROM {pairs} AS p JOIN {rows} AS {one} ON {_of_cut(one)}"
        f" LEFT JOIN {rows} AS {other} ON {_of_cut(other)} AND {is_same_row}"
        f" WHERE {other}.{VERSION_COLUMN} IS NULL OR {is_changed}"
        for one, other, alone, changed in arms
    )


def _of_cut(one: str) -> str:
    day, version = CUT_COLUMNS if one == "n" else SINCE_COLUMNS[1:]
    return f"{one}.{DATE_COLUMN} = p.{day} AND {one}.{VERSION_COLUMN} = p.{version}"


def _partitions_there(cuts: Relation) -> str:
    """Versions whose rows are partitions of this table: those put aside, or detached by somebody, are not."""
    return " ".join(
        f"JOIN pg_class AS {one}_part ON {one}_part.relname = {one}.partition_name JOIN pg_inherits AS {one}_in"
        f" ON {one}_in.inhrelid = {one}_part.oid AND {one}_in.inhparent = {text_literal(str(cuts))}::regclass"
        for one in ("f", "t")
    )


def _versions_there(rows_table: str) -> str:
    """Versions whose rows are in this table: those put aside are in another."""
    return " ".join(
        f"JOIN seamline.cut_number AS {one}_no ON {one}_no.rows_table = {text_literal(rows_table)}"
        + "".join(f" AND {one}_no.{name} = {one}.{name}" for name in ("sync", "table_name", "business_date", "version"))
        for one in ("f", "t")
    )


def _pairs(cuts: Relation, sync: str, there: str) -> str:
    of_table = f"sync = {text_literal(sync)} AND table_name = {text_literal(cuts.name)}"
    return (
        "(SELECT f.business_date AS cut_since, f.version AS cut_since_version,"
        f" t.business_date AS {DATE_COLUMN}, t.version AS {VERSION_COLUMN}"
        " FROM seamline.cut_table AS f JOIN seamline.cut_pointer AS c"
        " ON c.sync = f.sync AND c.table_name = f.table_name AND c.business_date = f.business_date"
        " JOIN seamline.cut_table AS t ON t.sync = f.sync AND t.table_name = f.table_name"
        " JOIN seamline.cut_pointer AS p ON p.sync = t.sync AND p.table_name = t.table_name"
        f" AND p.business_date = t.business_date AND p.version = t.version {there}"
        f" WHERE f.{of_table.replace(' AND ', ' AND f.')}"
        " AND (f.business_date = t.business_date) = (f.version <> c.version))"
    )


def _numbered(cuts: Relation, columns: Sequence[str]) -> str:
    """Rows with their text, and which copy of it each is."""
    row = ", ".join(f"c.{quoted(name)}" for name in columns)
    cut = ", ".join(CUT_COLUMNS)
    return (
        f"(SELECT r.*, row_number() OVER (PARTITION BY {cut}, {_ROW}) AS {_COPY}"
        f" FROM (SELECT c.*, ROW({row})::text AS {_ROW} FROM {cuts} AS c) AS r)"
    )
