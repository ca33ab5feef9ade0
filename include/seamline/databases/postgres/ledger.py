"""The tables in which a destination records its own progress: ledger, boundary, publication, finding.

They lie in schema `seamline` of the destination's database, so they share the fate of the data: one transaction, one
backup.
"""

import json
from collections.abc import Sequence

import psycopg

from seamline.databases.postgres.client import Session
from seamline.domain.changes import Finding
from seamline.domain.cutover import Boundary
from seamline.domain.errors import NotCaughtUp, Refused
from seamline.domain.ledger import LedgerRow, StreamId
from seamline.domain.position import position_from_json, position_to_json
from seamline.ports import Joining, Lease, Progress, Publication

# Two first publishes at once must not meet inside CREATE … IF NOT EXISTS.
_CREATE_LOCK = 7_305_805_512_440_001
_TABLES = """
CREATE SCHEMA IF NOT EXISTS seamline;
CREATE TABLE IF NOT EXISTS seamline.ledger (
    stream text PRIMARY KEY,
    topic text NOT NULL,
    topic_id text NOT NULL,
    next_offset bigint NOT NULL,
    position jsonb NOT NULL,
    epoch bigint NOT NULL,
    applied_units bigint NOT NULL DEFAULT 0,
    committed_ms bigint NOT NULL DEFAULT 0,
    last_marker text NOT NULL DEFAULT '',
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 20);
CREATE TABLE IF NOT EXISTS seamline.boundary (
    stream text NOT NULL,
    table_name text NOT NULL,
    generation integer NOT NULL,
    position jsonb NOT NULL,
    high_marker text NOT NULL DEFAULT '',
    ended_at timestamptz,
    removed_at timestamptz,
    fingerprint text,
    PRIMARY KEY (stream, table_name, generation)
);
CREATE TABLE IF NOT EXISTS seamline.publication (
    run_id text,
    stream text,
    tables jsonb NOT NULL,
    published_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (run_id, stream)
);
CREATE TABLE IF NOT EXISTS seamline.finding (
    finding_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    stream text NOT NULL,
    table_name text NOT NULL,
    kind text NOT NULL,
    row_key text NOT NULL,
    log_offset bigint NOT NULL,
    position jsonb NOT NULL,
    found_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    over_at timestamptz
);
CREATE INDEX IF NOT EXISTS finding_of_stream ON seamline.finding (stream, found_at);
"""
# Of a finding `f`, by which an earlier version knew that it was over.
IS_FROM_BEFORE_A_LOAD = (
    "EXISTS (SELECT FROM seamline.publication p"
    " WHERE p.stream = f.stream AND p.published_at >= f.found_at AND p.tables ? f.table_name)"
)
# What an earlier version has made. Asked first: an ALTER waits for every reader, also where it has nothing to do.
_UPGRADES = {
    "SELECT 1 FROM pg_attribute WHERE attrelid = 'seamline.boundary'::regclass AND attname = 'removed_at'": (
        "ALTER TABLE seamline.boundary ADD COLUMN removed_at timestamptz"
    ),
    # Before 0.2.0 the fingerprint had another name. Both are there where an older version was at work in between.
    "SELECT 1 FROM (SELECT array_agg(attname::text) AS names FROM pg_attribute"
    " WHERE attrelid = 'seamline.boundary'::regclass) AS known"
    " WHERE 'fingerprint' = ANY (names) OR NOT 'shape_mark' = ANY (names)": (
        "ALTER TABLE seamline.boundary RENAME COLUMN shape_mark TO fingerprint"
    ),
    "SELECT 1 FROM pg_attribute WHERE attrelid = 'seamline.boundary'::regclass AND attname = 'fingerprint'": (
        "ALTER TABLE seamline.boundary ADD COLUMN fingerprint text"
    ),
    "SELECT 1 FROM pg_attribute WHERE attrelid = 'seamline.finding'::regclass AND attname = 'over_at'": (
        "ALTER TABLE seamline.finding ADD COLUMN over_at timestamptz;"
        f"UPDATE seamline.finding f SET over_at = clock_timestamp() WHERE {IS_FROM_BEFORE_A_LOAD}"
    ),
    "SELECT 1 FROM pg_index WHERE indrelid = 'seamline.publication'::regclass AND indisprimary AND indnkeyatts = 2": (
        "ALTER TABLE seamline.publication DROP CONSTRAINT publication_pkey, ADD PRIMARY KEY (run_id, stream)"
    ),
}
# Of large transactions, whose chunks are temporary tables now. Those of the epoch that the ledger has may be in use.
_OLD_CHUNKS = """
SELECT oid::regclass::text FROM pg_class
WHERE relnamespace = 'seamline'::regnamespace AND relname ~ '^piece_[0-9a-f]{16}_[0-9]+_[0-9]+$' AND NOT EXISTS (
    SELECT FROM seamline.ledger WHERE starts_with(
        relname, 'piece_' || left(encode(sha256(convert_to(stream, 'UTF8')), 'hex'), 16) || '_' || epoch || '_'))
"""
_COLUMNS = "topic, topic_id, next_offset, position, epoch, applied_units, committed_ms, last_marker"
_COMPARE_AND_SET = """
UPDATE seamline.ledger
SET next_offset = %s, position = %s, applied_units = applied_units + %s, committed_ms = %s,
    last_marker = coalesce(nullif(%s, ''), last_marker), updated_at = clock_timestamp()
WHERE stream = %s AND topic_id = %s AND next_offset = %s AND epoch = %s
RETURNING applied_units, last_marker
"""


