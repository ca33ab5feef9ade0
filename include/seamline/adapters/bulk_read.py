"""A sync's source read at one position by tasks that copy: `BulkRead` of `seamline.sync.snapshot`.

This process opens its own views (for digests) together with the tasks' readers, so that all of them stand at one P.
The tasks copy from then on; `stage` waits for what they did. Who runs the tasks is not known here.
"""

import hashlib
import logging
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any, Protocol

import pymysql

from seamline.adapters.bulk_copy import Copied, CopyGroup, CopyItem, grouped
from seamline.adapters.connections import Connection, resolve
from seamline.adapters.mariadb import client
from seamline.adapters.mariadb.bulk import BulkRead
from seamline.adapters.mariadb.read import MariaDbReadView
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
from seamline.adapters.postgres.read import PostgresReadView, Relation, open_views
from seamline.adapters.postgres.staging import StagingArea
from seamline.domain.date_before import PublishedTable
from seamline.domain.digest import Segment, SegmentDigest
from seamline.domain.errors import GateFailed, InvariantViolated, Refused, SeamlineError, TransientError
from seamline.domain.position import BinlogPosition
from seamline.plan.model import DestinationPlan, Run, SyncPlan
from seamline.ports import Load, TableRead

log = logging.getLogger("seamline.bulk_read")

# Sessions for digests. More than the databases have cores to spare for us only makes each table slower.
VIEWS = 2
# Connections left to everybody else.
_SPARE = 10


class Copying(Protocol):
    """The tasks of one read, run as a whole."""

    def start(self) -> None: ...

    def is_running(self) -> bool: ...

    def result(self) -> list[Copied]:
        """What was copied, once all tasks have ended, or the first error of any."""

    def cancel(self) -> None:
        """End what still runs, and wait until it has."""


class SourceAtOnePosition:
    """Everything open at P: this process' views, and the tasks' readers that copy meanwhile."""

    def __init__(
        self, plan: SyncPlan, reads: Sequence[TableRead], views: Sequence[MariaDbReadView], copying: Copying
    ) -> None:
        self._plan = plan
        self._reads = reads
        self._copying = copying
        self.views = views

    @property
    def position(self) -> BinlogPosition:
        return self.views[0].position

    @property
    def position_time(self) -> datetime:
        return self.views[0].opened_at

    def stage(self, destination: DestinationPlan) -> Sequence[Load]:
        """Waits until the tasks are done; each reader has said where it stood."""
        done = {one.table: one for one in self._copying.result() if one.destination == destination.name}
        for one in done.values():
            if one.address != f"{self.position.file}:{self.position.offset}":
                raise InvariantViolated(
                    f"table {one.table} was read at {one.address}, not at {self.position}", table=one.table
                )
        return [Load(r.table, done[r.table.name].staged_as, done[r.table.name].rows) for r in self._reads]

    def digest(self, segment: Segment) -> SegmentDigest:
        (total,) = self.views[0].digests(segment, run_key=_sync_key(self._plan)).values() or [SegmentDigest()]
        return total


