"""The declaration of a destination of Hudi tables."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field

from seamline.domain.staged_cut import CutSource
from seamline.sinks.lake.spec import FolderWarehouse, folder_of
from seamline.spec.destination import Destination
from seamline.spec.fields import SchemaName


class HudiDestination(Destination):
    """Copy-on-write tables of Hudi whose ledger is in a PostgreSQL database: each table exactly once, and all of a sync
    at one position by the instants that the ledger names."""

    namespace_key: ClassVar[str] = "namespace"
    cut_source: ClassVar[CutSource] = CutSource.LIVE

    kind: Literal["hudi"] = Field(description="What kind of system the destination is.")
    namespace_: SchemaName = Field(
        alias="namespace", description="Folder of the live tables in the warehouse: `<warehouse>/<namespace>/<table>`."
    )
    warehouse: FolderWarehouse = Field(
        description="Folder of the tables, which must be there: the same absolute path on every machine of the sync."
        " `connection` leads to the PostgreSQL database that holds the ledger and the instant of each table."
    )
    commit_every_ms: int = Field(
        60_000,
        ge=0,
        description="Least time between two commits, milliseconds: each writes every file again in which a row changes."
        " Where `stream.commit_every_ms` of the sync is more, that counts.",
    )

    @classmethod
    def folder(cls, said: Mapping[str, Any]) -> str:
        return folder_of(said)

    @property
    def namespace(self) -> str:
        return self.namespace_

    @property
    def options(self) -> Mapping[str, str]:
        return {"warehouse": self.warehouse}

    @property
    def commit_interval_ms(self) -> int:
        return self.commit_every_ms
