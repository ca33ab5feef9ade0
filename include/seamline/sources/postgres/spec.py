"""The declaration of a PostgreSQL source."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field

from seamline.domain.catalogue import NAME_BYTES_MAX
from seamline.domain.table_places import TablePlace
from seamline.spec.fields import Identifier
from seamline.spec.source import DatabaseSource


class PostgresSource(DatabaseSource):
    """A PostgreSQL database, captured through a replication slot and a publication of listed tables."""

    names_elsewhere: ClassVar[bool] = True
    knows_its_load: ClassVar[bool] = True
    connection_type: ClassVar[str] = "postgres"
    namespace_key: ClassVar[str] = "schema"

    kind: Literal["postgres"] = Field(description="What kind of system the source is.")
    schema_: Identifier = Field(
        "public",
        alias="schema",
        description="Schema of the marker table, and of the tables that a sync names without one.",
    )

    @property
    def namespace(self) -> str:
        return self.schema_

    def refusal(self, place: TablePlace) -> tuple[str, str] | None:
        if len(place.table.encode()) > NAME_BYTES_MAX:
            return f"no name in PostgreSQL has more than {NAME_BYTES_MAX} bytes", "Write it as \\d prints it"
        return None

    def plan_fields(self) -> Mapping[str, Any]:
        return {"schema": self.schema_}
