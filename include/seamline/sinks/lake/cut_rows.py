"""The rows of a lake's cuts in the catalogue's database: which snapshots of its tables are the cut of a date.

`lake_pin` holds what a nightly run has looked at and nobody has published yet, `lake_cut` and `lake_cut_table` what is
published, `lake_derived` which tables are derived ones. `lake_let_go` has what cuts have held that expired lately:
somebody may still read it. A stream's name is in each key: the same database may be the
catalogue of several destinations.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta

import psycopg

from seamline.databases.postgres.client import Session
from seamline.domain.cut_names import tag_of
from seamline.domain.date_before import PublishedTable
from seamline.domain.ledger import StreamId
from seamline.domain.position import Position, position_from_json, position_to_json
from seamline.domain.staged_cut import CutMode, StagedCut
from seamline.domain.verdict import Verdict

_TABLES = """
CREATE TABLE IF NOT EXISTS seamline.lake_pin (
    stream text NOT NULL,
    run_id text NOT NULL,
    position jsonb NOT NULL,
    snapshots jsonb NOT NULL,
    kept_for interval NOT NULL,
    pinned_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (stream, run_id)
);
CREATE TABLE IF NOT EXISTS seamline.lake_cut (
    stream text NOT NULL,
    business_date date NOT NULL,
    version integer NOT NULL,
    run_id text NOT NULL,
    tag text NOT NULL,
    position jsonb NOT NULL,
    as_of timestamptz NOT NULL,
    verdict text NOT NULL,
    partial boolean NOT NULL,
    left_out jsonb NOT NULL,
    signed_by text NOT NULL DEFAULT '',
    published_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    expired_at timestamptz,
    PRIMARY KEY (stream, business_date, version),
    UNIQUE (stream, run_id)
);
CREATE TABLE IF NOT EXISTS seamline.lake_cut_table (
    stream text NOT NULL,
    table_name text NOT NULL,
    business_date date NOT NULL,
    version integer NOT NULL,
    snapshot_id bigint NOT NULL,
    mode text NOT NULL,
    rows bigint NOT NULL,
    verdict text NOT NULL,
    is_proven boolean NOT NULL,
    PRIMARY KEY (stream, table_name, business_date, version),
    FOREIGN KEY (stream, business_date, version) REFERENCES seamline.lake_cut
);
CREATE TABLE IF NOT EXISTS seamline.lake_let_go (
    stream text NOT NULL,
    table_name text NOT NULL,
    snapshot_id bigint NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE TABLE IF NOT EXISTS seamline.lake_derived (
    stream text NOT NULL,
    table_name text NOT NULL,
    PRIMARY KEY (stream, table_name)
);
"""
# How long the files of a cut that has expired stay.
GRACE_HOURS = 24
# Where nothing was ever cut there are no tables.
MISSING = (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName)
_FOUND = """
SELECT c.business_date, c.version, c.tag, c.position, jsonb_object_agg(t.table_name, t.snapshot_id)
FROM seamline.lake_cut c JOIN seamline.lake_cut_table t USING (stream, business_date, version)
WHERE c.stream = %(stream)s AND {}
GROUP BY c.stream, c.business_date, c.version ORDER BY c.business_date DESC, c.version DESC LIMIT 1
"""


@dataclass(frozen=True, slots=True)
class Pin:
    """What a run has looked at: table → snapshot id. `kept_for`: how long a cut of it may be wanted at most."""

    position: Position
    snapshots: Mapping[str, int]
    kept_for: timedelta


@dataclass(frozen=True, slots=True)
class Recorded:
    """The cut that a run has published."""

    business_date: date
    version: int
    position: Position
    signed_by: str
    has_expired: bool


@dataclass(frozen=True, slots=True)
class PublishedCut:
    """A version of a date that is there: table → snapshot id."""

    business_date: date
    version: int
    tag: str
    position: Position
    snapshots: Mapping[str, int]


def create_tables(session: Session) -> None:
    """In schema `seamline`, inside the caller's transaction."""
    session.execute(_TABLES)


def keep_pin(session: Session, stream: StreamId, run_id: str, pin: Pin) -> None:
    """In place of what an earlier attempt of the run has looked at."""
    session.execute(
        "INSERT INTO seamline.lake_pin (stream, run_id, position, snapshots, kept_for) VALUES (%s, %s, %s, %s, %s)"
        " ON CONFLICT (stream, run_id) DO UPDATE SET position = excluded.position, snapshots = excluded.snapshots,"
        " kept_for = excluded.kept_for, pinned_at = clock_timestamp()",
        (
            str(stream),
            run_id,
            json.dumps(position_to_json(pin.position)),
            json.dumps(dict(pin.snapshots)),
            pin.kept_for,
        ),
    )


def read_pin(session: Session, stream: StreamId, run_id: str) -> Pin | None:
    row = session.execute(
        "SELECT position, snapshots, kept_for FROM seamline.lake_pin WHERE stream = %s AND run_id = %s",
        (str(stream), run_id),
    ).fetchone()
    return None if row is None else Pin(position_from_json(row[0]), row[1], row[2])


def forget_pin(session: Session, stream: str, run_id: str) -> None:
    session.execute("DELETE FROM seamline.lake_pin WHERE stream = %s AND run_id = %s", (stream, run_id))


def old_pins(session: Session, destination: str, *, older_than: timedelta) -> list[tuple[str, str]]:
    """(stream, run id) of what nobody has published for so long."""
    tail = f"@{destination}"
    try:
        rows = session.execute(
            "SELECT stream, run_id FROM seamline.lake_pin WHERE right(stream, length(%s)) = %s"
            " AND pinned_at < clock_timestamp() - %s ORDER BY stream, run_id",
            (tail, tail, older_than),
        ).fetchall()
    except MISSING:
        return []
    return [(str(stream), str(run_id)) for stream, run_id in rows]


def recorded(session: Session, stream: StreamId, run_id: str) -> Recorded | None:
    row = session.execute(
        "SELECT business_date, version, position, signed_by, expired_at IS NOT NULL FROM seamline.lake_cut"
        " WHERE stream = %s AND run_id = %s",
        (str(stream), run_id),
    ).fetchone()
    return None if row is None else Recorded(row[0], row[1], position_from_json(row[2]), *row[3:])


def next_version(session: Session, stream: StreamId, business_date: date) -> int:
    row = session.execute(
        "SELECT coalesce(max(version), 0) + 1 FROM seamline.lake_cut WHERE stream = %s AND business_date = %s",
        (str(stream), business_date),
    ).fetchone()
    return int(row[0]) if row else 1


def write_cut(
    session: Session, stream: StreamId, cut: StagedCut, version: int, *, snapshots: Mapping[str, int], signed_by: str
) -> None:
    """The cut and its tables, which `snapshots` names."""
    session.execute(
        "INSERT INTO seamline.lake_cut (stream, business_date, version, run_id, tag, position, as_of, verdict, partial,"
        " left_out, signed_by) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
        (
            str(stream),
            cut.business_date,
            version,
            cut.run_id,
            tag_of(cut.business_date, version),
            json.dumps(position_to_json(cut.position)),
            cut.as_of,
            cut.verdict.value,
            cut.is_partial,
            json.dumps(dict(cut.left_out)),
            signed_by,
        ),
    )
    # Of the whole cut: beside a table that is not clean the others stand for a date that nobody has signed.
    is_proven = cut.verdict is Verdict.MATCH or bool(signed_by)
    for table in cut.tables:
        if table.mode is CutMode.DERIVED:
            _own_derived(session, stream, table.table)
        session.execute(
            "INSERT INTO seamline.lake_cut_table VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)",
            (
                str(stream),
                table.table,
                cut.business_date,
                version,
                snapshots[table.table],
                table.mode.value,
                table.rows,
                table.verdict.value,
                is_proven,
            ),
        )


def derived_tables(session: Session, stream: StreamId) -> set[str]:
    """Those that cuts of the stream have made."""
    rows = session.execute("SELECT table_name FROM seamline.lake_derived WHERE stream = %s", (str(stream),)).fetchall()
    return {str(table) for (table,) in rows}


def _own_derived(session: Session, stream: StreamId, table: str) -> None:
    session.execute("INSERT INTO seamline.lake_derived VALUES (%s, %s) ON CONFLICT DO NOTHING", (str(stream), table))


def sign(session: Session, stream: StreamId, business_date: date, version: int, signed_by: str) -> None:
    """What stands published is proven by whoever signs for it."""
    of_cut = (str(stream), business_date, version)
    which = "WHERE stream = %s AND business_date = %s AND version = %s"
    session.execute(f"UPDATE seamline.lake_cut SET signed_by = %s {which}", (signed_by, *of_cut))
    session.execute(f"UPDATE seamline.lake_cut_table SET is_proven = true {which}", of_cut)


def newest_of(session: Session, stream: StreamId, business_date: date) -> PublishedCut | None:
    """The version of a date that counts."""
    return _found(session, stream, "c.business_date = %(date)s", {"date": business_date})


def tagged(session: Session, stream: StreamId, tag: str) -> PublishedCut | None:
    """The version of a date that has this tag."""
    return _found(session, stream, "c.tag = %(tag)s", {"tag": tag})


def tables_of_date_before(session: Session, stream: StreamId, business_date: date) -> list[tuple[str, date, int, str]]:
    """Of the newest date before this one: table by business date, date, the version that counts, and its tag."""
    try:
        rows = session.execute(
            "SELECT DISTINCT ON (t.table_name) t.table_name, t.business_date, t.version, c.tag"
            " FROM seamline.lake_cut_table t JOIN seamline.lake_cut c USING (stream, business_date, version)"
            " WHERE t.stream = %(stream)s AND t.mode = %(mode)s AND t.business_date = (SELECT max(business_date)"
            " FROM seamline.lake_cut_table WHERE stream = %(stream)s AND business_date < %(date)s)"
            " ORDER BY t.table_name, t.version DESC",
            {"stream": str(stream), "mode": CutMode.DATE.value, "date": business_date},
        ).fetchall()
    except MISSING:
        return []
    return [(str(table), day, int(version), str(tag)) for table, day, version, tag in rows]


def snapshot_of(session: Session, stream: StreamId, published: PublishedTable) -> int | None:
    """None of a table of a cut that has expired."""
    row = session.execute(
        "SELECT snapshot_id FROM seamline.lake_cut_table"
        " WHERE stream = %s AND table_name = %s AND business_date = %s AND version = %s",
        (str(stream), published.table, published.business_date, published.version),
    ).fetchone()
    return None if row is None else int(row[0])


def newest_proven(session: Session, stream: StreamId) -> PublishedCut | None:
    """The newest date that reconciled or that a person signed."""
    return _found(session, stream, "t.is_proven", {})


def tags_that_count(session: Session, stream: StreamId) -> list[tuple[str, date, str]]:
    """Of each table and date that are kept, the tag of the newest version."""
    rows = session.execute(
        "SELECT DISTINCT ON (t.table_name, t.business_date) t.table_name, t.business_date, c.tag"
        " FROM seamline.lake_cut_table t JOIN seamline.lake_cut c USING (stream, business_date, version)"
        " WHERE t.stream = %s ORDER BY t.table_name, t.business_date, t.version DESC",
        (str(stream),),
    ).fetchall()
    return [(str(table), day, str(tag)) for table, day, tag in rows]


def forget_tables(session: Session, stream: StreamId, business_date: date, gone: Mapping[tuple[str, int], int]) -> None:
    """`gone`: (table, version) → snapshot id. A cut of which no table is left says when it expired. What its readers
    have open stays held for `GRACE_HOURS`. The tables of cuts must be there in their newest form (`create_tables`)."""
    session.execute(
        "DELETE FROM seamline.lake_let_go WHERE at < clock_timestamp() - make_interval(hours => %s)", (GRACE_HOURS,)
    )
    for (table, version), snapshot_id in sorted(gone.items()):
        session.execute(
            "INSERT INTO seamline.lake_let_go (stream, table_name, snapshot_id) VALUES (%s, %s, %s)",
            (str(stream), table, snapshot_id),
        )
        session.execute(
            "DELETE FROM seamline.lake_cut_table"
            " WHERE stream = %s AND table_name = %s AND business_date = %s AND version = %s",
            (str(stream), table, business_date, version),
        )
    session.execute(
        "UPDATE seamline.lake_cut c SET expired_at = clock_timestamp()"
        " WHERE stream = %s AND business_date = %s AND version = ANY(%s) AND expired_at IS NULL"
        " AND NOT EXISTS (SELECT FROM seamline.lake_cut_table t WHERE t.stream = c.stream"
        " AND t.business_date = c.business_date AND t.version = c.version)",
        (str(stream), business_date, sorted({version for _, version in gone})),
    )


def kept(session: Session, stream: StreamId) -> list[tuple[str, date, int, datetime, bool, bool, int]]:
    """Of each table of each version: table, date, version, when it was published, whether it counts, whether it is
    proven, and its snapshot id."""
    return session.execute(
        "SELECT t.table_name, t.business_date, t.version, c.published_at, t.version = max(t.version) OVER"
        " (PARTITION BY t.table_name, t.business_date), t.is_proven, t.snapshot_id"
        " FROM seamline.lake_cut_table t JOIN seamline.lake_cut c USING (stream, business_date, version)"
        " WHERE t.stream = %s",
        (str(stream),),
    ).fetchall()


def held(session: Session, destination: str) -> list[tuple[str, str, int]]:
    """(stream, table, snapshot id) of what cuts and runs hold in a destination, and cuts that expired lately."""
    if session.execute("SELECT to_regclass('seamline.lake_cut_table')").fetchone() == (None,):
        return []
    # An older installation has no `lake_let_go` yet.
    session.execute(_TABLES)
    rows = session.execute(
        "SELECT stream, table_name, snapshot_id FROM seamline.lake_cut_table"
        " WHERE right(stream, length(%(tail)s)) = %(tail)s"
        " UNION SELECT stream, one.key, one.value::bigint FROM seamline.lake_pin, jsonb_each_text(snapshots) one"
        " WHERE right(stream, length(%(tail)s)) = %(tail)s"
        " UNION SELECT stream, table_name, snapshot_id FROM seamline.lake_let_go"
        " WHERE right(stream, length(%(tail)s)) = %(tail)s"
        " AND at >= clock_timestamp() - make_interval(hours => %(grace)s)",
        {"tail": f"@{destination}", "grace": GRACE_HOURS},
    ).fetchall()
    return [(str(stream), str(table), int(number)) for stream, table, number in rows]


def expired(session: Session, stream: StreamId) -> list[tuple[date, int]]:
    rows = session.execute(
        "SELECT business_date, version FROM seamline.lake_cut WHERE stream = %s AND expired_at IS NOT NULL",
        (str(stream),),
    ).fetchall()
    return [(day, int(version)) for day, version in rows]


def _found(session: Session, stream: StreamId, which: str, of: Mapping[str, object]) -> PublishedCut | None:
    try:
        row = session.execute(_FOUND.format(which), {"stream": str(stream), **of}).fetchone()
    except MISSING:
        return None
    if row is None:
        return None
    return PublishedCut(
        row[0], row[1], row[2], position_from_json(row[3]), {name: int(n) for name, n in row[4].items()}
    )
