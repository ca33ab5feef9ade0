"""What keeps a Redis from taking a sync's tables, and what of its settings a person must know. Changes nothing."""

from collections.abc import Iterator, Mapping
from contextlib import closing

from redis.exceptions import RedisError

from seamline.adapters.connections import resolve
from seamline.domain.errors import ConfigError
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.ports import Problem
from seamline.sinks.redis.keys import Keyspace
from seamline.sinks.redis.options import rows_max_of
from seamline.sinks.redis.scripts import RIGHTS
from seamline.sinks.redis.session import Session, open_session, translated

# `redis.acl_check_cmd`, by which a script finds a lacking right before it writes.
_OLDEST = (7, 0)
_GOES_BACK = "the stream stops as `went back` where it had heard of more, and goes on from the ledger after a restart"


def problems(plan: SyncPlan, destination: DestinationPlan) -> tuple[Problem, ...]:
    """TransientError where the server does not answer; a refused login is a problem like any other."""
    found = [*_of_server(plan, destination), *_of_size(plan, destination)]
    return tuple(Problem(f"destination {destination.name}: {what}", cure, is_fatal) for what, cure, is_fatal in found)


def _of_server(plan: SyncPlan, destination: DestinationPlan) -> Iterator[tuple[str, str, bool]]:
    for number, name in enumerate(dict.fromkeys((destination.connection, destination.writer))):
        try:
            session = open_session(resolve(name), rows_max=rows_max_of(destination))
        except ConfigError as exc:
            yield exc.message, exc.hint, True
            continue
        with closing(session), translated("look at the server"):
            if number == 0:
                yield from of_settings(session)
            lacking = session.run(RIGHTS, [Keyspace.of(destination).own("ledger")])
            if lacking:
                what = f"connection `{name}` has no right to {lacking.decode()} keys of {{{destination.namespace}}}"
                yield what, f"`seamline grants {destination.name}` prints its ACL", True
            elif number == 0:
                yield from _of_tables(session, plan, destination)


def of_settings(session: Session) -> Iterator[tuple[str, str, bool]]:
    """What of the server's own settings a person must know: what it is, its cure, and whether it is fatal."""
    info = session.client.info("all")
    version = str(info.get("redis_version", "0"))
    if tuple(int(part) for part in version.split(".")[:2]) < _OLDEST:
        yield f"Redis {version} is too old", "take 7.0 or later", True
    if info.get("redis_mode") == "cluster":
        yield "it is a cluster, which was never run", "name a server that stands alone", True
    if info.get("role") != "master":
        yield "it is a replica: nothing can be written there", "name the primary in the connection", True
    policy = info.get("maxmemory_policy")
    if policy != "noeviction":
        what = f"its maxmemory-policy is {policy}: Redis would drop rows where memory ends"
        yield what, "CONFIG SET maxmemory-policy noeviction, and in its file", True
    yield from _of_durability(session, info)


def _of_durability(session: Session, info: Mapping[str, object]) -> Iterator[tuple[str, str, bool]]:
    if not info.get("aof_enabled"):
        what = f"it has no append-only file: a crash loses what came since its last snapshot, or all; {_GOES_BACK}"
        yield what, "set appendonly yes and appendfsync always", False
        return
    try:
        every = session.client.config_get("appendfsync").get("appendfsync", "")
    except RedisError:
        what = "its appendfsync cannot be asked: where it is not `always`, a crash loses the newest commits"
        yield f"{what}; {_GOES_BACK}", "see that it is `always`; our login needs no right to CONFIG", False
        return
    if every != "always":
        lost = "about a second" if every == "everysec" else "what the operating system had not written"
        what = f"its appendfsync is {every}: a crash loses the commits of {lost}; {_GOES_BACK}"
        yield what, "CONFIG SET appendfsync always, if that must not be", False


def _of_tables(session: Session, plan: SyncPlan, destination: DestinationPlan) -> Iterator[tuple[str, str, bool]]:
    keys, stream = Keyspace.of(destination), str(plan.stream_id(destination.name))
    owners = session.fields(keys.own("tables"))
    for table in plan.tables:
        where = keys.live(destination.namespace, table.name)
        owner = owners.get(where.name, "")
        if owner not in ("", stream):
            what = f"table {table.name} is there already, made by {owner}"
            yield what, "choose another prefix, or take the table out of that sync", True
        elif not owner and session.client.exists(where.index):
            what = f"{where.index} is there, and no sync has made it"
            yield what, f"remove it and the keys {where.rows}*, or choose another prefix", True


def _of_size(plan: SyncPlan, destination: DestinationPlan) -> Iterator[tuple[str, str, bool]]:
    rows, most = sum(table.definition.rows_estimate for table in plan.tables), rows_max_of(destination)
    if rows > most:
        what = f"the tables have about {rows:,} rows, and its `rows_max` is {most:,}: a load of more is refused"
        yield what, "raise `rows_max` if its readers can wait so long (a second per 100,000 rows)", False
