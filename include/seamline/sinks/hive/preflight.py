"""What keeps a Hive destination from taking a sync's cuts: warehouse, database of their rows, metastore, names.
Changes nothing."""

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from seamline.adapters.connections import resolve
from seamline.databases.postgres.client import open_session, translated
from seamline.domain.errors import ConfigError, Refused
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.ports import Problem
from seamline.sinks.hive.metastore import open_metastore
from seamline.sinks.hive.options import options_of
from seamline.sinks.hive.tables import misfits, of_names


def problems(plan: SyncPlan, destination: DestinationPlan) -> tuple[Problem, ...]:
    """TransientError where a server does not answer; a refused login is a problem like any other."""
    tables = [table.table for table in plan.tables if table.table is not None]
    found = [
        *_of_the_warehouse(options_of(destination).warehouse),
        *_of_the_rows(destination),
        *of_names(tables),
        *_of_the_metastore(plan, destination),
    ]
    return tuple(Problem(f"destination {destination.name}: {what}", cure) for what, cure in found)


def _of_the_warehouse(warehouse: str) -> Iterator[tuple[str, str]]:
    if not Path(warehouse).is_dir():
        yield f"the warehouse {warehouse} is no folder here", "make it, or mount it where it lies, on every machine"
    elif not os.access(warehouse, os.W_OK | os.X_OK):
        yield f"nothing can be written into the warehouse {warehouse}", "let this login write there"


def _of_the_rows(destination: DestinationPlan) -> Iterator[tuple[str, str]]:
    try:
        session = open_session(resolve(destination.connection), application_name="seamline:preflight")
    except (ConfigError, Refused) as exc:
        yield exc.message, exc.hint
        return
    with closing(session), translated(f"check destination {destination.name}"):
        row = session.execute(
            "SELECT pg_is_in_recovery() OR current_setting('default_transaction_read_only')::boolean,"
            " CASE WHEN to_regnamespace('seamline') IS NULL THEN has_database_privilege(current_database(), 'CREATE')"
            " ELSE has_schema_privilege('seamline', 'USAGE, CREATE') END"
        ).fetchone()
        if row is not None and row[0]:
            yield f"sessions of {session.info.user} are read only", "let the connection lead to a primary"
        if row is not None and not row[1]:
            cure = f"run the script of `seamline grants {destination.name}`"
            yield f"{session.info.user} may not make tables in schema seamline", cure


def _of_the_metastore(plan: SyncPlan, destination: DestinationPlan) -> Iterator[tuple[str, str]]:
    stream = plan.stream_id(destination.name)
    try:
        connection = resolve(options_of(destination).metastore)
    except ConfigError as exc:
        yield exc.message, exc.hint
        return
    if connection.kind != "hive_metastore":
        cure = "name a connection of conn_type hive_metastore: host and port of the service"
        yield f"connection {connection.connection_id} is of type {connection.kind}, not hive_metastore", cure
        return
    with closing(open_metastore(connection, destination.namespace)) as metastore:
        for table in plan.tables:
            there = metastore.table(table.name.lower())
            if there is not None and table.table is not None:
                yield from misfits(table.table, there, stream, destination.namespace)
