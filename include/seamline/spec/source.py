"""`include/sources/<source>.yaml`: a database that tables come from. Each kind adds its own keys."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, WrapValidator, model_validator

from seamline.domain.table_places import TablePlace
from seamline.spec.faults import redacted
from seamline.spec.fields import ConnectionId, Declared, Identifier, Name, SqlName
from seamline.spec.file_places import Place, location_faults
from seamline.spec.source_budget import SourceBudget


class Capture(Declared):
    """How the source's log is captured."""

    tables: Literal["from_syncs"] = Field(
        "from_syncs", description="Which tables the one connector of this source captures: those of all syncs."
    )


class Archive(Declared):
    """Where records of the log go before they are pruned."""

    location: Place = Field(
        description="Where their Parquet files lie: a folder as an absolute path, or `s3://bucket/folder`. It must be"
        " there. What it holds already is never overwritten."
    )
    connection: ConnectionId = Field(
        "", description="Connection id of what leads to a place on S3, of type aws. A folder has none."
    )
    keep_days: float | None = Field(
        None,
        gt=0,
        description="Days for which the archive keeps a record, back from its newest one; what somebody still needs"
        " stays longer. Left out: for good.",
    )

    @model_validator(mode="after")
    def _is_read_as_a_table(self) -> Self:
        if urlsplit(self.location).scheme not in ("", "s3"):
            raise ValueError("`location` is a folder or a place on S3, where other tools read it as a table")
        for fault in location_faults(self.location, self.connection):
            raise ValueError(fault)
        return self


class Log(Declared):
    """How long the log topic of this source is kept."""

    max_gb: float = Field(
        50,
        gt=0,
        description="Size of the log topic in GB at which the capture stops; alarms at 50 and 80 %. It is slowed down"
        " from 90 % on and pauses at 97 %, of this or of what the broker's disk has room for, whichever is less.",
    )
    behind_max_gb: float | None = Field(
        None,
        gt=0,
        description="GB of the log that its slowest stream may have yet to apply: beyond them the capture is slowed"
        " down to that stream's rate, until it has caught up. Left out: 80 % of `max_gb`.",
    )
    source_backlog_max_gb: float | None = Field(
        None,
        gt=0,
        description="GB of its own log (WAL, binlog) that the source's server may keep for the capture. At that limit"
        " the capture is given up, never the source: it is stopped, and its slot dropped. Left out: it never is.",
    )
    keep_days: float = Field(
        7,
        ge=0.01,
        description="Days for which the log keeps a record in any case; 0.01 are a quarter of an hour. A destination"
        " that is put back from a backup of these days goes on by itself; from an older one it is onboarded again. What"
        " a ledger still needs stays longer.",
    )
    archive: Archive | None = Field(
        None,
        description="Where records go before they are pruned; nothing is pruned that was not read back there. Left out:"
        " nowhere.",
    )


NO_LOG = "none"
# What belongs to a log alone.
OF_LOG = ("capture_connection", "marker_connection", "capture")


def _log(value: object, _: object) -> Log | str:
    """Each form by itself: of a union pydantic would report both."""
    if isinstance(value, str) and value != NO_LOG:
        raise ValueError(f"must be `{NO_LOG}` or a mapping of keys, got {redacted(value)}")
    return NO_LOG if value == NO_LOG else Log.model_validate(value)


class DeclaredSource(Declared):
    """What all sources have in common.

    `names_elsewhere`: a sync may name tables of other schemas or databases of it, and give tables other names.
    `connection_type`: Airflow's `conn_type` of its connections; "" for a kind that takes any. `namespace_key`: the key
    that says where in the database its tables lie; "" for a kind without one. `commit_times`: its log says when each
    transaction was committed. `knows_its_load`: its server says how busy it is (`ports.KnowsItsLoad`).
    """

    namespace_key: ClassVar[str] = ""
    names_elsewhere: ClassVar[bool] = False
    connection_type: ClassVar[str] = ""
    commit_times: ClassVar[bool] = True
    knows_its_load: ClassVar[bool] = False

    source: Name = Field(description="Name of the source; the file has the same name.")
    kind: str = Field(description="What kind of system the source is.")
    connection: ConnectionId = Field(description="Connection id of the account that reads tables.")

    @property
    def has_log(self) -> bool:
        return self.reads_log(None)

    @classmethod
    def reads_log(cls, said: object) -> bool:  # noqa: ARG003 (most have nothing to say about it)
        """Whether somebody reads the log of a source of this kind. `said`: its `log` as it stands in the file, right or
        wrong; None where it is left out."""
        return False

    @property
    def kept_log(self) -> Log | None:
        """How its log is kept; None of a source whose log nobody reads."""
        return None

    @property
    def places(self) -> Mapping[str, str]:
        """Places for files on servers that its keys name, each with the id of the connection that leads there."""
        archive = self.kept_log.archive if self.kept_log else None
        return {archive.location: archive.connection} if archive and archive.connection else {}

    @property
    def reading_budget(self) -> SourceBudget | None:
        """What reading it in bulk may cost; None: anything."""
        return None

    @property
    def logins_of_log(self) -> tuple[str, str]:
        """Connection ids of who reads the log and of who writes markers; "" without a log."""
        return "", ""

    @property
    def namespace(self) -> str:
        """Where a table lies whose name says nothing else."""
        raise NotImplementedError

    @property
    def place_in_words(self) -> str:
        """Where its tables lie, for people."""
        return self.namespace

    @property
    def announced_by(self) -> str:
        """The name of what says that a business date was delivered; "" of a source that is read as it stands."""
        return ""

    def plan_fields(self) -> Mapping[str, Any]:
        """The fields of `SourcePlan` that only this kind sets."""
        return {}

    def refusal(self, place: TablePlace) -> tuple[str, str] | None:  # noqa: ARG002 (a kind may have several places)
        """Cause and cure, where no table can lie there."""
        return None