class RunReader:
    """Opens a run's source for reading, and the staged tables for comparing them at the same position.

    `copying_of(groups, name)` makes the tasks' run, one task per group, at most `tasks` of them at the same time.
    """

    def __init__(self, run: Run, *, tasks: int, copying_of: Callable[[Sequence[CopyGroup], str], Copying]) -> None:
        self._run = run
        self._tasks = tasks
        self._copying_of = copying_of
        self._position: BinlogPosition | None = None

    @contextmanager
    def open_read(self, reads: Sequence[TableRead]) -> Iterator[SourceAtOnePosition]:
        """Views and readers of all tables at one P. What was staged is dropped again if the caller fails."""
        plan = self._run.plan
        areas = {d.name: StagingArea(resolve(d.connection), d, run_id=self._run.run_id) for d in plan.destinations}
        connection = client.role(plan.source, plan.source.reader)
        items = self._items(reads, areas)
        attempt = f"{self._run.run_id}/{secrets.token_hex(8)}"
        groups = grouped(items, source=plan.source, run=attempt, tasks=self._tasks)
        sessions = _open_sessions(connection, VIEWS, beside=len(items) + len(groups))
        coordinator = Coordinator(
            connection,
            gates=Gates(attempt),
            members=sum(len(group.members) for group in groups),
            readers=len(items),
            lock=SnapshotLock(plan.source.snapshot_lock),
            sessions=sessions,
        )
        copying = self._copying_of(groups, attempt)
        try:
            with coordinator:
                copying.start()
                address = _met(coordinator, copying)
                position = position_of(sessions[0], address)
                views = views_at(
                    sessions, connection=connection, position=position, tables=[read.table for read in reads]
                )
                self._position = position
                yield SourceAtOnePosition(plan, reads, views, copying)
        except GateFailed:
            # The staged tables are the evidence of what differs; the run's next attempt drops them.
            raise
        except BaseException:
            copying.cancel()
            for area in areas.values():
                _quietly_drop(area)
            raise
        finally:
            copying.cancel()
            close_all(sessions)

    @contextmanager
    def open_staged(
        self, destination: DestinationPlan, loads: Sequence[Load], count: int
    ) -> Iterator[Sequence[PostgresReadView]]:
        """Views of the staged tables, which stand where they were read."""
        relations = {load.table.name: Relation(destination.stage_schema, load.staged_as) for load in loads}
        with self._views(destination, relations, count) as views:
            yield views

    @contextmanager
    def open_cut(self, destination: DestinationPlan, published: Sequence[PublishedTable]) -> Iterator[PostgresReadView]:
        """A view of tables of a published cut, to be held against the source as it is now."""
        relations = {one.table: Relation(one.schema, one.name) for one in published}
        with self._views(destination, relations, 1) as (view,):
            yield view

    @contextmanager
    def _views(
        self, destination: DestinationPlan, relations: dict[str, Relation], count: int
    ) -> Iterator[Sequence[PostgresReadView]]:
        if self._position is None:
            raise InvariantViolated("tables of a destination are compared while the source is open")
        position = self._position
        views = open_views(
            resolve(destination.connection),
            tables=[table.shape for table in self._run.plan.tables if table.name in relations],
            relations=relations,
            count=count,
            position_of=lambda _: position,
        )
        try:
            yield views
        finally:
            for view in views:
                view.close()

    def _items(self, reads: Sequence[TableRead], areas: dict[str, StagingArea]) -> list[CopyItem]:
        plan = self._run.plan
        items: list[CopyItem] = []
        for destination in plan.destinations:
            places = areas[destination.name].create([read.table for read in reads])
            for read in reads:
                bulk = BulkRead(read.table, read.segment, len(items))
                place = places[read.table.name]
                items.append(CopyItem(bulk, place, destination.name, destination.connection))
        return items


def _met(coordinator: Coordinator, copying: Copying) -> Address:
    try:
        address = coordinator.meet(is_alive=copying.is_running)
    except TransientError:
        # The tasks know better why they ended.
        if not copying.is_running():
            copying.result()
        raise
    log.info(
        "all sessions opened: address=%s turns=%d held_ms=%.1f",
        address, coordinator.turns, coordinator.held_s * 1000,
    )  # fmt: skip
    return address


def _open_sessions(connection: Connection, count: int, *, beside: int) -> list["Session[Any]"]:
    """The driver's own sessions. Refused when the server has not so many connections left as the read needs."""
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


def _quietly_drop(area: StagingArea) -> None:
    """The first error is the one to tell; what cannot be dropped now is dropped by the run's next attempt."""
    with suppress(SeamlineError):
        area.drop()


def _sync_key(plan: SyncPlan) -> str:
    """Stored digests have one key per sync: receipts of different runs can be compared."""
    return hashlib.sha256(f"seamline receipts of {plan.sync}".encode()).hexdigest()[:32]
