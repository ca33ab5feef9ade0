"""The facts that preflight judges, asked with the three roles' own sessions. Changes nothing in the source."""

import re
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pymysql

from seamline.adapters.connections import Connection
from seamline.databases.mysql.canonical import quoted
from seamline.databases.mysql.client import Session, open_session, query, translated
from seamline.databases.mysql.table_text import foreign_key_actions, show_create
from seamline.domain.catalogue import Table
from seamline.sources.mariadb.preflight import ForeignKeyAction, RoleFacts, SourceFacts

_VARIABLES = (
    "log_bin log_bin_compress binlog_format binlog_row_image binlog_row_metadata gtid_strict_mode sync_binlog"
    " innodb_flush_log_at_trx_commit binlog_expire_logs_seconds sql_mode max_allowed_packet server_id wsrep_on"
    " lower_case_table_names version"
)
_GRANT = re.compile(r"^GRANT (.+?) ON (\*|`(?:[^`]|``)+`)\.\* TO ", re.IGNORECASE)
# Its INSERT is rolled back, so it never reaches the binlog.
_PROBE_ID = "preflight"


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
            columns, key, engine = _marker_definition(session, database, marker_table)
            return SourceFacts(
                database=database,
                variables=_variables(session, "GLOBAL"),
                engines=_engines(session, database, names),
                prepared_xa=len(query(session, "XA RECOVER")),
                foreign_keys=_foreign_keys(session, names),
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


def _engines(session: "Session[Any]", database: str, names: Iterable[str]) -> dict[str, str]:
    rows = query(
        session, "SELECT table_name, engine FROM information_schema.tables WHERE table_schema = %s", (database,)
    )
    known = {name: str(engine or "none") for name, engine in rows}
    return {name: known[name] for name in names if name in known}


def _foreign_keys(session: "Session[Any]", names: Iterable[str]) -> tuple[ForeignKeyAction, ...]:
    return tuple(
        ForeignKeyAction(table, *key) for table in names for key in foreign_key_actions(show_create(session, table))
    )


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


def _marker_definition(
    session: "Session[Any]", database: str, table: str
) -> tuple[dict[str, str], tuple[str, ...], str]:
    columns = query(
        session,
        "SELECT column_name, column_type FROM information_schema.columns WHERE table_schema = %s AND table_name = %s",
        (database, table),
    )
    key = query(
        session,
        "SELECT column_name FROM information_schema.statistics WHERE table_schema = %s AND table_name = %s"
        " AND index_name = 'PRIMARY' ORDER BY seq_in_index",
        (database, table),
    )
    return (
        {str(name): str(column_type) for name, column_type in columns},
        tuple(str(row[0]) for row in key),
        _engines(session, database, [table]).get(table, ""),
    )


def _role(connection: Connection, tables: Iterable[str]) -> RoleFacts:
    try:
        with closing(open_session(connection)) as session:
            return RoleFacts(
                connection.connection_id,
                connection.login,
                *_grants(session, connection.database),
                unreadable=_unreadable(session, tables),
                session=_variables(session, "SESSION"),
            )
    except pymysql.err.MySQLError as exc:
        raise translated(exc, connection) from exc


def _marker_role(connection: Connection, table: str) -> RoleFacts:
    insert = f"INSERT INTO {quoted(table)} (id, kind, payload) VALUES ('{_PROBE_ID}', 'probe', '')"
    try:
        with closing(open_session(connection)) as session:
            return RoleFacts(
                connection.connection_id,
                connection.login,
                marker_error=_refusal(session, insert),
                prune_error=_refusal(session, f"DELETE FROM {quoted(table)} WHERE id = '{_PROBE_ID}'"),
                session=_variables(session, "SESSION"),
            )
    except pymysql.err.MySQLError as exc:
        raise translated(exc, connection) from exc


def _refusal(session: "Session[Any]", statement: str) -> str:
    """The server's words against a statement, which is rolled back; "" when it is allowed."""
    try:
        session.begin()
        query(session, statement)
        session.rollback()
    except pymysql.err.MySQLError as exc:
        return str(exc.args[-1])
    return ""


def grants_of(lines: Iterable[str], database: str) -> tuple[frozenset[str], frozenset[str]]:
    """(privileges ON *.*, privileges ON the database's `.*`) in the lines of SHOW GRANTS, upper case."""
    everywhere: set[str] = set()
    here: set[str] = set()
    for line in lines:
        match = _GRANT.match(line)
        if match is None:
            continue
        privileges = {name.strip().upper() for name in match[1].split(",")}
        if match[2] == "*":
            everywhere |= privileges
        elif _is_like(match[2].strip("`").replace("``", "`"), database):
            here |= privileges
    return frozenset(everywhere), frozenset(here)


def _is_like(pattern: str, database: str) -> bool:
    """A database in a grant is a pattern: `_` and `%` are wild unless a backslash stands before them."""
    parts = re.findall(r"\\[_%\\]|.", pattern, re.DOTALL)
    wild = {"_": ".", "%": ".*"}
    return re.fullmatch("".join(wild.get(part) or re.escape(part[-1]) for part in parts), database) is not None


def _grants(session: "Session[Any]", database: str) -> tuple[frozenset[str], frozenset[str]]:
    """Those of the login and of the roles that are active in its session."""
    return grants_of([str(row[0]) for row in query(session, "SHOW GRANTS")], database)


def _unreadable(session: "Session[Any]", tables: Iterable[str]) -> dict[str, str]:
    refusals: dict[str, str] = {}
    for table in tables:
        try:
            query(session, f"SELECT 1 FROM {quoted(table)} LIMIT 0")
        except pymysql.err.MySQLError as exc:
            refusals[table] = str(exc.args[-1])
    return refusals
