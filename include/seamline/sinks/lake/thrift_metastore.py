"""A connection to a Hive metastore's Thrift service, and its errors as Seamline's.

The service is the interface that every engine uses, whatever database is behind it.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from hive_metastore import ttypes
from hive_metastore.ThriftHiveMetastore import Client
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TException
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TTransportException

from seamline.adapters.connections import Connection
from seamline.domain.errors import InvariantViolated, TransientError

# Airflow's `conn_type` of a connection to one.
CONNECTION_TYPE = "hive_metastore"
# A call asks the metastore's database, and its file system whether a folder is there.
_PATIENCE_S = 60.0


def opened(connection: Connection, *, patience_s: float = _PATIENCE_S) -> tuple[Client, TBufferedTransport]:
    """TransientError where the service does not answer; the connection's login is that of nobody: the service is asked
    without one. `patience_s`: for each answer."""
    socket = TSocket(connection.host, connection.port)
    socket.setTimeout(patience_s * 1000)
    transport = TBufferedTransport(socket)
    try:
        transport.open()
    except TTransportException as exc:
        raise TransientError(
            f"the Hive metastore of connection {connection.connection_id} does not answer: {exc.message}",
            hint="it is tried again; if it stays: does the service run, and is this its Thrift port (9083 as a rule)?",
        ) from exc
    return Client(TBinaryProtocol(transport)), transport


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Errors of the service leave as Seamline's."""
    try:
        yield
    except ttypes.InvalidObjectException as exc:
        raise InvariantViolated(f"the Hive metastore cannot {doing}: {exc.message}") from exc
    except (TException, OSError) as exc:
        # What it answers while its own database is away is a MetaException, as most of its errors are.
        raise TransientError(
            f"cannot {doing}: {getattr(exc, 'message', None) or exc}",
            hint="it is tried again; if it stays, look at the metastore's log",
        ) from exc
