"""The destination's tables as ReadViews: live, staged, or of a published cut."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from seamline.adapters.connections import Connection, resolve
from seamline.adapters.hanging import QUESTION_S
from seamline.databases.mysql import client
from seamline.databases.mysql.watched import WatchedSession
from seamline.domain.catalogue import Table
from seamline.domain.date_before import PublishedTable
from seamline.domain.errors import Refused, TransientError
from seamline.domain.position import Position
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.ports import Load
from seamline.sinks.relational import ledger as ledger_tables
from seamline.sinks.relational.dialect import Dialect
from seamline.sinks.relational.places import Place, ledger_place
from seamline.sinks.relational.publish import still_pending
from seamline.sinks.relational.read_view import RelationalReadView
from seamline.sinks.relational.session import close, translated

# As of `databases.mysql.canonical`; and a view lives through long scans.
VIEW_SETTINGS = (
    "SET SESSION time_zone = '+00:00', SESSION wait_timeout = 28800, SESSION net_write_timeout = 3600,"
    " SESSION lock_wait_timeout = 30, SESSION optimizer_switch = 'derived_merge=off'",
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
)
_ATTEMPTS = 20


def open_live(
    plan: SyncPlan, destination: DestinationPlan, count: int, *, dialect: Dialect
) -> list[RelationalReadView]:
    """`count` views of the live tables of a sync, at the ledger's position as these views see it."""
    stream, at = plan.stream_id(destination.name), ledger_place(destination)

    def position_of(session: WatchedSession) -> Position:
        ledger = ledger_tables.read_ledger(session, at, stream)
        if ledger is None:
            raise Refused(
                f"{stream} was never published in {destination.name}", hint="onboard the sync first", sync=plan.sync
            )
        if ledger_tables.is_pending(session, at, stream):
            raise still_pending(stream)
        return ledger.position

    tables = [table.definition for table in plan.tables]
    places = {table.name: (destination.namespace, table.name) for table in plan.tables}
    return open_views(resolve(destination.connection), tables, places, count, position_of, dialect=dialect)


def open_staged(
    plan: SyncPlan,
    destination: DestinationPlan,
    loads: Sequence[Load],
    count: int,
    *,
    position: Position,
    dialect: Dialect,
) -> list[RelationalReadView]:
    places = {load.table.name: (destination.stage_namespace, load.staged_as) for load in loads}
    return _at(position, plan, destination, places, count, dialect)


def open_published(
    plan: SyncPlan,
    destination: DestinationPlan,
    tables: Sequence[PublishedTable],
    *,
    position: Position,
    dialect: Dialect,
) -> RelationalReadView:
    places = {one.table: (one.schema, one.name) for one in tables}
    (view,) = _at(position, plan, destination, places, 1, dialect)
    return view


def _at(
    position: Position,
    plan: SyncPlan,
    destination: DestinationPlan,
    places: Mapping[str, Place],
    count: int,
    dialect: Dialect,
) -> list[RelationalReadView]:
    tables = [table.definition for table in plan.tables if table.name in places]
    return open_views(resolve(destination.connection), tables, places, count, lambda _: position, dialect=dialect)


def open_views(
    connection: Connection,
    tables: Sequence[Table],
    places: Mapping[str, Place],
    count: int,
    position_of: Callable[[WatchedSession], Position],
    *,
    dialect: Dialect,
) -> list[RelationalReadView]:
    """`count` views, each in a snapshot of its own, of one and the same position. Who holds the stream has them at the
    first attempt."""
    sessions: list[WatchedSession] = []
    try:
        for _ in range(count):
            sessions.append(_open_session(connection, dialect))
        with translated("open read views"):
            position = _one_position(sessions, position_of)
    except BaseException:
        for session in sessions:
            close(session)
        raise
    return [
        RelationalReadView(session, tables=tables, places=places, position=position, dialect=dialect)
        for session in sessions
    ]


def _one_position(sessions: Sequence[WatchedSession], position_of: Callable[[WatchedSession], Position]) -> Position:
    for _ in range(_ATTEMPTS):
        positions = [_begin(session, position_of) for session in sessions]
        if all(position == positions[0] for position in positions):
            return positions[0]
    raise TransientError(
        f"{len(sessions)} read views did not come to stand at one position, {_ATTEMPTS} times in a row",
        hint="hold the stream, and try again",
    )


def _begin(session: WatchedSession, position_of: Callable[[WatchedSession], Position]) -> Position:
    client.query(session, "ROLLBACK")
    client.query(session, "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
    return position_of(session)


def _open_session(connection: Connection, dialect: Dialect) -> WatchedSession:
    session = dialect.open_session(replace(connection, database=""), limit_s=QUESTION_S)
    try:
        with translated("set up a read view"):
            for setting in (*VIEW_SETTINGS, *dialect.view_settings):
                client.query(session, setting)
    except BaseException:
        close(session)
        raise
    return session
