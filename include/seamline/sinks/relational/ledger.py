"""The tables in which a destination records its own progress: ledger, boundary, publication, finding, pending.

They are of InnoDB, as the data is, so one transaction holds both. `at`: the database that they lie in, in quotes.
"""

import json
from collections.abc import Sequence

import pymysql
from pymysql.constants import ER

from seamline.domain.changes import Finding
from seamline.domain.cutover import Boundary
from seamline.domain.ledger import LedgerRow, StreamId
from seamline.domain.position import Position, position_from_json, position_to_json
from seamline.ports import Lease, Progress, Publication
from seamline.sinks.relational.dialect import Dialect
from seamline.sinks.relational.session import Row, Session, code_of, execute, query, transaction

_STREAM = "stream varchar(255) NOT NULL"
_NOW = "CURRENT_TIMESTAMP(6)"
_TABLES = (
    f"ledger ({_STREAM} PRIMARY KEY, topic varchar(255) NOT NULL, topic_id varchar(255) NOT NULL,"
    " next_offset bigint NOT NULL, position longtext NOT NULL, epoch bigint NOT NULL,"
    " applied_transactions bigint NOT NULL DEFAULT 0, committed_ms bigint NOT NULL DEFAULT 0,"
    f" last_marker varchar(255) NOT NULL DEFAULT '', updated_at datetime(6) NOT NULL DEFAULT {_NOW})",
    f"boundary ({_STREAM}, table_name varchar(255) NOT NULL, generation int NOT NULL, position longtext NOT NULL,"
    " high_marker varchar(255) NOT NULL DEFAULT '', ended_at datetime(6), removed_at datetime(6),"
    " fingerprint varchar(64) NOT NULL DEFAULT '', PRIMARY KEY (stream, table_name, generation))",
    f"publication (run_id varchar(255) NOT NULL, {_STREAM}, tables longtext NOT NULL,"
    f" published_at datetime(6) NOT NULL DEFAULT {_NOW}, PRIMARY KEY (run_id, stream))",
    f"finding (finding_id bigint AUTO_INCREMENT PRIMARY KEY, {_STREAM}, table_name varchar(255) NOT NULL,"
    " kind varchar(64) NOT NULL, row_key longtext NOT NULL, log_offset bigint NOT NULL, position longtext NOT NULL,"
    f" found_at datetime(6) NOT NULL DEFAULT {_NOW}, over_at datetime(6), KEY finding_of_stream (stream, found_at))",
    f"pending ({_STREAM}, number int NOT NULL, step varchar(16) NOT NULL, from_database varchar(64) NOT NULL,"
    " from_name varchar(64) NOT NULL DEFAULT '', to_database varchar(64) NOT NULL DEFAULT '',"
    " to_name varchar(64) NOT NULL DEFAULT '', PRIMARY KEY (stream, number))",
)
_COLUMNS = "topic, topic_id, next_offset, position, epoch, applied_transactions, committed_ms, last_marker"
_NOT_THERE = (ER.NO_SUCH_TABLE, ER.BAD_DB_ERROR)


def create_tables(session: Session, at: str, dialect: Dialect) -> None:
    """Make the tables if they are missing. A repeat changes nothing."""
    execute(session, f"CREATE DATABASE IF NOT EXISTS {at} CHARACTER SET utf8mb4 COLLATE {dialect.collation}")
    for definition in _TABLES:
        execute(
            session,
            f"CREATE TABLE IF NOT EXISTS {at}.{definition} ENGINE=InnoDB DEFAULT CHARSET=utf8mb4"
            f" COLLATE={dialect.collation}",
        )


def is_missing(exc: pymysql.err.MySQLError) -> bool:
    """Whether nothing was ever published there."""
    return code_of(exc) in _NOT_THERE


