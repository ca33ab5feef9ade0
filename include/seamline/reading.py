"""Read a sync's tables at one position, by the sync's name.

    from seamline.reading import open_sync

    tables = open_sync("settlement", at="2026-11-27")
    tables.position, tables["account"].arrow()

or what differs between two cuts:

    open_changes("settlement", "account", since="2026-11-26", at="2026-11-27").arrow()

What a sync is, and where, is asked of the platform database. Who reaches the catalogue alone takes
`seamline.sinks.iceberg.reading.open_catalogue`, or `seamline.sinks.delta.reading.open_lake`.
"""

from contextlib import closing
from dataclasses import replace
from datetime import date

from seamline import registry
from seamline.domain.errors import Refused
from seamline.domain.ledger import StreamId
from seamline.kinds.found import sink_kind
from seamline.kinds.reading import KnowsKey, SyncTables, TableChanges
from seamline.kinds.sink import ReadsAtOnePosition
from seamline.plan.model import DestinationPlan, SyncPlan


def open_sync(sync: str, *, at: date | str = "proven", destination: str = "") -> SyncTables:
    """The tables of a sync whose streams were started. `at`: a business date, also as text, for the version of its cut
    that counts; the tag of a cut, as `cut_2026_11_27_v1`; `proven` for the newest cut that reconciled or was signed;
    `live` for the newest commit. A database keeps no state of live tables: they are read as long as their stream stands
    at the position that was found, and Refused once it went on.

    `destination` may be left out where one of the sync's destinations can be read so. Refused: there is no such sync,
    destination or cut; or the rows of the cut are gone by the sync's rule of keeping cuts.
    """
    plan, stream, chosen = _found(sync, destination)
    return _opened(plan, stream, chosen, at)


def open_changes(
    sync: str, table: str, *, since: date | str, at: date | str = "proven", destination: str = ""
) -> TableChanges:
    """What a table has at `at` and not, or otherwise, at `since`: rows that are `added`, `removed`, `changed_from` and
    `changed_to`. Both are places as `open_sync` takes them. Rows are the same row by the key that the table has today,
    in a database by the one that it has at `at`.

    Refused: as `open_sync`; or the table is not at both places.
    """
    plan, stream, chosen = _found(sync, destination)
    before, after = (_opened(plan, stream, chosen, one).table(table) for one in (since, at))
    if isinstance(after, KnowsKey):
        return TableChanges(before, after, after.key)
    keys = {one.name: one.target.key for one in plan.held_by(chosen.name).of_cuts.tables if one.table is not None}
    return TableChanges(before, after, tuple(keys.get(table, ())))


def _found(sync: str, destination: str) -> tuple[SyncPlan, StreamId, DestinationPlan]:
    """The one destination of the sync that can be read so, with the plan of its stream."""
    with closing(registry.platform_maintenance()) as platform:
        plans = platform.wanted_plans(sync)
    if not plans:
        raise Refused(f"no stream of sync {sync!r} was ever started", hint="onboard the sync first", sync=sync)
    found = {stream: plan.destination(stream.destination) for stream, plan in plans.items()}
    readable = {stream: one for stream, one in found.items() if destination in ("", one.name) and _is_readable(one)}
    if len(readable) != 1:
        names = ", ".join(sorted(one.name for one in found.values() if _is_readable(one)))
        raise Refused(
            f"sync {sync!r} has {len(readable)} destinations to be read at one position",
            hint=f"name one: {names}" if names else "its destinations have no such power",
            sync=sync,
        )
    ((stream, chosen),) = readable.items()
    return plans[stream], stream, chosen


def _opened(plan: SyncPlan, stream: StreamId, destination: DestinationPlan, at: date | str) -> SyncTables:
    kind = sink_kind(destination.kind)
    assert isinstance(kind, ReadsAtOnePosition)
    found = kind.open_tables(destination, stream, at)
    parked = {one.name: f"it is parked: {one.reason}" for one in plan.parked}
    return replace(found, left_out={**parked, **found.left_out})


def _is_readable(destination: DestinationPlan) -> bool:
    return isinstance(sink_kind(destination.kind), ReadsAtOnePosition)
