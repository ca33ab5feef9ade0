"""What a server keeps of its binlog behind a capture's place. It keeps its files by their age, whoever reads them."""

from collections.abc import Mapping
from typing import Any

from seamline.databases.mysql.binlog_address import binlog_file
from seamline.databases.mysql.client import Session, query
from seamline.domain.source_backlog import SourceBacklog


def binlog_backlog(session: "Session[Any]", place: Mapping[str, object]) -> SourceBacklog:
    """`place`: file and pos, as Debezium keeps them, and what our connector adds: when the newest marker before that
    was written. The login may see the binlog."""
    file, position = str(place.get("file") or ""), int(str(place.get("pos") or 0))
    if not file:
        return SourceBacklog(is_held=False)
    base, number = binlog_file(file)
    files = [(binlog_file(str(row[0])), int(row[1])) for row in query(session, "SHOW BINARY LOGS")]
    behind = {found: size for (of, found), size in files if of == base and found >= number}
    if number not in behind:
        return SourceBacklog(is_lost=True, is_held=False)
    if never := _deletes_nothing(session):
        return SourceBacklog(sum(behind.values()) - position, is_held=False, never_while=never)
    ((expires_s, now_s),) = query(session, "SELECT @@global.binlog_expire_logs_seconds, UNIX_TIMESTAMP()")
    written_s = int(str(place.get("seamline_marker_ms") or 0)) / 1000
    left_s = max(0.0, float(expires_s) - (float(now_s) - written_s)) if expires_s and written_s else None
    # The file that is being written is never deleted.
    expires_in_s = left_s if len(behind) > 1 else None
    return SourceBacklog(sum(behind.values()) - position, expires_in_s=expires_in_s, is_held=False)


def _deletes_nothing(session: "Session[Any]") -> str:
    """MariaDB 11.4 and newer: automatic deletion waits until so many replicas are connected, one by default
    (`slave_connections_needed_for_purge`). A capture is one of them only while it runs."""
    needed = query(session, "SHOW GLOBAL VARIABLES LIKE 'slave_connections_needed_for_purge'")
    if not needed:
        return ""
    # The server counts who reads its binlog. `Slaves_connected` has those that registered, which a capture does not;
    # the list of sessions has those of this login.
    registered = query(session, "SHOW GLOBAL STATUS LIKE 'Slaves_connected'")
    ((reading,),) = query(
        session, "SELECT COUNT(*) FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'"
    )
    connected, (name, least) = max(int(reading), *(int(row[1]) for row in registered)), needed[0]
    if connected >= int(least):
        return ""
    return f"{name} is {least} and {connected} replicas are connected: the source's owner sets it to 0"
