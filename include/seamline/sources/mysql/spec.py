"""The declaration of a MySQL source."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from seamline.spec.fields import Declared
from seamline.spec.source import DatabaseSource


class Snapshot(Declared):
    """How consistent reads are opened."""

    lock: Literal["none", "brief"] = Field(
        "none",
        description="none: no lock; sessions that come to stand at one position, which performance_schema.log_status"
        " proves. brief: sessions are opened at one position while statements wait for some milliseconds (FLUSH TABLES"
        " WITH READ LOCK); needs the owner's consent.",
    )


class MysqlSource(DatabaseSource):
    """A MySQL database, captured through its binlog."""

    kind: Literal["mysql"] = Field(description="What kind of system the source is.")
    snapshot: Snapshot = Field(default_factory=Snapshot, description="How consistent reads are opened.")

    def plan_fields(self) -> Mapping[str, str]:
        return {"snapshot_lock": self.snapshot.lock}
