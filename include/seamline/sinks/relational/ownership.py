"""Whose a live table is: a stream writes what it has made itself, and nothing else."""

from collections import defaultdict
from collections.abc import Sequence

import pymysql

from seamline.databases.mysql.canonical import text_literal
from seamline.domain.ledger import StreamId
from seamline.plan.model import INCREMENTAL, DestinationPlan
from seamline.sinks.relational.ledger import is_missing
from seamline.sinks.relational.places import ledger_place, relation
from seamline.sinks.relational.session import Session, query


def tables_in(session: Session, database: str) -> set[str]:
    """Tables and views; none where there is no such database, or the login has no right in it."""
    rows = query(
        session,
        f"SELECT table_name FROM information_schema.tables WHERE table_schema = {text_literal(database)}",
    )
    return {str(name) for (name,) in rows}


def of_others(
    session: Session, stream: StreamId, destination: DestinationPlan, tables: Sequence[str]
) -> dict[str, tuple[str, str]]:
    """The tables that exist and are not the stream's: table → what is wrong, and the cure."""
    there = tables_in(session, destination.namespace)
    found = sorted(name for name in tables if name in there)
    carriers = _carriers(session, destination) if found else {}
    return {
        table: _described(stream, destination, table, carriers.get(table, ()))
        for table in found
        if str(stream) not in carriers.get(table, ())
    }


def _carriers(session: Session, destination: DestinationPlan) -> dict[str, list[str]]:
    """The streams that carry a table of each name."""
    carriers: dict[str, list[str]] = defaultdict(list)
    try:
        rows = query(
            session,
            f"SELECT table_name, stream FROM {ledger_place(destination)}.boundary WHERE removed_at IS NULL"
            " ORDER BY stream",
        )
    except pymysql.err.MySQLError as exc:
        if is_missing(exc):
            return {}
        raise
    for table, stream in rows:
        carriers[str(table)].append(str(stream))
    return carriers


def _described(stream: StreamId, destination: DestinationPlan, table: str, carriers: Sequence[str]) -> tuple[str, str]:
    place = relation(destination.namespace, table)
    what = (
        f"table {destination.namespace}.{table} exists in destination {destination.name} and was not made by {stream}"
    )
    # What an incremental snapshot carries lies in a database of its own.
    other = next((one for one in carriers if one.endswith(f"@{destination.name}") and INCREMENTAL not in one), "")
    if other:
        sync = other.partition("@")[0]
        return (
            f"{what}: {other} carries it",
            f"to let it move to {stream.sync}, take it out of the list of {sync} and run `{sync}__tables`: its rows are"
            f" kept under another name. Then run this again. Where {sync} is declared no more, rename it:"
            f" RENAME TABLE {place} TO …",
        )
    return (
        what,
        f"rename it (RENAME TABLE {place} TO …), or choose another database for destination {destination.name}",
    )
