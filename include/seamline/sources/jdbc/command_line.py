"""What the command line asks a database by its JDBC driver: a session in a JVM of its own."""

from contextlib import closing
from typing import ClassVar

from seamline.adapters.connections import Connection
from seamline.domain.server_found import READS, ServerFound, Use


class Jdbc:
    """`kinds.command_line.StartsFirst`."""

    starting: ClassVar[str] = "a JVM with the database's driver"

    def examined(self, known: Connection) -> ServerFound:
        from seamline.sources.jdbc.session import JdbcSession, no_serializable

        with closing(JdbcSession(known)) as session:
            unfit = () if session.is_serializable else (no_serializable(session.product),)
            product = session.product
        uses = (Use(READS, unfit=unfit),) if unfit else ()
        return ServerFound(product, "encrypted as its URL says; rights: `validate --online` asks for them", uses=uses)


CLIENT = Jdbc()