def create_tables(session: Session) -> None:
    """Make the tables if they are missing. One transaction; a repeat changes nothing."""
    with session.transaction():
        session.execute("SELECT pg_advisory_xact_lock(%s)", (_CREATE_LOCK,))
        session.execute(_TABLES)
        for question, statement in _UPGRADES.items():
            if session.execute(question).fetchone() is None:
                session.execute(statement)
        for (chunk,) in session.execute(_OLD_CHUNKS).fetchall():
            session.execute(f"DROP TABLE {chunk}")


def read_ledger(session: Session, stream: StreamId) -> LedgerRow | None:
    """The committed ledger with the newest boundary of each carried table; None where nothing was ever published."""
    try:
        row = session.execute(f"SELECT {_COLUMNS} FROM seamline.ledger WHERE stream = %s", (str(stream),)).fetchone()
    except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
        return None
    if row is None:
        return None
    topic, topic_id, next_offset, position, epoch, applied_units, committed_ms, last_marker = row
    return LedgerRow(
        stream,
        topic,
        topic_id,
        next_offset,
        position_from_json(position),
        epoch,
        applied_units,
        committed_ms,
        _boundaries(session, stream),
        last_marker,
    )


def _boundaries(session: Session, stream: StreamId) -> tuple[Boundary, ...]:
    rows = session.execute(
        # As JSON, because a destination of an earlier version has no such columns until something is published.
        "SELECT * FROM (SELECT DISTINCT ON (table_name) table_name, position, generation, high_marker,"
        " ended_at IS NOT NULL, coalesce(to_jsonb(b) ->> 'fingerprint', to_jsonb(b) ->> 'shape_mark', ''),"
        " to_jsonb(b) ->> 'removed_at' AS removed"
        " FROM seamline.boundary b WHERE stream = %s ORDER BY table_name, generation DESC) newest"
        " WHERE removed IS NULL",
        (str(stream),),
    ).fetchall()
    return tuple(
        Boundary(table, position_from_json(position), generation, high_marker, ended, mark)
        for table, position, generation, high_marker, ended, mark, _ in rows
    )


def take_epoch(session: Session, stream: StreamId, *, after_epoch: int | None = None) -> int | None:
    """Raise the epoch by one and return it; None where there is no ledger row, or where its epoch is not `after_epoch`.
    Waits for a commit in flight."""
    with session.transaction():
        row = session.execute(
            "SELECT epoch FROM seamline.ledger WHERE stream = %s FOR UPDATE", (str(stream),)
        ).fetchone()
        if row is None or after_epoch not in (None, row[0]):
            return None
        epoch = int(row[0]) + 1
        session.execute("UPDATE seamline.ledger SET epoch = %s WHERE stream = %s", (epoch, str(stream)))
    return epoch


