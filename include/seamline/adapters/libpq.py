"""How a connection is said in libpq's words, which psycopg and psycopg2 take."""

from typing import Any

from seamline.adapters.connections import Connection
from seamline.adapters.tls import libpq_tls


def address(connection: Connection) -> dict[str, Any]:
    """Server, database, login and TLS. Time-outs and settings are the caller's."""
    return {
        "host": connection.host,
        "port": connection.port,
        "user": connection.login,
        "password": connection.password,
        "dbname": connection.database,
        **libpq_tls(connection),
    }
