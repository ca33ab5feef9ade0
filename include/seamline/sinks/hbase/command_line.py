"""What the command line asks an HBase, by the client in a JVM that its destination has."""

from contextlib import closing
from typing import ClassVar

from seamline.adapters.connections import Connection
from seamline.adapters.reachable import require_answer
from seamline.domain.server_found import MAKES, ServerFound, Use


class HBaseServer:
    """`kinds.command_line.StartsFirst`."""

    starting: ClassVar[str] = "a JVM with HBase's client"

    def examined(self, known: Connection) -> ServerFound:
        # HBase's client asks a ZooKeeper that is away for minutes.
        require_answer(known)
        from seamline.sinks.hbase.gateway import open_store
        from seamline.sinks.hbase.preflight import of_server

        with closing(open_store(known)) as store:
            version = store.version()
            unfit = tuple(what for what, _ in of_server(store))
        return ServerFound(
            f"HBase {version}", "in the clear; it believes the name of the login", uses=(Use(MAKES, unfit=unfit),)
        )


CLIENT = HBaseServer()
