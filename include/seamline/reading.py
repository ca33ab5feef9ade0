"""Read a sync's tables at one position, by the sync's name.

    from seamline.reading import open_sync

    tables = open_sync("settlement", at="2026-11-27")
    tables.position, tables["account"].arrow()

What a sync is, and where, is asked of the platform database. Who reaches the catalogue alone takes
`seamline.sinks.iceberg.reading.open_catalogue`, or `seamline.sinks.delta.reading.open_lake`.
"""

from contextlib import closing
from datetime import date

from seamline import registry
from seamline.domain.errors import Refused
from seamline.kinds.found import sink_kind
from seamline.kinds.reading import SyncTables
from seamline.kinds.sink import ReadsAtOnePosition
from seamline.plan.model import DestinationPlan


def open_sync(sync: str, *, at: date | str = "proven", destination: str = "") -> SyncTables:
    """The tables of a sync whose streams were started. `at`: a business date, also as text, for the version of its cut
    that counts; `proven` for the newest cut that reconciled or was signed; `live` for the newest commit.

    `destination` may be left out where one of the sync's destinations can be read so. Refused: there is no such sync,
    destination or cut.
    """
    with closing(registry.platform_maintenance()) as platform:
        plans = {stream: plan for stream, plan in platform.wanted_plans().items() if stream.sync == sync}
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
    kind = sink_kind(chosen.kind)
    assert isinstance(kind, ReadsAtOnePosition)
    return kind.open_tables(chosen, stream, at)


def _is_readable(destination: DestinationPlan) -> bool:
    return isinstance(sink_kind(destination.kind), ReadsAtOnePosition)
