"""The declaration of a PostgreSQL destination."""

from typing import ClassVar, Literal

from pydantic import Field

from seamline.spec.destination import Destination
from seamline.spec.fields import SchemaName


class PostgresDestination(Destination):
    """A PostgreSQL database: a transactional destination, one commit is one transaction over all tables of a sync."""

    namespace_key: ClassVar[str] = "schema"
    connection_type: ClassVar[str] = "postgres"

    kind: Literal["postgres"] = Field(description="What kind of system the destination is.")
    schema_: SchemaName = Field(
        alias="schema",
        description="Schema of the live tables; cuts lie in <schema>_cut, staging in <schema>_stage.",
    )

    @property
    def namespace(self) -> str:
        return self.schema_
