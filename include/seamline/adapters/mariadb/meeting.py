"""A bulk read of a MariaDB source: views here and readers in tasks, opened at one binlog address."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pymysql

from seamline.adapters.bulk_source import CopyTasks, OpenedSource, Wanted
from seamline.adapters.connections import Connection
from seamline.adapters.mariadb import client
from seamline.adapters.mariadb.rendezvous import Coordinator, Gates
from seamline.adapters.mariadb.sessions import (
    Address,
    Session,
    SnapshotLock,
    close_all,
    open_session,
    position_of,
    views_at,
)
from seamline.domain.errors import Refused, TransientError
from seamline.plan.model import SourcePlan

log = logging.getLogger("seamline.bulk_read")

# Connections left to everybody else.
_SPARE = 10


@contextmanager
def open_source_for_tasks(source: SourcePlan, wanted: Wanted, tasks: CopyTasks) -> Iterator[OpenedSource]:
    """`bulk_source.OpenSource`."""
    connection = client.role(source, source.reader)
    sessions = _open_sessions(connection, wanted.views, beside=wanted.reads + wanted.members)
    coordinator = Coordinator(
        connection,
        gates=Gates(wanted.attempt),
        members=wanted.members,
        readers=wanted.reads,
        lock=SnapshotLock(source.snapshot_lock),
        sessions=sessions,
    )
    try:
        with coordinator:
            tasks.start(wanted.attempt)
            address = _met(coordinator, tasks)
            position = position_of(sessions[0], address)
            views = views_at(sessions, connection=connection, position=position, tables=wanted.tables)
            yield OpenedSource(views, position, views[0].opened_at, str(address))
    finally:
        close_all(sessions)


def _met(coordinator: Coordinator, tasks: CopyTasks) -> Address:
    try:
        address = coordinator.meet(is_alive=tasks.is_running)
    except TransientError:
        # The tasks know better why they ended.
        if not tasks.is_running():
            tasks.result()
        raise
    log.info(
        "all sessions opened: address=%s turns=%d held_ms=%.1f",
        address, coordinator.turns, coordinator.held_s * 1000,
    )  # fmt: skip
    return address


def _open_sessions(connection: Connection, count: int, *, beside: int) -> list["Session[Any]"]:
    """Sessions of this process. Refused when the server has not so many connections left as the read needs."""
    sessions: list[Session[Any]] = []
    try:
        for _ in range(count):
            sessions.append(open_session(connection))
        rows = client.query(sessions[0], "SHOW STATUS LIKE 'Threads_connected'")
        ((most,),) = client.query(sessions[0], "SELECT @@max_connections")
    except pymysql.err.MySQLError as exc:
        close_all(sessions)
        raise client.translated(exc, connection) from exc
    free = int(most) - int(rows[0][1]) - _SPARE
    if free < beside:
        close_all(sessions)
        raise Refused(
            f"reading all tables at one position needs {beside} more connections; the source has {max(free, 0)} to"
            f" spare (max_connections = {most})",
            hint="raise max_connections at the source, or divide the sync",
        )
    return sessions
