"""`psql` for a connection to PostgreSQL."""

from seamline.adapters.connections import Connection
from seamline.adapters.tls import libpq_tls
from seamline.domain.server_found import ServerFound


class Psql:
    def program(self, known: Connection) -> str:  # noqa: ARG002
        return "psql"

    def opening(self, program: str, known: Connection) -> tuple[dict[str, str], list[str]]:  # noqa: ARG002
        place = {"PGHOST": known.host, "PGPORT": str(known.port), "PGDATABASE": known.database}
        tls = {f"PG{name.upper()}": value for name, value in libpq_tls(known).items()}
        return {**place, **tls, "PGUSER": known.login, "PGPASSWORD": known.password}, []

    def require(self, program: str, binary: str | None) -> None:
        """The local stack brings it."""

    def examined(self, known: Connection) -> ServerFound:
        from seamline.databases.postgres.examined import examined

        return examined(known)


CLIENT = Psql()
