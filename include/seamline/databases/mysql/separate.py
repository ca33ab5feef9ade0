"""A database of MariaDB or MySQL by itself: a read view for a login that may SELECT and no more."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from seamline.databases.mysql.client import Session, query, role
from seamline.databases.mysql.reading import Reading
from seamline.databases.mysql.snapshot_sessions import BEGIN_SNAPSHOT
from seamline.domain.catalogue import Table
from seamline.domain.position import Position
from seamline.domain.separate import Stand
from seamline.plan.model import DestinationPlan, SourcePlan
from seamline.ports.separate import OpenedSide

# Opens the snapshot; its place in the log, None where the server does not say it to this login.
Opening = Callable[["Session[Any]"], Position | None]


def begin_nowhere(session: "Session[Any]") -> None:
    """The snapshot alone."""
    query(session, BEGIN_SNAPSHOT)


def open_separately(
    reading: Reading, source: SourcePlan, tables: Sequence[Table], *, begin: Opening, nowhere: Position
) -> OpenedSide:
    """One view: several sessions come to stand at one place by rights that a login which may only SELECT has not.

    `nowhere`: what stands for a place that is not known.
    """
    connection = role(source, source.reader)
    sessions: list[Session[Any]] = []
    with reading.closing_at_an_error(sessions, connection):
        sessions.append(reading.server.open_reading_session(connection))
        found = begin(sessions[0])
        views = reading.views_of(source, sessions, position=found or nowhere, tables=tables)
    place = str(found) if found else ""
    return OpenedSide(views, Stand(place, views[0].opened_at, place))


def as_source(destination: DestinationPlan, of: SourcePlan) -> SourcePlan:
    """`kinds.source.ReadsSeparately`."""
    return replace(
        of,
        name=destination.name,
        kind=destination.kind,
        database=destination.namespace,
        reader=destination.connection,
        schema="",
        elsewhere=(),
        databases=(),
    )
