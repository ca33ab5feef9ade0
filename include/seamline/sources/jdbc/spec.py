"""The declaration of a source that is read by its JDBC driver."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field

from seamline.spec.fields import Identifier
from seamline.spec.source import UnloggedDatabase


class JdbcSource(UnloggedDatabase):
    """A database that is read by its JDBC driver, in one transaction for each night. It has no log."""

    connection_type: ClassVar[str] = "jdbc"
    namespace_key: ClassVar[str] = "schema"

    kind: Literal["jdbc"] = Field(description="What kind of system the source is.")
    database: Identifier = Field(description="Name of the database, for people: the connection's URL says where it is.")
    schema_: Identifier = Field(alias="schema", description="Schema of the tables, in the case that the catalogue has.")
    log: Literal["none"] = Field("none", description="A JDBC driver knows of no log; may be left out.")

    @property
    def namespace(self) -> str:
        return self.schema_

    def plan_fields(self) -> Mapping[str, Any]:
        return {"schema": self.schema_}
