"""The declaration of a MySQL source."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from seamline.spec.fields import Declared
from seamline.spec.source import ServerSource


class Snapshot(Declared):
    """How consistent reads are opened."""

    lock: Literal["none", "brief"] = Field(
        "none",
        description="none: no lock; several sessions that come to stand at one position, which"
        " performance_schema.log_status proves, or one that reads table after table, slowly, where the source commits"
        " too often for that. brief: several sessions are opened at one position while statements wait for some"
        " milliseconds, at most a second (FLUSH TABLES WITH READ LOCK, not asked for beside a statement that runs"
        " for long); needs the owner's consent.",
    )


class MysqlSource(ServerSource):
    """A MySQL database, captured through its binlog."""

    connection_type: ClassVar[str] = "mysql"

    kind: Literal["mysql"] = Field(description="What kind of system the source is.")
    snapshot: Snapshot = Field(default_factory=Snapshot, description="How consistent reads are opened.")

    @model_validator(mode="after")
    def _needs_no_lock_without_a_log(self) -> Self:
        if not self.has_log and self.snapshot.lock != "none":
            raise ValueError("`log: none` is read by one session: `snapshot.lock` brings none together. Leave it out")
        return self

    def plan_fields(self) -> Mapping[str, Any]:
        return {**super().plan_fields(), "snapshot_lock": self.snapshot.lock}
