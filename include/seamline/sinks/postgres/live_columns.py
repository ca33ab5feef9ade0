"""The columns of live tables, held against those of a load."""

import secrets
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import NamedTuple

from seamline.adapters.connections import resolve
from seamline.databases.postgres.canonical import quoted
from seamline.databases.postgres.client import Session, open_session, translated
from seamline.databases.postgres.types import column_definitions
from seamline.domain.catalogue import Table
from seamline.kinds.live_columns import Misfit
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.sinks.postgres.ownership import of_others


class _ColumnDefinition(NamedTuple):
    column: str
    type: str
    is_key: bool


Columns = Mapping[_ColumnDefinition, bool]


def misfits(plan: SyncPlan, destination: DestinationPlan) -> tuple[Misfit, ...]:
    """Of the stream's live tables those that would not take a load of the planned ones."""
    with (
        closing(open_session(resolve(destination.connection), application_name="seamline:preflight")) as session,
        translated(f"look at the columns of destination {destination.name}"),
    ):
        return tuple(_misfits(session, plan, destination))


def _misfits(session: Session, plan: SyncPlan, destination: DestinationPlan) -> Iterator[Misfit]:
    tables = {table.name: table.table for table in plan.tables if table.table is not None}
    others = of_others(session, plan.stream_id(destination.name), destination, list(tables))
    for name, table in tables.items():
        live = columns_of(session, f"{quoted(destination.namespace)}.{quoted(name)}")
        if live and name not in others:
            found = misfit(table, live, _of_a_load(session, table, destination), destination)
            if found is not None:
                yield found


def misfit(table: Table, live: Columns, loaded: Columns, destination: DestinationPlan) -> Misfit | None:
    name = f"{destination.namespace}.{table.name}"
    if differing := sorted({one.column for one in live.keys() ^ loaded.keys()}):
        return Misfit(
            table.name,
            f"table {name} has other columns than a load brings: {', '.join(differing)} (types, primary key)",
            f"rename or drop {name} (and what depends on it), then run the onboarding again",
        )
    if refusing := sorted(one.column for one, is_required in live.items() if is_required and not loaded[one]):
        place = f"{quoted(destination.namespace)}.{quoted(table.name)}"
        cure = ", ".join(f"ALTER COLUMN {quoted(column)} DROP NOT NULL" for column in refusing)
        return Misfit(
            table.name,
            f"table {name} takes no NULL in the columns {', '.join(refusing)}, which may be NULL in a load now",
            f"ALTER TABLE {place} {cure}; then run the onboarding again",
        )
    return None


def columns_of(session: Session, place: str) -> dict[_ColumnDefinition, bool]:
    """Each column, and whether it is NOT NULL; nothing where there is no such table. `place`: in quotes."""
    rows = session.execute(
        "SELECT attname, format_type(atttypid, atttypmod), coalesce(attnum = ANY (conkey), false), attnotnull "
        "FROM pg_attribute LEFT JOIN pg_constraint ON conrelid = attrelid AND contype = 'p' "
        "WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped",
        (place,),
    ).fetchall()
    return {
        _ColumnDefinition(str(name), str(kind), bool(is_key)): bool(is_required)
        for name, kind, is_key, is_required in rows
    }


def _of_a_load(session: Session, table: Table, destination: DestinationPlan) -> Columns:
    """As the server itself names them: the table that a load would make is made, looked at, and rolled back."""
    place = f"{quoted(destination.stage_namespace)}.{quoted(f'preflight_{secrets.token_hex(8)}')}"
    key = f", PRIMARY KEY ({', '.join(map(quoted, table.key))})" if table.is_keyed else ""
    session.execute("BEGIN")
    try:
        session.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(destination.stage_namespace)}".encode())
        session.execute(f"CREATE TABLE {place} ({column_definitions(table)}{key})".encode())
        return columns_of(session, place)
    finally:
        session.execute("ROLLBACK")
