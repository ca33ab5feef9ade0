"""Where Connect finds a source and Kafka, and how a connector begins."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from seamline.adapters.connect.handed_over import file_beside
from seamline.adapters.tls import Tls
from seamline.plan.model import SourcePlan

# Of our own classes: at each start the source must hold the newest marker that the log has (ADR 18).
MARKER_TABLE = "seamline.marker.table"
# Of connectors with a schema history, which holds the structure of these databases from its first start on.
DATABASES = "database.include.list"


class Start(StrEnum):
    """How the connector comes to know the tables' structure, as Debezium's `snapshot.mode`."""

    # From the tables as they are now: only right at the position where the capture begins. A binlog's first start.
    FIRST = "recovery"
    # From its schema history: a later `recovery` would read old rows with a newer structure. PostgreSQL's slot keeps
    # the structure along with the rows.
    AGAIN = "no_data"


@dataclass(frozen=True, slots=True)
class CaptureEndpoint:
    """Where Connect finds the source and Kafka. `secrets_file` is a path on Connect's machine.

    `kafka_security`: settings of the Kafka clients that the connector opens itself. `source_client`: those of a client
    of the source, where that is a cluster of Kafka.
    """

    host: str
    port: int
    connection_id: str
    secrets_file: str
    kafka_servers: str
    tls: Tls = field(default_factory=Tls)
    kafka_security: Mapping[str, str] = field(default_factory=dict)
    source_client: Mapping[str, str] = field(default_factory=dict)

    def secret(self, name: str) -> str:
        """A reference that only the Connect worker resolves."""
        return f"${{file:{self.secrets_file}:{self.connection_id}.{name}}}"

    def file(self, name: str) -> str:
        """A file of the source's connection beside the secrets."""
        return file_beside(self.secrets_file, self.connection_id, name)


def offsets_topic(source: SourcePlan) -> str:
    return f"{source.log_topic.removesuffix('.log')}.offsets"


def schema_history_topic(source: SourcePlan) -> str:
    """Of a binlog source; a WAL needs none."""
    return f"{source.log_topic.removesuffix('.log')}.schema-history"


def name_pattern(name: str) -> str:
    """A name as the regular expression that matches it alone.

    Debezium splits its lists at commas that are not escaped, and takes spaces from the ends of their entries.
    """
    return re.sub(r"([^\w])", r"\\\1", name).replace("\\ ", "\\x20")
