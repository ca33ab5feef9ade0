"""The view `<schema>_cut.<table>_cut_changes`: what a table has in one cut and not, or otherwise, in another.

Each pair of dates is in it, each at the version that counts, and each earlier version of a date beside the one that
counts. It reads the view of all versions, so it stays as it is while versions come and go; a reader names the two
dates. Rows are the same row by the primary key that the newest cut has, and without one by all of their values,
identical ones by their number. Values are compared byte by byte.
"""

from collections.abc import Iterator, Sequence

from seamline.databases.mysql.canonical import quoted, text_literal
from seamline.domain.cut_names import CUT_COLUMNS, DATE_COLUMN, SINCE_COLUMNS, VALID_FROM, VERSION_COLUMN
from seamline.sinks.relational.cut_columns import StoredColumn
from seamline.sinks.relational.cut_lateness import row_hash
from seamline.sinks.relational.dialect import OWN_PREFIX
from seamline.sinks.relational.places import Place, relation
from seamline.sinks.relational.session import Session, query

_COPY, _ROW, _SIDE = quoted("seamline.copy"), quoted("seamline.row"), quoted("seamline.side")
_COUNT, _LEAST, _GREATEST = quoted("seamline.count"), quoted("seamline.least"), quoted("seamline.greatest")
_PAIR = (*SINCE_COLUMNS[1:], *CUT_COLUMNS)
_SINCE, _UNTIL = ("f.business_date", "f.version"), ("t.business_date", "t.version")


def primary_key(session: Session, place: Place) -> Sequence[str]:
    """Of the table's own columns; () where it has none."""
    rows = query(
        session,
        "SELECT column_name FROM information_schema.statistics WHERE table_schema = %s AND table_name = %s"
        " AND index_name = 'PRIMARY' ORDER BY seq_in_index",
        place,
    )
    # A table without a key has a number of ours; versions of rows have the number of their first cut behind the key.
    return [str(name) for (name,) in rows if not str(name).startswith(OWN_PREFIX) and name != VALID_FROM]


def changes_query(
    cuts: Place, columns: Sequence[StoredColumn], key: Sequence[str], *, at: str, sync: str, table: str
) -> str:
    """`cuts`: the view of all versions, whose columns these are. `at`: the database of the catalogue, in quotes."""
    by = ", ".join((*_PAIR, *(map(quoted, key) if key else (_ROW, _COPY))))
    shown = ", ".join(quoted(column.name) for column in columns)
    rows = _hashed(cuts, columns) if key else _numbered(cuts, columns)
    both = " UNION ALL ".join(
        f"SELECT {side} AS {_SIDE}, {', '.join(pair)}, {_values_of(columns, is_keyed=bool(key))}"
        f" FROM {_pairs(at, sync, table)} JOIN {rows} AS n"
        f" ON n.{DATE_COLUMN} = {day} AND n.{VERSION_COLUMN} = {version}"
        f" WHERE {_counts(sync, table)}"
        for side, pair, (day, version) in ((0, _pair(_SINCE), _UNTIL), (1, _pair(until=_UNTIL), _SINCE))
    )
    return (
        f"SELECT IF({_COUNT} = 1, IF({_SIDE}, 'removed', 'added'), IF({_SIDE}, 'changed_from', 'changed_to'))"
        f" AS {SINCE_COLUMNS[0]}, {', '.join(_PAIR)}, {shown}"
        f" FROM (SELECT b.*, COUNT(*) OVER w AS {_COUNT}, MIN({_ROW}) OVER w AS {_LEAST},"
        f" MAX({_ROW}) OVER w AS {_GREATEST} FROM ({both}) AS b WINDOW w AS (PARTITION BY {by})) AS r"
        f" WHERE {_COUNT} = 1 OR {_LEAST} <> {_GREATEST}"
    )


def _pair(since: Sequence[str] = (), until: Sequence[str] = ()) -> Iterator[str]:
    """Of a row's own cut the columns of the row: a condition on them goes into each version's part."""
    own = f"n.{DATE_COLUMN}", f"n.{VERSION_COLUMN}"
    values = (*(since or own), *(until or own))
    return (f"{value} AS {name}" for value, name in zip(values, _PAIR, strict=True))


def _values_of(columns: Sequence[StoredColumn], *, is_keyed: bool) -> str:
    own = [_ROW] if is_keyed else [_ROW, _COPY]
    return ", ".join(f"n.{name}" for name in (*(quoted(column.name) for column in columns), *own))


def _hashed(cuts: Place, columns: Sequence[StoredColumn]) -> str:
    return f"(SELECT v.*, {row_hash(columns)} AS {_ROW} FROM {relation(*cuts)} AS v)"


def _pairs(at: str, sync: str, table: str) -> str:
    """`p` and `c`: the versions of both dates that count."""
    of_table = f"{{}}.sync = {text_literal(sync)} AND {{}}.table_name = {text_literal(table)}"
    on = {one: of_table.replace("{}", one) for one in ("c", "t", "f")}
    return (
        f"{at}.cut_pointer AS p JOIN {at}.cut_table AS t ON {on['t']} AND t.business_date = p.business_date"
        f" AND t.version = p.version JOIN {at}.cut_pointer AS c ON {on['c']}"
        f" JOIN {at}.cut_table AS f ON {on['f']} AND f.business_date = c.business_date"
    )


def _counts(sync: str, table: str) -> str:
    """Of versions that the view of all versions shows: those put aside are not."""
    shown = " AND ".join(f"{one}.shown_in = {text_literal(table)} AND {one}.is_published" for one in ("t", "f"))
    return (
        f"p.sync = {text_literal(sync)} AND p.table_name = {text_literal(table)} AND {shown}"
        " AND (f.business_date = t.business_date) = (f.version <> c.version)"
    )


def _numbered(cuts: Place, columns: Sequence[StoredColumn]) -> str:
    """Rows with their hash, and which copy of it each is."""
    cut = ", ".join(CUT_COLUMNS)
    return f"(SELECT r.*, ROW_NUMBER() OVER (PARTITION BY {cut}, {_ROW}) AS {_COPY} FROM {_hashed(cuts, columns)} AS r)"
