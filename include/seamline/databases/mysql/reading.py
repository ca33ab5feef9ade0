"""How tables of a source are read, in what MariaDB and MySQL have in common: views at one position."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any

import pymysql

from seamline.adapters.connections import Connection
from seamline.databases.mysql.client import Server, Session, query, role
from seamline.databases.mysql.read import BinlogReadView
from seamline.databases.mysql.several_databases import SurveyOne, survey_of
from seamline.databases.mysql.snapshot_sessions import SnapshotLock, Snapshots, bring_together, close_all
from seamline.domain.catalogue import Table
from seamline.domain.names import NameLimit
from seamline.domain.position import Position
from seamline.domain.table_places import TablePlaces
from seamline.plan.model import SourcePlan


@dataclass(frozen=True, slots=True)
class Reading:
    """What is a kind's own. `survey`: of its catalogue; `snapshots`: of its sessions, for the login that reads."""

    server: Server
    view: type[BinlogReadView]
    survey: SurveyOne
    snapshots: Callable[[Connection, SnapshotLock], Snapshots]

    def snapshots_of(self, source: SourcePlan) -> Snapshots:
        return self.snapshots(role(source, source.reader), SnapshotLock(source.snapshot_lock))

    def views_at(
        self,
        sessions: Sequence["Session[Any]"],
        *,
        connection: Connection,
        position: Position,
        tables: Sequence[Table] = (),
        places: TablePlaces | None = None,
        limits: Collection[NameLimit] = (),
    ) -> list[BinlogReadView]:
        """Read views over sessions that stand at `position`. Tables not given are read from the catalogue when asked.
        `places`: where the tables lie, if not all in the connection's database under their own names. `limits`: of the
        names of columns."""
        lie = places or TablePlaces(connection.database)

        @cache
        def definition_of(name: str) -> Table:
            return survey_of(self.server, connection, lie, [name], self.survey, limits=limits).whole()[0]

        ((now,),) = query(sessions[0], "SELECT UTC_TIMESTAMP(6)")
        opened_at = now if isinstance(now, datetime) else datetime.fromisoformat(str(now))
        return [
            self.view(
                session,
                database=connection.database,
                tables=tables,
                position=position,
                opened_at=opened_at.replace(tzinfo=UTC),
                definition_of=definition_of,
                places=lie,
                limits=limits,
            )
            for session in sessions
        ]

    def views_of(
        self,
        source: SourcePlan,
        sessions: Sequence["Session[Any]"],
        *,
        position: Position,
        tables: Sequence[Table] = (),
    ) -> list[BinlogReadView]:
        """`views_at` of the tables of a sync."""
        return self.views_at(
            sessions,
            connection=role(source, source.reader),
            position=position,
            tables=tables,
            places=source.places,
            limits=source.limits,
        )

    def open_views(self, source: SourcePlan, count: int, *, tables: Sequence[Table] = ()) -> list[BinlogReadView]:
        """`count` read views at one position."""
        connection = role(source, source.reader)
        sessions: list[Session[Any]] = []
        with self.closing_at_an_error(sessions, connection):
            for _ in range(count):
                sessions.append(self.server.open_reading_session(connection))
            position = bring_together(sessions, self.snapshots_of(source))
            return self.views_of(source, sessions, position=position, tables=tables)

    @contextmanager
    def closing_at_an_error(self, sessions: Sequence["Session[Any]"], connection: Connection) -> Iterator[None]:
        """Where something fails inside, the sessions are closed; the driver's errors come as Seamline's."""
        try:
            yield
        except BaseException as exc:
            close_all(sessions)
            if isinstance(exc, pymysql.err.MySQLError):
                raise self.server.translated(exc, connection) from exc
            raise
