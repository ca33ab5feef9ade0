"""Cuts stored as versions: a row is written once, with the first cut that has it and the first that has it no more.

`<schema>_cut.<table>__rows_1` holds the rows of all cuts of a table. Each cut has a number there, in the order in which
cuts came into place, whatever their dates: so a date that is cut again, or late, is one more number, and no earlier
cut changes. A cut with number n has the rows with `cut_valid_from <= n < cut_valid_to`. `cut_number` of the catalogue
knows which number is which cut.

What a new cut writes is the difference between its staged rows and those of the number before it, in the transaction
that writes the cut down: a kill leaves all of it or nothing. Then what its number shows is digested, and must be what
was compared, before anybody sees it. A row is known by its key, one without by its hash and which copy of it it is;
values are compared as texts of their bytes.

The views join the catalogue as those of copies do (`cut_views.py`), and one part of them shows all numbers of a table:
they stay as they are while cuts come and go.
"""

from collections.abc import Sequence
from datetime import date

from seamline.databases.mysql.canonical import quoted
from seamline.domain.cut_names import STILL_VALID, VALID_FROM, VALID_TO, fitted, partition_name, rows_table
from seamline.kinds.cut_rules import CutMisfit, other_storage, require_same_key
from seamline.plan.model import DestinationPlan
from seamline.sinks.relational.cut_catalogue import Version, base_tables_in
from seamline.sinks.relational.cut_changes import primary_key
from seamline.sinks.relational.cut_columns import ColumnsMisfit, StoredColumn, require_fit, stored_columns
from seamline.sinks.relational.cut_lateness import row_hash
from seamline.sinks.relational.cut_views import until_done
from seamline.sinks.relational.places import Place, ledger_place, relation
from seamline.sinks.relational.session import Session, execute, query
from seamline.sinks.relational.statements import COPY, HASH

_OWN = (VALID_FROM, VALID_TO)


def rows_place(
    session: Session,
    destination: DestinationPlan,
    table: str,
    staged: Place,
    versions: Sequence[Version],
    *,
    day: date,
) -> Place:
    """Where the rows of the table's versions are, or are going to be. CutMisfit: staged rows cannot stand there.

    `versions`: the earlier cuts of the table that are shown with the new one. Changes nothing.
    """
    at, aside = ledger_place(destination), put_aside(destination, table, day)
    known = {one.rows_table for one in versions}
    if "" in known:
        raise other_storage(table, now="versions", was="copies", aside=aside)
    if not known:
        ((begun,),) = query(
            session, f"SELECT COUNT(*) FROM {at}.cut_rows WHERE table_name = %s AND last_number > 0", (table,)
        )
        return destination.cut_namespace, rows_table(table, int(begun) + 1)
    place = (destination.cut_namespace, versions[-1].rows_table)
    require_same_key(table, primary_key(session, staged), primary_key(session, place), aside=aside)
    try:
        require_fit(stored_columns(session, staged), [stored_columns(session, place)])
    except ColumnsMisfit as exc:
        raise CutMisfit(table, str(exc), aside=aside) from exc
    return place


def put_aside(destination: DestinationPlan, table: str, day: date) -> str:
    """The statement that gives the earlier cuts views by another name."""
    aside, shown = (_as_read(name) for name in (fitted(f"{table}_until_{day:%Y%m%d}"), table))
    return f"UPDATE {ledger_place(destination)}.cut_table SET shown_in = {aside} WHERE shown_in = {shown}"


def make_room(session: Session, at: str, table: str, rows: Place, staged: Place, *, until: float) -> None:
    """The table of rows, with every column that the staged rows have. A repeat changes nothing."""
    if rows[1] not in base_tables_in(session, rows[0]):
        _create(session, rows, staged)
    execute(
        session,
        f"INSERT IGNORE INTO {at}.cut_rows (rows_table, table_name, last_number) VALUES (%s, %s, 0)",
        (rows[1], table),
    )
    known = stored_columns(session, rows)
    come = [column for name, column in stored_columns(session, staged).items() if name not in known]
    if come:
        added = ", ".join(f"ADD COLUMN {quoted(column.name)} {column.type} NULL" for column in come)
        until_done(session, f"ALTER TABLE {relation(*rows)} {added}", rows, until)


