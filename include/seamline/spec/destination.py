"""`include/destinations/<destination>.yaml`: where tables land."""

from typing import ClassVar, Literal

from pydantic import Field

from seamline.spec.fields import ConnectionId, Declared, Name, SchemaName


class PostgresDestination(Declared):
    """A PostgreSQL database: a transactional destination, one commit is one transaction over all tables of a sync."""

    guarantees: ClassVar[frozenset[str]] = frozenset({"exactly_once", "at_least_once"})

    destination: Name = Field(description="Name of the destination; the file has the same name.")
    kind: Literal["postgres"] = Field(description="What kind of system the destination is.")
    connection: ConnectionId = Field(description="Connection id of the account that makes tables and owns them.")
    writer_connection: ConnectionId | None = Field(
        None, description="Connection id of the account that streams write rows with; `connection` where left out."
    )
    schema_: SchemaName = Field(
        alias="schema",
        description="Schema of the live tables; cuts lie in <schema>_cut, staging in <schema>_stage.",
    )


# With a second kind this becomes a union discriminated by `kind`.
DestinationSpec = PostgresDestination
DESTINATION_KINDS: dict[str, type[DestinationSpec]] = {"postgres": PostgresDestination}
DESTINATION_KINDS_PLANNED = ("mariadb", "mysql", "iceberg", "delta", "hudi", "files", "hive", "key_value", "kafka")
