"""What preflight asks of MariaDB in its own words."""

from typing import Any

import pymysql

from seamline.databases.mysql.client import MARIADB, Session, query
from seamline.databases.mysql.preflight_facts import Questions, Seen

VARIABLES = (
    *("log_bin", "log_bin_compress", "binlog_format", "binlog_row_image", "binlog_row_metadata", "gtid_strict_mode"),
    *("sync_binlog", "innodb_flush_log_at_trx_commit", "binlog_expire_logs_seconds", "sql_mode", "server_id"),
    *("max_allowed_packet", "wsrep_on", "lower_case_table_names", "version"),
)


def _seen(session: "Session[Any]") -> Seen:
    return Seen(*_filters(session), primaries(session), len(query(session, "XA RECOVER")))


def _filters(session: "Session[Any]") -> tuple[str, str]:
    try:
        rows = query(session, "SHOW MASTER STATUS")
    except pymysql.err.OperationalError:
        # Without BINLOG MONITOR, which has a check of its own.
        return "", ""
    return (str(rows[0][2]), str(rows[0][3])) if rows else ("", "")


def primaries(session: "Session[Any]") -> tuple[str, ...]:
    """Of which the server is a replica."""
    try:
        with session.cursor(pymysql.cursors.DictCursor) as cursor:
            cursor.execute("SHOW ALL SLAVES STATUS")
            return tuple(f"{row['Master_Host']}:{row['Master_Port']}" for row in cursor.fetchall())
    except pymysql.err.OperationalError:
        # Needs REPLICA MONITOR, which no role has to have. Whether it is at work at all everybody may read.
        ((_, running),) = query(session, "SHOW GLOBAL STATUS LIKE 'Slaves_running'")
        return ("another server",) if int(running) else ()


def _grants(session: "Session[Any]") -> list[str]:
    return [str(row[0]) for row in query(session, "SHOW GRANTS")]


QUESTIONS = Questions(MARIADB, VARIABLES, _seen, _grants)
