"""Whether anything answers where a connection leads to, asked before a client that would try for a minute."""

import socket

from seamline.adapters.connections import Connection
from seamline.domain.errors import TransientError

_REACH_S = 10.0


def require_answer(connection: Connection) -> None:
    """TransientError: no connection of TCP to its host and port within ten seconds."""
    try:
        socket.create_connection((connection.host, connection.port), _REACH_S).close()
    except OSError as exc:
        where = f"{connection.host}:{connection.port} (connection `{connection.connection_id}`)"
        raise TransientError(f"{where} cannot be reached: {exc}", hint="check host and port, and that it runs") from exc