def read_ledger(session: Session, at: str, stream: StreamId) -> LedgerRow | None:
    """The committed ledger with the newest boundary of each carried table; None where nothing was ever published."""
    try:
        rows = query(session, f"SELECT {_COLUMNS} FROM {at}.ledger WHERE stream = %s", (str(stream),))
    except pymysql.err.MySQLError as exc:
        if is_missing(exc):
            return None
        raise
    if not rows:
        return None
    topic, topic_id, next_offset, position, epoch, applied_transactions, committed_ms, last_marker = rows[0]
    return LedgerRow(
        stream,
        topic,
        topic_id,
        next_offset,
        _position(position),
        epoch,
        applied_transactions,
        committed_ms,
        _boundaries(session, at, stream),
        last_marker,
    )


def _boundaries(session: Session, at: str, stream: StreamId) -> tuple[Boundary, ...]:
    rows = query(
        session,
        f"SELECT b.table_name, b.position, b.generation, b.high_marker, b.ended_at IS NOT NULL, b.fingerprint"
        f" FROM {at}.boundary b JOIN (SELECT table_name, MAX(generation) AS generation FROM {at}.boundary"
        " WHERE stream = %s GROUP BY table_name) newest USING (table_name, generation)"
        " WHERE b.stream = %s AND b.removed_at IS NULL ORDER BY b.table_name",
        (str(stream), str(stream)),
    )
    return tuple(
        Boundary(table, _position(position), generation, high_marker, bool(ended), fingerprint)
        for table, position, generation, high_marker, ended, fingerprint in rows
    )


def _position(text: str) -> Position:
    return position_from_json(json.loads(text))


def _position_text(position: Position) -> str:
    return json.dumps(position_to_json(position))


def take_epoch(session: Session, at: str, stream: StreamId, *, after_epoch: int | None = None) -> int | None:
    """Raise the epoch by one and return it; None where there is no ledger row, or where its epoch is not `after_epoch`.
    Waits for a commit in flight."""
    with transaction(session):
        rows = query(session, f"SELECT epoch FROM {at}.ledger WHERE stream = %s FOR UPDATE", (str(stream),))
        if not rows or after_epoch not in (None, rows[0][0]):
            return None
        epoch = int(rows[0][0]) + 1
        execute(session, f"UPDATE {at}.ledger SET epoch = %s WHERE stream = %s", (epoch, str(stream)))
    return epoch


def compare_and_set(session: Session, at: str, lease: Lease, progress: Progress) -> tuple[int, str] | None:
    """(applied transactions, last marker) after the step; None if the ledger stands elsewhere. Inside the
    transaction."""
    span = progress.span
    place = (str(lease.stream), lease.ledger.topic_id, span.start, lease.epoch)
    # Locked first and changed then: how many rows an UPDATE has found, it says only where a value changed.
    where = "stream = %s AND topic_id = %s AND next_offset = %s AND epoch = %s"
    rows = query(session, f"SELECT applied_transactions, last_marker FROM {at}.ledger WHERE {where} FOR UPDATE", place)
    if not rows:
        return None
    applied, marker = int(rows[0][0]) + span.transactions, progress.last_marker or str(rows[0][1])
    execute(
        session,
        f"UPDATE {at}.ledger SET next_offset = %s, position = %s, applied_transactions = %s, committed_ms = %s,"
        f" last_marker = %s, updated_at = {_NOW} WHERE {where}",
        (span.end, _position_text(span.position), applied, span.committed_ms, marker, *place),
    )
    return applied, marker


def end_boundaries(session: Session, at: str, stream: StreamId, tables: Sequence[str]) -> None:
    execute(
        session,
        f"UPDATE {at}.boundary SET ended_at = {_NOW} WHERE stream = %s AND {_among(tables)} AND ended_at IS NULL",
        (str(stream), *tables),
    )


