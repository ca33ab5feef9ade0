"""What would keep a lake's catalogue from taking a sync, asked with the logins of its publisher and writer. Changes
nothing."""

from collections.abc import Collection, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace

from seamline.adapters.connections import resolve
from seamline.databases.postgres.client import Session, open_session, translated
from seamline.domain.errors import ConfigError, Refused
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.ports import Problem
from seamline.sinks.lake.pointers import Pointers
from seamline.sinks.lake.postgres_store import look
from seamline.sinks.lake.store import Seen

_RIGHTS = ("SELECT", "INSERT", "UPDATE", "DELETE")
# Once they are there, both logins read and write them.
_TABLES = (
    "seamline.ledger",
    "seamline.boundary",
    "seamline.finding",
    "seamline.publication",
    "seamline.lake_state",
)


def problems(plan: SyncPlan, destination: DestinationPlan, catalogue: Pointers) -> tuple[Problem, ...]:
    """TransientError where the server does not answer; a refused login is a problem like any other."""
    name = f"destination {destination.name}"
    with ExitStack() as opened:
        sessions: dict[str, Session] = {}
        for connection_id in dict.fromkeys((destination.connection, destination.writer)):
            try:
                session = open_session(resolve(connection_id), application_name="seamline:preflight")
            except (ConfigError, Refused) as exc:
                return (Problem(f"{name}: {exc.message}", exc.hint),)
            sessions[connection_id] = opened.enter_context(closing(session))
        publisher = sessions[destination.connection]
        with translated(f"check {name}"):
            found = dict(one for session in sessions.values() for one in _of_each(session, destination, catalogue))
            found.update(_of_the_publisher(publisher, destination, catalogue))
            if not found:
                found.update(_of_names(publisher, plan, destination, catalogue))
    return tuple(Problem(f"{name}: {what}", cure) for what, cure in found.items())


def _of_each(session: Session, destination: DestinationPlan, catalogue: Pointers) -> Iterator[tuple[str, str]]:
    row = session.execute(
        "SELECT pg_is_in_recovery() OR current_setting('default_transaction_read_only')::boolean"
    ).fetchone()
    if row is not None and row[0]:
        yield f"sessions of {session.info.user} are read only", "let the connection lead to a primary that takes writes"
    found = session.execute(
        "SELECT name FROM unnest(%s::text[]) AS name WHERE to_regclass(name) IS NOT NULL AND NOT"
        " (SELECT bool_and(has_table_privilege(to_regclass(name), one)) FROM unnest(%s::text[]) AS one)",
        ([*catalogue.names, *_TABLES], list(_RIGHTS)),
    ).fetchall()
    if found:
        names = ", ".join(str(table) for (table,) in found)
        yield f"{session.info.user} may not read and write {names}", _script(destination)


def _of_the_publisher(session: Session, destination: DestinationPlan, catalogue: Pointers) -> Iterator[tuple[str, str]]:
    row = session.execute(
        "SELECT has_database_privilege(current_database(), 'CREATE') OR to_regnamespace('seamline') IS NOT NULL,"
        " NOT EXISTS (SELECT FROM unnest(%s::text[]) AS name WHERE name LIKE 'public.%%' AND to_regclass(name) IS NULL)"
        " OR has_schema_privilege('public', 'CREATE')",
        (list(catalogue.names),),
    ).fetchone()
    if row is not None and not row[0]:
        yield f"{session.info.user} may not make schema seamline", _script(destination)
    if row is not None and not row[1]:
        yield f"{session.info.user} may not make the catalogue's tables in schema public", _script(destination)


def _of_names(
    session: Session, plan: SyncPlan, destination: DestinationPlan, catalogue: Pointers
) -> Iterator[tuple[str, str]]:
    """What has them there. Other clients may have made the catalogue before anything was published."""
    row = session.execute(
        "SELECT bool_and(to_regclass(name) IS NOT NULL) FROM unnest(%s::text[]) AS name", (list(catalogue.names),)
    ).fetchone()
    seen = look(session, catalogue, plan.stream_id(destination.name), destination.namespace)
    if row == (True,):
        seen = replace(seen, heads=catalogue.pointers(session, destination.namespace))
        yield from _of_views(plan, destination, catalogue.views(session, destination.namespace))
    yield from of_live_tables(plan, destination, seen)
    yield from _of_the_owner(session, destination, catalogue, seen)


def of_live_tables(plan: SyncPlan, destination: DestinationPlan, seen: Seen) -> Iterator[tuple[str, str]]:
    """Tables that somebody else has made there."""
    carried = {boundary.table for boundary in seen.ledger.boundaries} if seen.ledger else set()
    for table in plan.tables:
        if table.name in seen.heads and table.name not in carried:
            yield (
                f"table {destination.namespace}.{table.name} exists in the catalogue and was not made by this sync",
                "rename it there (ALTER TABLE … RENAME TO …), or choose another namespace",
            )


def _of_views(plan: SyncPlan, destination: DestinationPlan, views: Collection[str]) -> Iterator[tuple[str, str]]:
    for table in plan.tables:
        if table.name in views:
            yield (
                f"{destination.namespace}.{table.name} is a view in the catalogue, and a table cannot have its name",
                "rename or drop the view, or choose another namespace",
            )


def _of_the_owner(
    session: Session, destination: DestinationPlan, catalogue: Pointers, seen: Seen
) -> Iterator[tuple[str, str]]:
    try:
        catalogue.require_own(session, destination.namespace, seen.heads.values())
    except Refused as exc:
        yield exc.message, exc.hint


def _script(destination: DestinationPlan) -> str:
    return f"run the script of `seamline grants {destination.name}`"
