"""Reading sessions of MariaDB: how one is set up, and how several come to stand at one position."""

from typing import Any

import pymysql

from seamline.adapters.connections import Connection
from seamline.domain.errors import TransientError

# UTC: canonical texts of instants. derived_merge: see `canonical`. The two time-outs: a view lives through long scans.
SESSION_SETTINGS = (
    "SET SESSION time_zone = '+00:00'",
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    "SET SESSION optimizer_switch = 'derived_merge=off'",
    "SET SESSION wait_timeout = 28800, SESSION net_write_timeout = 3600, SESSION max_statement_time = 0",
)


def open_session(connection: Connection) -> "pymysql.Connection[Any]":
    """A session with the settings that canonical texts need; no transaction is open yet."""
    try:
        session = pymysql.connect(
            host=connection.host,
            port=connection.port,
            user=connection.login,
            password=connection.password,
            database=connection.database or None,
            charset="utf8mb4",
            autocommit=True,
            connect_timeout=10,
        )
        with session.cursor() as cursor:
            for setting in SESSION_SETTINGS:
                cursor.execute(setting)
    except pymysql.err.OperationalError as exc:
        raise TransientError(f"cannot open a session on {connection.connection_id}: {exc.args[-1]}") from exc
    return session