def write_version(session: Session, at: str, rows: Place, staged: Place, cut: tuple[str, str, date, int]) -> None:
    """End the rows that the staged ones lack, begin those that they have beyond, and give the cut its number. In the
    caller's transaction. `cut`: sync, table, date and version."""
    ((last,),) = query(session, f"SELECT last_number FROM {at}.cut_rows WHERE rows_table = %s FOR UPDATE", (rows[1],))
    number = int(last) + 1
    execute(session, f"UPDATE {at}.cut_rows SET last_number = {number} WHERE rows_table = %s", (rows[1],))
    execute(
        session,
        f"INSERT INTO {at}.cut_number (sync, table_name, business_date, version, rows_table, number)"
        " VALUES (%s, %s, %s, %s, %s, %s)",
        (*cut, rows[1], number),
    )
    new, known = stored_columns(session, staged), stored_columns(session, rows)
    key = [quoted(name) for name in primary_key(session, staged)]
    compared = [column for name, column in known.items() if name not in _OWN]
    same = " AND ".join(f"v.{name} = s.{name}" for name in key or (HASH, COPY))
    same += f" AND {row_hash(compared, of='v')} = {row_hash([new.get(one.name.lower()) for one in compared], of='s')}"
    execute(
        session,
        f"UPDATE {relation(*rows)} AS v LEFT JOIN {relation(*staged)} AS s ON {same} SET v.{VALID_TO} = {number}"
        f" WHERE v.{VALID_TO} = {STILL_VALID} AND s.{(key or [HASH])[0]} IS NULL",
    )
    columns = [*(quoted(column.name) for column in new.values()), *(() if key else (HASH, COPY))]
    execute(
        session,
        f"INSERT INTO {relation(*rows)} ({', '.join(columns)}, {VALID_FROM}, {VALID_TO})"
        f" SELECT {', '.join(f's.{name}' for name in columns)}, {number}, {STILL_VALID} FROM {relation(*staged)} AS s"
        f" LEFT JOIN {relation(*rows)} AS v ON {same} AND v.{VALID_TO} = {STILL_VALID} WHERE v.{VALID_FROM} IS NULL",
    )


def show_version(
    session: Session, destination: DestinationPlan, columns: Sequence[StoredColumn], cut: tuple[str, str, date, int]
) -> Place:
    """The view of one cut, by the name that a table of its own would have. A repeat changes nothing. `columns`: as they
    were staged; where the staged table is gone before a repeat, those of all cuts, which are NULL where this has none.
    """
    at, (_, table, day, version) = ledger_place(destination), cut
    shown = (destination.cut_namespace, partition_name(table, day, version))
    if stored_columns(session, shown):
        return shown
    ((name, number),) = query(
        session,
        f"SELECT rows_table, number FROM {at}.cut_number"
        " WHERE sync = %s AND table_name = %s AND business_date = %s AND version = %s",
        cut,
    )
    rows = (destination.cut_namespace, str(name))
    own = [] if primary_key(session, rows) else [HASH]
    of_all = [column for key, column in stored_columns(session, rows).items() if key not in _OWN]
    listed = ", ".join([*(quoted(column.name) for column in columns or of_all), *own])
    execute(
        session,
        f"CREATE OR REPLACE VIEW {relation(*shown)} AS SELECT {listed} FROM {relation(*rows)}"
        f" WHERE {VALID_FROM} <= {number} AND {number} < {VALID_TO}",
    )
    return shown


def drop_rows_of_no_cut(session: Session, destination: DestinationPlan, table: str) -> int:
    """Delete the rows that no cut of the table has any more; about how many bytes they were.

    Those of the newest number stay, for the next cut is written as the difference from them, until there is no cut at
    all. Nobody who reads waits for it.
    """
    at = ledger_place(destination)
    there, freed = base_tables_in(session, destination.cut_namespace), 0.0
    for (name,) in query(session, f"SELECT rows_table FROM {at}.cut_rows WHERE table_name = %s", (table,)):
        if name not in there:
            continue
        numbers = f"SELECT 1 FROM {at}.cut_number AS n WHERE n.rows_table = %s"
        rows = relation(destination.cut_namespace, str(name))
        sizes = query(
            session,
            "SELECT COALESCE(avg_row_length, 0) FROM information_schema.tables"
            " WHERE table_schema = %s AND table_name = %s",
            (destination.cut_namespace, name),
        )
        with session.cursor() as cursor:
            gone = cursor.execute(
                f"DELETE FROM {rows} WHERE ({VALID_TO} < {STILL_VALID} AND NOT EXISTS"
                f" ({numbers} AND {VALID_FROM} <= n.number AND n.number < {VALID_TO})) OR NOT EXISTS ({numbers})",
                (name, name),
            )
        freed += gone * float(sizes[0][0])
    return int(freed)


def _as_read(name: str) -> str:
    """By a person; names have no backslash."""
    return "'" + name.replace("'", "''") + "'"


def _create(session: Session, rows: Place, staged: Place) -> None:
    """A column that staged rows must have may leave one day, and is NULL from then on."""
    key = primary_key(session, staged)
    kept = {name.lower() for name in key}
    own = [f"ADD COLUMN {name} bigint NOT NULL" for name in _OWN]
    loose = [
        f"MODIFY {quoted(column.name)} {column.type} NULL"
        for name, column in stored_columns(session, staged).items()
        if name not in kept
    ]
    keyed = ["DROP PRIMARY KEY", f"ADD PRIMARY KEY ({', '.join([*map(quoted, key), VALID_FROM])})"] if key else []
    made = (rows[0], fitted(f"{rows[1]}~new"))
    execute(session, f"DROP TABLE IF EXISTS {relation(*made)}")
    execute(session, f"CREATE TABLE {relation(*made)} LIKE {relation(*staged)}")
    execute(session, f"ALTER TABLE {relation(*made)} {', '.join([*own, *loose, *keyed])}")
    execute(session, f"RENAME TABLE {relation(*made)} TO {relation(*rows)}")
