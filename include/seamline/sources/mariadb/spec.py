"""The declaration of a MariaDB source."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field

from seamline.domain.table_places import TablePlace
from seamline.spec.fields import Declared, SqlName
from seamline.spec.source import DatabaseSource


class Snapshot(Declared):
    """How consistent reads are opened."""

    lock: Literal["none", "brief"] = Field(
        "none",
        description="none: no lock; several sessions that come to stand at one position, or one that reads table after "
        "table, slowly, where the source commits too often for that. brief: several sessions are opened at one "
        "position while commits wait for at most 200 ms (BACKUP STAGE BLOCK_COMMIT); needs the owner's consent.",
    )


class MariadbSource(DatabaseSource):
    """A MariaDB database, captured through its binlog."""

    names_elsewhere: ClassVar[bool] = True

    kind: Literal["mariadb"] = Field(description="What kind of system the source is.")
    databases: tuple[SqlName, ...] = Field(
        (),
        description="Other databases of the server whose tables syncs may name, as `database.table`. The capture reads"
        " the structure of all of them when it begins, so one that is added later takes a new capture.",
        strict=False,
    )
    snapshot: Snapshot = Field(default_factory=Snapshot, description="How consistent reads are opened.")

    def plan_fields(self) -> Mapping[str, Any]:
        return {"snapshot_lock": self.snapshot.lock, "databases": self.databases}

    def refusal(self, place: TablePlace) -> tuple[str, str] | None:
        known = [self.database, *self.databases]
        if place.namespace in known:
            return None
        cause = f"database `{place.namespace}` is none of those that source `{self.source}` reads: {', '.join(known)}"
        return cause, f"Correct it, or add it to `databases` of sources/{self.source}.yaml"
