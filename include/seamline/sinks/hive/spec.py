"""The declaration of a destination of Hive tables."""

import re
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, field_validator

from seamline.spec.destination import Destination
from seamline.spec.fields import ConnectionId, SchemaName

_DATABASE = re.compile(r"[a-z_][a-z0-9_]*")


def _warehouse(value: str) -> str:
    if not value.startswith("/"):
        raise ValueError(
            "the warehouse is an absolute path of a folder that every worker and the metastore have under this name; S3"
            " and HDFS are not built yet"
        )
    return value.rstrip("/") or value


def _database(value: str) -> str:
    if not _DATABASE.fullmatch(value):
        raise ValueError("a Hive metastore keeps names of databases in lower case: write a to z, digits and `_`")
    return value


class HiveDestination(Destination):
    """External Parquet tables of a Hive metastore, a partition per business date. It takes cuts only, no stream."""

    namespace_key: ClassVar[str] = "database"
    connection_type: ClassVar[str] = "postgres"
    other_connections: ClassVar[Mapping[str, str]] = {"metastore": "hive_metastore"}

    kind: Literal["hive"] = Field(description="What kind of system the destination is.")
    database: Annotated[SchemaName, AfterValidator(_database)] = Field(
        description="Database of the tables in the metastore. `connection` leads to the PostgreSQL database that keeps"
        " which folders are the cut of a date: the metastore's own, or any other."
    )
    metastore: ConnectionId = Field(description="Connection id of the metastore's Thrift service.")
    warehouse: Annotated[str, AfterValidator(_warehouse)] = Field(
        description="Folder of the tables' files, which must be there: the same absolute path on every machine of the"
        " sync, and where the metastore runs."
    )

    @field_validator("writer_connection")
    @classmethod
    def _no_writer(cls, value: str | None) -> str | None:
        if value is not None:
            raise ValueError("no stream writes here: leave `writer_connection` out")
        return value

    @property
    def namespace(self) -> str:
        return self.database

    @property
    def options(self) -> Mapping[str, str]:
        return {"metastore": self.metastore, "warehouse": self.warehouse}