def compare_and_set(session: Session, lease: Lease, progress: Progress) -> tuple[int, str] | None:
    """(applied transactions, last marker) after the step; None if the ledger stands elsewhere. Inside the
    transaction."""
    span = progress.span
    row = session.execute(
        _COMPARE_AND_SET,
        (
            span.end,
            json.dumps(position_to_json(span.position)),
            span.transactions,
            span.committed_ms,
            progress.last_marker,
            str(lease.stream),
            lease.ledger.topic_id,
            span.start,
            lease.epoch,
        ),
        prepare=True,
    ).fetchone()
    return None if row is None else (row[0], row[1])


def end_boundaries(session: Session, stream: StreamId, tables: Sequence[str]) -> None:
    session.execute(
        "UPDATE seamline.boundary SET ended_at = clock_timestamp() "
        "WHERE stream = %s AND table_name = ANY(%s) AND ended_at IS NULL",
        (str(stream), list(tables)),
    )


def keep_findings(session: Session, stream: StreamId, findings: Sequence[Finding], progress: Progress) -> None:
    """Store findings in the transaction that applied them."""
    position = json.dumps(position_to_json(progress.span.position))
    with session.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO seamline.finding (stream, table_name, kind, row_key, log_offset, position) "
            "VALUES (%s, %s, %s, %s, %s, %s)",
            [(str(stream), f.table, f.kind, f.key, f.offset, position) for f in findings],
        )


def end_findings(session: Session, stream: StreamId, tables: Sequence[str]) -> None:
    """The rows of these tables are put in place again: what was found in those of before is over."""
    session.execute(
        "UPDATE seamline.finding SET over_at = clock_timestamp()"
        " WHERE stream = %s AND table_name = ANY(%s) AND over_at IS NULL",
        (str(stream), list(tables)),
    )


def is_published(session: Session, stream: StreamId, run_id: str) -> bool:
    row = session.execute(
        "SELECT 1 FROM seamline.publication WHERE run_id = %s AND stream = %s", (run_id, str(stream))
    ).fetchone()
    return row is not None


def end_epoch(session: Session, stream: StreamId) -> None:
    """Fence whoever holds the stream; waits for its commit in flight. Inside the transaction that publishes."""
    session.execute("UPDATE seamline.ledger SET epoch = epoch + 1 WHERE stream = %s", (str(stream),))


def write_publication(session: Session, stream: StreamId, publication: Publication, tables: Sequence[str]) -> None:
    """Ledger row, boundaries of a new generation and the run's own row. Inside the transaction, after `end_epoch`."""
    position = json.dumps(position_to_json(publication.position))
    session.execute(
        "INSERT INTO seamline.ledger AS l (stream, topic, topic_id, next_offset, position, epoch) "
        "VALUES (%s, %s, %s, %s, %s, 1) ON CONFLICT (stream) DO UPDATE SET topic = excluded.topic, "
        "topic_id = excluded.topic_id, next_offset = excluded.next_offset, position = excluded.position, "
        "committed_ms = 0, last_marker = '', updated_at = clock_timestamp()",
        (str(stream), publication.topic, publication.topic_id, publication.next_offset, position),
    )
    session.execute(
        "UPDATE seamline.boundary SET ended_at = clock_timestamp() WHERE stream = %s AND ended_at IS NULL",
        (str(stream),),
    )
    end_findings(session, stream, tables)
    for boundary in publication.boundaries:
        session.execute(
            "INSERT INTO seamline.boundary (stream, table_name, generation, position, high_marker, fingerprint) "
            "SELECT %s, %s, coalesce(max(generation), 0) + 1, %s, %s, %s FROM seamline.boundary "
            "WHERE stream = %s AND table_name = %s",
            (
                str(stream),
                boundary.table,
                json.dumps(position_to_json(boundary.position)),
                boundary.high_marker,
                boundary.fingerprint or None,
                str(stream),
                boundary.table,
            ),
        )
    write_run(session, stream, publication.run_id, tables)


def write_run(session: Session, stream: StreamId, run_id: str, tables: Sequence[str]) -> None:
    """By this row a repeat of the run finds it done."""
    session.execute(
        "INSERT INTO seamline.publication (run_id, stream, tables) VALUES (%s, %s, %s)",
        (run_id, str(stream), json.dumps(list(tables))),
    )


