"""The declaration of a PostgreSQL source."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from seamline.spec.fields import Identifier
from seamline.spec.source import DatabaseSource


class PostgresSource(DatabaseSource):
    """A PostgreSQL database, captured through a replication slot and a publication of listed tables."""

    kind: Literal["postgres"] = Field(description="What kind of system the source is.")
    schema_: Identifier = Field("public", alias="schema", description="Schema of the tables and of the marker table.")

    def plan_fields(self) -> Mapping[str, str]:
        return {"schema": self.schema_}
