"""`include/sources/<source>.yaml`: a database that tables come from."""

from typing import Annotated, Literal

from pydantic import Field

from seamline.spec.fields import ConnectionId, Declared, Identifier, Name


class Capture(Declared):
    """How the source's log is captured."""

    tables: Literal["from_syncs"] = Field(
        "from_syncs", description="Which tables the one connector of this source captures: those of all syncs."
    )


class Snapshot(Declared):
    """How consistent reads are opened."""

    lock: Literal["none", "brief"] = Field(
        "none",
        description="none: no lock; several sessions that come to stand at one position, or one that reads table after "
        "table, slowly, where the source commits too often for that. brief: several sessions are opened at one "
        "position while commits wait for at most 200 ms (BACKUP STAGE BLOCK_COMMIT); needs the owner's consent.",
    )


class Log(Declared):
    """How long the log topic of this source is kept."""

    max_gb: float = Field(
        50, gt=0, description="Size of the log topic in GB at which the capture stops; alarms at 50 and 80 %."
    )
    keep_days: float = Field(
        7,
        ge=0.01,
        description="Days for which the log keeps a record in any case; 0.01 are a quarter of an hour. A destination"
        " that is put back from a backup of these days goes on by itself; from an older one it is onboarded again. What"
        " a ledger still needs stays longer.",
    )


class DatabaseSource(Declared):
    """What every database that is captured has in common."""

    source: Name = Field(description="Name of the source; the file has the same name.")
    connection: ConnectionId = Field(description="Connection id of the account that reads tables.")
    capture_connection: ConnectionId | None = Field(
        None, description="Connection id of the account that reads the log; <connection>_capture where left out."
    )
    marker_connection: ConnectionId | None = Field(
        None, description="Connection id of the account that inserts markers; `connection` where left out."
    )
    database: Identifier = Field(description="Name of the database that holds the tables.")
    capture: Capture = Field(default_factory=Capture, description="How the source's log is captured.")
    log: Log = Field(default_factory=Log, description="How long the log topic is kept.")


class MariadbSource(DatabaseSource):
    """A MariaDB database, captured through its binlog."""

    kind: Literal["mariadb"] = Field(description="What kind of system the source is.")
    snapshot: Snapshot = Field(default_factory=Snapshot, description="How consistent reads are opened.")


class PostgresSource(DatabaseSource):
    """A PostgreSQL database, captured through a replication slot and a publication of listed tables."""

    kind: Literal["postgres"] = Field(description="What kind of system the source is.")
    schema_: Identifier = Field("public", alias="schema", description="Schema of the tables and of the marker table.")


SourceSpec = Annotated[MariadbSource | PostgresSource, Field(discriminator="kind")]
SOURCE_KINDS: dict[str, type[MariadbSource] | type[PostgresSource]] = {
    "mariadb": MariadbSource,
    "postgres": PostgresSource,
}
SOURCE_KINDS_PLANNED = ("mysql", "files", "kafka")
