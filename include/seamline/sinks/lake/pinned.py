"""Which snapshots a reader of a lake reads, so that all tables of a sync stand at one position.

By the tag of a cut, or by one row of `seamline.lake_state`: a reader that opens one head after another may see two
commits.
"""

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import date

import psycopg

from seamline.adapters.connections import Connection, resolve
from seamline.databases.postgres import ledger
from seamline.databases.postgres.client import Session, open_session, translated
from seamline.domain.errors import Refused
from seamline.domain.ledger import StreamId
from seamline.domain.position import Position
from seamline.kinds.reading import LIVE, PROVEN, PinnedTable, SyncTables, place_of
from seamline.plan.model import DestinationPlan
from seamline.sinks.lake import cut_rows
from seamline.sinks.lake import state as lake_state
from seamline.sinks.lake.cut_rows import PublishedCut
from seamline.sinks.lake.pointers import Pointers


@dataclass(frozen=True, slots=True)
class Pinned:
    """`locations`: table → metadata file; `snapshots`: table → the snapshot to read. `cut`: None of live tables."""

    position: Position
    locations: Mapping[str, str]
    snapshots: Mapping[str, int]
    cut: PublishedCut | None = None


def pinned(session: Session, catalogue: Pointers, stream: StreamId, namespace: str, at: date | str) -> Pinned:
    """By one consistent read. `at`: a business date (also as ISO text), the tag of a cut, `proven` or `live`. Refused:
    no such cut."""
    with translated(f"find the tables of {stream}"):
        session.execute("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        try:
            locations = catalogue.pointers(session, namespace)
            found = _live(session, stream, locations) if at == LIVE else _cut(session, stream, locations, place_of(at))
        except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
            found = None
        finally:
            session.rollback()
    return required(found, stream, namespace, at)


def required(found: Pinned | None, stream: StreamId, namespace: str, at: date | str) -> Pinned:
    """Refused: nothing was found, or not all of it."""
    if found is None:
        what = "was never published there" if at == LIVE else f"has no cut {'proven' if at == PROVEN else f'of {at}'}"
        raise Refused(f"{stream} {what}", hint="name a date that has one, or `live`", sync=stream.sync)
    if gone := sorted(found.snapshots.keys() - found.locations.keys()):
        raise Refused(
            f"tables {', '.join(gone)} of {stream} are not in the catalogue's namespace {namespace}",
            hint="is that the namespace of the destination? A table that left its sync has another name",
            sync=stream.sync,
        )
    return found


# Opens a table by its name, where its pointer leads, and the number of what to read there.
TableOf = Callable[[str, str, int], PinnedTable]


def open_tables(
    destination: DestinationPlan, stream: StreamId, at: date | str, *, catalogue: Pointers, table_of: TableOf
) -> SyncTables:
    """`kinds.sink.ReadsAtOnePosition`."""
    connection = resolve(destination.connection)
    return open_pinned(connection, catalogue, stream, destination.namespace, at, table_of=table_of)


def open_pinned(
    connection: Connection,
    catalogue: Pointers,
    stream: StreamId,
    namespace: str,
    at: date | str,
    *,
    table_of: TableOf,
) -> SyncTables:
    """The tables as `pinned` finds them."""
    with closing(open_session(connection, application_name="seamline reads a lake")) as session:
        found = pinned(session, catalogue, stream, namespace, at)
    return tables_of(found, stream, table_of)


def tables_of(found: Pinned, stream: StreamId, table_of: TableOf) -> SyncTables:
    """As `open_pinned`."""
    tables = {name: table_of(name, found.locations[name], number) for name, number in sorted(found.snapshots.items())}
    return SyncTables(stream.sync, found.position, tables, cut=found.cut.tag if found.cut else "")


def _live(session: Session, stream: StreamId, locations: Mapping[str, str]) -> Pinned | None:
    row = ledger.read_ledger(session, stream)
    return None if row is None else Pinned(row.position, locations, lake_state.newest(session, stream))


def _cut(session: Session, stream: StreamId, locations: Mapping[str, str], place: date | str | None) -> Pinned | None:
    if isinstance(place, str):
        cut = cut_rows.tagged(session, stream, place)
    else:
        cut = cut_rows.newest_proven(session, stream) if place is None else cut_rows.newest_of(session, stream, place)
    return None if cut is None else Pinned(cut.position, locations, cut.snapshots, cut)
