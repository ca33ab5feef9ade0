"""Views on a snapshot that a session has taken for itself: no slot and no right of replication.

Such a snapshot is consistent, and no prefix of the log: what it sees has no exact place in the WAL (`slots`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from seamline.domain.catalogue import Table
from seamline.domain.errors import InvariantViolated
from seamline.domain.position import Position
from seamline.plan.model import SourcePlan
from seamline.sources.postgres.client import Session, role, translated
from seamline.sources.postgres.position import PostgresPosition
from seamline.sources.postgres.sessions import (
    OpenedViews,
    SharedSnapshot,
    SourceReadView,
    begin_reading,
    close_all,
    join_snapshot,
    lock_tables,
    position_at,
)

# The snapshot is the transaction's own; the place in the WAL is asked for in the same statement, a moment after it.
_STAND = (
    "SELECT pg_current_snapshot()::text, (CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()"
    " ELSE pg_current_wal_lsn() END - '0/0')::bigint, clock_timestamp()"
)


@dataclass(frozen=True, slots=True)
class Stood:
    """Where a session's own snapshot stands: `seen` by `pg_current_snapshot`, near `wal`, at the server's time `at`."""

    seen: str
    wal: PostgresPosition
    at: datetime


def open_own_views(
    source: SourcePlan, tables: Sequence[Table], count: int, *, position: Callable[[Stood], Position]
) -> tuple[OpenedViews, Stood]:
    """`count` views on one snapshot, which the first session has taken; the caller closes them. `position`: what they
    say where they stand."""
    reader = role(source, source.reader)
    sessions: list[Session] = []
    try:
        sessions.append(begin_reading(reader))
        stood = _stood(sessions[0], source)
        places = [source.places.of(table.name) for table in tables]
        with translated(reader):
            lock_tables(sessions[0], places)
            row = sessions[0].execute("SELECT pg_export_snapshot(), pg_current_snapshot()::text").fetchone()
        assert row is not None, "the statement has one row"
        shared = SharedSnapshot(str(row[0]), str(row[1]))
        while len(sessions) < count:
            sessions.append(join_snapshot(reader, shared, tables=places))
    except BaseException:
        close_all(sessions)
        raise
    here = position(stood)
    views = [SourceReadView(session, source=source, tables=tables, position=here) for session in sessions]
    return OpenedViews(views, shared, here, stood.at), stood


def _stood(session: Session, source: SourcePlan) -> Stood:
    with translated(role(source, source.reader)):
        row = session.execute(_STAND).fetchone()
    if row is None:
        raise InvariantViolated("the server did not say where its snapshot stands")
    seen, lsn, moment = row
    return Stood(str(seen), position_at(int(lsn), str(seen)), moment.astimezone(UTC))
