"""The declaration of a destination of topics."""

import re
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, field_validator

from seamline.spec.destination import Destination

# With the name of a table and what an incremental snapshot adds, a topic's name stays below Kafka's 249 letters.
_PREFIX = re.compile(r"[a-z0-9][A-Za-z0-9_-]{0,59}")


def _prefix(value: str) -> str:
    if not _PREFIX.fullmatch(value):
        raise ValueError("at most 60 letters of ASCII, digits, _ and -, beginning with a small letter or a digit")
    return value


class KafkaDestination(Destination):
    """Topics on a Kafka cluster: one per table, and one that says which transaction brought what."""

    namespace_key: ClassVar[str] = "prefix"
    connection_type: ClassVar[str] = "kafka"

    kind: Literal["kafka"] = Field(description="What kind of system the destination is.")
    prefix: Annotated[str, AfterValidator(_prefix)] = Field(
        description="What the names of its topics begin with: `<prefix>.<table>` and `<prefix>.control`."
    )
    format: Literal["json", "debezium"] = Field(
        "json", description="Of the records: plain rows as JSON, or the envelope that Debezium's consumers read."
    )
    partitions: int = Field(1, ge=1, le=1000, description="Of each table's topic. Rows of one key keep their order.")
    replication_factor: int = Field(
        -1, ge=-1, le=32767, description="Copies of each topic; -1: as many as the broker's default says."
    )
    transaction_timeout_s: int = Field(
        900,
        ge=10,
        le=86_400,
        description="How long one transaction may take, a load of whole tables too; at most the broker's"
        " `transaction.max.timeout.ms`.",
    )

    @field_validator("writer_connection")
    @classmethod
    def _no_writer(cls, value: str | None) -> str | None:
        if value is not None:
            raise ValueError("one login makes topics and writes them: leave `writer_connection` out")
        return value

    @property
    def namespace(self) -> str:
        return self.prefix

    @property
    def options(self) -> Mapping[str, str]:
        return {
            "prefix": self.prefix,
            "format": self.format,
            "partitions": str(self.partitions),
            "replication_factor": str(self.replication_factor),
            "transaction_timeout_s": str(self.transaction_timeout_s),
        }