class UnloggedDatabase(DeclaredSource):
    """What every database has in common that tables are read from. Of a log it says nothing."""

    database: Identifier = Field(description="Name of the database that holds the tables.")
    budget: SourceBudget | None = Field(
        None, description="What loads, nights and comparisons may cost its server; left out: they never wait for it."
    )

    @property
    def reading_budget(self) -> SourceBudget | None:
        return self.budget

    @property
    def namespace(self) -> str:
        return self.database

    @property
    def place_in_words(self) -> str:
        inside = f", {self.namespace_key} {self.namespace}" if self.namespace_key else ""
        return f"database {self.database}{inside}"

    @model_validator(mode="after")
    def _knows_what_its_budget_asks(self) -> Self:
        asked = self.budget is not None and (self.budget.running_max or self.budget.replica_lag_max)
        if asked and not self.knows_its_load:
            raise ValueError("nobody can ask this kind of source for its load: its `budget` may have `quiet` alone")
        return self


class DatabaseSource(UnloggedDatabase):
    """What databases have in common whose log can be captured, if it is."""

    capture_connection: ConnectionId | None = Field(
        None, description="Connection id of the account that reads the log; <connection>_capture where left out."
    )
    marker_connection: ConnectionId | None = Field(
        None, description="Connection id of the account that inserts markers; `connection` where left out."
    )
    capture: Capture = Field(default_factory=Capture, description="How the source's log is captured.")
    log: Annotated[Log | Literal["none"], WrapValidator(_log)] = Field(
        default_factory=Log,
        description="How long the log topic is kept. `none`: nobody reads the source's log. Its syncs have nights and"
        " no streams, and need no right but SELECT.",
    )

    @property
    def has_log(self) -> bool:
        return self.reads_log(self.log)

    @classmethod
    def reads_log(cls, said: object) -> bool:
        return bool((cls.model_fields["log"].default if said is None else said) != NO_LOG)

    @property
    def kept_log(self) -> Log | None:
        return self.log if isinstance(self.log, Log) else None

    @property
    def logins_of_log(self) -> tuple[str, str]:
        return self.capture_connection or f"{self.connection}_capture", self.marker_connection or self.connection

    @model_validator(mode="after")
    def _declares_no_capture_without_a_log(self) -> Self:
        if not self.has_log and (said := [key for key in OF_LOG if key in self.model_fields_set]):
            raise ValueError(f"`log: {NO_LOG}` leaves nothing to capture. Take out {' and '.join(said)}")
        return self


class ServerSource(DatabaseSource):
    """A database of a server whose other databases the same capture may read."""

    names_elsewhere: ClassVar[bool] = True
    knows_its_load: ClassVar[bool] = True

    databases: tuple[SqlName, ...] = Field(
        (),
        description="Other databases of the server whose tables syncs may name, as `database.table`. The capture reads"
        " the structure of all of them when it begins, so one that is added later takes a new capture.",
        strict=False,
    )

    def plan_fields(self) -> Mapping[str, Any]:
        return {"databases": self.databases}

    def refusal(self, place: TablePlace) -> tuple[str, str] | None:
        known = [self.database, *self.databases]
        if place.namespace in known:
            return None
        cause = f"database `{place.namespace}` is none of those that source `{self.source}` reads: {', '.join(known)}"
        return cause, f"Correct it, or add it to `databases` of sources/{self.source}.yaml"
