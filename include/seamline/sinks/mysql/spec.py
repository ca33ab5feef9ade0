"""The declaration of a MySQL destination."""

from typing import ClassVar, Literal

from pydantic import Field

from seamline.spec.destination import Destination
from seamline.spec.fields import SchemaName


class MySqlDestination(Destination):
    """A MySQL server: a transactional destination, one commit is one transaction over all tables of a sync."""

    namespace_key: ClassVar[str] = "database"
    connection_type: ClassVar[str] = "mysql"

    kind: Literal["mysql"] = Field(description="What kind of system the destination is.")
    database: SchemaName = Field(
        description="Database of the live tables; cuts lie in <database>_cut, staging in <database>_stage, the ledger"
        " in <database>_seamline."
    )

    @property
    def namespace(self) -> str:
        return self.database
