"""How busy a server of MariaDB or MySQL is, and how far it is behind where it is a replica itself."""

from typing import Any

import pymysql

from seamline.databases.mysql.client import Session, query

# MariaDB's, of all its channels, and MySQL's, which refuses those words.
_MARIADB, _MYSQL = "SHOW ALL SLAVES STATUS", "SHOW REPLICA STATUS"
_BEHIND = ("Seconds_Behind_Master", "Seconds_Behind_Source")


def running(session: "Session[Any]") -> int:
    ((_, found),) = query(session, "SHOW GLOBAL STATUS LIKE 'Threads_running'")
    return int(found)


def replica_lag_s(session: "Session[Any]") -> float | None:
    """None of a server that replicates from nobody. A primary does not know how far its replicas are behind."""
    behind = [row[name] for row in _channels(session) for name in _BEHIND if name in row]
    if not behind:
        return None
    # NULL: its threads do not run.
    return max(float("inf") if one is None else float(one) for one in behind)


def _channels(session: "Session[Any]") -> list[dict[str, Any]]:
    with session.cursor(pymysql.cursors.DictCursor) as cursor:
        try:
            cursor.execute(_MARIADB)
        except pymysql.err.ProgrammingError:
            cursor.execute(_MYSQL)
        return [dict(row) for row in cursor.fetchall()]