def keep_findings(session: Session, at: str, stream: StreamId, findings: Sequence[Finding], progress: Progress) -> None:
    """Store findings in the transaction that applied them."""
    position = _position_text(progress.span.position)
    with session.cursor() as cursor:
        cursor.executemany(
            f"INSERT INTO {at}.finding (stream, table_name, kind, row_key, log_offset, position)"
            " VALUES (%s, %s, %s, %s, %s, %s)",
            [(str(stream), f.table, f.kind, f.key, f.offset, position) for f in findings],
        )


def end_findings(session: Session, at: str, stream: StreamId, tables: Sequence[str]) -> None:
    """The rows of these tables are put in place again: what was found in those of before is over."""
    execute(
        session,
        f"UPDATE {at}.finding SET over_at = {_NOW} WHERE stream = %s AND {_among(tables)} AND over_at IS NULL",
        (str(stream), *tables),
    )


def is_published(session: Session, at: str, stream: StreamId, run_id: str) -> bool:
    statement = f"SELECT 1 FROM {at}.publication WHERE run_id = %s AND stream = %s"
    return bool(query(session, statement, (run_id, str(stream))))


def end_epoch(session: Session, at: str, stream: StreamId) -> None:
    """Fence whoever holds the stream; waits for its commit in flight. Inside the transaction that publishes."""
    execute(session, f"UPDATE {at}.ledger SET epoch = epoch + 1 WHERE stream = %s", (str(stream),))


def write_publication(
    session: Session, at: str, stream: StreamId, publication: Publication, tables: Sequence[str]
) -> None:
    """Ledger row, boundaries of a new generation and the run's own row. Inside the transaction, after `end_epoch`."""
    place = (publication.topic, publication.topic_id, publication.next_offset, _position_text(publication.position))
    execute(
        session,
        f"INSERT INTO {at}.ledger (stream, topic, topic_id, next_offset, position, epoch)"
        " VALUES (%s, %s, %s, %s, %s, 1) ON DUPLICATE KEY UPDATE topic = VALUES(topic), topic_id = VALUES(topic_id),"
        " next_offset = VALUES(next_offset), position = VALUES(position), committed_ms = 0, last_marker = '',"
        f" updated_at = {_NOW}",
        (str(stream), *place),
    )
    execute(
        session,
        f"UPDATE {at}.boundary SET ended_at = {_NOW} WHERE stream = %s AND ended_at IS NULL",
        (str(stream),),
    )
    end_findings(session, at, stream, tables)
    for boundary in publication.boundaries:
        execute(
            session,
            f"INSERT INTO {at}.boundary (stream, table_name, generation, position, high_marker, fingerprint)"
            f" VALUES (%s, %s, %s, %s, %s, %s)",
            (
                str(stream),
                boundary.table,
                _next_generation(session, at, stream, boundary.table),
                _position_text(boundary.position),
                boundary.high_marker,
                boundary.fingerprint,
            ),
        )
    write_run(session, at, stream, publication.run_id, tables)


def _next_generation(session: Session, at: str, stream: StreamId, table: str) -> int:
    statement = f"SELECT COALESCE(MAX(generation), 0) + 1 FROM {at}.boundary WHERE stream = %s AND table_name = %s"
    return int(query(session, statement, (str(stream), table))[0][0])


def write_run(session: Session, at: str, stream: StreamId, run_id: str, tables: Sequence[str]) -> None:
    """By this row a repeat of the run finds it done."""
    execute(
        session,
        f"INSERT INTO {at}.publication (run_id, stream, tables) VALUES (%s, %s, %s)",
        (run_id, str(stream), json.dumps(list(tables))),
    )


def locked_place(session: Session, at: str, stream: StreamId) -> tuple[str, int] | None:
    """(topic id, next offset) of a stream, which then stands there until the transaction ends; None: no ledger."""
    rows = query(session, f"SELECT topic_id, next_offset FROM {at}.ledger WHERE stream = %s FOR UPDATE", (str(stream),))
    return (str(rows[0][0]), int(rows[0][1])) if rows else None


