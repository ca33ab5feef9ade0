"""The declaration of a destination of Iceberg tables."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from seamline.domain.staged_cut import CutSource
from seamline.spec.destination import Destination
from seamline.spec.fields import Name, SchemaName


def _warehouse(value: str) -> str:
    if not value.startswith("/"):
        raise ValueError(
            "the warehouse is an absolute path of a folder that every worker has under this name; S3 and HDFS are not"
            " built yet"
        )
    return value.rstrip("/") or value


class IcebergDestination(Destination):
    """Iceberg tables whose catalogue is a PostgreSQL database: one commit moves all tables of a sync and its ledger."""

    namespace_key: ClassVar[str] = "namespace"
    cut_source: ClassVar[CutSource] = CutSource.LIVE

    kind: Literal["iceberg"] = Field(description="What kind of system the destination is.")
    namespace_: SchemaName = Field(alias="namespace", description="Namespace of the live tables in the catalogue.")
    catalog: Name = Field(
        description="Name of the catalogue: all its clients must call it so, as Spark does below `spark.sql.catalog`."
        " `connection` leads to the PostgreSQL database that holds it (Iceberg's JDBC catalogue)."
    )
    warehouse: Annotated[str, AfterValidator(_warehouse)] = Field(
        description="Folder of the tables' files, which must be there: the same absolute path on every machine of the"
        " sync."
    )
    write: Literal["native", "spark"] = Field(
        "native",
        description="Who writes changes: `native` in the stream's own process, a commit in a fraction of a second; or"
        " `spark` by statements of the stream host's Spark session, a commit in seconds.",
    )

    commit_every_ms: int = Field(
        10_000,
        ge=0,
        description="Least time between two commits, milliseconds: each is a snapshot and files of every table that it"
        " changes. Where `stream.commit_every_ms` of the sync is more, that counts.",
    )

    @property
    def namespace(self) -> str:
        return self.namespace_

    @property
    def options(self) -> Mapping[str, str]:
        return {"catalog": self.catalog, "warehouse": self.warehouse, "write": self.write}

    @property
    def commit_interval_ms(self) -> int:
        return self.commit_every_ms
