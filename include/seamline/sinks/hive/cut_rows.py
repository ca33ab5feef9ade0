"""The rows of cuts in a Hive metastore: which folders are the cut of a date.

A cut is written here as decided, with `published_at` open, before the first partition is moved; it is closed once all
partitions lead to its folders. What a crash leaves between the two says exactly what is still to be done. A stream's
name is in each key: the same database may hold the rows of several destinations.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

import psycopg

from seamline.databases.postgres.client import Row, Session
from seamline.domain.cut_keep import KeptCut
from seamline.domain.ledger import StreamId
from seamline.domain.position import Position, position_from_json, position_to_json
from seamline.domain.staged_cut import CutMode, StagedCut
from seamline.domain.verdict import Verdict

# Two first publishes at once must not meet inside CREATE … IF NOT EXISTS.
_CREATE_LOCK = 7_305_805_512_440_052
_TABLES = """
CREATE TABLE IF NOT EXISTS seamline.hive_cut (
    stream text NOT NULL,
    business_date date NOT NULL,
    version integer NOT NULL,
    run_id text NOT NULL,
    position jsonb NOT NULL,
    as_of timestamptz NOT NULL,
    verdict text NOT NULL,
    partial boolean NOT NULL,
    left_out jsonb NOT NULL,
    signed_by text NOT NULL DEFAULT '',
    decided_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    published_at timestamptz,
    expired_at timestamptz,
    PRIMARY KEY (stream, business_date, version),
    UNIQUE (stream, run_id)
);
CREATE TABLE IF NOT EXISTS seamline.hive_cut_table (
    stream text NOT NULL,
    table_name text NOT NULL,
    business_date date NOT NULL,
    version integer NOT NULL,
    location text NOT NULL,
    columns jsonb NOT NULL,
    mode text NOT NULL,
    rows bigint NOT NULL,
    verdict text NOT NULL,
    is_proven boolean NOT NULL,
    PRIMARY KEY (stream, table_name, business_date, version),
    FOREIGN KEY (stream, business_date, version) REFERENCES seamline.hive_cut
);
CREATE TABLE IF NOT EXISTS seamline.hive_folder (
    location text PRIMARY KEY,
    destination text NOT NULL,
    released_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
"""
# Where nothing was ever cut there are no tables.
MISSING = (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName)
_OF_CUT = "stream = %s AND business_date = %s AND version = %s"
_JOINED = "seamline.hive_cut_table t JOIN seamline.hive_cut c USING (stream, business_date, version)"


@dataclass(frozen=True, slots=True)
class Recorded:
    """The cut that a run has decided. `is_published`: all its partitions are in place."""

    business_date: date
    version: int
    position: Position
    signed_by: str
    is_published: bool
    has_expired: bool


@dataclass(frozen=True, slots=True)
class Folder:
    """Where the rows of a table of a cut lie, relative to the warehouse, with the columns of their files: name and
    Hive's type."""

    table: str
    location: str
    columns: tuple[tuple[str, str], ...]
    rows: int


def create_tables(session: Session) -> None:
    """In schema `seamline`, where they are missing. One transaction."""
    with session.transaction():
        session.execute("SELECT pg_advisory_xact_lock(%s)", (_CREATE_LOCK,))
        # Asked first: whoever may not make schemas is refused also where this one is there.
        if session.execute("SELECT to_regnamespace('seamline')").fetchone() == (None,):
            session.execute("CREATE SCHEMA seamline")
        session.execute(_TABLES)


def recorded(session: Session, stream: StreamId, run_id: str) -> Recorded | None:
    row = session.execute(
        "SELECT business_date, version, position, signed_by, published_at IS NOT NULL, expired_at IS NOT NULL"
        " FROM seamline.hive_cut WHERE stream = %s AND run_id = %s",
        (str(stream), run_id),
    ).fetchone()
    return None if row is None else Recorded(row[0], row[1], position_from_json(row[2]), *row[3:])


def begun(session: Session, stream: StreamId, business_date: date) -> list[tuple[int, str]]:
    """(version, run id) of what was decided of a date and not finished, the oldest first."""
    rows = session.execute(
        "SELECT version, run_id FROM seamline.hive_cut WHERE stream = %s AND business_date = %s"
        " AND published_at IS NULL AND expired_at IS NULL ORDER BY version",
        (str(stream), business_date),
    ).fetchall()
    return [(int(version), str(run_id)) for version, run_id in rows]


def next_version(session: Session, stream: StreamId, business_date: date) -> int:
    row = session.execute(
        "SELECT coalesce(max(version), 0) + 1 FROM seamline.hive_cut WHERE stream = %s AND business_date = %s",
        (str(stream), business_date),
    ).fetchone()
    return int(row[0]) if row else 1


def decide(
    session: Session, stream: StreamId, cut: StagedCut, version: int, *, folders: Mapping[str, Folder], signed_by: str
) -> None:
    """Write down what is published now, in one transaction: from here on a repeat finishes it."""
    is_proven = cut.verdict is Verdict.MATCH or bool(signed_by)
    with session.transaction():
        session.execute(
            "INSERT INTO seamline.hive_cut (stream, business_date, version, run_id, position, as_of, verdict, partial,"
            " left_out, signed_by) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
            (
                str(stream),
                cut.business_date,
                version,
                cut.run_id,
                json.dumps(position_to_json(cut.position)),
                cut.as_of,
                cut.verdict.value,
                cut.is_partial,
                json.dumps(dict(cut.left_out)),
                signed_by,
            ),
        )
        for table in cut.tables:
            folder = folders[table.table]
            session.execute(
                "INSERT INTO seamline.hive_cut_table VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
                (
                    str(stream),
                    table.table,
                    cut.business_date,
                    version,
                    folder.location,
                    json.dumps(folder.columns),
                    table.mode.value,
                    table.rows,
                    table.verdict.value,
                    is_proven,
                ),
            )


def finish(session: Session, stream: StreamId, business_date: date, version: int) -> None:
    session.execute(
        f"UPDATE seamline.hive_cut SET published_at = coalesce(published_at, clock_timestamp()) WHERE {_OF_CUT}",
        (str(stream), business_date, version),
    )


def sign(session: Session, stream: StreamId, business_date: date, version: int, signed_by: str) -> None:
    """What stands published is proven by whoever signs for it."""
    of_cut = (str(stream), business_date, version)
    with session.transaction():
        session.execute(f"UPDATE seamline.hive_cut SET signed_by = %s WHERE {_OF_CUT}", (signed_by, *of_cut))
        session.execute(f"UPDATE seamline.hive_cut_table SET is_proven = true WHERE {_OF_CUT}", of_cut)


def folders_of(session: Session, stream: StreamId, business_date: date, version: int) -> list[Folder]:
    """In the order of the tables' names."""
    rows = session.execute(
        f"SELECT table_name, location, columns, rows FROM seamline.hive_cut_table WHERE {_OF_CUT} ORDER BY table_name",
        (str(stream), business_date, version),
    ).fetchall()
    return [_folder(row) for row in rows]


def current_folder(
    session: Session, stream: StreamId, table: str, business_date: date, *, but: Collection[int] = ()
) -> tuple[int, Folder] | None:
    """The newest published version of a table's date, and its folder; `but`: without these versions."""
    row = session.execute(
        f"SELECT t.version, t.table_name, t.location, t.columns, t.rows FROM {_JOINED}"
        " WHERE t.stream = %s AND t.table_name = %s AND t.business_date = %s AND c.published_at IS NOT NULL"
        " AND NOT t.version = ANY(%s) ORDER BY t.version DESC LIMIT 1",
        (str(stream), table, business_date, list(but)),
    ).fetchone()
    return None if row is None else (int(row[0]), _folder(row[1:]))


def tables_of_date_before(session: Session, stream: StreamId, business_date: date) -> list[tuple[str, date, int, str]]:
    """Of the newest published date before this one: table by business date, date, the version that counts, folder."""
    try:
        rows = session.execute(
            f"SELECT DISTINCT ON (t.table_name) t.table_name, t.business_date, t.version, t.location FROM {_JOINED}"
            " WHERE t.stream = %(stream)s AND t.mode = %(mode)s AND c.published_at IS NOT NULL AND t.business_date ="
            f" (SELECT max(t.business_date) FROM {_JOINED} WHERE t.stream = %(stream)s AND c.published_at IS NOT NULL"
            " AND t.business_date < %(date)s) ORDER BY t.table_name, t.version DESC",
            {"stream": str(stream), "mode": CutMode.DATE.value, "date": business_date},
        ).fetchall()
    except MISSING:
        return []
    return [(str(table), day, int(version), str(location)) for table, day, version, location in rows]


def kept(session: Session, stream: StreamId) -> list[KeptCut]:
    """Each table of each version that is there. `is_current`: the newest one that is published."""
    rows = session.execute(
        "SELECT t.table_name, t.business_date, t.version, c.decided_at, c.published_at,"
        " c.published_at IS NOT NULL AND t.version = max(t.version) FILTER (WHERE c.published_at IS NOT NULL)"
        f" OVER (PARTITION BY t.table_name, t.business_date), t.is_proven FROM {_JOINED} WHERE t.stream = %s",
        (str(stream),),
    ).fetchall()
    return [
        KeptCut(table, day, version, decided_at, published_at, is_current, is_proven and published_at is not None)
        for table, day, version, decided_at, published_at, is_current, is_proven in rows
    ]


def expired(session: Session, stream: StreamId) -> list[tuple[date, int]]:
    rows = session.execute(
        "SELECT business_date, version FROM seamline.hive_cut WHERE stream = %s AND expired_at IS NOT NULL",
        (str(stream),),
    ).fetchall()
    return [(day, int(version)) for day, version in rows]


def release(session: Session, stream: StreamId, business_date: date, gone: Sequence[tuple[str, int]]) -> None:
    """Forget (table, version) of a date, whose partition leads elsewhere by now, and leave their folders to
    maintenance. A cut of which no table is left says when it expired. One transaction."""
    with session.transaction():
        for table, version in gone:
            session.execute(
                "WITH forgotten AS (DELETE FROM seamline.hive_cut_table WHERE stream = %s AND table_name = %s"
                " AND business_date = %s AND version = %s RETURNING location)"
                " INSERT INTO seamline.hive_folder (location, destination) SELECT location, %s FROM forgotten"
                " ON CONFLICT DO NOTHING",
                (str(stream), table, business_date, version, stream.destination),
            )
        session.execute(
            "UPDATE seamline.hive_cut c SET expired_at = clock_timestamp()"
            " WHERE stream = %s AND business_date = %s AND version = ANY(%s) AND expired_at IS NULL"
            " AND NOT EXISTS (SELECT FROM seamline.hive_cut_table t WHERE t.stream = c.stream"
            " AND t.business_date = c.business_date AND t.version = c.version)",
            (str(stream), business_date, sorted({version for _, version in gone})),
        )


def folders_to_remove(session: Session, destination: str, *, older_than: timedelta) -> list[str]:
    """Those that no partition has led to for so long."""
    try:
        rows = session.execute(
            "SELECT location FROM seamline.hive_folder WHERE destination = %s AND released_at < clock_timestamp() - %s"
            " ORDER BY location",
            (destination, older_than),
        ).fetchall()
    except MISSING:
        return []
    return [str(location) for (location,) in rows]


def forget_folder(session: Session, location: str) -> None:
    session.execute("DELETE FROM seamline.hive_folder WHERE location = %s", (location,))


def _folder(row: Row) -> Folder:
    table, location, columns, rows = row
    return Folder(table, location, tuple((str(name), str(of)) for name, of in columns), rows)
