"""The parallel snapshot of a source of MariaDB or MySQL: views here and readers in tasks, opened at one position."""

import logging
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from datetime import UTC
from functools import partial
from typing import Any

import pymysql

from seamline.adapters.connections import Connection
from seamline.databases.mysql.client import Server, Session, query, role
from seamline.databases.mysql.one_session import SessionReaders
from seamline.databases.mysql.reading import Reading
from seamline.databases.mysql.snapshot_barrier import BarrierLocks, Coordinator
from seamline.databases.mysql.snapshot_sessions import (
    BEGIN_SNAPSHOT,
    NeverTogether,
    SnapshotLock,
    bring_together,
    close_all,
)
from seamline.databases.mysql.watched import WatchedSession
from seamline.domain.errors import Refused, TransientError
from seamline.domain.position import Position
from seamline.domain.unlogged import UnloggedPosition
from seamline.kinds.bulk import CopyTasks, OpenedSource, Wanted
from seamline.plan.model import SourcePlan

log = logging.getLogger("seamline.bulk_read")

# Connections left to everybody else.
_SPARE = 10
# One that reads, and one for the barrier.
_PER_PARTICIPANT = 2


@contextmanager
def open_source_for_tasks(
    reading: Reading, source: SourcePlan, wanted: Wanted, tasks: CopyTasks
) -> Iterator[OpenedSource]:
    """`SourceKind.open_for_tasks`. Where no lock is allowed and the source commits too often, one session reads all; so
    it does where the source has no log, by whose places several would be brought together."""
    with ExitStack() as open_things:
        if not source.has_log:
            yield open_things.enter_context(_unlogged(reading, source, wanted))
            return
        try:
            opened = open_things.enter_context(_together(reading, source, wanted, tasks))
        except NeverTogether as exc:
            if SnapshotLock(source.snapshot_lock) is not SnapshotLock.NONE:
                raise
            log.warning("one session reads table after table: %s", exc)
            opened = open_things.enter_context(_alone(reading, source, wanted))
        yield opened


@contextmanager
def _together(reading: Reading, source: SourcePlan, wanted: Wanted, tasks: CopyTasks) -> Iterator[OpenedSource]:
    connection, snapshots = role(source, source.reader), reading.snapshots_of(source)
    sessions: list[Session[Any]] = []
    try:
        _open_sessions(reading.server, connection, sessions, wanted)
        coordinator = Coordinator(
            connection,
            server=reading.server,
            snapshots=snapshots,
            locks=BarrierLocks(wanted.attempt),
            participants=wanted.participants,
            sessions=sessions,
        )
        with coordinator:
            tasks.start(wanted.attempt)
            position = _met(coordinator, tasks)
            views = reading.views_of(source, sessions, position=position, tables=wanted.tables)
            yield OpenedSource(views, position, views[0].opened_at, snapshots.proof_of(position))
    finally:
        close_all(sessions)


@contextmanager
def _alone(reading: Reading, source: SourcePlan, wanted: Wanted) -> Iterator[OpenedSource]:
    connection, snapshots = role(source, source.reader), reading.snapshots_of(source)
    with closing(reading.server.open_reading_session(connection)) as session:
        with reading.closing_at_an_error([session], connection):
            position = bring_together([session], snapshots)
            opened = _by_one(reading, source, wanted, session, position, proof=snapshots.proof_of(position))
        yield opened


@contextmanager
def _unlogged(reading: Reading, source: SourcePlan, wanted: Wanted) -> Iterator[OpenedSource]:
    connection = role(source, source.reader)
    with closing(reading.server.open_reading_session(connection)) as session:
        with reading.closing_at_an_error([session], connection):
            query(session, BEGIN_SNAPSHOT)
            ((number, now),) = query(session, "SELECT CONNECTION_ID(), UTC_TIMESTAMP(6)")
            position = UnloggedPosition(wanted.attempt, now.replace(tzinfo=UTC), f"snapshot of session {number}")
            opened = _by_one(reading, source, wanted, session, position, proof=str(position))
        yield replace(opened, opened_at=position.at)


def _by_one(
    reading: Reading, source: SourcePlan, wanted: Wanted, session: WatchedSession, position: Position, *, proof: str
) -> OpenedSource:
    """The source as the one session reads it that stands at `position`."""
    (view,) = reading.views_of(source, [session], position=position, tables=wanted.tables)
    connection = role(source, source.reader)
    read_here = partial(SessionReaders, session, connection, server=reading.server, proof=proof, places=source.places)
    return OpenedSource([view], position, view.opened_at, proof, read_here)


def _met(coordinator: Coordinator, tasks: CopyTasks) -> Position:
    try:
        position = coordinator.open_at_barrier(is_alive=tasks.is_running)
    except TransientError:
        # The tasks know better why they ended.
        if not tasks.is_running():
            tasks.result()
        raise
    log.info(
        "all sessions opened: position=%s attempts=%d held_ms=%.1f",
        position, coordinator.attempts, coordinator.held_s * 1000,
    )  # fmt: skip
    return position


def _open_sessions(server: Server, connection: Connection, sessions: list["Session[Any]"], wanted: Wanted) -> None:
    """Those of this process. Refused when the server has not so many connections left as the whole read needs."""
    for _ in range(wanted.views):
        sessions.append(server.open_reading_session(connection))
    try:
        rows = query(sessions[0], "SHOW STATUS LIKE 'Threads_connected'")
        ((most,),) = query(sessions[0], "SELECT @@max_connections")
    except pymysql.err.MySQLError as exc:
        raise server.translated(exc, connection) from exc
    free, beside = int(most) - int(rows[0][1]) - _SPARE, _PER_PARTICIPANT * wanted.participants
    if free < beside:
        raise Refused(
            f"reading all tables at one position needs {beside} more connections; the source has {max(free, 0)} to"
            f" spare (max_connections = {most})",
            hint="raise max_connections at the source, or give the job fewer task slots",
        )
