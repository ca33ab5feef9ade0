"""The columns of live tables, held against those of a load."""

import secrets
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import NamedTuple

from seamline.adapters.connections import resolve
from seamline.domain.catalogue import Table
from seamline.kinds.live_columns import Misfit
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.sinks.relational.dialect import Dialect
from seamline.sinks.relational.ownership import of_others, tables_in
from seamline.sinks.relational.places import relation
from seamline.sinks.relational.session import Session, close, execute, open_session, query, translated
from seamline.sinks.relational.statements import create_table


class _Column(NamedTuple):
    type: str
    is_key: bool
    takes_null: bool


Columns = Mapping[str, _Column]


def misfits(plan: SyncPlan, destination: DestinationPlan, dialect: Dialect) -> tuple[Misfit, ...]:
    """Of the stream's live tables those that would not take a load of the planned ones."""
    with ExitStack() as opened, translated(f"look at the columns of destination {destination.name}"):
        session = open_session(resolve(destination.connection), dialect)
        opened.callback(close, session)
        return tuple(_misfits(session, plan, destination, dialect))


def _misfits(session: Session, plan: SyncPlan, destination: DestinationPlan, dialect: Dialect) -> Iterator[Misfit]:
    there = tables_in(session, destination.namespace)
    tables = {table.name: table.table for table in plan.tables if table.table is not None and table.name in there}
    others = of_others(session, plan.stream_id(destination.name), destination, list(tables))
    for name, table in tables.items():
        if name not in others:
            live = columns_of(session, relation(destination.namespace, name))
            if found := misfit(table, live, _of_a_load(session, table, destination, dialect), destination):
                yield found


def misfit(table: Table, live: Columns, loaded: Columns, destination: DestinationPlan) -> Misfit | None:
    place = f"{destination.namespace}.{table.name}"
    if differing := sorted(one for one in live.keys() | loaded.keys() if _shape(live, one) != _shape(loaded, one)):
        return Misfit(
            table.name,
            f"table {place} has other columns than a load brings: {', '.join(differing)} (types, primary key)",
            f"rename or drop {place}, then run the onboarding again",
        )
    if refusing := sorted(one for one in live if loaded[one].takes_null and not live[one].takes_null):
        return Misfit(
            table.name,
            f"table {place} takes no NULL in the columns {', '.join(refusing)}, which may be NULL in a load now",
            "let them take NULL (ALTER TABLE … MODIFY), then run the onboarding again",
        )
    return None


def columns_of(session: Session, place: str) -> dict[str, _Column]:
    """Of a table, a temporary one too. `place`: in quotes. Of an index that somebody added, nothing is said."""
    rows = query(session, f"SHOW FULL COLUMNS FROM {place}")
    return {
        str(name): _Column(f"{kind} {collation or ''}", key == "PRI", null == "YES")
        for name, kind, collation, null, key, *_ in rows
    }


def _shape(columns: Columns, name: str) -> tuple[str, bool] | None:
    return columns[name][:2] if name in columns else None


def _of_a_load(session: Session, table: Table, destination: DestinationPlan, dialect: Dialect) -> Columns:
    """As the server itself names them: the table that a load would make is made for this session alone."""
    place = relation(destination.namespace, f"preflight_{secrets.token_hex(8)}")
    execute(session, create_table(place, table, dialect, what="TEMPORARY TABLE"))
    try:
        return columns_of(session, place)
    finally:
        execute(session, f"DROP TEMPORARY TABLE {place}")
