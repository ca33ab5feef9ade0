"""What keeps an HBase from taking a sync's tables. Changes nothing."""

from collections.abc import Iterator
from contextlib import closing

from seamline.adapters.connections import resolve
from seamline.domain.errors import ConfigError
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.ports import Problem
from seamline.sinks.hbase.gateway import Store, open_store
from seamline.sinks.hbase.places import Places, table_key

_OLDEST = (2, 4)


def problems(plan: SyncPlan, destination: DestinationPlan) -> tuple[Problem, ...]:
    """TransientError where the server does not answer; a refused login is a problem like any other."""
    found = list[tuple[str, str]]()
    for name in dict.fromkeys((destination.connection, destination.writer)):
        try:
            with closing(open_store(resolve(name))) as store:
                if name == destination.connection:
                    found += [*of_server(store), *_of_tables(store, plan, destination)]
        except ConfigError as exc:
            found.append((exc.message, exc.hint))
    return tuple(Problem(f"destination {destination.name}: {what}", cure, is_fatal=True) for what, cure in found)


def of_server(store: Store) -> Iterator[tuple[str, str]]:
    """What the server itself is unfit for, and its cure."""
    version = str(store.version())
    if tuple(int(part) for part in version.split(".")[:2]) < _OLDEST:
        yield f"HBase {version} is too old", "take 2.4 or later"


def _of_tables(store: Store, plan: SyncPlan, destination: DestinationPlan) -> Iterator[tuple[str, str]]:
    places, stream = Places.of(destination), str(plan.stream_id(destination.name))
    is_begun = store.exists(places.own)
    for table in plan.tables:
        where = places.live(destination.namespace, table.name).table
        if not store.exists(where):
            continue
        owner = store.value(places.own, table_key(table.name)) if is_begun else None
        by = bytes(owner).decode() if owner is not None else "nobody of ours"
        if by != stream:
            what = f"table {table.name} is there already, made by {by}"
            yield what, "choose another namespace, or take the table out of that sync"
