"""The facts that preflight judges, asked with the three roles' own sessions. Changes nothing in the source."""

from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pymysql

from seamline.adapters.connections import Connection
from seamline.databases.mysql.canonical import quoted
from seamline.databases.mysql.client import Session, query
from seamline.databases.mysql.mysql_client import open_session, translated
from seamline.databases.mysql.preflight import RoleFacts, SourceFacts
from seamline.databases.mysql.preflight_facts import (
    PROBE_ID,
    engines_of,
    foreign_keys_of,
    grants_of,
    marker_definition,
    refusal,
    refused_tables,
)
from seamline.domain.catalogue import Table
from seamline.sources.mysql.preflight import VARIABLES


def gather(
    *,
    database: str,
    tables: Sequence[Table],
    marker_table: str,
    reader: Connection,
    capture: Connection,
    marker: Connection,
    snapshot_lock: str,
) -> SourceFacts:
    """Errors of the driver come as Seamline's, with the connection that met them."""
    names = [table.name for table in tables]
    seen = _seen_by_capture(capture)
    try:
        with closing(open_session(reader)) as session:
            columns, key, engine = marker_definition(session, database, marker_table)
            return SourceFacts(
                database=database,
                variables=_variables(session, "GLOBAL"),
                engines=engines_of(session, database, names),
                prepared_xa=seen.prepared_xa,
                foreign_keys=foreign_keys_of(session, names),
                binlog_do=seen.binlog_do,
                binlog_ignore=seen.binlog_ignore,
                replicates_from=seen.replicates_from,
                marker_table=marker_table,
                marker_columns=columns,
                marker_key=key,
                marker_engine=engine,
                brief_lock=snapshot_lock == "brief",
                reader=_role(reader, names),
                capture=_role(capture, [*names, marker_table]),
                marker=_marker_role(marker, marker_table),
            )
    except pymysql.err.MySQLError as exc:
        raise translated(exc, reader) from exc


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a login sees that may read the state of the binlog. The reader sees nothing of it."""

    binlog_do: str = ""
    binlog_ignore: str = ""
    replicates_from: tuple[str, ...] = ()
    prepared_xa: int = 0


def _seen_by_capture(capture: Connection) -> _Seen:
    """What the login may not see has a check of its own: that of its grants."""
    try:
        with closing(open_session(capture)) as session:
            status = _allowed(session, "SHOW BINARY LOG STATUS")
            return _Seen(
                *((str(status[0][2]), str(status[0][3])) if status else ("", "")),
                replicates_from=_sources(session),
                prepared_xa=len(_allowed(session, "XA RECOVER")),
            )
    except pymysql.err.MySQLError as exc:
        raise translated(exc, capture) from exc


def _allowed(session: "Session[Any]", statement: str) -> tuple[tuple[Any, ...], ...]:
    try:
        return query(session, statement)
    except (pymysql.err.OperationalError, pymysql.err.InternalError):
        return ()


def _sources(session: "Session[Any]") -> tuple[str, ...]:
    try:
        with session.cursor(pymysql.cursors.DictCursor) as cursor:
            cursor.execute("SHOW REPLICA STATUS")
            return tuple(f"{row['Source_Host']}:{row['Source_Port']}" for row in cursor.fetchall())
    except pymysql.err.OperationalError:
        return ()


def _variables(session: "Session[Any]", scope: str) -> dict[str, str]:
    names = "','".join(VARIABLES)
    rows = query(session, f"SHOW {scope} VARIABLES WHERE variable_name IN ('{names}')")
    return {str(name).lower(): str(value) for name, value in rows}


def _role(connection: Connection, tables: Iterable[str]) -> RoleFacts:
    try:
        with closing(open_session(connection)) as session:
            return RoleFacts(
                connection.connection_id,
                connection.login,
                *grants_of(_grants(session), connection.database),
                unreadable=refused_tables(session, tables),
                session=_variables(session, "SESSION"),
            )
    except pymysql.err.MySQLError as exc:
        raise translated(exc, connection) from exc


def _grants(session: "Session[Any]") -> list[str]:
    """Those of the login, and of the roles that are active in its session, for which SHOW GRANTS must be asked."""
    ((roles,),) = query(session, "SELECT CURRENT_ROLE()")
    using = "" if roles == "NONE" else f" FOR CURRENT_USER() USING {roles}"
    return [str(row[0]) for row in query(session, f"SHOW GRANTS{using}")]


def _marker_role(connection: Connection, table: str) -> RoleFacts:
    insert = f"INSERT INTO {quoted(table)} (id, kind, payload) VALUES ('{PROBE_ID}', 'probe', '')"
    try:
        with closing(open_session(connection)) as session:
            return RoleFacts(
                connection.connection_id,
                connection.login,
                marker_error=refusal(session, insert),
                prune_error=refusal(session, f"DELETE FROM {quoted(table)} WHERE id = '{PROBE_ID}'"),
                session=_variables(session, "SESSION"),
            )
    except pymysql.err.MySQLError as exc:
        raise translated(exc, connection) from exc
