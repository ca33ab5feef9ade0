"""What reading a source in bulk may cost its server, as its file declares it."""

from datetime import timedelta

from pydantic import Field, field_validator, model_validator

from seamline.spec.faults import redacted
from seamline.spec.fields import Declared, Duration, TimeZone, is_time_of_day

_WAIT_MAX = timedelta(hours=2)
_TO = "-"


class SourceBudget(Declared):
    """When, and beside which load, loads, nights and comparisons may read the source. Its stream goes on."""

    running_max: int | None = Field(
        None,
        ge=1,
        description="Statements that the server may work on, ours too (MariaDB, MySQL: Threads_running; PostgreSQL:"
        " active sessions). From 80 % of that on it is read at a quarter of the speed, and not at all while there are"
        " so many. Left out: any number.",
    )
    replica_lag_max: Duration | None = Field(
        None,
        description="How far a replica may be behind: this server, where it is one, and the standbys of PostgreSQL."
        " From 80 % of that on it is read at a quarter of the speed, and not at all while it is so far behind.",
    )
    quiet: tuple[str, ...] = Field(
        (),
        description='Local times of each day in which it is not read, as `["22:00-23:30"]`. The end does not belong to'
        " it; one that ends before it begins goes through midnight.",
        strict=False,
    )
    timezone: TimeZone = Field("UTC", description="Time zone of `quiet`.")
    wait_max: Duration = Field(
        _WAIT_MAX,
        json_schema_extra={"default": "2h"},
        description="How long each process that reads may wait in one attempt: the driver of a load, each of its tasks,"
        " the comparison of a night. A load or a night that has waited for so long fails, and a comparison is"
        " INCONCLUSIVE, each with what it waited for.",
    )

    @field_validator("quiet")
    @classmethod
    def _are_times(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for one in value:
            begins, _, ends = one.partition(_TO)
            if not (is_time_of_day(begins) and is_time_of_day(ends)):
                raise ValueError(f'a quiet time is written "HH:MM-HH:MM" in quotes, got {redacted(one)}')
            if begins == ends:
                raise ValueError(f"a quiet time of the whole day would let nobody read, got {redacted(one)}")
        return value

    @field_validator("replica_lag_max")
    @classmethod
    def _is_a_length(cls, value: timedelta | None) -> timedelta | None:
        if value is not None and value < timedelta(seconds=1):
            raise ValueError("a replica is always a moment behind: at least 1s")
        return value

    @model_validator(mode="after")
    def _says_something(self) -> "SourceBudget":
        if not (self.running_max or self.replica_lag_max or self.quiet):
            raise ValueError("give `running_max`, `replica_lag_max` or `quiet`: without any it bounds nothing")
        return self

    @property
    def quiet_times(self) -> tuple[tuple[str, str], ...]:
        return tuple((begins, ends) for begins, _, ends in (one.partition(_TO) for one in self.quiet))
