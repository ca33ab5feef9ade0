"""Whose a live table is: a stream writes what it has made itself, and nothing else."""

from collections import defaultdict
from collections.abc import Sequence

from seamline.databases.postgres.canonical import quoted
from seamline.databases.postgres.client import Session
from seamline.domain.ledger import StreamId
from seamline.plan.model import INCREMENTAL, DestinationPlan


def of_others(
    session: Session, stream: StreamId, destination: DestinationPlan, tables: Sequence[str]
) -> dict[str, tuple[str, str]]:
    """The tables that exist and are not the stream's: table → what is wrong, and the cure."""
    there = session.execute(
        "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = %s AND c.relname = ANY(%s) AND c.relkind <> 'i' ORDER BY 1",
        (destination.namespace, list(tables)),
    ).fetchall()
    found = [str(name) for (name,) in there]
    carriers = _carriers(session, found) if found else {}
    return {
        table: _described(stream, destination, table, carriers.get(table, ()))
        for table in found
        if str(stream) not in carriers.get(table, ())
    }


def _carriers(session: Session, tables: Sequence[str]) -> dict[str, list[str]]:
    """The streams that carry a table of this name. Two of them may write into two schemas."""
    if may_read_carriers(session) is None:
        return {}
    carriers: dict[str, list[str]] = defaultdict(list)
    for table, stream in session.execute(
        "SELECT table_name, stream FROM seamline.boundary WHERE table_name = ANY(%s) AND removed_at IS NULL"
        " ORDER BY stream",
        (list(tables),),
    ):
        carriers[table].append(stream)
    return carriers


def may_read_carriers(session: Session) -> bool | None:
    """None where nothing was ever published in this database."""
    row = session.execute(
        "SELECT has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT') FROM pg_class c"
        " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'seamline' AND c.relname = 'boundary'"
    ).fetchone()
    return None if row is None else bool(row[0])


def _described(stream: StreamId, destination: DestinationPlan, table: str, carriers: Sequence[str]) -> tuple[str, str]:
    place = f"{destination.namespace}.{table}"
    what = f"table {place} exists in destination {destination.name} and was not made by {stream}"
    # What an incremental snapshot carries lies in a schema of its own.
    other = next((one for one in carriers if one.endswith(f"@{destination.name}") and INCREMENTAL not in one), "")
    if other:
        sync = other.partition("@")[0]
        return (
            f"{what}: {other} carries it",
            f"to let it move to {stream.sync}, take it out of the list of {sync} and run `{sync}__tables`: its rows,"
            f" views and rights are kept under another name. Then run this again. Where {sync} is declared no more,"
            f" rename it: ALTER TABLE {quoted(destination.namespace)}.{quoted(table)} RENAME TO …",
        )
    return (
        what,
        f"rename it (ALTER TABLE {quoted(destination.namespace)}.{quoted(table)} RENAME TO …), or choose another schema"
        f" for destination {destination.name}",
    )