def take_over_boundaries(
    session: Session, at: str, stream: StreamId, incremental_stream: StreamId, tables: Sequence[str]
) -> None:
    """Boundaries and findings of an incremental snapshot become those of the stream.

    The newest boundary of each table begins its next generation. Findings get new numbers, because the stream's own may
    be reported already.
    """
    kept = "table_name, kind, row_key, log_offset, position, found_at"
    execute(
        session,
        f"INSERT INTO {at}.finding (stream, {kept}) SELECT %s, {kept} FROM {at}.finding"
        " WHERE stream = %s AND over_at IS NULL ORDER BY finding_id",
        (str(stream), str(incremental_stream)),
    )
    execute(
        session,
        f"DELETE FROM {at}.finding WHERE stream = %s AND over_at IS NULL",
        (str(incremental_stream),),
    )
    for table in tables:
        execute(
            session,
            f"INSERT INTO {at}.boundary (stream, table_name, generation, position, high_marker, ended_at, fingerprint)"
            f" SELECT %s, table_name, %s, position, high_marker, ended_at, fingerprint FROM {at}.boundary"
            " WHERE stream = %s AND table_name = %s ORDER BY generation DESC LIMIT 1",
            (str(stream), _next_generation(session, at, stream, table), str(incremental_stream), table),
        )


def carried(session: Session, at: str, stream: StreamId) -> set[str]:
    rows = query(
        session,
        f"SELECT DISTINCT table_name FROM {at}.boundary WHERE stream = %s AND removed_at IS NULL",
        (str(stream),),
    )
    return {str(name) for (name,) in rows}


def end_life(session: Session, at: str, stream: StreamId, tables: Sequence[str]) -> None:
    """The stream does not carry these tables any more; their last generation stays to be counted from."""
    execute(
        session,
        f"UPDATE {at}.boundary SET removed_at = {_NOW}, ended_at = COALESCE(ended_at, {_NOW})"
        f" WHERE stream = %s AND {_among(tables)} AND removed_at IS NULL",
        (str(stream), *tables),
    )


def streams_of(session: Session, at: str, prefix: str, destination: str) -> list[StreamId]:
    """The streams into this destination whose sync's name begins so."""
    tail = f"@{destination}"
    rows = query(session, f"SELECT stream FROM {at}.ledger")
    names = [str(name) for (name,) in rows if str(name).startswith(prefix) and str(name).endswith(tail)]
    return [StreamId(name.removesuffix(tail), destination) for name in names]


def forget(session: Session, at: str, stream: StreamId) -> None:
    """Everything that a stream has recorded of itself, except its findings."""
    for table in ("ledger", "boundary", "publication", "pending"):
        execute(session, f"DELETE FROM {at}.{table} WHERE stream = %s", (str(stream),))


def pending_steps(session: Session, at: str, stream: StreamId) -> Sequence[Row]:
    """(step, from database, from name, to database, to name), in order."""
    return query(
        session,
        f"SELECT step, from_database, from_name, to_database, to_name FROM {at}.pending WHERE stream = %s"
        " ORDER BY number",
        (str(stream),),
    )


def is_pending(session: Session, at: str, stream: StreamId) -> bool:
    """Whether tables that are published already still wait for their names."""
    return bool(query(session, f"SELECT 1 FROM {at}.pending WHERE stream = %s LIMIT 1", (str(stream),)))


def write_pending(session: Session, at: str, stream: StreamId, steps: Sequence[Row]) -> None:
    with session.cursor() as cursor:
        cursor.executemany(
            f"INSERT INTO {at}.pending (stream, number, step, from_database, from_name, to_database, to_name)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s)",
            [(str(stream), number, *step) for number, step in enumerate(steps)],
        )


def _among(tables: Sequence[str]) -> str:
    """A condition on `table_name` with a place holder per table; false where there is none."""
    return f"table_name IN ({', '.join(['%s'] * len(tables))})" if tables else "FALSE"