def locked_place(session: Session, stream: StreamId) -> tuple[str, int] | None:
    """(topic id, next offset) of a stream, which then stands there until the transaction ends; None: no ledger."""
    row = session.execute(
        "SELECT topic_id, next_offset FROM seamline.ledger WHERE stream = %s FOR UPDATE", (str(stream),)
    ).fetchone()
    return None if row is None else (str(row[0]), int(row[1]))


def take_over_boundaries(
    session: Session, stream: StreamId, incremental_stream: StreamId, tables: Sequence[str]
) -> None:
    """Boundaries and findings of an incremental snapshot become those of the stream.

    The newest boundary of each table begins its next generation. Findings get new numbers, because the stream's own may
    be reported already.
    """
    session.execute(
        "WITH moved AS (DELETE FROM seamline.finding WHERE stream = %s AND over_at IS NULL RETURNING *)"
        " INSERT INTO seamline.finding (stream, table_name, kind, row_key, log_offset, position, found_at)"
        " SELECT %s, table_name, kind, row_key, log_offset, position, found_at FROM moved ORDER BY finding_id",
        (str(incremental_stream), str(stream)),
    )
    session.execute(
        "INSERT INTO seamline.boundary (stream, table_name, generation, position, high_marker, ended_at, fingerprint)"
        " SELECT DISTINCT ON (p.table_name) %(stream)s, p.table_name, (SELECT coalesce(max(b.generation), 0) + 1 "
        "FROM seamline.boundary b WHERE b.stream = %(stream)s AND b.table_name = p.table_name), "
        "p.position, p.high_marker, p.ended_at, p.fingerprint FROM seamline.boundary p "
        "WHERE p.stream = %(incremental)s AND p.table_name = ANY(%(tables)s) ORDER BY p.table_name, p.generation DESC",
        {"stream": str(stream), "incremental": str(incremental_stream), "tables": list(tables)},
    )


def carried(session: Session, stream: StreamId) -> set[str]:
    rows = session.execute(
        "SELECT DISTINCT table_name FROM seamline.boundary WHERE stream = %s AND removed_at IS NULL", (str(stream),)
    ).fetchall()
    return {str(name) for (name,) in rows}


def end_life(session: Session, stream: StreamId, tables: Sequence[str]) -> None:
    """The stream does not carry these tables any more; their last generation stays to be counted from."""
    session.execute(
        "UPDATE seamline.boundary SET removed_at = clock_timestamp(), ended_at = coalesce(ended_at, clock_timestamp()) "
        "WHERE stream = %s AND table_name = ANY(%s) AND removed_at IS NULL",
        (str(stream), list(tables)),
    )


def streams_of(session: Session, prefix: str, destination: str) -> list[StreamId]:
    """The streams into this destination whose sync's name begins so."""
    rows = session.execute(
        "SELECT left(stream, -length(%(tail)s)) FROM seamline.ledger"
        " WHERE starts_with(stream, %(prefix)s) AND right(stream, length(%(tail)s)) = %(tail)s",
        {"prefix": prefix, "tail": f"@{destination}"},
    ).fetchall()
    return [StreamId(str(sync), destination) for (sync,) in rows]


def forget(session: Session, stream: StreamId) -> None:
    """Everything that a stream has recorded of itself, except its findings."""
    for table in ("ledger", "boundary", "publication"):
        session.execute(f"DELETE FROM seamline.{table} WHERE stream = %s", (str(stream),))


def require_caught_up(session: Session, stream: StreamId, joining: Joining) -> None:
    """NotCaughtUp where stream and incremental snapshot stand apart. Both ledgers are locked: from here on neither
    moves."""
    mine = locked_place(session, stream)
    if mine is None:
        raise Refused(f"nothing was published for {stream}", hint="onboard the sync first", sync=stream.sync)
    if joining.incremental_stream is None:
        return
    passed = locked_place(session, joining.incremental_stream)
    if passed != mine:
        raise NotCaughtUp(
            f"{stream} stands at {_described(mine)}, its incremental snapshot at {_described(passed)}",
            sync=stream.sync,
        )


def _described(place: tuple[str, int] | None) -> str:
    return f"offset {place[1]} of topic {place[0]}" if place else "no place yet"
