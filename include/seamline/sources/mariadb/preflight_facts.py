"""The facts that preflight judges, asked with the three roles' own sessions. Changes nothing in the source."""

from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import pymysql

from seamline.adapters.connections import Connection
from seamline.databases.mysql.canonical import quoted
from seamline.databases.mysql.client import Session, open_session, query, translated
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

_VARIABLES = (
    "log_bin log_bin_compress binlog_format binlog_row_image binlog_row_metadata gtid_strict_mode sync_binlog"
    " innodb_flush_log_at_trx_commit binlog_expire_logs_seconds sql_mode max_allowed_packet server_id wsrep_on"
    " lower_case_table_names version"
)


def gather(
    *,
    database: str,
    tables: Sequence[str],
    marker_table: str,
    reader: Connection,
    capture: Connection,
    marker: Connection,
    snapshot_lock: str,
) -> SourceFacts:
    """Errors of the driver come as Seamline's, with the connection that met them."""
    names = list(tables)
    seen = _seen_by_capture(capture)
    try:
        with closing(open_session(reader)) as session:
            columns, key, engine = marker_definition(session, database, marker_table)
            return SourceFacts(
                database=database,
                variables=_variables(session, "GLOBAL"),
                engines=engines_of(session, database, names),
                prepared_xa=len(query(session, "XA RECOVER")),
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


def gather_tables(*, database: str, tables: Sequence[str], reader: Connection, capture: Connection) -> SourceFacts:
    """What `preflight.check_tables` asks of another database of the server."""
    reader, capture = replace(reader, database=database), replace(capture, database=database)
    try:
        with closing(open_session(reader)) as session:
            return SourceFacts(
                database=database,
                variables={},
                engines=engines_of(session, database, tables),
                foreign_keys=foreign_keys_of(session, tables),
                reader=_role(reader, tables),
                capture=_role(capture, tables),
            )
    except pymysql.err.MySQLError as exc:
        raise translated(exc, reader) from exc


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a login sees that may read the state of the binlog. The reader sees nothing of it."""

    binlog_do: str
    binlog_ignore: str
    replicates_from: tuple[str, ...]


def _seen_by_capture(capture: Connection) -> _Seen:
    try:
        with closing(open_session(capture)) as session:
            return _Seen(*_filters(session), _primaries(session))
    except pymysql.err.MySQLError as exc:
        raise translated(exc, capture) from exc


def _variables(session: "Session[Any]", scope: str) -> dict[str, str]:
    names = "','".join(_VARIABLES.split())
    rows = query(session, f"SHOW {scope} VARIABLES WHERE variable_name IN ('{names}')")
    return {str(name).lower(): str(value) for name, value in rows}


def _filters(session: "Session[Any]") -> tuple[str, str]:
    try:
        rows = query(session, "SHOW MASTER STATUS")
    except pymysql.err.OperationalError:
        # Without BINLOG MONITOR, which has a check of its own.
        return "", ""
    return (str(rows[0][2]), str(rows[0][3])) if rows else ("", "")


def _primaries(session: "Session[Any]") -> tuple[str, ...]:
    try:
        with session.cursor(pymysql.cursors.DictCursor) as cursor:
            cursor.execute("SHOW ALL SLAVES STATUS")
            return tuple(f"{row['Master_Host']}:{row['Master_Port']}" for row in cursor.fetchall())
    except pymysql.err.OperationalError:
        # Needs REPLICA MONITOR, which no role has to have. Whether it is at work at all everybody may read.
        ((_, running),) = query(session, "SHOW GLOBAL STATUS LIKE 'Slaves_running'")
        return ("another server",) if int(running) else ()


def _role(connection: Connection, tables: Iterable[str]) -> RoleFacts:
    try:
        with closing(open_session(connection)) as session:
            return RoleFacts(
                connection.connection_id,
                connection.login,
                *_grants(session, connection.database),
                unreadable=refused_tables(session, tables),
                session=_variables(session, "SESSION"),
            )
    except pymysql.err.MySQLError as exc:
        raise translated(exc, connection) from exc


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


def _grants(session: "Session[Any]", database: str) -> tuple[frozenset[str], frozenset[str]]:
    """Those of the login and of the roles that are active in its session."""
    return grants_of([str(row[0]) for row in query(session, "SHOW GRANTS")], database)
