"""The parallel snapshot of a MariaDB source: views here and readers in tasks, opened at one binlog address."""

import logging
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from typing import Any

import pymysql

from seamline.adapters.connections import Connection
from seamline.databases.mysql import client
from seamline.databases.mysql.client import Session
from seamline.databases.mysql.snapshot_sessions import BEGIN_SNAPSHOT, NeverTogether, SnapshotLock, close_all
from seamline.domain.errors import Refused, TransientError
from seamline.kinds.bulk import CopyTasks, OpenedSource, Wanted
from seamline.plan.model import SourcePlan
from seamline.sources.mariadb.one_session import OneSessionReaders
from seamline.sources.mariadb.sessions import Address, address_of, open_session, position_of, views_at
from seamline.sources.mariadb.snapshot_barrier import BarrierLocks, Coordinator

log = logging.getLogger("seamline.bulk_read")

# Connections left to everybody else.
_SPARE = 10
# One that reads, and one for the barrier.
_PER_PARTICIPANT = 2


@contextmanager
def open_source_for_tasks(source: SourcePlan, wanted: Wanted, tasks: CopyTasks) -> Iterator[OpenedSource]:
    """`SourceKind.open_for_tasks`. Where no lock is allowed and the source commits too often, one session reads all."""
    connection = client.role(source, source.reader)
    with ExitStack() as open_things:
        try:
            opened = open_things.enter_context(_together(source, connection, wanted, tasks))
        except NeverTogether as exc:
            if SnapshotLock(source.snapshot_lock) is not SnapshotLock.NONE:
                raise
            log.warning("one session reads table after table: %s", exc)
            opened = open_things.enter_context(_alone(source, connection, wanted))
        yield opened


@contextmanager
def _together(source: SourcePlan, connection: Connection, wanted: Wanted, tasks: CopyTasks) -> Iterator[OpenedSource]:
    sessions: list[Session[Any]] = []
    try:
        _open_sessions(connection, sessions, wanted)
        coordinator = Coordinator(
            connection,
            locks=BarrierLocks(wanted.attempt),
            participants=wanted.participants,
            lock=SnapshotLock(source.snapshot_lock),
            sessions=sessions,
        )
        with coordinator:
            tasks.start(wanted.attempt)
            address = _met(coordinator, tasks)
            position = position_of(sessions[0], address)
            views = views_at(
                sessions,
                connection=connection,
                position=position,
                tables=wanted.tables,
                places=source.places,
                limits=source.limits,
            )
            yield OpenedSource(views, position, views[0].opened_at, str(address))
    finally:
        close_all(sessions)


@contextmanager
def _alone(source: SourcePlan, connection: Connection, wanted: Wanted) -> Iterator[OpenedSource]:
    with closing(open_session(connection)) as session:
        client.query(session, BEGIN_SNAPSHOT)
        address = address_of(session)
        position = position_of(session, address)
        (view,) = views_at(
            [session],
            connection=connection,
            position=position,
            tables=wanted.tables,
            places=source.places,
            limits=source.limits,
        )
        read_here = partial(OneSessionReaders, session, connection, places=source.places)
        yield OpenedSource([view], position, view.opened_at, str(address), read_here)


def _met(coordinator: Coordinator, tasks: CopyTasks) -> Address:
    try:
        address = coordinator.meet(is_alive=tasks.is_running)
    except TransientError:
        # The tasks know better why they ended.
        if not tasks.is_running():
            tasks.result()
        raise
    log.info(
        "all sessions opened: address=%s attempts=%d held_ms=%.1f",
        address, coordinator.attempts, coordinator.held_s * 1000,
    )  # fmt: skip
    return address


def _open_sessions(connection: Connection, sessions: list["Session[Any]"], wanted: Wanted) -> None:
    """Those of this process. Refused when the server has not so many connections left as the whole read needs."""
    for _ in range(wanted.views):
        sessions.append(open_session(connection))
    try:
        rows = client.query(sessions[0], "SHOW STATUS LIKE 'Threads_connected'")
        ((most,),) = client.query(sessions[0], "SELECT @@max_connections")
    except pymysql.err.MySQLError as exc:
        raise client.translated(exc, connection) from exc
    free, beside = int(most) - int(rows[0][1]) - _SPARE, _PER_PARTICIPANT * wanted.participants
    if free < beside:
        raise Refused(
            f"reading all tables at one position needs {beside} more connections; the source has {max(free, 0)} to"
            f" spare (max_connections = {most})",
            hint="raise max_connections at the source, or give the job fewer task slots",
        )
