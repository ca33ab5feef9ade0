"""A PostgreSQL database by itself: read views for a login that may SELECT and no more, also on a standby."""

from collections.abc import Sequence
from datetime import UTC

from seamline.domain.catalogue import Table
from seamline.domain.errors import InvariantViolated
from seamline.domain.separate import Stand
from seamline.plan.model import SourcePlan
from seamline.ports.separate import OpenedSide
from seamline.sources.postgres.client import Session, role, translated
from seamline.sources.postgres.position import PostgresPosition
from seamline.sources.postgres.sessions import (
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


def open_separately(source: SourcePlan, tables: Sequence[Table], count: int) -> OpenedSide:
    """`count` views on one snapshot. No slot and no right of replication: the snapshot is that of the first session."""
    reader = role(source, source.reader)
    sessions: list[Session] = []
    try:
        sessions.append(begin_reading(reader))
        stand, position = _stand(sessions[0], source)
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
    views = [SourceReadView(session, source=source, tables=tables, position=position) for session in sessions]
    return OpenedSide(views, stand)


def _stand(session: Session, source: SourcePlan) -> tuple[Stand, PostgresPosition]:
    with translated(role(source, source.reader)):
        row = session.execute(_STAND).fetchone()
    if row is None:
        raise InvariantViolated("the server did not say where its snapshot stands")
    seen, lsn, moment = row
    position = position_at(int(lsn), str(seen))
    return Stand(f"{position} (snapshot {seen})", moment.astimezone(UTC), str(seen)), position
